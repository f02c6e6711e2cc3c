"""What fills the batches and the blocks of a simulated service: runaway replies, copies, settings that leave room."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from served import figure, written
from service import MS, Service, Tenant

from npu_tui.analysis.service_latency import timeline
from npu_tui.load.service import read_service
from npu_tui.rules.model import Finding
from npu_tui.rules.service_verdict import judge
from npu_tui.strings import words

_SHORT = Tenant(24, (100, 400), (8, 20))


def _first(folder: Path) -> Finding:
    return judge(timeline(read_service(folder))).findings.findings[0]


def _then(finding: Finding, name: str) -> float:
    """The replayed figure ``name`` in the detail of ``finding``, ns."""
    value, unit = words(finding.detail).split(f"{name} ")[1].split(" → ")[1].split(" ")[:2]
    return float(value) * (MS if unit.startswith("ms") else 1000 * MS)


def test_a_few_replies_at_the_limit_hold_the_places(tmp_path: Path) -> None:
    """One of 25 replies runs on to the same length; others that are merely longer are not told so."""
    service = Service(requests=300, gap=70 * MS, max_seqs=6, tenants=(_SHORT, Tenant(1, (100, 400), (300, 300))))
    first = _first(written(service, tmp_path / "limit"))
    assert first.title.code == "finding.service.queue_limit"
    assert "300 tokens" in words(first.title)
    assert _then(first, "TTFT p99") < 0.5 * figure(service, "ttft", 99)
    several = replace(service, tenants=(_SHORT, Tenant(1, (100, 400), (200, 400))))
    assert _first(written(several, tmp_path / "several")).title.code != "finding.service.queue_limit"


def test_blocks_that_are_never_given_out_are_told(tmp_path: Path) -> None:
    """The replay gives them out: requests then wait as in a service without a watermark."""
    service = Service(requests=300, gap=25 * MS, blocks=16, kept=8, tenants=(Tenant(1, (60, 100), (8, 24)),))
    first = _first(written(service, tmp_path))
    assert first.title.code == "finding.service.kv_kept"
    assert _then(first, "TTFT p50") == pytest.approx(figure(replace(service, kept=0), "ttft", 50), rel=0.1)


def test_one_prompt_a_pass_is_told(tmp_path: Path) -> None:
    """Short prompts wait for passes of their own."""
    service = Service(requests=300, gap=24 * MS, alone=True, tenants=(Tenant(1, (60, 120), (4, 8)),))
    first = _first(written(service, tmp_path))
    assert (first.id, first.title.code) == ("SERVICE.WAIT", "finding.service.one_prompt")


def test_second_copies_of_requests_are_told_from_repeated_ones(tmp_path: Path) -> None:
    """Of two requests that come 10 ms after each other one gets no answer, as its copy was sooner."""
    service = Service(repeats=10 * MS, requests=160)
    path = written(service, tmp_path) / "request.csv"
    rows = list(csv.DictReader(path.open(newline="")))
    alike = [row["recv_token_size"] for row in rows]
    for at, row in enumerate(rows):
        if row["recv_token_size"] in alike[max(at - 3, 0) : at]:
            row["first_token_latency(ms)"] = ""
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    codes = [one.title.code for one in judge(timeline(read_service(tmp_path))).findings.findings]
    assert "finding.service.copies_sent" in codes
    assert "finding.service.repeats" not in codes
