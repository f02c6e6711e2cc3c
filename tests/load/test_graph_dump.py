"""The dump of a captured graph: links from the record of an event to its waits, and what the file cannot tell."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from npu_tui.load.load import load
from npu_tui.profile.parts import kind_of
from npu_tui.strings import words
from npu_tui.trace.model import EVENTS, Trace


def _dump(folder: Path, *streams: list[str], process: str = "77 aclGraph") -> Trace:
    """A dump of ``streams``, each the names of its tasks in order."""
    events: list[dict[str, Any]] = [
        {"name": name, "pid": process, "tid": f"stream{number}", "ts": 10 * at, "dur": 9.5, "ph": "X",
         "args": {"Model Id": 1, "Stream Id": number, "Task Id": at}}
        for number, tasks in enumerate(streams)
        for at, name in enumerate(tasks)
    ]  # fmt: skip
    path = folder / "graph.json"
    path.write_text(json.dumps(events), encoding="utf-8")
    return load(path)


def _links(trace: Trace) -> list[tuple[str, str, str]]:
    """Name of the event and the lanes of record and wait."""
    links, lane = trace.links, trace.slices.lane
    return sorted(
        (trace.name_of(source).rpartition("_")[2], trace.lanes[lane[source]].name, trace.lanes[lane[target]].name)
        for source, target in zip(links.source_slice.tolist(), links.target_slice.tolist(), strict=True)
    )


def test_a_real_dump_has_its_tasks_and_a_link_for_each_wait_whose_record_is_there():
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    trace = load(Path(folder) / "aclgraph/graph_debug.json")
    assert len(trace.slices) == 82
    assert kind_of(trace, None) == "graph_dump"
    tasks = Counter(trace.lanes[lane].name for lane in trace.slices.lane.tolist())
    assert tasks == {"stream161": 22, "stream162": 19, "stream163": 11, "stream164": 19, "stream165": 11}
    first = 20627656278016
    assert _links(trace) == [
        (str(first), "stream161", "stream163"),
        (str(first + 72), "stream163", "stream161"),
        (str(first + 128), "stream161", "stream162"),
        (str(first + 144), "stream162", "stream161"),
        (str(first + 152), "stream161", "stream162"),
        (str(first + 168), "stream162", "stream161"),
    ]
    assert set(trace.link_categories) == {EVENTS}
    said = [words(warning) for warning in trace.health.warnings]
    assert any("6 of 15 waits" in text and "times mean nothing" in text for text in said)


def test_one_record_serves_all_its_waits_and_several_serve_as_many(tmp_path: Path):
    trace = _dump(
        tmp_path,
        ["EVENT_RECORD_1", "Cast", "EVENT_RECORD_2", "EVENT_RECORD_2", "EVENT_RECORD_3", "EVENT_RECORD_3"],
        ["EVENT_WAIT_1", "EVENT_WAIT_2", "Add", "EVENT_WAIT_2", "EVENT_WAIT_3"],
        ["Mul", "EVENT_WAIT_1", "EVENT_WAIT_9"],
    )
    assert _links(trace) == [
        ("1", "stream0", "stream1"), ("1", "stream0", "stream2"), ("2", "stream0", "stream1"),
        ("2", "stream0", "stream1"),
    ]  # fmt: skip
    second = [trace.slices.start[item] for item in trace.links.source_slice.tolist() if "_2" in trace.name_of(item)]
    assert second == [20_000, 30_000]


def test_graphs_of_two_processes_and_other_traces_stay_apart(tmp_path: Path):
    assert len(_dump(tmp_path, ["EVENT_RECORD_1"], ["EVENT_WAIT_1"], process="77 Ascend Hardware").links) == 0
    trace = _dump(tmp_path, ["EVENT_RECORD_1"], ["EVENT_WAIT_1"], process="aclGraph")
    assert len(trace.links) == 1
