"""The lines above the pictures of a job, and above two profiles that are compared."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from rich.text import Text
from textual.geometry import Size

from npu_tui.compare.comparison import PartChange
from npu_tui.compare.measured import MeasuredSide
from npu_tui.compare.picture import ComparisonPicture
from npu_tui.compare.steps import StepWindow
from npu_tui.strings import say, words
from npu_tui.trace.classes import OpClass
from npu_tui.trace.intervals import covered_before
from npu_tui.trace.text import cell_count, change_text, duration_text, printable, probability_text, shortened, wrapped
from npu_tui.tui.head import HeadLines, profile_name, whole_sentences
from npu_tui.tui.terminal.frames import ALERT, class_colour
from npu_tui.view.explorer import Explorer

if TYPE_CHECKING:
    from npu_tui.jobs.job import Job
    from npu_tui.tui.job_overview import Overview


_LEFT_OUT = ("job.broken", "job.twice")  # what is said of profiles that are not part of the job
_DETAIL_FROM = 30  # rows of the terminal from which the verdict says why


class JobHead(HeadLines):
    """The job, its dearest finding, and how well the clocks of its ranks are known."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = printable(profile_name(path))

    def show_loading(self, words: str) -> None:
        """Say how far the reading is."""
        self.headline.fill([Text.assemble((f"{say('ranks.title')}  ", "bold"), self._path, end="")])
        self.verdict.fill([Text(words, end="")])
        self.facts.fill([])

    def show(self, view: Overview, width: int, height: int) -> None:
        """Fill the lines for a terminal of ``width`` columns and ``height`` rows."""
        self.headline.fill([self._headline(view, width - 2)])
        self.verdict.fill(self.verdict_lines(view, width - 2, height >= _DETAIL_FROM))
        self.facts.fill([self._clock(view, width - 2)] if view.job.has_profiles else [])

    def _headline(self, view: Overview, width: int) -> Text:
        job = view.whole.job
        ranks, hosts = len(job.ranks), len({host.id for host in view.report.hosts})
        facts = [say("ranks.fact.ranks", ranks=ranks, hosts=hosts) if hosts else say("job.no_hosts", ranks=ranks)]
        if view.report.roles:
            facts = [say("job.head.roles", roles=len(view.report.roles), ranks=facts[0])]
        steps = view.report.steps
        if steps and steps != [""]:
            facts.append(
                say("job.steps.one", step=steps[0])
                if len(steps) == 1
                else say("job.steps", first=steps[0], last=steps[-1])
            )
        levels = {profile.level for profile in job.ranks if profile.level is not None}
        if len(levels) == 1:
            facts.append(say("compared.level", level=next(iter(levels))))
        if job.layout is not None:
            facts.append(f"TP {job.layout.tensor} · PP {job.layout.pipeline} · DP {job.layout.data}")
        if not view.has_traces and job.has_profiles:
            facts.append(say(view.job.recorder.word("ranks.fact.no_traces")))
        titles = {"pipeline": "pipeline.title", "role": "roles.title"}
        right = say(titles.get(view.axis, f"ranks.metric.{view.metric}")) if view.has_map else ""
        changes = view.whole.changes
        title = say("ranks.title" if changes is None else "compared.title")
        room = width - cell_count(title) - 2
        while facts and sum(cell_count(fact) + 2 for fact in facts) + 12 > room:
            facts.pop()
        shown = self._path
        if changes is not None:
            shown = f"{printable(profile_name(changes.base.path))} → {shown}"
        path = shortened(shown, max(room - sum(cell_count(fact) + 2 for fact in facts), 8), ahead=True)
        line = Text.assemble((f"{title}  ", "bold"), (path, ""), no_wrap=True, end="")
        for fact in facts:
            line.append(f"  {fact}", "dim")
        gap = width - line.cell_len - cell_count(right)
        if gap >= 2:
            line.append(" " * gap + right, "bold")
        return line

    @staticmethod
    def verdict_lines(view: Overview, width: int, detailed: bool) -> list[Text]:
        """The dearest finding, red where it is a large share of the job, on two lines if it must be; below it why."""
        if (changes := view.whole.changes) is not None:
            slower = changes.step.verdict == "slower"
            lines = [*changes.verdict, *(row.detail for row in changes.findings[:1] if detailed)]
            styles = [f"bold {ALERT}" if slower else "bold", "bold", "dim"]
            return [
                whole_sentences(Text(printable(line), style, no_wrap=True, end=""), width)
                for line, style in zip(lines, styles, strict=False)
            ]
        found = view.report.findings
        told = bool(found) and found[0].severity != "info"
        style = f"bold {ALERT}" if told and found[0].severity == "high" else "bold"
        verdict = view.report.verdict[0] if told or view.is_whole else say("job.verdict.reading")
        lines = wrapped(said := printable(verdict), width)
        lines[1:] = [shortened(said[len(lines[0]) :].strip(), width)] if lines[1:] else []
        text = [Text(line, style, no_wrap=True, end="") for line in lines]
        if told and detailed:
            why = found[0].detail
            rank = view.examined.rows.get(found[0].ranks[0]) if found[0].ranks else None
            if rank is not None and rank.why and found[0].id == "RANK.SLOW":
                why = say("ranks.why", why=rank.why, detail=why)
            text.append(whole_sentences(Text(printable(why), "dim", no_wrap=True, end=""), width))
        if detailed and view.path is not None and view.path.sentence is not None:
            line = shortened(printable(words(view.path.sentence)), width)
            text.append(Text(line, "dim", no_wrap=True, end=""))
        return text

    @staticmethod
    def _clock(view: Overview, width: int) -> Text:
        """How many ranks each method ties to the first, how well, the greatest drift, and who is missing."""
        line = Text(f"{say('ranks.clock')} ", "bold", no_wrap=True, end="")
        roles = view.whole.job.roles
        of_roles = [say(f"ranks.clock.roles.{roles.clock}")] if roles is not None else []
        parts = clock_parts(view.job) if view.is_whole or not view.has_traces else [say("ranks.clock.reading")]
        for number, part in enumerate([*of_roles, *parts]):
            text = ("  ·  " if number else " ") + part
            if line.cell_len + cell_count(text) > width:
                break
            line.append(text, "dim")
        return line


def clock_parts(job: Job) -> list[str]:
    """The methods with their ±, the drift, ranks that nothing ties to the first, and missing ranks."""
    by_method: dict[str, list[float]] = defaultdict(list)
    for clock in job.clocks:
        by_method[clock.method].append(clock.error)
    parts = []
    for method, errors in by_method.items():
        if method not in ("none", "reference"):
            parts.append(say(f"ranks.clock.{method}", count=len(errors), error=max(errors)))
    if job.untied and job.role is None:
        parts.append(say("ranks.clock.none", count=len(job.untied)))
    if not any(profile.recorder.has_times for profile in job.ranks):
        parts.append(say("ranks.clock.cluster"))
    if len(job.clocks) == 1 and job.role is None:
        parts.append(say("job.one_rank"))
    drift = max((abs(clock.drift) for clock in job.clocks), default=0.0) * 1e6
    if drift >= 0.05:
        parts.append(say("ranks.clock.drift", drift=drift))
    if job.missing:
        shown = job.missing[:8]
        parts.append(say("ranks.clock.missing", count=len(job.missing), ranks=shown))
    left_out = sum(reason.code in _LEFT_OUT for reason in job.broken)
    if left_out:
        parts.append(say("ranks.clock.broken", count=left_out))
    return parts


_FILLS = {"idle": "╱", "computing": "█", "exposed": "▒", "outside": "·"}
_CLASSES = {"idle": OpClass.WAIT, "computing": OpClass.CUBE, "exposed": OpClass.COMMUNICATION, "outside": OpClass.STEP}
_KINDS = tuple(_FILLS)
_WIDE = 110
_LEAST_PARTS = 3
"""Parts with their whole names that are worth more than all of them with short ones."""
_BAR = 6  # cells of the longest bar beside a part of the step


class ComparedHead(HeadLines):
    """Both profiles, the verdict of their comparison, and both steps in bars."""

    def __init__(self, picture: ComparisonPicture) -> None:
        super().__init__()
        self._picture = picture

    def show(self, explorer: Explorer, size: Size) -> None:
        """Fill the lines for a terminal of ``size``; the lowest ones have no room for the bars."""
        width = size.width - 2
        self.headline.fill([self._sides(explorer, width)])
        self.verdict.fill([self._verdict(width), self._parts(width)][: 1 if size.height < 18 else 2])
        self.facts.fill(self._bars(width) if size.height >= 20 else [])

    def _sides(self, explorer: Explorer, width: int) -> Text:
        """Both profiles, and how their clocks lie over one another."""
        pair = explorer.scene.pair
        alignment = say(f"compared.alignment.{pair.alignment}") if pair is not None else ""
        if pair is not None and pair.face != "both":
            alignment = f"{say(f'compared.face.{pair.face}')}  {alignment}"
        wide = width >= _WIDE
        facts = [self._facts(side, wide) for side in self._picture.comparison.sides]
        title = say("compared.title") + "  " if wide else ""
        room = width - cell_count(title) - cell_count(alignment) - sum(map(cell_count, facts)) - 11
        line = Text(title, style="bold", no_wrap=True, end="")
        for sign, side, fact in zip("BN", self._picture.comparison.sides, facts, strict=True):
            if sign == "N":
                line.append("  →  ")
            line.append(f"{sign} ", style="bold")
            path = shortened(printable(profile_name(side.trace.path)), max(room // 2, 8), ahead=True)
            line.append(path, style="not bold")
            line.append(fact, style="dim not bold")
        gap = width - line.cell_len - cell_count(alignment)
        line.append(" " * max(gap, 2) + alignment, style="bold")
        return line

    @staticmethod
    def _facts(side: MeasuredSide, wide: bool) -> str:
        """How many steps, which rank and level a side has."""
        count = len(side.windows)
        if not wide:
            return f" ({count})" if side.windows[0].name is not None else ""
        words = []
        if side.windows[0].name is not None:
            words.append(say("compare.steps", count=count))
        if side.trace.rank is not None:
            words.append(say("header.rank", rank=side.trace.rank))
        if side.profile.profiler_level is not None:
            words.append(say("compared.level", level=side.profile.profiler_level))
        return "".join(f"  {word}" for word in words)

    def _verdict(self, width: int) -> Text:
        """The verdict and what it rests on."""
        comparison = self._picture.comparison
        step = comparison.step
        base, new = step.before, step.after
        style = f"bold {ALERT}" if step.verdict == "slower" else "bold"
        line = Text(say(f"compare.verdict.{step.verdict}"), style=style, no_wrap=True, end="")
        share = step.delta / base if base else 0.0
        words = [say("compared.step", base=base, new=new, delta=step.delta, share=share)]
        if step.shift is not None:
            p = probability_text(step.shift.p)
            words.append(say("compared.interval", low=step.shift.low, high=step.shift.high, p=p))
        elif step.verdict == "unsure":
            words.append(say("compared.few"))
        elif step.verdict in ("slower", "faster"):
            words.append(say("compared.far"))
        if comparison.computing is not None:
            known = comparison.computing
            words.append(say(f"compared.computing.{known.verdict}", delta=known.delta))
        if step.visible is not None and base:
            words.append(say("compared.visible", share=step.visible / base))
        if comparison.operations_matched is not None:
            words.append(say("compared.matched", share=comparison.operations_matched))
        for word in words:
            if line.cell_len + 2 + cell_count(word) <= width:
                line.append(f"  {word}", style="default not bold")
        return line

    def _parts(self, width: int) -> Text:
        """The difference of every part of the step, beside bars where there is room; they sum to that of the step."""
        rows = [row for row in self._picture.comparison.parts if row.delta]
        if not rows:
            return Text(say("compared.no_parts"), style="dim", no_wrap=True, end="")
        order = sorted(rows, key=lambda row: -abs(row.delta))
        forms = [("", True, len(rows)), *(("", False, kept) for kept in range(len(rows), _LEAST_PARTS - 1, -1))]
        for form, bars, kept in [*forms, *((".short", False, kept) for kept in range(len(rows), 0, -1))]:
            line = _waterfall([row for row in rows if row in order[:kept]], form, bars, rows)
            if line.cell_len <= width:
                break
        return line

    def _bars(self, width: int) -> list[Text]:
        """Both drawn steps on one scale."""
        picture = self._picture
        windows = picture.drawn.windows
        names = [f"{sign} {_step_name(window)}" for sign, window in zip("BN", windows, strict=True)]
        ends = [f" {duration_text(window.wall)}" for window in windows]
        left, right = max(map(cell_count, names)) + 1, max(map(cell_count, ends))
        longest = max(max(window.wall for window in windows), 1)
        lines = []
        for side, window, name, end in zip(picture.comparison.sides, windows, names, ends, strict=True):
            cells = max(round((width - left - right) * window.wall / longest), 1)
            line = Text(name.ljust(left), style="bold", no_wrap=True, end="")
            for kind, count in _equal_runs(_classes(side, window, cells)):
                line.append(_FILLS[kind] * count, style=f"not bold {class_colour(_CLASSES[kind])}")
            line.append(end, style="not bold")
            lines.append(line)
        return lines


def _waterfall(shown: list[PartChange], form: str, bars: bool, rows: list[PartChange]) -> Text:
    """The parts ``shown``, what the others of ``rows`` make together, and the sum."""
    total = sum(row.delta for row in rows)
    most = max(abs(row.delta) for row in shown)
    parts = [(say(f"compared.part.{row.part}{form}"), row.delta) for row in shown]
    if len(shown) < len(rows):
        parts.append((say("compared.part.others"), total - sum(row.delta for row in shown)))
    line = Text(no_wrap=True, end="")
    for number, (name, delta) in enumerate(parts):
        line.append(" │ " if bars and number else "  " if number else "", style="dim")
        line.append(f"{name} ", style="dim")
        line.append(change_text(delta, 4 if bars else 3), style="bold" if abs(delta) == most else "")
        cells = round(_BAR * abs(delta) / most)
        if bars and cells:
            line.append(" " + "█" * cells, style=ALERT if delta > 0 else class_colour(OpClass.VECTOR))
    line.append(f" = {change_text(total, 4)}", style="bold")
    return line


def _step_name(window: StepWindow) -> str:
    return "" if window.name is None else f"#{window.number}" if window.number is not None else window.name


def _classes(side: MeasuredSide, window: StepWindow, cells: int) -> npt.NDArray[np.int64]:
    """What each of ``cells`` equal parts of the step was mostly spent on, as an index of the kinds of fills."""
    if side.claims is None:
        return np.full(cells, _KINDS.index("outside"))
    edges = (window.start + np.arange(cells + 1) * window.wall // cells).astype(np.float64)
    own = [np.diff(covered_before(*spans, edges)) for spans in (side.claims.computing, side.claims.exposed)]
    busy = np.flatnonzero((own[0] + own[1]) > 0)
    found = np.full(cells, _KINDS.index("idle"))
    found[: int(busy[0]) if len(busy) else cells] = _KINDS.index("outside")
    found[int(busy[-1]) + 1 if len(busy) else cells :] = _KINDS.index("outside")
    half = np.diff(edges) / 2
    found[own[1] >= half] = _KINDS.index("exposed")
    found[own[0] >= half] = _KINDS.index("computing")
    return found


def _equal_runs(kinds: npt.NDArray[np.int64]) -> list[tuple[str, int]]:
    """Equal neighbours together: the kind and how many cells."""
    edges = np.concatenate(([0], np.flatnonzero(np.diff(kinds)) + 1, [len(kinds)]))
    return [(_KINDS[int(kinds[low])], int(high - low)) for low, high in pairwise(edges.tolist()) if high > low]
