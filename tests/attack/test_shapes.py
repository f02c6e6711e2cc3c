"""Every extreme shape loads whole, is reported and drawn; what grows too fast makes this run for minutes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from shapes import SHAPES, write_shape
from written import text_report

from npu_tui.load import build as building
from npu_tui.load.load import load
from npu_tui.output.report import report
from npu_tui.output.svg import timeline_files
from npu_tui.profile.profile import Profile
from npu_tui.trace.message import message
from npu_tui.trace.model import MOST_DEVICES
from npu_tui.view import outline
from npu_tui.view.scene import LinkClasses, Scene, ScreenRow

SIZES = {"crossing": 20_000, "collectives": 20_000, "devices": 200, "nested_args": 500}
"""Shapes that were quadratic once have a size that was felt; the others are small."""


@pytest.mark.few(6)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_kept_whole(shape: str, tmp_path: Path) -> None:
    size = SIZES.get(shape, 500)
    trace = load(write_shape(tmp_path / "trace_view.json", shape, size))
    events = list(SHAPES[shape](size))
    pairs = sum(event["ph"] == "B" for event in events)
    assert len(trace.slices) == sum(event["ph"] == "X" for event in events) + pairs
    assert len(trace.links) == sum(event["ph"] == "f" for event in events)
    part = Profile(trace)
    found = report(part)
    assert found.trace.slices == len(trace.slices)
    assert text_report(found).strip()
    assert all(picture.startswith("<svg") for picture in timeline_files(part))


def test_more_devices_than_any_machine_has_are_shown_and_the_first_analysed(tmp_path: Path) -> None:
    trace = load(write_shape(tmp_path / "trace_view.json", "devices", 100))
    profile = Profile(trace)
    assert len({layer.device for layer in trace.layers}) > 100
    assert len(profile.devices) == MOST_DEVICES
    assert message("odd.devices", count=101, most=MOST_DEVICES) in profile.health.warnings


def test_folding_many_devices_to_fit_builds_the_outline_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = load(write_shape(tmp_path / "trace_view.json", "devices", 100))
    scene = Scene([trace], [LinkClasses.plain(len(trace.links))])
    built: list[int] = []
    build = outline.outline

    def counted(*args: Any) -> list[ScreenRow]:
        rows = build(*args)
        built.append(len(rows))
        return rows

    monkeypatch.setattr(outline, "outline", counted)
    for height, rows in ((10, 103), (150, 150), (190, 190), (250, 204)):
        built.clear()
        folds = outline.default_folds(scene)
        outline.fold_to_fit(scene, folds, height, True, lambda index, lanes: scene.traces[index].rows)
        assert len(built) <= 12
        assert len(build(scene, folds, lambda index, lanes: scene.traces[index].rows)) == rows


def test_threads_beyond_the_most_share_a_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 lanes took 700 MB and 10 s; links still lead to the slices of such threads."""
    monkeypatch.setattr(building, "_MOST_LANES", 3)
    events: list[dict[str, object]] = [
        {"ph": "X", "name": f"op{k}", "pid": k % 2, "tid": k, "ts": str(1000 + k), "dur": 5} for k in range(8)
    ]
    link = {"cat": "async_npu", "id": 1, "name": "link"}
    events += [
        link | {"ph": "s", "pid": 0, "tid": 0, "ts": "1000"},
        link | {"ph": "f", "bp": "e", "pid": 1, "tid": 7, "ts": "1007"},
    ]
    file = tmp_path / "trace_view.json"
    file.write_text(json.dumps(events))
    trace = load(file)
    assert [(lane.name, lane.last - lane.first) for lane in trace.lanes] == [
        ("Thread 0", 1), ("Thread 2", 1), ("Thread 1", 1), ("further threads", 5)
    ]  # fmt: skip
    assert message("odd.lanes", count=5, most=3) in trace.health.warnings
    ends = trace.links.source_slice[0], trace.links.target_slice[0]
    assert [trace.names[trace.slices.name[end]] for end in ends] == ["op0", "op7"]
