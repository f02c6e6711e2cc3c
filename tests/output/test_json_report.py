"""The report as a whole: its schema, its figures on the real profiles, ranges and steps, and what it leaves open."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from measured import answers, part_of, profile_of
from written import fields_of, text_report

from npu_tui.load.load import load
from npu_tui.output.envelope import json_bytes
from npu_tui.output.report import report
from npu_tui.profile.parts import parse_range, select_step
from npu_tui.rules.model import SEVERITIES

if TYPE_CHECKING:
    from conftest import Sample

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
OPENED = {
    "healthy": "healthy",
    "dispatch_bound": "dispatch_bound",
    "level0": "level0",
    "older_chip": "older_chip",
    "decimal_pids": "decimal_pids",
    "newest_torch_npu": "newest_torch_npu",
    "mindspore": "mindspore",
    "msprof_two_devices": "msprof_two_devices",
    "kineto": "kineto",
    "chrome_generic": "chrome_generic/lines.json",
}
SCHEMA = {
    "source": "path kind bytes rank device profiler_level step_count",
    "trace": "start_ns span_us events slices links counters lanes",
    "layers": "name kind rank lanes slices",
    "overlap": (
        "total_us computing_us communication_us communication_not_overlapped_us overlapped_us free_us computing_ratio "
        "communication_not_overlapped_ratio free_ratio free_host_late_us free_device_side_us free_unlinked_us"
    ),
    "steps": (
        "name step computing_us communication_not_overlapped_us overlapped_us communication_us free_us stage_us "
        "bubble_us preparing_us duration_us"
    ),
    "links": "category sources targets bound_sources bound_targets latency_us negative",
    "dispatch": (
        "links clock_floor_us clock_floor_trusted threshold_us near_vertical near_vertical_ratio shallow queued "
        "starved lost_us ranges code_lines drains slow_stage"
    ),
    "operators": "type core count total_us ratio min_us avg_us max_us",
    "communication": (
        "name type group start_us elapsed_us wait_us transit_us synchronization_us idle_us size_bytes bandwidth_gb_s "
        "longest_wait_us peer_rank arrivals"
    ),
    "findings": (
        "id class severity title detail evidence advice gain_us step_after_us part_of hidden confidence code_lines "
        "sources"
    ),
    "not_checked": "id reason",
    "health": ("events skipped unbound_sources unbound_targets crossing_slices negative_links truncated warnings"),
}
INNER = {
    "ranges": "start_us end_us links near_vertical idle_ratio lost_us",
    "code_lines": "file line function lost_us launches borrowed",
    "drains": "start_us end_us cause peak_backlog interrupted before after",
}
DISPATCH = {
    "level0/rank0": (210, 36, 39, 24009.3, 6.314, 36, 7, 10),
    "level0/rank1": (210, 38, 40, 25532.0, 26.418, 35, 6, 10),
    "level1/rank0": (210, 37, 36, 23756.6, -13.035, 34, 6, 10),
    "level1/rank1": (210, 38, 36, 24675.4, -25.374, 34, 6, 10),
    "single_card": (274, 268, 91, 8043.4, -17.210, 11, 6, 1),
}
CROSSING = {"level0/rank0": 148, "level0/rank1": 142, "level1/rank0": 138, "level1/rank1": 139, "single_card": 0}


@pytest.fixture(scope="module", params=OPENED)
def opened(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The report on every kind of fixture, read back."""
    return answers(load(FIXTURES / OPENED[request.param]))


@cache
def told(real: Sample) -> dict[str, Any]:
    """The report on a real profile, read back."""
    return answers(real.trace)


def every(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return found[name] if isinstance(found[name], list) else [found[name]]


def test_schema(opened: dict[str, Any]) -> None:
    assert opened["schema_version"] == 2
    for name, fields in SCHEMA.items():
        for row in every(opened, name):
            assert set(fields.split()) <= row.keys(), name
    for each in opened["findings"]:
        assert each["severity"] in SEVERITIES
        assert each["title"]
        assert each["detail"]
        for place in each["evidence"]:
            assert place.keys() == {"start_us", "end_us", "lane", "name", "note"}
            assert place["start_us"] <= place["end_us"]
    for each in every(opened, "dispatch"):
        for name, fields in INNER.items():
            for row in each[name]:
                assert row.keys() == set(fields.split()), name
    for link in opened["links"]:
        assert list(link["latency_us"]) == ["min", "median", "p90", "max"]


def test_what_adds_up(opened: dict[str, Any]) -> None:
    assert sum(layer["slices"] for layer in opened["layers"]) == opened["trace"]["slices"]
    assert sum(layer["lanes"] for layer in opened["layers"]) == opened["trace"]["lanes"]
    overlap = opened["overlap"]
    if overlap["total_us"] is not None:
        parts = ("computing_us", "communication_not_overlapped_us", "free_us")
        assert sum(overlap[part] for part in parts) + overlap.get("exposed_copies_us", 0) == pytest.approx(
            overlap["total_us"], abs=0.003
        )
    for each in every(opened, "dispatch"):
        if each["lost_us"] is not None:
            assert each["near_vertical"] + each["shallow"] + each["queued"] == each["links"]
            lost = sum(line["lost_us"] for line in each["code_lines"])
            assert lost == pytest.approx(each["lost_us"], abs=0.001 * (1 + len(each["code_lines"])))
    if opened["operators"]:
        assert sum(row["ratio"] for row in opened["operators"]) == pytest.approx(1, abs=1e-4)


def test_every_null_has_a_reason(opened: dict[str, Any]) -> None:
    reasons = {each["id"] for each in opened["not_checked"]}
    source = opened["source"]
    for field in ("rank", "device", "profiler_level"):
        assert (source[field] is None) == (f"source.{field}" in reasons)
    assert (source["step_count"] == 0) == ("steps" in reasons)
    known = [each for each in every(opened, "dispatch") if each["lost_us"] is not None]
    assert (not known) == ("dispatch" in reasons)
    assert any(each["slow_stage"] is None for each in known) == ("dispatch.slow_stage" in reasons)
    assert any(row["core"] is None for row in opened["operators"]) == ("operators.core" in reasons)
    assert any(row["longest_wait_us"] is None for row in opened["communication"]) == ("communication.planes" in reasons)
    if opened["overlap"]["total_us"] is None:
        assert reasons & {"device", "overlap"}
        assert all(value is None for value in opened["overlap"].values())


def test_text(opened: dict[str, Any]) -> None:
    text = text_report(report(part_of(load(opened["source"]["path"]))))
    assert opened["source"]["path"] in text
    flat = " ".join(text.split())
    assert all(reason["reason"] in flat for reason in opened["not_checked"])
    assert "None" not in text


@pytest.mark.parametrize("real", ["level1/rank0", "single_card"], indirect=True)
def test_of_many_drains_the_longest_are_listed(real: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = profile_of(real.trace)
    every = report(profile).dispatches[0]
    monkeypatch.setattr("npu_tui.output.report.MOST_ROWS", 5)
    few = report(profile).dispatches[0]
    longest = sorted(every.drains, key=lambda row: row.start_us - row.end_us)[:5]
    assert few.drains == sorted(longest, key=lambda row: row.start_us)
    assert few.drain_causes == every.drain_causes


def test_figures_of_the_real_profiles(real: Sample) -> None:
    found = told(real)
    links, near, starved, lost, floor, drains, interrupted, lines = DISPATCH[real.name]
    own = found["dispatch"]
    assert (own["links"], own["near_vertical"], own["starved"]) == (links, near, starved)
    assert own["lost_us"] == pytest.approx(lost, abs=0.1)
    assert own["clock_floor_us"] == pytest.approx(floor, abs=0.0005)
    assert own["clock_floor_trusted"] is True
    assert (len(own["drains"]), sum(each["interrupted"] for each in own["drains"])) == (drains, interrupted)
    assert (sum(own["drain_causes"].values()), own["interrupted"]) == (drains, interrupted)
    assert len(own["code_lines"]) == lines
    assert own["slow_stage"] == ("cann" if real.name == "single_card" else "python")
    assert found["health"]["crossing_slices"] == CROSSING[real.name]
    assert found["health"]["warnings"] == []
    (sent,) = (each for each in found["links"] if each["category"] == "HostToDevice")
    ends = (sent["sources"], sent["targets"], sent["bound_sources"], sent["bound_targets"])
    assert ends == ((274, 274, 274, 274) if real.name == "single_card" else (210, 215, 210, 215))
    assert len(found["steps"]) == found["source"]["step_count"] == 1
    assert found["trace"]["events"] == len(real.reference.events)


def test_level0(real: Sample) -> None:
    if real.name != "level0/rank0":
        pytest.skip(reason="the figures are those of one profile")
    found = told(real)
    (sent,) = (each for each in found["links"] if each["category"] == "HostToDevice")
    assert sent["latency_us"]["median"] == pytest.approx(722.0, abs=0.05)
    (cann,) = (layer for layer in found["layers"] if layer["kind"] == "cann")
    assert (cann["name"], cann["lanes"], cann["slices"]) == ("CANN", 0, 0)
    assert found["source"]["profiler_level"] == 0
    assert all(row["arrivals"] is None and row["wait_us"] is None for row in found["communication"])
    unknown = {"communication.planes", "apis", "dispatch.drains.cause", "operators.core", "steps.few"}
    unjudged = {
        "COMM.LINK",
        "COMM.SPEED",
        "COMM.STRAGGLER",
        "HOST.CPU",
        "KERNEL.SHAPE",
        "MEM.ALLOC",
        "MEM.BW",
        "OP.COMPILE",
    }
    unjudged |= {
        "COMM.PACKETS",
        "COMM.BANDWIDTH",
        "DATA.PREPROCESS",
        "KERNEL.PIPE",
        "KERNEL.PRODUCTS",
        "MEM.L2",
        "MEM.VECTOR",
        "MFU",
        "OP.FROZEN",
        "OP.ROWS",
    }
    assert {each["id"] for each in found["not_checked"]} == unknown | unjudged


def test_a_step_is_its_row(real: Sample) -> None:
    trace = real.trace
    whole = told(real)
    (row,) = whole["steps"]
    selection = select_step(profile_of(trace).steps, row["step"])
    assert selection is not None
    found = answers(trace, selection)
    assert found["overlap"] == whole["overlap"]
    assert found["steps"] == whole["steps"]
    assert found["dispatch"]["lost_us"] == whole["dispatch"]["lost_us"]
    assert found["selection"]["step"] == row["step"]
    assert select_step(profile_of(trace).steps, 999) is None


def test_ranges_add_up(bundled: Sample) -> None:
    trace = bundled.trace
    whole = answers(trace)
    half = trace.end // 2
    middle = f"{half}ns"
    crossing = int(((trace.slices.start < half) & (trace.slices.end > half)).sum())
    halves = []
    for text in (f"..{middle}", f"{middle}.."):
        selection = parse_range(text)
        assert selection is not None
        halves.append(answers(trace, selection))
    for key in ("total_us", "computing_us", "free_us", "free_host_late_us", "free_device_side_us"):
        assert sum(half["overlap"][key] for half in halves) == pytest.approx(whole["overlap"][key], abs=0.002)
    for key in ("links", "near_vertical", "starved"):
        assert sum(half["dispatch"][key] for half in halves) == whole["dispatch"][key]
    assert sum(half["dispatch"]["lost_us"] for half in halves) == pytest.approx(whole["dispatch"]["lost_us"], abs=0.002)
    for key in ("operators", "apis", "host_operators"):
        time = "host_self_us" if key == "host_operators" else "total_us"
        totals = [sum(row[time] for row in each[key]) for each in (*halves, whole)]
        assert totals[0] + totals[1] == pytest.approx(totals[2], abs=0.02)
        counts = [sum(row["count"] for row in each[key]) for each in (*halves, whole)]
        assert 0 <= counts[0] + counts[1] - counts[2] <= crossing  # which lie in both
    assert len(halves[0]["communication"]) + len(halves[1]["communication"]) == len(whole["communication"])
    assert all(half["source"] == whole["source"] and half["health"] == whole["health"] for half in halves)


@pytest.mark.parametrize("text", ["", "12ms", "a..b", "5ms..5ms", "7ms..3ms", "1..2..3"])
def test_no_range(text: str) -> None:
    assert parse_range(text) is None


def test_a_range_between_two_kernels_is_known_to_be_empty(bundled: Sample) -> None:
    selection = parse_range("-2s..-1s")
    assert selection is not None
    found = answers(bundled.trace, selection)
    assert found["overlap"]["total_us"] == 0
    assert found["overlap"]["free_ratio"] is None
    assert (found["dispatch"]["links"], found["dispatch"]["lost_us"]) == (0, 0)
    assert found["dispatch"]["near_vertical_ratio"] is None
    assert found["operators"] == found["communication"] == found["steps"] == []
    assert "None" not in text_report(report(part_of(bundled.trace, selection)))


def test_companions_of_a_single_file(level1: Sample) -> None:
    """A trace that is opened as a file has its tables as well."""
    assert answers(load(level1.file))["operators"] == answers(level1.trace)["operators"]


def test_what_was_opened(bundled: Sample) -> None:
    assert answers(bundled.trace)["source"]["kind"] == "trace_view_json"
    source = answers(bundled.trace, opened=bundled.path)["source"]
    assert (source["kind"], source["path"]) == ("profile_directory", str(bundled.path))


def test_a_table_that_is_no_table(bundled: Sample, tmp_path: Path) -> None:
    shutil.copytree(bundled.path, tmp_path / "profile")
    table = tmp_path / "profile" / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    for content in (
        b"",
        b"\xff\xfe\x00",
        b"Name\nonly\n",
        b'Name,Start Time(us),Accelerator Core\n"open\n',
        b"\n\n,,\n",
    ):
        table.write_bytes(content)
        rows = answers(load(tmp_path / "profile"))["operators"]
        assert rows
        assert all(row["core"] is None for row in rows)


def test_control_characters_stay_out(tmp_path: Path) -> None:
    name = "\x1b[31mred\u202eder"
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Ascend Hardware"}},
        {
            "ph": "X",
            "name": name,
            "pid": 1,
            "tid": 2,
            "ts": "1736405443863674.400",
            "dur": 5,
            "args": {"Task Type": "AI_CORE"},
        },
    ]
    file = tmp_path / "trace_view.json"
    file.write_bytes(orjson.dumps(events))
    written = json_bytes(report(part_of(load(file)))).decode()
    assert "\\u001b" not in written
    assert "\u202e" not in written
    assert fields_of(written)["operators"][0]["count"] == 1
