"""Collectives against communication.json and the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from npu_tui.analysis.collectives import Collective
from npu_tui.analysis.communication import collectives
from npu_tui.load.load import load
from npu_tui.trace.model import Trace
from npu_tui.trace.recorder import communication_args

if TYPE_CHECKING:
    from conftest import Sample
    from samples import Simulated

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def collectives_of(trace: Trace) -> list[Collective]:
    return collectives(trace, communication_args(trace)).rows


def test_communication_json(level1: Sample) -> None:
    """All times and bandwidths of every operation."""
    document = json.loads(level1.file.with_name("communication.json").read_text())
    rows = {key.partition("@")[0]: row for key, row in document["step50"]["collective"].items()}
    rows.pop("Total Op Info", None)
    found = collectives_of(level1.trace)
    assert {level1.trace.name_of(each.item) for each in found} == rows.keys()
    assert len(found) == 4
    for each in found:
        row = rows[level1.trace.name_of(each.item)]
        times = row["Communication Time Info"]
        assert each.timing is not None
        milliseconds = {
            "Elapse Time(ms)": each.elapsed,
            "Transit Time(ms)": each.timing.transit,
            "Wait Time(ms)": each.timing.wait,
            "Synchronization Time(ms)": each.timing.synchronization,
            "Idle Time(ms)": each.timing.idle,
        }
        for column, time in milliseconds.items():
            assert time / 1e6 == pytest.approx(times[column], abs=2e-5), column
        moving = each.timing.transit
        for column, time in (
            ("Wait Time Ratio", each.timing.wait),
            ("Synchronization Time Ratio", each.timing.synchronization),
        ):
            assert time / (time + moving) == pytest.approx(times[column], abs=1e-4), column
        start = (int(level1.trace.slices.start[each.item]) + level1.trace.start_ns) / 1000
        assert start == pytest.approx(times["Start Timestamp(us)"], abs=0.5)
        bandwidth = row["Communication Bandwidth Info"]
        traffic = {link.link_type: (link.size, link.transfer) for link in each.traffic or []}
        traffic["SDMA"] = tuple(map(sum, zip(*traffic.values(), strict=True)))
        for kind, columns in bandwidth.items():
            size, transfer = traffic.get(kind, (0, 0))
            assert size / 1e6 == pytest.approx(columns["Transit Size(MB)"], abs=1e-9), kind
            assert transfer / 1e6 == pytest.approx(columns["Transit Time(ms)"], abs=1e-4), kind
            assert (size / transfer if transfer else 0) == pytest.approx(columns["Bandwidth(GB/s)"], abs=1e-3), kind


def test_who_came_late(level1: Sample) -> None:
    first, *_, last = collectives_of(level1.trace)
    assert first.peer == last.peer == 5
    arrivals = dict(first.arrivals or [])
    assert sorted(arrivals) == list(range(8))
    assert max(arrivals, key=arrivals.__getitem__) == 5


def test_arrivals_of_the_first_collective(level1: Sample) -> None:
    if level1.name != "level1/rank0":
        pytest.skip(reason="the figures are those of rank 0")
    arrivals = dict(collectives_of(level1.trace)[0].arrivals or [])
    assert arrivals[5] / 1000 == pytest.approx(78_777, abs=0.5)
    assert arrivals[1] / 1000 == pytest.approx(5_625, abs=0.5)
    assert arrivals[0] == 0


def test_level0_knows_no_waiting(profile: Sample) -> None:
    for each in collectives_of(profile.trace):
        known = [
            value is not None for value in (each.timing, each.traffic, each.longest_wait, each.peer, each.arrivals)
        ]
        assert known == [profile.name.startswith("level1")] * 5


def test_collectives_of_the_simulation(variation: Simulated) -> None:
    found = collectives_of(variation.trace)
    slices = variation.trace.slices
    if "collectives" in variation.truth:
        rows = [
            {
                "name": variation.trace.name_of(each.item),
                "start_ns": int(slices.start[each.item]),
                "end_ns": int(slices.end[each.item]),
                "longest_wait_ns": each.longest_wait,
                "peer_rank": each.peer,
            }
            for each in found
        ]
        assert rows == variation.truth["collectives"]
    assert sum(each.elapsed for each in found) == variation.truth["overlap"]["communication_ns"]
    for each in found:
        if each.timing is not None:
            parts = (each.timing.wait, each.timing.transit, each.timing.idle)
            assert sum(parts) == each.elapsed
            assert 0 <= each.timing.synchronization <= each.timing.wait


def test_copies_on_the_chip_are_no_transfers(tmp_path: Path) -> None:
    """Older chips have them on the master plane too: neither transit, nor what ends the synchronization."""
    events = json.loads((FIXTURES / "older_chip" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    plane = next(e["tid"] for e in events if e["name"] == "thread_name" and e["args"]["name"] == "Plane 1")
    own = [e for e in events if e["ph"] == "X" and e.get("tid") == plane and "link type" in e.get("args", {})]
    for event in own:
        if event["name"] == "Reduce_Inline":
            event["args"]["link type"] = "ON_CHIP"
    (tmp_path / "trace_view.json").write_text(json.dumps(events))
    expected = [round(e["dur"] * 1000) for e in own if e["name"] == "Memcpy"]
    waits = [round(e["dur"] * 1000) for e in own if e["name"] == "Notify_Wait"]
    found = collectives_of(load(tmp_path))
    assert len(found) == len(expected) == 2
    for each, transit, first, second in zip(found, expected, waits[::2], waits[1::2], strict=True):
        assert each.timing is not None
        assert each.timing.transit == pytest.approx(transit, abs=1)
        assert each.timing.wait == each.timing.synchronization == pytest.approx(first + second, abs=1)
        assert each.timing.idle == each.elapsed - each.timing.wait - each.timing.transit
