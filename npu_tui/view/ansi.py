"""A grid as ANSI text: one string per row that only names what changes from cell to cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from npu_tui.view.grid import SPACE, Attr, Grid
from npu_tui.view.palette import Palette

Rgb = tuple[int, int, int]
Run = tuple[str, Rgb, Rgb, int]
Depth = Literal["truecolor", "256"]

_RESET = "\x1b[0m"
_SAME = 256
_ON = {int(Attr.BOLD): "1", int(Attr.DIM): "2", int(Attr.UNDERLINE): "4"}


class Encoder:
    """Encodes grids in one palette for one colour depth; it keeps the escape sequences it has made."""

    def __init__(self, palette: Palette, depth: Depth = "truecolor") -> None:
        self._palette = palette
        self._depth = depth
        self._sequences: dict[int, str] = {}
        # Inks that look alike count as one, so that no sequence is spent on an invisible change.
        looks = palette.rgb if depth == "truecolor" else palette.xterm[:, None]
        _, first, same = np.unique(looks, axis=0, return_index=True, return_inverse=True)
        self._canonical = first[same.reshape(-1)].astype(np.int64)

    def encode(self, grid: Grid, rows: Sequence[int] | None = None) -> list[str]:
        """One string per row of ``rows`` (all rows if None), each closed by one reset.

        A blank cell shows no foreground: it keeps the one before it, and so do its bold and dim bits.
        """
        pick = slice(None) if rows is None else list(rows)
        char = grid.char[pick]
        height, width = char.shape
        if height == 0 or width == 0:
            return [""] * height
        fg, bg, attr = self._canonical[grid.fg[pick]], self._canonical[grid.bg[pick]], grid.attr[pick].astype(np.int64)

        shown = (char != SPACE) | (attr & int(Attr.UNDERLINE) != 0)
        source = np.maximum.accumulate(np.where(shown, np.arange(width), -1), axis=1)
        inherited = np.maximum(source, 0)
        none = source < 0
        fg = np.where(none, _SAME, np.take_along_axis(fg, inherited, 1))
        keep = np.where(none, 0, np.take_along_axis(attr, inherited, 1)) & ~int(Attr.UNDERLINE)
        attr = np.where(shown, attr, keep)

        old_fg = _shifted(fg, _SAME)
        old_bg = _shifted(bg, _SAME)
        old_attr = _shifted(attr, 0)
        new_fg = np.where(fg == old_fg, _SAME, fg)
        new_bg = np.where(bg == old_bg, _SAME, bg)
        key = ((old_attr * 8 + attr) * 257 + new_fg) * 257 + new_bg
        turn = (new_fg != _SAME) | (new_bg != _SAME) | (attr != old_attr)
        turn[:, 0] = True
        return self._join(char, key, turn)

    def runs(self, grid: Grid, y: int) -> list[Run]:
        """Row ``y`` as (text, foreground, background, attribute bits) of cells that look alike, colours as RGB."""
        fg, bg, attr = grid.fg[y].astype(np.int64), grid.bg[y].astype(np.int64), grid.attr[y].astype(np.int64)
        key = (fg * 256 + bg) * 8 + attr
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1])).tolist()
        text = grid.text(y)
        rgb = self._palette.rgb.tolist()
        result: list[Run] = []
        for start, stop in zip(starts, [*starts[1:], len(text)], strict=True):
            front, back = rgb[fg[start]], rgb[bg[start]]
            result.append(
                (text[start:stop], (front[0], front[1], front[2]), (back[0], back[1], back[2]), int(attr[start]))
            )
        return result

    def _join(self, char: npt.NDArray[np.uint32], key: npt.NDArray[np.int64], turn: npt.NDArray[np.bool_]) -> list[str]:
        height, width = char.shape
        text = np.ascontiguousarray(char).tobytes().decode("utf-32-le")
        flat = np.flatnonzero(turn)
        starts = flat.tolist()
        stops = [*starts[1:], height * width]
        keys = key.reshape(-1)[flat].tolist()
        sequences = self._sequences
        for number in set(keys).difference(sequences):
            sequences[number] = self._sequence(number)
        parts = [sequences[number] + text[start:stop] for number, start, stop in zip(keys, starts, stops, strict=True)]
        bounds = [0, *np.cumsum(turn.sum(axis=1)).tolist()]
        return ["".join(parts[bounds[y] : bounds[y + 1]]) + _RESET for y in range(height)]

    def _sequence(self, key: int) -> str:
        rest, bg = divmod(key, 257)
        attrs, fg = divmod(rest, 257)
        old, new = divmod(attrs, 8)
        codes: list[str] = []
        weight = int(Attr.BOLD | Attr.DIM)
        if old & weight & ~new:
            codes.append("22")
            old &= ~weight
        if old & int(Attr.UNDERLINE) & ~new:
            codes.append("24")
        codes.extend(code for bit, code in _ON.items() if new & ~old & bit)
        if fg != _SAME:
            codes.append("38;" + self._colour(fg))
        if bg != _SAME:
            codes.append("48;" + self._colour(bg))
        return f"\x1b[{';'.join(codes)}m" if codes else ""

    def _colour(self, ink: int) -> str:
        if self._depth == "256":
            return f"5;{self._palette.xterm[ink]}"
        red, green, blue = self._palette.rgb[ink]
        return f"2;{red};{green};{blue}"


def _shifted(values: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.int64]:
    """Every cell's left neighbour, ``first`` before a row's first cell."""
    result = np.empty_like(values)
    result[:, 0] = first
    result[:, 1:] = values[:, :-1]
    return result
