"""A run held against the last ones of a log, with the noise between them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npu_tui.analysis.changes import MOST, course, expected
from npu_tui.analysis.statistics import FEWEST, Tolerance
from npu_tui.gate.checks import GateCheck, Status
from npu_tui.jobs.history import Log, LoggedRun
from npu_tui.strings import say, words
from npu_tui.trace.message import Message

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

    The runs before a change of the level do not count, nor do the last ones where they are off it, too few to tell: a
    regression that was logged does not hide itself. The step and its computing time are checked, and the parts that
    ``tolerances`` name; of an engine the step of each kind. A run may be longer than their mean by its tolerance, or by
    what one more run of the level would be (95 %). Nothing is measured with ``lost`` evidence, or where more than
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
