"""Durations as pictures of blocks: one line in a cell, or bars beside a table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from rich.text import Text

from npu_tui.analysis.distribution import Distribution, histogram
from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.trace.text import duration_text, printable, shortened

_LEVELS = " ▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_CELLS = 8


def spark(values: npt.ArrayLike) -> str:
    """A line of one block per value, the highest full; what is above 0 is never blank."""
    heights = np.asarray(values, np.float64)
    top = heights.max(initial=0.0)
    if top <= 0:
        return " " * len(heights)
    levels = np.ceil(8 * heights / top).astype(np.int64)
    return "".join(_LEVELS[min(max(level, 0), 8)] for level in levels.tolist())


def bar(share: float, width: int) -> str:
    """A bar of ``share`` of ``width`` cells, to an eighth of a cell."""
    eighths = max(round(min(max(share, 0.0), 1.0) * width * 8), 1 if share > 0 else 0)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def spread(durations: npt.NDArray[np.int64]) -> str:
    """The histogram of ``durations`` (ns) in one cell of a table; empty for a single one."""
    return spark(histogram(durations, _CELLS).count) if len(durations) > 1 else ""


def spread_picture(title: str, durations: npt.NDArray[np.int64], width: int, height: int) -> Text:
    """The histogram of ``durations`` (ns) as bars below ``title``, one line per bin."""
    found = histogram(durations, max(height - 1, 1))
    picture = Text(shortened(printable(title), width), style="dim", no_wrap=True)
    most = int(found.count.max())
    for low, count in zip(found.edges.tolist(), found.count.tolist(), strict=False):
        label = say("spread.from", low=duration_text(low, 3))
        room = max(width - len(label) - len(f"{most:,}") - 2, 1)
        picture.append(f"\n{label} ", style="dim")
        picture.append(bar(count / most, room))
        picture.append(f" {count:,}" if count else "", style="dim")
    return picture


def spread_words(trace: Trace, found: Distribution) -> str:
    """Percentiles and the histogram of some durations."""
    lengths = trace.slices.end[found.items] - trace.slices.start[found.items]
    return say(
        "search.spread",
        p50=duration_text(found.p50),
        p90=duration_text(found.p90),
        longest=duration_text(found.longest),
        spread=spread(lengths),
    )


def sum_words(found: Distribution) -> str:
    """What some durations add up to, with and without what overlaps."""
    return say("search.sums", total=duration_text(found.total), union=duration_text(found.union))
