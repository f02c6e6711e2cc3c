"""A profile held against another one: the verdicts of a comparison as checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from npu_tui.compare.comparison import Comparison, PartChange
from npu_tui.compare.statistics import Judgement
from npu_tui.compare.steps import PARTS
from npu_tui.gate.checks import Check, Status
from npu_tui.strings import say

AGAINST_MEASURES = ("step", "computing", *(part for part in PARTS if part != "computing"))
"""What a tolerance may be given for; parts of the step are checked only then, as single samples of them are noisy."""
JUDGED = ("step", "computing")
VERDICTS = ("slower", "unsure")
"""What may fail."""

_ROUNDING = 0.5


def against_checks(
    comparison: Comparison, tolerances: Mapping[str, float], fail_on: Collection[str] = VERDICTS
) -> list[Check]:
    """One check for the step and its computing time, and one for each part of it that ``tolerances`` name.

    What is unsure has not been measured; with ``fail_on`` without it, it passes.
    """
    lenient = "unsure" not in fail_on
    checks = [_judged("step", comparison.step, comparison.tolerance.step, lenient)]
    if comparison.computing is not None:
        checks.append(_judged("computing", comparison.computing, comparison.tolerance.computing, lenient))
    parts = {row.part: row for row in comparison.parts}
    for name, tolerance in tolerances.items():
        if name not in JUDGED:
            checks.append(_part(name, parts.get(name), tolerance))  # type: ignore[call-overload]
    return checks


def _judged(name: str, found: Judgement, tolerance: float, lenient: bool) -> Check:
    base, new = float(found.base.mean()), float(found.new.mean())
    known: dict[str, Status] = {"slower": "fail", "faster": "pass", "same": "pass"}
    status = known.get(found.verdict, "pass" if lenient else "not_measured")
    if found.verdict == "incomparable":
        status = "not_measured"
    words = say(f"gate.against.{found.verdict}")
    most = base * (1 + tolerance)
    return Check("compared", name, status, _us(new), _us(most), base_us=_us(base), tolerance=tolerance, text=words)


def _part(name: str, row: PartChange | None, tolerance: float) -> Check:
    if row is None:
        return Check("compared", name, "not_measured", tolerance=tolerance, text=say("gate.against.unknown"))
    most = row.base * (1 + tolerance)
    status: Status = "pass" if row.new <= most + _ROUNDING else "fail"
    verdict = "slower" if status == "fail" else "faster" if row.new < row.base * (1 - tolerance) else "same"
    words = say(f"gate.against.{verdict}")
    return Check(
        "compared", name, status, _us(row.new), _us(most), base_us=_us(row.base), tolerance=tolerance, text=words
    )


def _us(ns: float) -> float:
    return round(ns / 1000, 3)
