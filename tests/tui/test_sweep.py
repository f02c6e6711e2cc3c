"""Several profiles on screen: what fits, which row is marked, and what a row opens."""

import json
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from npu_tui.cli import main
from npu_tui.report.compared.sweep import Sweep
from npu_tui.trace.text import cell_count
from npu_tui.tui.compared.sweep import SweepApp, sweep_lines

_FIXTURES = Path(__file__).parents[2] / "fixtures"
_NAMES = ("healthy", "dispatch_bound", "level0", "communication_bound")


@pytest.fixture
def found(capsys) -> Sweep:
    words = [word for size in (8, 16, 32, 64) for word in ("--label", f"bs={size}")]
    paths = [str(_FIXTURES / name) for name in _NAMES]
    assert main(["compare", "--no-cache", "--format", "json", *paths, *words]) == 0
    return msgspec.convert(json.loads(capsys.readouterr().out), Sweep)


@pytest.mark.parametrize("width", [36, 60, 76, 116, 196])
def test_lines_fit_and_the_throughput_is_never_left_out(found, width):
    lines = sweep_lines(found, 1, width, 0, 20, "").plain.splitlines()
    assert max(map(cell_count, lines)) <= width
    assert any("samples/s" in line for line in lines)
    assert sum("bs=" in line for line in lines[2:7]) == 4


def test_rows_that_do_not_fit_are_counted(found):
    lines = sweep_lines(found, 3, 100, 2, 2, "").plain.splitlines()
    assert [line.split()[0] for line in lines[3:5]] == ["bs=32", "bs=64"]
    assert lines[5] == "2 more"


def test_the_knee_is_the_smallest_batch_that_does_nearly_as_much(found):
    rates = {row.label: row.samples_per_s for row in found.profiles}
    enough = [label for label in rates if rates[label] >= 0.9 * max(rates.values())]
    assert found.knee == enough[0] == "bs=32"
    assert "knee: bs=32" in sweep_lines(found, 0, 150, 0, 20, "").plain


async def test_a_row_is_opened_against_the_first(found, monkeypatch):
    asked = []
    app = SweepApp(found, lambda row: asked.append(row) or ["true"])
    monkeypatch.setattr(SweepApp, "suspend", lambda self: nullcontext())
    async with app.run_test(size=(100, 24)) as pilot:
        for keys in (("enter",), ("j", "enter"), ("G", "enter"), ("down", "enter"), ("g", "enter")):
            await pilot.press(*keys)
        assert asked == [1, 2, 3, 3, 0]
        await pilot.press("q")
