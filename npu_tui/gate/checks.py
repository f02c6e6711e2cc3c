"""A report, a baseline, another profile and a log held against limits, with the evidence each check needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

import numpy as np
from msgspec import Struct, to_builtins

from npu_tui.analysis.changes import MOST, course, expected
from npu_tui.analysis.evidence import Evidence
from npu_tui.analysis.statistics import FEWEST, Judgement, Tolerance
from npu_tui.compare.comparison import PartChange, ProfileComparison
from npu_tui.compare.steps import PARTS
from npu_tui.gate.measures import (
    BASELINE_MEASURES,
    METRICS,
    NOISE,
    NOTHING_LOST,
    PLACES,
    TOLERANCE,
    Limit,
    Measures,
    allowed,
)
from npu_tui.jobs.against import JobComparison
from npu_tui.jobs.history import Log, LoggedRun
from npu_tui.jobs.job import Job
from npu_tui.jobs.step_times import job_losses
from npu_tui.output.report_schema import Report
from npu_tui.profile.profile import Profile
from npu_tui.rules.model import SEVERITIES
from npu_tui.strings import say, words
from npu_tui.subjects import subjects
from npu_tui.subjects.declaration import Subject
from npu_tui.trace.message import Message, message

Kind = Literal["limit", "baseline", "compared", "log", "finding", "trace"]
Status = Literal["pass", "fail", "not_measured"]
_PASSES: dict[bool, Status] = {True: "pass", False: "fail"}


class GateCheck(Struct, frozen=True):
    """One answer. Times are µs, shares are of the device time, those of memory of what is reserved.

    What does not apply or is not known is None.

    ``id`` is the measure or the finding. Against a baseline or a log ``allowed_us`` includes tolerance and noise.
    """

    kind: Kind
    id: str
    status: Status
    value_us: float | None = None
    allowed_us: float | None = None
    share: float | None = None
    allowed_share: float | None = None
    base_us: float | None = None
    tolerance: float | None = None
    severity: str | None = None
    text: str = ""
    value_bytes: int | None = None
    allowed_bytes: int | None = None

    @property
    def over_us(self) -> float | None:
        """How far the value is above what is allowed (negative: below), µs."""
        if self.value_us is None or self.allowed_us is None:
            return None
        return round(self.value_us - self.allowed_us, 3)

    @property
    def change(self) -> float | None:
        """How much longer than the baseline, as a share of the baseline's."""
        return round(self.value_us / self.base_us - 1, 6) if self.base_us and self.value_us is not None else None


def trace_checks(incomplete: Iterable[Mapping[Evidence, Message]], every: bool) -> list[GateCheck]:
    """A profile whose file ends too early is not measured, whatever its figures say.

    With ``every`` each one that has lost anything: a baseline of it would be none. None for what is there in full.
    """
    missing = [
        why
        for lost in incomplete
        for why in list(lost.values())[:1]
        if every or any(why.code == "evidence.cut_off" for why in lost.values())
    ]
    return [GateCheck("trace", "trace", "not_measured", text=words(why)) for why in missing]


def limit_checks(measured: Measures, limits: list[Limit]) -> list[GateCheck]:
    """One check for each limit; a limit is kept where the value is not above it."""
    checks = []
    for limit in limits:
        value, most = measured.times.get(limit.measure), allowed(limit, measured)
        share = value / measured.total if value is not None and measured.total else None
        if value is None or most is None:
            why = measured.reasons.get(limit.measure) or measured.reasons.get("device", "")
            kind, colon, _ = limit.measure.partition(":")
            if kind in METRICS and not why:
                why = say("gate.no_service")
            if colon and not why:
                there = sorted({name.partition(":")[0] for name in measured.times if ":" in name} - {*METRICS})
                why = say("gate.no_kind", kind=kind, there=there) if there else say("gate.no_engine")
            checks.append(GateCheck("limit", limit.measure, "not_measured", value, text=why))
            continue
        status = _PASSES[value <= most + _ROUNDING_US]
        checks.append(GateCheck("limit", limit.measure, status, value, most, share, limit.share))
    return checks


_ROUNDING_US = 0.0005  # half of the last decimal of a report


def measure_checks(
    profile: Profile, subject: Subject, limits: Iterable[Limit], lost: Message | None
) -> tuple[list[GateCheck], list[str]]:
    """One check for each of ``limits`` on a measure of ``subject``, and what to know about the answers.

    Where too much is ``lost`` nothing is measured.
    """
    checks, notes = [], []
    for limit in limits:
        name, measured = limit.measure, subject.measures[limit.measure](profile)
        value, whole = measured.value, measured.whole
        share = None if whole is None else value / whole
        most = limit.size if limit.share is None or whole is None else int(limit.share * whole)
        kept = value <= (most or 0) if share is None else share <= (limit.share or 0.0) + _ROUNDING_SHARE
        unknown = lost or measured.unknown or (measured.may_be_more if kept else "")
        notes += [words(measured.note)] if measured.note else []
        if unknown:
            checks.append(GateCheck("limit", name, "not_measured", text=words(unknown)))
            continue
        checks.append(
            GateCheck(
                "limit", name, _PASSES[kept], share=share, allowed_share=limit.share, text=words(measured.where),
                value_bytes=value, allowed_bytes=most,
            )
        )  # fmt: skip
    return checks, notes


_ROUNDING_SHARE = 1e-9  # shares are quotients of whole numbers: this much is rounding


def foreign_checks(limits: Collection[Limit], subject: Subject) -> list[GateCheck]:
    """A check for each of ``limits`` that is on a measure of another subject than ``subject``."""
    return [
        GateCheck("limit", limit.measure, "not_measured", text=say(other.of_others))
        for limit in limits
        for other in subjects()
        if other is not subject and limit.measure in other.measures
    ]


def baseline_checks(measured: Measures, base: dict[str, Any], tolerances: dict[str, float]) -> list[GateCheck]:
    """One check for each measure the baseline knows; ``tolerances`` go before those of its file."""
    checks = []
    noise = NOISE * (base["measures_us"]["device"] or 0.0)
    for name in BASELINE_MEASURES:
        before, now = base["measures_us"][name], measured.per_step(name)
        if before is None:
            continue
        tolerance = tolerances.get(name, base["tolerances"].get(name, TOLERANCE))
        if now is None:
            why = measured.reasons.get(name, "")
            checks.append(
                GateCheck("baseline", name, "not_measured", None, base_us=before, tolerance=tolerance, text=why)
            )
            continue
        most = before + max(before * tolerance, noise)
        status = _PASSES[now <= most + _ROUNDING_US]
        most = round(most, 3)
        checks.append(GateCheck("baseline", name, status, now, most, base_us=before, tolerance=tolerance))
    return checks


def finding_checks(
    report: Any,
    subject: Subject,
    fail_on: str | None,
    only: Collection[str],
    ignore: Collection[str],
    incomplete: Mapping[Evidence, Message] = NOTHING_LOST,
) -> list[GateCheck]:
    """One check for each finding of ``report`` that counts: those at ``fail_on`` or graver fail, without it none does.

    A finding of ``only`` that could not be looked for counts as not measured, and so do all of a ``subject`` that was
    not read in full; for a profile also those without a device, without time of one, or with ``incomplete`` evidence.
    """
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on else ()
    checks = []
    for finding in report.findings:
        if finding.id not in ignore and (not only or finding.id in only):
            severity, status = finding.severity, _PASSES[finding.severity not in failing]
            checks.append(
                GateCheck("finding", finding.id, status, finding.gain_us, severity=severity, text=finding.title)
            )
    unknown = {row.id: row.reason for row in report.not_checked}
    why = None
    if subject.no_times:
        why = unknown.get("requests") or (words(incomplete["slices"]) if "slices" in incomplete else None)
    elif report.overlap.total_us is None:
        why = next((reason for name, reason in unknown.items() if name in ("device", "overlap")), "")
    elif not report.overlap.total_us:
        why = say("gate.no_time")
    elif incomplete:
        why = words(next(incomplete[kind] for kind in ("slices", "links", "files") if kind in incomplete))
    if why is not None:
        checks.append(GateCheck("finding", _ALL, "not_measured", text=why))
    for wanted in sorted(set(only) - set(ignore) - {check.id for check in checks}):
        owner = next((other for other in subjects() if any(kind.id == wanted for kind in other.findings())), subject)
        if owner is not subject and (foreign := owner.of_others or subject.not_here):
            unknown[wanted] = say(foreign)
        status = "not_measured" if wanted in unknown else "pass"
        checks.append(GateCheck("finding", wanted, status, text=unknown.get(wanted, say("gate.finding.absent"))))
    return checks if fail_on else []


_ALL = "findings"  # the id of the check that the rules could look at a device at all


def differences(report: Report, base: dict[str, Any]) -> list[str]:
    """What else differs between the profile and that of the baseline, so that the figures may not compare."""
    source, other = report.source, base["source"]
    unknown = say("report.unknown")
    unmeasured = [name for name in BASELINE_MEASURES if base["measures_us"][name] is None]
    notes = [say("gate.base_unknown", name=say(f"gate.measure.{name}")) for name in unmeasured]
    for name in PLACES:
        now, before = getattr(source, name), other.get(name)
        if now != before:
            values = [unknown if value is None else value for value in (now, before)]
            notes.append(say(f"gate.differs.{name}", now=values[0], base=values[1]))
    if to_builtins(report.selection) != base.get("selection"):
        notes.append(say("gate.differs.selection"))
    return notes


def job_notes(job: Job) -> list[str]:
    """Ranks that were not recorded: a limit on the others can be measured, one on them cannot."""
    if not job.missing:
        return []
    return [words(message("evidence.no_ranks", count=len(job.missing), ranks=[str(r) for r in job.missing[:_NAMED]]))]


_NAMED = 8  # ranks that a line names


def job_checks(job: Job, limits: Collection[Limit], allowed_loss: float = 0.0) -> list[GateCheck]:
    """A check for each of ``limits``; one that nothing was measured for does not pass.

    They are on what the job waits for one rank, and on what one works longer than its peers.

    Nor do any where a rank is not there in full: without it the rank that the others wait for is unknown.
    """
    lost = [loss for loss in job_losses(job) if loss.share > allowed_loss]
    checks = [_worst_role(job, limit) for limit in limits]
    if lost:
        why = words(max(lost, key=lambda loss: loss.share).why)
        checks = [GateCheck("limit", limit.measure, "not_measured", text=why) for limit in limits]
    return checks


def _worst_role(job: Job, limit: Limit) -> GateCheck:
    """The check of the role that fails it the most; that of the job where it has no several."""
    checks = [_checked(part, limit) for part in job.parts]
    measured = [check for check in checks if check.status != "not_measured"]
    return (
        max(measured, key=lambda check: (check.value_us or 0.0) / (check.allowed_us or 1.0)) if measured else checks[0]
    )


def _checked(job: Job, limit: Limit) -> GateCheck:
    measure, length = limit.measure, job.length / 1e3
    if not job.blamed or not length:
        return GateCheck("limit", measure, "not_measured", text=say("gate.job.nothing"))
    if measure == "own_excess" and all(
        arrival.own is None for collective in job.blamed for arrival in collective.arrivals
    ):
        return GateCheck("limit", measure, "not_measured", text=say("gate.job.no_peers"))
    value, rank = max(((sums.cost if measure == "rank_wait" else sums.own) / 1e3, sums.rank) for sums in job.sums)
    most = limit.time if limit.share is None else limit.share * length
    status = _PASSES[most is not None and value <= most]
    text = say("gate.job.rank", rank=rank)
    text = text if job.role is None else say("job.of_role", role=job.role, what=text)
    return GateCheck("limit", measure, status, round(value, 3), most, value / length, limit.share, text=text)


AGAINST_MEASURES = ("step", "computing", *(part for part in PARTS if part != "computing"))
"""What a tolerance may be given for; parts of the step are checked only then, as single samples of them are noisy."""
JUDGED = ("step", "computing")
VERDICTS = ("slower", "unsure")
"""What may fail."""

_ROUNDING = 0.5  # ns: a limit in whole ns may be off by half of one


def against_checks(
    comparison: ProfileComparison,
    tolerances: Mapping[str, float],
    fail_on: Collection[str] = VERDICTS,
    incomplete: Iterable[Mapping[Evidence, Message]] = (),
) -> list[GateCheck]:
    """One check for the step and its computing time, and one for each part of it that ``tolerances`` name.

    What is unsure has not been measured; with ``fail_on`` without it, it passes. ``incomplete`` is what either side has
    lost: without slices nothing is measured, without links no part of the step.
    """
    checks = _step_checks(comparison, "unsure" not in fail_on)
    parts = {row.part: row for row in comparison.parts}
    for name, tolerance in tolerances.items():
        if name in AGAINST_MEASURES and name not in JUDGED:
            checks.append(_part_check(name, parts.get(name), tolerance))  # type: ignore[call-overload]
    for lost in incomplete:
        for kind, why in lost.items():
            if kind != "files":
                checks = [check if kind == "links" and check.id in JUDGED else _unseen(check, why) for check in checks]
    return checks


def against_job_checks(compared: JobComparison, fail_on: Collection[str] = VERDICTS) -> list[GateCheck]:
    """One check each for the step of a job, its computing time, and the work of the rank that became slowest.

    Where ranks or steps are not there on one side, what does not fail has not been measured.
    """
    lenient, tolerance = "unsure" not in fail_on, compared.tolerance.computing
    if not compared.is_comparable:
        return [
            GateCheck("compared", name, "not_measured", text=say("gate.against.unknown")) for name in (*JUDGED, "work")
        ]
    checks = _step_checks(compared, lenient)
    order = ("same", "faster", "unsure", "slower")
    work = max(compared.ranks, key=lambda row: (order.index(row.verdict), row.delta("work")), default=None)
    if work is not None:
        known: dict[str, Status] = {"slower": "fail", "unsure": "pass" if lenient else "not_measured"}
        told = say("gate.against.of_rank", rank=work.rank, verdict=say(f"gate.against.work.{work.verdict}"))
        base, new = _us(work.base["work"]), _us(work.new["work"])
        status, most = known.get(work.verdict, "pass"), _us(work.base["work"] * (1 + tolerance))
        checks.append(GateCheck("compared", "work", status, new, most, base_us=base, tolerance=tolerance, text=told))
    for why in compared.losses[:1]:
        checks = [check if check.status == "fail" else _unseen(check, why) for check in checks]
    return checks


def _unseen(check: GateCheck, why: Message) -> GateCheck:
    return GateCheck(check.kind, check.id, "not_measured", tolerance=check.tolerance, text=words(why))


def _step_checks(compared: ProfileComparison | JobComparison, lenient: bool) -> list[GateCheck]:
    """The checks of the step and of its computing time."""
    checks = []
    for name in JUDGED:
        judgement: Judgement | None = getattr(compared, name)
        if judgement is None:
            continue
        known: dict[str, Status] = {
            "slower": "fail", "faster": "pass", "same": "pass", "incomparable": "not_measured",
        }  # fmt: skip
        status = known.get(judgement.verdict, "pass" if lenient else "not_measured")
        base, tolerance = judgement.before, getattr(compared.tolerance, name)
        new, most, text = _us(judgement.after), _us(base * (1 + tolerance)), say(f"gate.against.{judgement.verdict}")
        checks.append(GateCheck("compared", name, status, new, most, base_us=_us(base), tolerance=tolerance, text=text))
    return checks


def _part_check(name: str, row: PartChange | None, tolerance: float) -> GateCheck:
    if row is None:
        return GateCheck("compared", name, "not_measured", tolerance=tolerance, text=say("gate.against.unknown"))
    most = row.base * (1 + tolerance)
    status = _PASSES[row.new <= most + _ROUNDING]
    verdict = "slower" if status == "fail" else "faster" if row.new < row.base * (1 - tolerance) else "same"
    base, text = _us(row.base), say(f"gate.against.{verdict}")
    return GateCheck("compared", name, status, _us(row.new), _us(most), base_us=base, tolerance=tolerance, text=text)


def _us(ns: float) -> float:
    return round(ns / 1000, 3)


_FIELDS = {
    "step": "step_us", "computing": "computing_us", "exposed_communication": "exposed_us", "free": "free_us",
    "lost": "lost_us",
}  # fmt: skip


def log_checks(
    log: Log,
    run: LoggedRun,
    last: int,
    tolerances: Mapping[str, float],
    lost: Message | None,
    allowed_loss: float = 0.0,
) -> tuple[list[GateCheck], list[str]]:
    """The checks of ``run`` against the ``last`` runs of ``log`` that were recorded like it, and what to say of them.

    The runs before a change of the level do not count, nor do the last ones where they are off it, too few to judge: a
    regression that was logged does not hide itself. The step and its computing time are checked, and the parts that
    ``tolerances`` name; for an engine the step of each kind. A run may be longer than their mean by its tolerance, or
    by what one more run of the level would be (95 %). Nothing is measured with ``lost`` evidence, or where more than
    ``allowed_loss`` of the files of the log cannot be read.
    """
    others = [other for other in log.runs if other.series == run.series]
    if others and others[-1].id == run.id:  # it was added already
        others.pop()
    if lost is None and log.damaged > allowed_loss * (log.damaged + len(log.runs)):
        lost = next(problem for problem in log.problems if problem.code == "log.damaged")
    limits = {"step": Tolerance().step, "computing": Tolerance().computing} | {
        name: tolerance for name, tolerance in tolerances.items() if name in _FIELDS
    }
    checks: list[GateCheck] = []
    notes: list[str] = []
    for kind in run.steps_of or [None]:  # a run without a step is not measured
        known = [other for other in others if other.time(kind)][-MOST:]
        told = course(np.array([other.time(kind) for other in known], np.float64))
        level = known[told.begin : len(known) - told.ahead][-last:]
        for name, tolerance in limits.items():
            if kind is not None and name != "step":
                continue
            id_ = name if kind is None else f"{kind}:p50"
            value = run.time(kind, _FIELDS[name])
            parts = [other.time(kind, _FIELDS[name]) for other in level]
            usual = expected(np.array([part for part in parts if part is not None], np.float64))
            if value is None and usual is None and name != "step" and name not in tolerances:
                continue
            why = words(lost) if lost is not None else None
            if why is None and value is None:
                why = say("report.unknown")
            if why is None and usual is None:
                why = say("gate.log.few", count=len(level), fewest=FEWEST)
            if why is not None or usual is None or value is None:
                checks.append(GateCheck("log", id_, "not_measured", value, tolerance=tolerance, text=why or ""))
                continue
            most = usual.centre + max(tolerance * usual.centre, usual.reach)
            share = most / usual.centre - 1 if usual.centre else tolerance
            status: Status = "pass" if value <= most else "fail"
            base = round(usual.centre, 3)
            checks.append(GateCheck("log", id_, status, value, round(most, 3), base_us=base, tolerance=share))
            if name == "step":
                reach = usual.reach / usual.centre
                notes.append(say("gate.log.level", count=len(usual.runs), first=level[0].label, reach=reach))
    return checks, notes
