"""Two memory snapshots: a line that leaks in one only, numbers that shift, real files, and what is refused."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from npu_tui.cli.main import main
from npu_tui.load.snapshot import load_snapshot
from npu_tui.output.memory_compare import compared_memory
from tests.conftest import WITHOUT_TRACES
from tests.load.test_snapshot import MB, simulated, written


def shifted(content: dict[str, Any], by: int) -> dict[str, Any]:
    """``content`` as the same program writes it with lines of a comment above its functions, in another folder."""
    content = pickle.loads(pickle.dumps(content))
    entries = [*content["device_traces"][0], *content["segments"][0]["blocks"]]
    for frame in {id(frame): frame for entry in entries for frame in entry["frames"]}.values():
        if frame["filename"].startswith("/home"):
            frame["line"] += by
            frame["filename"] = frame["filename"].replace("/me/", "/you/")
    return content


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """A run, and a later one with a line that keeps 4 MiB in each of four steps; all its lines stand one lower."""
    paths = tmp_path / "a", tmp_path / "b"
    for folder, content in zip(paths, (simulated(), shifted(simulated(leak=4 * MB), 1)), strict=True):
        folder.mkdir()
        written(folder, content)
    return paths[0] / "snapshot.pkl", paths[1] / "snapshot.pkl"


def test_the_line_that_leaks_leads_and_shifted_lines_are_the_same(sides: tuple[Path, Path]):
    found = compared_memory(*map(load_snapshot, sides))
    (device,) = found.devices
    assert found.verdict == [
        "Device 0: the peak grew by 16.0 MiB, 296.0 MiB → 312.0 MiB (requested bytes)",
        "train.py:10 step grew most at the peak: 0 B → 16.0 MiB (+16.0 MiB)",
    ]
    assert [
        (row.kind, row.base_line, row.new_line, row.delta_bytes, row.base_blocks, row.new_blocks)
        for row in device.at_peak
    ] == [
        ("line", None, 10, 16 * MB, 0, 4), ("line", 7, 8, 0, 200, 200), ("line", 5, 6, 0, 1, 1),
        ("no_stack", None, None, 0, 1, 1),
    ]  # fmt: skip
    assert [(row.new_line, row.delta_bytes) for row in device.at_end] == [(10, 16 * MB), (6, 0), (8, 0)]
    assert sum(row.new_bytes for row in device.at_peak) == device.new.peak_requested_bytes
    back = compared_memory(*map(load_snapshot, reversed(sides)))
    assert [row.delta_bytes for row in back.devices[0].at_peak] == [-16 * MB, 0, 0, 0]
    assert back.verdict == ["Device 0: the peak fell by 16.0 MiB, 312.0 MiB → 296.0 MiB (requested bytes)"]


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_forms(form: str, sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]):
    assert main(["compare", *map(str, sides), "--format", form]) == 0
    said = capsys.readouterr().out
    assert "train.py:10 step grew most at the peak" in said
    if form == "json":
        assert json.loads(said)["kind"] == "compare_memory"


def test_a_snapshot_against_anything_else_is_one_line(
    sides: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    other = tmp_path / "trace_view.json"
    other.write_text("[]")
    assert main(["compare", str(sides[0]), str(other)]) == 3
    assert capsys.readouterr().err == (
        f"npu-tui: {other} is no memory snapshot, but {sides[0]} is one: compare two snapshots or two profiles\n"
    )
    assert main(["compare", str(sides[0]), str(tmp_path / "none.pkl")]) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "is no memory snapshot" not in said
    for command in (["compare", *map(str, sides), "--step"], ["compare", *map(str, sides), "--eager"],
                    ["report", str(sides[0]), "--eager"]):  # fmt: skip
        with pytest.raises(SystemExit):
            main([*command, "3"])


def test_real_snapshots_of_one_program_hold_the_same_at_shifted_lines():
    folder = Path(os.environ.get("NPU_TUI_TRACES") or "none", "memory")
    if not folder.exists():
        pytest.skip(reason=WITHOUT_TRACES)
    names = "snapshot_expandable.pkl", "snapshot_with_empty_cache.pkl"
    (device,) = compared_memory(*(load_snapshot(folder / name) for name in names)).devices
    assert {row.delta_bytes for row in (*device.at_peak, *device.at_end)} == {0}
    lines = [(row.base_line, row.new_line) for row in device.at_peak if row.kind == "line"]
    assert lines == [(18, 17), (12, 11), (14, 13), (15, 14), (16, 15)]
    assert device.new.peak_reserved_bytes - device.base.peak_reserved_bytes == 662700032 - 643825664
