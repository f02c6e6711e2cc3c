"""The chain of a launch as a waterfall: a row for each stage, with its name, its time and when it was."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from npu_tui.analysis.chain import Chain, Stage
from npu_tui.analysis.launches import Dispatch
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief, cell_count, duration_text, printable
from npu_tui.tui.tabs.links import waited_of
from npu_tui.tui.terminal.colours import class_colour

_NAMES = 0.3
"""The share of the width that names take at most."""
_FEWEST = 12
"""Cells from which bars tell anything."""


class Waterfall:
    """The stages of ``chain`` below each other on one scale, as wide as there is room for; ``devices`` tell waits."""

    def __init__(self, trace: Trace, chain: Chain, devices: list[Dispatch]) -> None:
        self._trace, self._chain = trace, chain
        self._rows = [(stage, self._name(stage), self._length(stage, devices)) for stage in chain.stages]

    def _name(self, stage: Stage) -> str:
        """The slice that a stage is."""
        named = stage.item >= 0 and stage.name in ("op", "launch", "run")
        return printable(self._trace.name_of(stage.item)) if named else ""

    def _length(self, stage: Stage, devices: list[Dispatch]) -> str:
        """How long it took; that the clocks differ, where it ends before it begins."""
        waited = waited_of(devices, self._chain.link) if stage.name == "wait" else None
        length = stage.end - stage.start if waited is None else waited
        clocks = f" {say('details.clocks')}" if waited is None and stage.end < stage.start else ""
        return duration_text(length, 3) + clocks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A line with the whole time, then one for each stage."""
        width, start, whole = options.max_width, self._chain.start, self._chain.end - self._chain.start
        yield Text.assemble((f"{say('details.chain')} ", "dim"), (duration_text(whole), "bold"))
        words = [say(f"stage.{stage.name}") for stage, _, _ in self._rows]
        first = max(map(cell_count, words))
        names = min(max(cell_count(name) for _, name, _ in self._rows), int(_NAMES * width))
        times = max(cell_count(length) for _, _, length in self._rows)
        room = width - first - names - times - 5
        for word, (stage, name, length) in zip(words, self._rows, strict=True):
            line = Text(f" {word}{' ' * (first - cell_count(word))} ", no_wrap=True, end="\n")
            name = brief(name, names)
            line.append(name + " " * (names - cell_count(name) + 1), style="dim")
            line.append(" " * (times - cell_count(length)) + length, style="bold")
            if room >= _FEWEST and stage.end >= stage.start:
                begin = min((stage.start - start) * room // max(whole, 1), room - 1)
                last = max(-(-(stage.end - start) * room // max(whole, 1)), begin + 1)
                waits = stage.name in ("queue", "wait")
                style = "dim" if waits else class_colour(self._class_of(stage))
                line.append(" " * (begin + 2) + ("╱" if waits else "█") * (last - begin), style=style)
            yield line

    def _class_of(self, stage: Stage) -> OpClass:
        return OpClass(int(self._trace.slices.op_class[stage.item])) if stage.item >= 0 else OpClass.OTHER
