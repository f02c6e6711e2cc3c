"""What trace health counts: ends on no slice, crossings, slices far from the others, counters outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from measured import profile_at

from npu_tui.analysis.evidence import TraceHealth, trace_health
from npu_tui.load.load import load
from npu_tui.strings import words
from npu_tui.trace.model import Trace

FIXTURES = Path(__file__).parents[2] / "fixtures"
DAY_US = 24 * 3600 * 10**6


@pytest.fixture
def loaded(tmp_path: Path) -> Any:
    """Loads events given as dictionaries; what a field lacks is filled in."""

    def read(*events: dict[str, Any]) -> Trace:
        path = tmp_path / "trace_view.json"
        path.write_text(json.dumps([{"ph": "X", "name": "op", "pid": 1, "tid": 1, "dur": 5} | e for e in events]))
        return load(path)

    return read


def health(trace: Trace) -> TraceHealth:
    return trace_health(trace)


def test_a_clean_trace(loaded: Any) -> None:
    found = health(loaded({"ts": 0}, {"ts": 10}))
    assert found.is_clean
    assert (found.events, found.crossing, found.far, found.links) == (2, 0, 0, [])


def test_an_overlap_analysis_that_was_cut_off_is_computed(tmp_path: Path) -> None:
    """The names of its lanes and the times after the cut are missing."""
    (source,) = (FIXTURES / "healthy").rglob("trace_view.json*")
    events = json.loads(source.read_bytes())
    (whole,) = profile_at(FIXTURES / "healthy").overlaps
    pid = next(event["pid"] for event in events if event["ph"] == "X" and event["name"] == "Computing")
    own = [event for event in events if event["pid"] == pid and event["ph"] == "X"]
    rest = [event for event in events if event["pid"] != pid or event["name"] == "process_name"]
    (tmp_path / "trace_view.json").write_text(json.dumps(rest + own[: len(own) // 2])[:-1])
    (cut,) = profile_at(tmp_path / "trace_view.json").overlaps
    assert [cut.computing, cut.not_overlapped, cut.free] == pytest.approx(
        [whole.computing, whole.not_overlapped, whole.free], abs=len(own)
    )


def test_ends_on_no_slice_and_links_that_end_before_they_begin(loaded: Any) -> None:
    link = {"cat": "async_npu", "id": 1}
    found = health(loaded({"ts": 0}, {"ph": "s", "ts": 50, **link}, {"ph": "f", "ts": 2, **link}))
    (links,) = found.links
    assert (links.links, links.unbound_sources, links.unbound_targets, links.negative) == (1, 1, 0, 1)
    assert not found.is_clean


def test_links_without_any_slice(loaded: Any) -> None:
    link = {"cat": "HostToDevice", "id": 1}
    found = health(loaded({"ph": "s", "ts": 0, **link}, {"ph": "f", "ts": 2, **link}))
    assert (found.links[0].unbound_sources, found.links[0].unbound_targets) == (1, 1)


@pytest.mark.parametrize(("second", "crossing"), [(3, 1), (5, 0), (0, 0)])
def test_crossing_slices(loaded: Any, second: int, crossing: int) -> None:
    assert health(loaded({"ts": 0}, {"ts": second})).crossing == crossing


def test_counters_outside_the_slices(loaded: Any) -> None:
    samples = [{"ph": "C", "ts": ts, "args": {"a": 1}} for ts in (-1, 0, 5, 6)]
    assert health(loaded({"ts": 0}, *samples)).samples_outside == 2


def test_slices_a_day_away_are_far(loaded: Any) -> None:
    trace = loaded({"ts": 0}, {"ts": 1}, {"ts": 2}, {"ts": 20 * DAY_US})
    assert (health(trace).far, health(trace).far_gap) == (1, (20 * DAY_US - 7) * 1000)
    assert not health(trace).is_clean


def test_slices_an_hour_away_are_not(loaded: Any) -> None:
    assert health(loaded({"ts": 0}, {"ts": DAY_US // 24})).far == 0


def test_the_hours_of_a_time_zone_are_far(loaded: Any) -> None:
    events = [{"ts": 9 * number} for number in range(40)]
    assert health(loaded(*events, {"ts": 8 * 3600 * 10**6})).far == 1
    assert health(loaded(*events, {"ts": 40 * 60 * 10**6})).far == 0, "a long pause"
    apart = [{"ts": 8 * 3600 * 10**6 + 9 * number} for number in range(40)]
    assert health(loaded(*events, *apart)).far == 0, "two clocks, none of them wrong"


def test_what_is_far_away_is_not_judged(tmp_path: Path) -> None:
    """A kernel long before, one days later, and the Free slice between them change no figure of the others."""
    events = json.loads((FIXTURES / "dispatch_bound/ASCEND_PROFILER_OUTPUT/trace_view.json").read_text())
    kernel = next(e for e in events if e.get("args", {}).get("Task Type") == "AI_CORE")
    idle = next(e for e in events if e.get("name") == "Free" and e["ph"] == "X")
    begin, days = float(kernel["ts"]), 9 * DAY_US
    strays = [
        kernel | {"ts": "1"},
        kernel | {"ts": f"{begin + days:.3f}"},
        idle | {"ts": f"{begin + DAY_US / 24:.3f}", "dur": days - DAY_US / 12},
    ]
    found = []
    for name, added in (("whole", []), ("strayed", strays), ("endless", [kernel | {"dur": days}])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trace_view.json").write_text(json.dumps(events + added))
        found.append(profile_at(tmp_path / name))
    usual, strayed, endless = found
    assert (endless.health.far, endless.overlaps) == (1, usual.overlaps)
    assert strayed.health.far == 3
    assert strayed.overlaps == usual.overlaps
    assert [round(one.dispatch[0].lost.sum() / 1e4) for one in found] == [2135] * 3
    assert [finding.id for finding in strayed.findings.findings] == [finding.id for finding in usual.findings.findings]
    assert words(strayed.findings.verdict[0]).startswith("3 slices are left out: by a wrong clock ")
    assert "among them" not in words(strayed.findings.verdict[0])
    step = next(e for e in events if str(e.get("name", "")).startswith("ProfilerStep#") and e["ph"] == "X")
    number = int(step["name"].removeprefix("ProfilerStep#"))
    moved = [e | {"ts": f"{begin + days:.3f}"} if e is step else e for e in events]
    (tmp_path / "step").mkdir()
    (tmp_path / "step" / "trace_view.json").write_text(json.dumps(moved))
    said = words(profile_at(tmp_path / "step").findings.verdict[0])
    assert f"h away from all others, the slice of step {number} among them." in said
    assert not words(usual.findings.verdict[0]).startswith("3 slices")


@pytest.mark.parametrize(("gap", "told"), [(0.75, []), (30.0, ["odd.untold"])])
def test_lanes_of_overlap_analysis_leave_no_time_out(loaded: Any, gap: float, told: list[str]) -> None:
    layer = {"ph": "M", "name": "process_name", "args": {"name": "Overlap Analysis"}}
    slices = [{"ts": at, "dur": 10, "name": name, "tid": tid} for at, name, tid in
              ((0, "Computing", 1), (10 + gap, "Free", 2), (5, "Communication", 3))]  # fmt: skip
    names = [{"ph": "M", "name": "thread_name", "tid": s["tid"], "args": {"name": s["name"]}} for s in slices]
    found = health(loaded(layer, *names, *slices)).warnings
    assert [warning.code for warning in found] == told
