"""What stands above the heat map: which job, the verdict with its price and why, and how its clocks are tied."""

from __future__ import annotations

from collections import defaultdict

from rich.text import Text

from npu_tui.jobs.job import Job
from npu_tui.strings import say
from npu_tui.trace.text import cell_count, printable, shortened, wrapped
from npu_tui.tui.compared.head import Line
from npu_tui.tui.job.overview import Overview
from npu_tui.tui.terminal.theme import ALERT
from npu_tui.tui.widgets.header import profile_name

_LEFT_OUT = ("job.broken", "job.twice")
"""What is said of profiles that are not part of the job."""
_DETAIL_FROM = 30
"""Rows of the terminal from which the verdict says why."""


class JobHead:
    """The widgets above the heat map."""

    def __init__(self, path: str) -> None:
        self._path = printable(profile_name(path))
        self.headline = Line()
        self.verdict = Line()
        self.clock = Line()

    def show_loading(self, words: str) -> None:
        """Say how far the reading is."""
        self.headline.fill([Text.assemble((f"{say('ranks.title')}  ", "bold"), self._path, end="")])
        self.verdict.fill([Text(words, end="")])
        self.clock.fill([])

    def show(self, view: Overview, width: int, height: int) -> None:
        """Fill the lines for a terminal of ``width`` columns and ``height`` rows."""
        self.headline.fill([self._headline(view, width - 2)])
        self.verdict.fill(self._verdict(view, width - 2, height >= _DETAIL_FROM))
        self.clock.fill([self._clock(view, width - 2)])

    def _headline(self, view: Overview, width: int) -> Text:
        job = view.job
        facts = [say("ranks.fact.ranks", ranks=len(job.ranks), hosts=len(job.hosts))]
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
        if not view.has_traces:
            facts.append(say("ranks.fact.no_traces"))
        right = say(f"ranks.metric.{view.metric}")
        title = say("ranks.title")
        room = width - cell_count(title) - 2
        while facts and sum(cell_count(fact) + 2 for fact in facts) + 12 > room:
            facts.pop()
        path = shortened(self._path, max(room - sum(cell_count(fact) + 2 for fact in facts), 8), ahead=True)
        line = Text.assemble((f"{title}  ", "bold"), (path, ""), no_wrap=True, end="")
        for fact in facts:
            line.append(f"  {fact}", "dim")
        gap = width - line.cell_len - cell_count(right)
        if gap >= 2:
            line.append(" " * gap + right, "bold")
        return line

    @staticmethod
    def _verdict(view: Overview, width: int, detailed: bool) -> list[Text]:
        """The dearest finding, red where it is a large share of the job, on two lines if it must be; below it why."""
        found = view.report.findings
        told = bool(found) and found[0].severity != "info"
        style = f"bold {ALERT}" if told and found[0].severity == "high" else "bold"
        lines = wrapped(printable(view.report.verdict), width)[:2]
        text = [Text(line, style, no_wrap=True, end="") for line in lines]
        if told and detailed:
            why = found[0].detail
            rank = view.examined.rows.get(found[0].ranks[0]) if found[0].ranks else None
            if rank is not None and rank.why and found[0].id == "RANK.SLOW":
                why = say("ranks.why", why=rank.why, detail=why)
            text.append(Text(printable(why), "dim", no_wrap=True, end=""))
        return text

    @staticmethod
    def _clock(view: Overview, width: int) -> Text:
        """How many ranks each method ties to the first, how well, the greatest drift, and who is missing."""
        line = Text(f"{say('ranks.clock')} ", "bold", no_wrap=True, end="")
        for number, part in enumerate(clock_parts(view.job)):
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
        if method == "none":
            parts.append(say("ranks.clock.none", count=len(errors)))
        elif method != "reference":
            parts.append(say(f"ranks.clock.{method}", count=len(errors), error=max(errors)))
    if len(job.clocks) == 1:
        parts.append(say("job.one_rank"))
    drift = max((abs(clock.drift) for clock in job.clocks), default=0.0) * 1e6
    if drift >= 0.05:
        parts.append(say("ranks.clock.drift", drift=drift))
    bend = max((abs(gained) for clock in job.clocks for _, gained in clock.bends), default=0.0)
    if bend:
        parts.append(say("ranks.clock.bends", most=bend))
    if job.missing:
        shown = job.missing[:8]
        parts.append(say("ranks.clock.missing", count=len(job.missing), ranks=shown))
    left_out = sum(each.code in _LEFT_OUT for each in job.broken)
    if left_out:
        parts.append(say("ranks.clock.broken", count=left_out))
    return parts
