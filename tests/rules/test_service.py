"""What makes the requests of simulated services slow: the cause first, parts that add up, the gain of the twin."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from measured import profile_of

from npu_tui.load.load import load

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service_causes import write_service
from services import ALL, NEAR, Trouble, outcome

SILENT = ["healthy", "idle"]
NAMED = ["kv", "scheduler", "transfer"]


@pytest.mark.parametrize("name", SILENT)
def test_healthy_services_are_silent(name: str, tmp_path: Path) -> None:
    found = outcome(_short(ALL[name], 40), 1, tmp_path)
    assert found.named == []


@pytest.mark.parametrize("name", NAMED)
def test_cause_first_with_the_gain_of_its_twin(name: str, tmp_path: Path) -> None:
    found = outcome(_short(ALL[name], 100), 2, tmp_path)
    assert found.named[0] == ALL[name].finding
    assert found.error is not None
    assert found.error <= NEAR


def _short(trouble: Trouble, requests: int) -> Trouble:
    twin = None if trouble.remedied is None else replace(trouble.remedied, requests=requests)
    return replace(trouble, service=replace(trouble.service, requests=requests), remedied=twin)


def test_a_replay_of_half_a_recording_ends(tmp_path: Path) -> None:
    """Half of the batches is lost: some answers then grow by a fraction of a token in a step, and are preempted."""
    write_service(tmp_path, "kv", requests=60)
    batches = (tmp_path / "batch.csv").read_bytes()
    (tmp_path / "batch.csv").write_bytes(batches[: len(batches) // 2])
    assert profile_of(load(tmp_path)).judged is not None
