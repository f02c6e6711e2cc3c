"""The simulated services: what the tool would export of them, the same bytes for the same seed."""

from __future__ import annotations

import csv
import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service import MS, serve
from service_causes import TROUBLES, write_service
from service_writer import EPOCH_NS


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_service(tmp_path / name, "kv", 3, 8, trace=True)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_formulas_of_the_exporter(tmp_path: Path) -> None:
    served = write_service(tmp_path, "transfer", 2, 30, database=True)
    rows = _rows(tmp_path / "request.csv")
    assert len(rows) == 30
    for row, request in zip(rows, served.requests, strict=True):
        assert float(row["first_token_latency(ms)"]) == (request.first_token - request.arrival) / MS
        assert int(row["execution_time(ms)"]) == (request.last_token - request.arrival) // MS
        assert float(row["start_time(ms)"]) == (EPOCH_NS + request.arrival) / MS
    for batch, row in zip(served.batches[:9], _rows(tmp_path / "batch.csv")[::2], strict=False):
        assert (row["name"], int(row["batch_size"])) == ("batchFrameworkProcessing", len(batch.members))
        assert int(row["total_scheduled_tokens"]) == sum(tokens for *_, tokens in batch.members)
        assert int(row["free_blocks"]) + int(row["used_blocks"]) == int(row["total_blocks"])
    forwards = _rows(tmp_path / "forward.csv")
    one = [row for row in forwards if row["prof_id"] == forwards[-1]["prof_id"]]
    assert [int(row["forward_iter"]) for row in one] == list(range(1, len(one) + 1))
    assert one[-1]["bubble_time(ms)"] == "<NA>"
    assert float(one[0]["bubble_time(ms)"]) > 0
    assert len(_rows(tmp_path / "pd_split_kvcache.csv")) == 30


@pytest.mark.parametrize("name", [name for name in TROUBLES if name not in ("overload",)])
def test_every_request_is_answered(name: str) -> None:
    service = TROUBLES[name].service
    served = serve(type(service)(**{**vars(service), "requests": 15}))
    assert all(
        request.tokens == request.output and request.last_token >= request.first_token for request in served.requests
    )
    assert served.batches == serve(served.service).batches
    moments = [batch.execute for batch in served.batches if batch.rank == 0 and not batch.prefilling]
    assert all(before[1] <= after[0] for before, after in pairwise(moments))


def test_truth_says_that_it_is_generated(tmp_path: Path) -> None:
    write_service(tmp_path, "queue", 1, 20)
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert truth["generated"].startswith("by fixtures/generate.py")
    assert len(truth["latencies_ns"]["ttft"]) == len(truth["remedied_ns"]["ttft"]) == 20
