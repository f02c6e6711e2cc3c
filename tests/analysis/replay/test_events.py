"""Details of waits for events in a graph: which record of which stream they wait for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from cause_jobs import CAUSES
from jobs import measured
from measured import profile_at
from rich.console import Console

from npu_tui.analysis.replay_device import COLLECTIVE
from npu_tui.tui.tabs.details import event_lines
from npu_tui.tui.walk import event_beside


def test_a_wait_in_a_graph_and_the_record_it_waits_for() -> None:
    profile = measured(CAUSES["device: waits in a graph"].job)
    trace = profile.trace
    waits, records = profile.event_pairs
    of_wait = {trace.name_of(each) for each in waits.tolist()}
    assert of_wait == {"EVENT_WAIT"}
    # The simulator lets a wait of the compute stream end with its record on the other stream.
    slices = trace.slices
    assert len(waits) == np.isin([trace.name_of(k) for k in range(len(slices))], ["EVENT_WAIT"]).sum()
    assert (slices.end[waits] - slices.end[records] <= 1_000).all()
    assert (slices.lane[waits] != slices.lane[records]).all()
    assert "waits for EVENT_RECORD on Stream" in told(profile, int(waits[3]))
    assert "awaited by EVENT_WAIT on Stream" in told(profile, int(records[3]))
    # The keys of links lead from either to the other.
    assert event_beside(profile, int(waits[3])) == records[3]
    assert event_beside(profile, int(records[3])) == waits[3]
    kernel = int(np.flatnonzero(profile.compute)[0])
    assert event_beside(profile, kernel) is None
    assert event_lines(profile, kernel) == []


def test_collectives_whose_tasks_run_beside_their_stream_are_held_by_its_events(tmp_path) -> None:
    """Notifies and transfers of a collective may be on streams of their own; others wait for one with events."""
    folder = Path(__file__).parents[3] / "fixtures" / "two_ranks" / "rank1_ascend_pt"
    source = folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    events = json.loads(source.read_text())
    for event in events:
        if event.get("ph") == "X" and event["name"] in ("SDMA", "Write Value", "Notify Wait"):
            event["tid"] = 41
    (tmp_path / "trace_view.json").write_text(json.dumps(events))
    for path in (source, tmp_path / "trace_view.json"):
        profile = profile_at(path)
        tasks = profile.facts[0].tasks
        collectives = tasks.kind == COLLECTIVE
        assert collectives.sum() == 4
        assert {profile.trace.lanes[lane].name for lane in tasks.stream[collectives].tolist()} == {"Stream 4"}


def told(profile, item: int) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        for line in event_lines(profile, item):
            console.print(line)
    return capture.get()
