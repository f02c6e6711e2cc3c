"""The chain of a launch in Details: a row for each stage, where and as long as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from driving import opened
from measured import profile_at
from rich.console import Console

from npu_tui.analysis.calls import chain_of
from npu_tui.strings import say
from npu_tui.trace.text import duration_text
from npu_tui.tui.session import make_session
from npu_tui.tui.tabs.links import Waterfall

DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "dispatch_bound"


def drawn(width: int) -> tuple[list[str], list[tuple[str, int, int]], int]:
    """The lines of the chain of the longest kernel, its stages by name, start and end, and its start."""
    profile = profile_at(DEMO)
    slices = profile.trace.slices
    kernels = np.flatnonzero(profile.compute)
    chain = chain_of(profile.trace, int(kernels[np.argmax((slices.end - slices.start)[kernels])]))
    console = Console(width=width, color_system=None)
    with console.capture() as got:
        console.print(Waterfall(profile.trace, chain, profile.dispatch))
    stages = [(say(f"stage.{stage.name}"), stage.start, stage.end) for stage in chain.stages]
    return got.get().splitlines(), stages, chain.start


@pytest.mark.parametrize("width", [60, 80, 118, 198])
def test_every_stage_is_a_row_where_it_was(width: int) -> None:
    lines, stages, start = drawn(width)
    whole = max(end for _, _, end in stages) - start
    assert duration_text(whole) in lines[0]
    assert [line.split()[0] for line in lines[1:]] == [name for name, _, _ in stages]
    assert max(map(len, lines)) <= width
    bars = [[at for at, char in enumerate(line) if char in "█╱"] for line in lines[1:]]
    assert all(bars)
    left, right = min(map(min, bars)), max(map(max, bars)) + 1
    for (_, begin, end), cells in zip(stages, bars, strict=True):
        if end < begin:
            continue
        scale = (right - left) / whole
        assert min(cells) == pytest.approx(left + (begin - start) * scale, abs=1.5)
        assert len(cells) == pytest.approx((end - begin) * scale, abs=2)


def test_a_narrow_panel_leaves_the_bars_out() -> None:
    lines, stages, _ = drawn(36)
    assert not [line for line in lines if "█" in line]
    assert len(lines) == 1 + len(stages)


@pytest.mark.parametrize("size", [(120, 40), (200, 50)])
async def test_what_surrounds_the_chain_takes_the_rows_that_the_text_leaves(size: tuple[int, int]) -> None:
    async with opened(make_session([profile_at(DEMO)]), size) as driver:
        await driver.settle()
        await driver.press("x", "c")
        for _ in range(3):
            await driver.settle()
        shown = driver.explorer.list
        assert shown.around > 0
        stages = [row for row in shown.rows if (row.trace, row.lane, row.depth) in shown.only]
        assert len(stages) == len(shown.only), "all of the chain is there"
        others = [row for row in shown.rows if row not in stages]
        assert others
        blank = driver.panel.size.height - driver.panel.text_height
        assert blank <= shown.around - len(others) + 1, "all that is in view is there"
        assert all(row.rows is not None for row in others)
        assert len(shown.rows) <= shown.height
        await driver.press("c")
        assert shown.only is None
        assert not shown.around
