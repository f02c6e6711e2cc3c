"""A process with a CPU limit: all of its threads stop until the next period begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from jobs import by_id, first_of, job, moved
from measured import profile_at
from troubled import TROUBLED

from npu_tui.rules.cpu import standstills, together_on_time
from npu_tui.strings import words


def now_and_then(time: float) -> float:
    """As long pauses, which begin with the same work, after other times."""
    return time + sum(40_000.0 for begin in (60_000, 113_000, 190_000, 247_000) if time >= begin)


def test_a_process_that_stops_until_its_period_ends_has_a_cpu_limit(tmp_path: Path) -> None:
    files = first_of((replace(TROUBLED["slow_python"], seed=7, steps=70, world_size=1),))
    usual = profile_at(moved(files, lambda time: time, tmp_path / "usual"))
    found = job("limited")
    told = by_id(found.findings)["HOST.QUOTA"]
    assert words(told.title).startswith("All threads stop until a period of 100.0 ms ends, as under a CPU limit")
    steps = [profile.facts[0].step_ns for profile in (usual, found)]
    assert told.part_of is None
    assert told.title.args["time"] == pytest.approx(steps[1] - steps[0], rel=0.05)
    others = profile_at(moved(files, now_and_then, tmp_path / "others"))
    assert not {"HOST.QUOTA"} & {*by_id(usual.findings), *by_id(others.findings)}


def test_a_process_stands_still_where_no_thread_does_anything_and_the_device_is_idle(tmp_path: Path) -> None:
    files = first_of((replace(TROUBLED["slow_python"], seed=7, steps=70, world_size=1),))
    usual = profile_at(moved(files, lambda time: time, tmp_path / "usual"))
    start, end = standstills(usual.facts[0])
    assert (end - start).max(initial=0) < 5_000_000  # Python between operations
    stopped = profile_at(moved(files, now_and_then, tmp_path / "others"))
    start, end = standstills(stopped.facts[0])
    assert (end - start).tolist() == pytest.approx([40_000_000] * 4, rel=0.05)
    assert not together_on_time(end)
    limited = standstills(job("limited").facts[0])[1]
    assert len(limited) > 1
    assert together_on_time(limited)
