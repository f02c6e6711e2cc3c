"""A process with a CPU limit: all of its threads stop until the next period begins."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from jobs import by_id, first_of, put
from measured import profile_at
from troubled import TROUBLED

from npu_tui.strings import words

_RUNS, _PERIOD = 60_000.0, 100_000.0
"""How long the process may run in each period, µs."""


def held(files: dict[str, bytes], moved: Callable[[float], float], folder: Path) -> Path:
    """The trace of ``files`` with all of its times ``moved``, µs from its first event."""
    (trace,) = (name for name in files if name.endswith("trace_view.json"))
    events = json.loads(files[trace])
    first = min(float(event["ts"]) for event in events if "ts" in event)
    for event in events:
        if "ts" in event:
            begin = float(event["ts"]) - first
            if "dur" in event:
                event["dur"] = round(moved(begin + float(event["dur"])) - moved(begin), 3)
            event["ts"] = f"{first + moved(begin):.3f}"
    put({trace: json.dumps(events).encode()}, folder)
    return folder


def periods(time: float) -> float:
    return time // _RUNS * _PERIOD + time % _RUNS


def now_and_then(time: float) -> float:
    """As long pauses, which begin with the same work, after other times."""
    return time + sum(40_000.0 for begin in (60_000, 113_000, 190_000, 247_000) if time >= begin)


def test_a_process_that_stops_until_its_period_ends_has_a_cpu_limit(tmp_path: Path) -> None:
    files = first_of((replace(TROUBLED["slow_python"], seed=3, steps=70, world_size=1),))
    usual = profile_at(held(files, lambda time: time, tmp_path / "usual"))
    found = profile_at(held(files, periods, tmp_path / "held"))
    told = by_id(found.findings)["HOST.QUOTA"]
    assert words(told.title).startswith("All threads stop until a period of 100.0 ms ends, as under a CPU limit")
    steps = [profile.facts[0].step_ns for profile in (usual, found)]
    assert told.part_of is None
    # After one of the five stops a call goes on for another millisecond: nothing tells when that one ended.
    assert told.title.args["time"] == pytest.approx((steps[1] - steps[0]) * 4 / 5, rel=0.05)
    others = profile_at(held(files, now_and_then, tmp_path / "others"))
    assert not {"HOST.QUOTA"} & {*by_id(usual.findings), *by_id(others.findings)}
