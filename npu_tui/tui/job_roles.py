"""What is drawn in place of a heat map: the lanes of the roles of a job, stages × micro batches of its pipelines."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

import numpy as np
from msgspec import Struct

from npu_tui.analysis.graph import KINDS
from npu_tui.jobs.heat import SHADES
from npu_tui.jobs.passes import PipelineRun
from npu_tui.jobs.pipeline import PARTS, Pipelines
from npu_tui.jobs.roles import Roles, RoleSpan, last_of
from npu_tui.rules.model import Evidence
from npu_tui.strings import say
from npu_tui.trace.text import duration_text, printable, signed_text, time_text
from npu_tui.view.heat import DrawnRow, HeatPicture
from npu_tui.view.passes import DrawnStage, PassBar, PassesPicture, bar_room

_FILLS = ("forward", "backward", "transfer", "other")
_ALIKE = 0.05
"""Share of the step within which the ends of ranks are alike."""
_LISTED = 4  # ranks up to which every one of a role has its line
_DIGITS = 3


class StintLine(Struct, frozen=True):
    """The last stints of the ranks of ``role`` that a line stands for, the one that it shows first."""

    role: str
    spans: tuple[RoleSpan, ...]


class RoleWalk:
    """A step of the ``roles`` of a job, at first that with the longest tail."""

    def __init__(self, roles: Roles | None) -> None:
        self.roles = roles
        self.steps = roles.steps if roles is not None else []
        tails = sorted(roles.tails, key=lambda tail: tail.after) if roles is not None else []
        self._at = self.steps.index(tails[-1].step) if tails else 0
        self.lines: list[StintLine] = []
        self._who: tuple[str, int] | None = None

    @property
    def step(self) -> str:
        """The step that is looked at."""
        return self.steps[self._at] if self.steps else ""

    def move_step(self, direction: int) -> None:
        """Look at the next (1) or previous (-1) step, if there is one."""
        self._at = min(max(self._at + direction, 0), max(len(self.steps) - 1, 0))

    def columns(self, line: int) -> int:
        """How many steps there are, whichever the line."""
        return len(self.steps)

    def ranks(self, opened: bool) -> list[tuple[int, ...]]:
        """The ranks of every line of the step; those alike in one unless they are ``opened``."""
        self.lines = [] if self.roles is None else self._lines(self.roles, opened)
        return [tuple(span.rank for span in line.spans) for line in self.lines]

    def _lines(self, roles: Roles, opened: bool) -> list[StintLine]:
        found: list[StintLine] = []
        for role in roles.by_role:
            lasts = last_of(roles.by_role_step.get((role, self.step), ()))
            middle = median(span.end for span in lasts) if lasts else 0
            near = [span for span in lasts if abs(span.end - middle) <= _ALIKE * roles.length]
            together = near if len(near) > _LISTED and not opened else []
            alone = sorted((span for span in lasts if span not in together), key=lambda span: (span.place, span.rank))
            together.sort(key=lambda span: abs(span.end - middle))
            found += [StintLine(role, (span,)) for span in alone]
            found += [StintLine(role, tuple(together))] if together else []
        return found

    def held(self, line: int) -> tuple[str, int] | None:
        """The rank that the cursor stays on while steps change: as before, if ``line`` has it, else its first one."""
        there = [span.who for span in self.lines[line].spans] if self.lines else []
        self._who = self._who if self._who in there else next(iter(there), None)
        return self._who

    def shown_by(self, evidence: Evidence) -> tuple[str, int] | None:
        """The rank of a role with the stint that a finding shows, at its step; None without roles."""
        spans = [] if self.roles is None else self.roles.spans
        times = evidence.start, evidence.rank
        span = next((span for span in spans if (span.start + span.ahead, span.rank) == times), next(iter(spans), None))
        if span is None:
            return None
        self._at = self.steps.index(span.step)
        return span.who

    def place_of(self, place: str, rank: int) -> int | None:
        """The line of a rank of a role or replica; None where it has none in the step."""
        held = (at for at, line in enumerate(self.lines) if any(span.who == (place, rank) for span in line.spans))
        return next(held, None)

    def begun(self, line: int, column: int) -> int:
        """When to look at the rank of a line, ns since 1970 on its own clock: since the others waited, or its start."""
        span = self.lines[line].spans[0]
        tails = self.roles.tails if self.roles is not None else []
        late = next((tail.median for tail in tails if span in tail.last), span.start)
        return late + span.ahead

    def picture(self, cursor: int, column: int, width: int) -> PassesPicture:
        """The step with the cursor on a line, for ``width`` columns."""
        roles, lines = self.roles, self.lines
        assert roles is not None
        own = roles.by_step[self.step]
        fills = {role: _FILLS[number % len(_FILLS)] for number, role in enumerate(roles.by_role)}
        labels = [self._label(line) for line in lines]
        ends = {
            line.role: median(span.end for span in last_of(roles.by_role_step[line.role, self.step])) for line in lines
        }
        late = {line.spans[0]: line.spans[0].end - ends[line.role] for line in lines}
        notes = [self._note(round(late[line.spans[0]])) for line in lines]
        room = bar_room(labels, notes, width)[1]
        begun, done = own[0].start, max(span.end for span in own)
        scale = room / max(done - begun, 1)
        lasting = {tail.role: tail for tail in roles.tails if tail.step == self.step}
        stages = []
        for number, line in enumerate(lines):
            span, tail = line.spans[0], lasting.get(line.role)
            mine = [one for one in own if one.who == span.who]
            bars = []
            for one in mine:
                first, last = (round((time - begun) * scale) for time in (one.start, one.end))
                bars.append(PassBar(first, max(last, first + 1), fills[line.role], ""))
            if tail is not None:
                middle, end = (round((time - begun) * scale) for time in (tail.median, tail.end))
                if span in tail.last:
                    bars.append(PassBar(middle, round((span.end - begun) * scale), "tail", ""))
                else:
                    bars.append(PassBar(round((span.end - begun) * scale), end, "", ""))
            stages.append(DrawnStage(labels[number], tuple(bars), notes[number]))
        title = say("roles.map.title", step=printable(self.step) or "–", length=done - begun)
        # Lines name their role.
        legend = [("tail", say("roles.map.tail")), ("", say("roles.map.idle"))] if lasting else []
        return PassesPicture(title, tuple(stages), cursor, tuple(legend), "blank")

    @staticmethod
    def _label(line: StintLine) -> str:
        span = line.spans[0]
        if len(line.spans) > 1:
            return f"{printable(line.role)} {say('ranks.alike', count=len(line.spans))}"
        return f"{printable(span.place)} {span.rank}"

    @staticmethod
    def _note(late: int) -> str:
        return signed_text(late, _DIGITS) if late else ""

    def tails_picture(self) -> HeatPicture | None:
        """How long the last rank of every role ends after the median one, by step; None without several steps."""
        roles = self.roles
        if roles is None or len(self.steps) < 2:
            return None
        rows = []
        for role in roles.by_role:
            late = np.full(len(self.steps), np.nan)
            for number, step in enumerate(self.steps):
                ends = [span.end for span in last_of(roles.by_role_step.get((role, step), ()))]
                if len(ends) > 1:
                    late[number] = (max(ends) - median(ends)) / roles.length
            most = float(np.nanmax(late, initial=0.0)) * roles.length
            rows.append(DrawnRow(printable(role), "", late, (time_text(most, _DIGITS),)))
        title, heads = say("roles.tails.title"), (say("column.tail"),)
        return HeatPicture(title, tuple(self.steps), tuple(rows), heads, SHADES, True, -1, self._at)


_NARROWEST = 4  # cells of a mean pass from which all of a step is shown; else those around the cursor
_MOST_LINES = 200  # lines from the cursor on that get bars: no screen shows more


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
