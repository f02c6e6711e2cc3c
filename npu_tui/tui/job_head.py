"""The lines above the pictures of a job: the job itself, its dearest finding, and how well its clocks are known."""

from __future__ import annotations

from collections import defaultdict

from rich.text import Text

from npu_tui.jobs.job import Job
from npu_tui.jobs.model import CLUSTER
from npu_tui.strings import say, words
from npu_tui.trace.text import cell_count, printable, shortened, wrapped
from npu_tui.tui.head import HeadLines, profile_name, whole_sentences
from npu_tui.tui.job_overview import Overview
from npu_tui.tui.terminal.colours import ALERT

_LEFT_OUT = ("job.broken", "job.twice")
"""What is said of profiles that are not part of the job."""
_DETAIL_FROM = 30
"""Rows of the terminal from which the verdict says why."""


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
            cluster = any(profile.kind == CLUSTER for profile in view.job.ranks)
            facts.append(say("ranks.fact.cluster" if cluster else "ranks.fact.no_traces"))
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
        lines = wrapped(printable(verdict), width)[:2]
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
    if all(profile.kind == CLUSTER for profile in job.ranks):
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
