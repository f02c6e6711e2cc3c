"""A walk over a bundled profile as one animated picture; without animations it shows the first screen."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from npu_tui.output.svg import CELL_HEIGHT, CELL_WIDTH, CLOSED, FILE, Piece, opened, row_shapes, sized, written_shapes
from npu_tui.profile.profile import Profile
from npu_tui.strings import language
from npu_tui.tui.picture import frames
from npu_tui.view.palette import LIGHT

COLUMNS, ROWS = 110, 32
SECONDS = 12
STEPS: tuple[tuple[tuple[str, ...], dict[str, str]], ...] = (
    ((), {"en": "npu-tui demo: where the time goes, and why", "zh": "npu-tui demo：时间去了哪里，为什么"}),
    (("e",), {"en": "e  the next finding, with its evidence", "zh": "e  下一条诊断及其证据"}),
    (("x", "x"), {"en": "x  the next launch that the device waited for", "zh": "x  下一个饥饿下发：设备在等待它"}),
    (
        ("c",),
        {
            "en": "c  its chain: Python op, queue, launch, kernel",
            "zh": "c  它的下发链：Python 算子、队列、下发、kernel",
        },
    ),
    (("2", "P"), {"en": "2  the code, with the time of each line", "zh": "2  代码，带各行的时间"}),
    (("2", "enter", "P", "P"), {"en": "Enter  to the place on the timeline", "zh": "Enter  跳到时间线上的位置"}),
)
"""The keys of each step, and what is said below the screen then, by language."""

_CAPTION = 30
_GROUND, _INK = "#0c0d12", "#f2d974"


def walk(profile: Profile) -> str:
    """The SVG of the walk, in the language spoken."""
    screens = frames([profile], COLUMNS, ROWS, [list(keys) for keys, _ in STEPS[1:]])
    width, height = COLUMNS * CELL_WIDTH, ROWS * CELL_HEIGHT + _CAPTION
    spans: set[tuple[int, int]] = set()
    parts = []
    for y in range(ROWS):
        for first, last, row in _runs([screen[y] for screen in screens]):
            spans.add((first, last))
            parts.append(
                f'<g class="{_name(first, last)}">'
                f"{''.join(written_shapes(row_shapes(row, y * CELL_HEIGHT), LIGHT))}</g>"
            )
    top = ROWS * CELL_HEIGHT
    parts.append(f'<rect x="0" y="{top}" width="{width}" height="{_CAPTION}" fill="{_GROUND}"/>')
    for at, (_, said) in enumerate(STEPS):
        spans.add((at, at))
        text = (
            f'<text x="{CELL_WIDTH}" y="{top + 20}" fill="{_INK}" font-weight="bold">{escape(said[language()])}</text>'
        )
        parts.append(f'<g class="{_name(at, at)}">{text}</g>')
    return "\n".join([opened(f"{FILE} {sized(width, height)}", "npu-tui demo", _rules(spans)), *parts, CLOSED])


def _runs(rows: Sequence[list[Piece]]) -> list[tuple[int, int, list[Piece]]]:
    """A row of the screen over all steps: from which to which it looks how."""
    runs: list[tuple[int, int, list[Piece]]] = []
    for at, row in enumerate(rows):
        if runs and runs[-1][2] == row:
            runs[-1] = (runs[-1][0], at, row)
        else:
            runs.append((at, at, row))
    return runs


def _name(first: int, last: int) -> str:
    return f"s{first}{last}"


def _rules(spans: set[tuple[int, int]]) -> str:
    """What shows each span of steps for its time; who wants no motion sees the first step."""
    count, rules = len(STEPS), []
    for first, last in sorted(spans):
        if (first, last) == (0, count - 1):
            continue
        name, begin, end = _name(first, last), 100 * first / count, 100 * (last + 1) / count
        shown = "visible" if first == 0 else "hidden"
        frames_ = [(0.0, shown)] + ([(begin, "visible")] if first else []) + ([(end, "hidden")] if end < 100 else [])
        steps = "".join(f"{at:.4g}%{{visibility:{state}}}" for at, state in frames_)
        steps += f"100%{{visibility:{'hidden' if end < 100 else 'visible'}}}"
        rules.append(
            f".{name}{{visibility:{shown};animation:{name} {SECONDS}s step-end infinite}}@keyframes {name}{{{steps}}}"
        )
    return "".join(rules) + "@media (prefers-reduced-motion:reduce){g{animation:none!important}}"
