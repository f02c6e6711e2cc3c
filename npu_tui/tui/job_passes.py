"""Stages × micro batches of a job: which step of its pipelines is looked at, and the picture of it."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from npu_tui.analysis.schedules import KINDS
from npu_tui.jobs.pipeline import PARTS, Pipelines
from npu_tui.jobs.pipeline_cases import PipelineRun
from npu_tui.rules.model import Evidence
from npu_tui.strings import say
from npu_tui.trace.text import duration_text, printable
from npu_tui.view.passes import DrawnStage, PassBar, PassesPicture, bar_room

_NARROWEST = 4
"""Cells of a mean pass from which all of a step is shown; else those around the cursor."""
_DIGITS = 3
_MOST_LINES = 200
"""Lines from that of the cursor on whose bars are made: no screen shows more."""


class PassWalk:
    """A step of the ``pipelines``; its lines are the stages of each of them, the longest pipeline first."""

    def __init__(self, pipelines: Pipelines) -> None:
        self._parts = {id(run): parts for run, parts in zip(pipelines.runs, pipelines.parts, strict=True)}
        seen: dict[tuple[tuple[int, ...], str], int] = defaultdict(int)
        steps: dict[tuple[str, int], list[PipelineRun]] = {}
        for run in pipelines.runs:
            steps.setdefault((run.step, seen[run.ranks, run.step]), []).append(run)
            seen[run.ranks, run.step] += 1
        self._steps = [sorted(runs, key=lambda run: -run.length) for runs in steps.values()]
        self._at = max(range(len(self._steps)), key=lambda at: self._steps[at][0].length, default=0)

    @property
    def lines(self) -> list[tuple[PipelineRun, int]]:
        """The run and the stage of each line; none without pipelines."""
        return (
            [(run, stage) for run in self._steps[self._at] for stage in range(run.plan.stages)] if self._steps else []
        )

    @property
    def step(self) -> str:
        """The step that is looked at."""
        return self._steps[self._at][0].step if self._steps else ""

    def move_step(self, direction: int) -> bool:
        """Look at the next (1) or previous (-1) step; False where there is none."""
        if not 0 <= self._at + direction < len(self._steps):
            return False
        self._at += direction
        return True

    def ranks(self, opened: bool) -> list[tuple[int, ...]]:
        """The rank of every line, whether lines are ``opened`` or not."""
        return [(run.ranks[stage],) for run, stage in self.lines]

    def columns(self, line: int) -> int:
        """How many passes a line has."""
        return len(self.passes(line))

    def passes(self, line: int) -> list[int]:
        """The passes of a line in their order."""
        run, stage = self.lines[line]
        return list(np.flatnonzero(run.plan.stage == stage).tolist())

    def beside(self, line: int, column: int, other: int) -> int:
        """The pass of line ``other`` that ran when pass ``column`` of ``line`` began, or the next one."""
        run, after = self.lines[line][0], self.lines[other][0]
        begun = run.start[self.passes(line)[column]]
        late = [number for number, at in enumerate(self.passes(other)) if after.end[at] > begun]
        return late[0] if late else len(self.passes(other)) - 1

    def place_of(self, evidence: Evidence) -> tuple[int, int] | None:
        """The line and the pass of what a finding shows, with its step looked at; None where there is none."""
        for number, runs in enumerate(self._steps):
            for run in runs:
                if evidence.rank not in run.ranks:
                    continue
                stage = run.ranks.index(evidence.rank)
                ends = run.end[run.plan.stage == stage] + run.apart[stage]
                if ends[0] - run.length <= evidence.start < ends[-1]:
                    self._at = number
                    line = next(at for at, row in enumerate(self.lines) if row[0] is run and row[1] == stage)
                    return line, int(np.searchsorted(ends, evidence.start, "right"))
        return None

    def begun(self, line: int, column: int) -> int:
        """When a pass began, ns since 1970 on the clock of its device."""
        run, stage = self.lines[line]
        return int(run.start[self.passes(line)[column]] + run.apart[stage])

    def picture(self, line: int, column: int, width: int) -> PassesPicture:
        """The step with the cursor on a pass, for ``width`` columns."""
        run, _ = self.lines[line]
        labels = [say("pipeline.stage", stage=stage, rank=of.ranks[stage]) for of, stage in self.lines]
        notes = [say("pipeline.waits", time=duration_text(of.idle(stage), _DIGITS)) for of, stage in self.lines]
        room = bar_room(labels, notes, width)[1]
        begun = min(int(of.start.min()) for of, _ in self.lines)
        whole = max(int(of.end.max()) for of, _ in self.lines) - begun
        at = self.passes(line)[column]
        shown = min(whole, max(int(run.time.mean()) * room // _NARROWEST, 1))
        low = min(max(int(run.start[at] + run.end[at]) // 2 - begun - shown // 2, 0), whole - shown)
        stages = tuple(
            DrawnStage(label, self._bars(number, begun + low, room / shown, at if number == line else -1), note)
            if abs(number - line) < _MOST_LINES
            else DrawnStage(label, (), note)
            for number, (label, note) in enumerate(zip(labels, notes, strict=True))
        )
        parts = self._parts[id(run)]
        title = say(
            "pipeline.map.title", step=printable(run.step) or "–", low=low / 1e6, high=(low + shown) / 1e6,
            length=run.length,
        )  # fmt: skip
        bubble = say(
            "pipeline.map.bubble", bubble=int(parts[1:].sum()), share=float(parts[1:].sum() / run.length),
            parts=[say("pipeline.part", part=say(f"column.{name}"), time=int(time))
                   for name, time in zip(PARTS[1:], parts[1:], strict=True) if abs(time) >= 1e-3 * run.length],
        )  # fmt: skip
        fills = (*KINDS, "transfer")
        legend = (*((fill, say(f"pipeline.pass.{fill}")) for fill in fills), ("", bubble))
        return PassesPicture(title, stages, line, legend)

    def _bars(self, line: int, begun: int, scale: float, chosen: int) -> tuple[PassBar, ...]:
        """The bars of a line where a cell is ``1 / scale`` ns; a pass has at least one cell, transfers need none."""
        run, _ = self.lines[line]
        moved, passes = [], []
        for at in self.passes(line):
            first, last = (round(int(time - begun) * scale) for time in (run.start[at], run.end[at]))
            moved.append(PassBar(first - round(int(run.transfer[at]) * scale), first, "transfer", ""))
            chunk = chr(ord("a") + int(run.plan.chunk[at]) % 26) if run.plan.chunks > 1 else ""
            label = f"{run.plan.number[at]}{chunk}"
            passes.append(PassBar(first, max(last, first + 1), KINDS[run.plan.kind[at]], label, at == chosen))
        return (*moved, *passes)
