"""The answer of a gate as a document and as JSON."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import Struct

from npu_tui.gate.checks import GateCheck, Kind, Status
from npu_tui.gate.measures import METRICS
from npu_tui.output.document import Block, Cell, Document, Paragraph, Table, report_share, report_time
from npu_tui.output.envelope import PATH, NotChecked, PathSource, Root
from npu_tui.output.statement import Statement
from npu_tui.output.text import ALL
from npu_tui.strings import say
from npu_tui.trace.text import memory_text, printable


class GateAnswer(Struct, frozen=True):
    """All checks of one profile. ``lenient``: what could not be measured does not fail."""

    path: str
    checks: list[GateCheck]
    notes: list[str]
    lenient: bool = False

    def fails(self, check: GateCheck) -> bool:
        """Whether ``check`` makes the gate fail."""
        return check.status == "fail" or (check.status == "not_measured" and not self.lenient)

    @property
    def passed(self) -> bool:
        """Whether nothing fails."""
        return not any(map(self.fails, self.checks))


class CheckRow(Struct, frozen=True, kw_only=True):
    """A check: times in µs, memory in bytes, shares 0..1. What does not apply or is not known is null."""

    kind: Kind
    id: str
    status: Status
    fails: bool
    value_us: float | None
    allowed_us: float | None
    over_us: float | None
    ratio: float | None
    allowed_ratio: float | None
    base_us: float | None
    change_ratio: float | None
    tolerance: float | None
    severity: str | None
    text: str
    value_bytes: int | None
    allowed_bytes: int | None


class Checked(Root, frozen=True, kw_only=True):
    """All checks, and what else is to be known; ``not_checked`` are those that could not be measured."""

    OLD: ClassVar = {"kind": None, "source": PATH, "not_checked": None}

    schema_version: Literal[2] = 2
    kind: Literal["check"] = "check"
    source: PathSource
    passed: bool
    checks: list[CheckRow]
    notes: list[str]
    not_checked: list[NotChecked]


def checked(answer: GateAnswer) -> Checked:
    """``answer`` for JSON."""
    return Checked(
        source=PathSource(printable(answer.path)),
        passed=answer.passed,
        checks=[_check_row(answer, check) for check in answer.checks],
        notes=[printable(note) for note in answer.notes],
        not_checked=[
            NotChecked(id=printable(check.id), reason=printable(check.text) or say("report.unknown"))
            for check in answer.checks
            if check.status == "not_measured"
        ],
    )


def _check_row(answer: GateAnswer, check: GateCheck) -> CheckRow:
    told: dict[str, Any] = {name: getattr(check, name, None) for name in CheckRow.__struct_fields__}
    told |= {
        "id": printable(check.id), "text": printable(check.text), "fails": answer.fails(check),
        "allowed_us": None if check.allowed_us is None else round(check.allowed_us, 3),
        "ratio": None if check.share is None else round(check.share, 6), "allowed_ratio": check.allowed_share,
        "change_ratio": check.change,
    }  # fmt: skip
    return CheckRow(**told)


def answer_statement(answer: GateAnswer) -> Statement:
    """What is said of ``answer``."""
    told = answer_document(answer)
    return Statement(checked(answer), [printable(told.title)], lambda form: told, ALL)


def answer_document(answer: GateAnswer) -> Document:
    """The verdict, then what failed, what was not measured, and what passed."""
    failed = sum(map(answer.fails, answer.checks))
    key = "gate.failed" if not answer.passed else "gate.passed" if answer.checks else "gate.unchecked"
    unmeasured = sum(check.status == "not_measured" for check in answer.checks)
    counts = {"failed": failed, "count": len(answer.checks), "unmeasured": unmeasured}
    counts["measured"] = len(answer.checks) - unmeasured
    verdict = say(f"{key}.unmeasured" if unmeasured else key, path=answer.path, **counts)
    order = sorted(answer.checks, key=lambda check: _ORDER.index(check.status))
    rows = [[Cell(say(f"gate.status.{check.status}")), Cell(_check_line(check))] for check in order]
    blocks: list[Block] = [Table("checks", "", ("", ""), (False, False), rows)] if rows else []
    if answer.notes:
        blocks.append(Paragraph(tuple(say("gate.note", note=note) for note in answer.notes)))
    return Document(verdict, blocks)


def _compared_text(check: GateCheck) -> str:
    name = say("gate.against.step") if check.id == "step" else say(f"compare.part.{check.id}")
    if check.value_us is None or check.base_us is None:
        return say("gate.finding.without", id=name, why=check.text)
    change = say("gate.new") if check.change is None else f"{check.change:+.1%}"
    return say(
        "gate.against.line", name=name, base=report_time(check.base_us), value=report_time(check.value_us),
        change=change, tolerance=report_share(check.tolerance or 0.0), verdict=check.text,
    )  # fmt: skip


_ORDER = ("fail", "not_measured", "pass")


def _measure_name(measure: str) -> str:
    kind, colon, percentile = measure.partition(":")
    if kind in METRICS:
        return say(f"service.figure.{kind}_{percentile}")
    return say(f"gate.of_kind.{percentile}", kind=kind) if colon else say(f"gate.measure.{measure}")


def _check_line(check: GateCheck) -> str:
    if check.kind in ("finding", "trace"):
        if check.severity is None:
            return say("gate.finding.without", id=check.id, why=check.text)
        gain = "" if not check.value_us else say("gate.finding.gain", gain=report_time(check.value_us))
        return say("gate.finding", id=check.id, severity=say(f"severity.{check.severity}"), title=check.text, gain=gain)
    if check.kind == "compared":
        return _compared_text(check)
    name = _measure_name(check.id)
    if check.status == "not_measured":
        why = check.text or say("report.unknown")
        keys = {"baseline": "gate.unknown.baseline", "log": "gate.unknown.log"}
        return say(keys.get(check.kind, "gate.unknown"), name=name, why=why)
    if check.value_bytes is not None and check.allowed_bytes is not None:
        return _memory_line(check, name, check.value_bytes, check.allowed_bytes)
    value, most, over = check.value_us, check.allowed_us, check.over_us
    assert value is not None
    assert most is not None
    assert over is not None
    distance = say("gate.above" if over > 0 else "gate.below", over=report_time(abs(over)))
    if check.kind in ("baseline", "log"):
        assert check.base_us is not None
        assert check.tolerance is not None
        change = say("gate.new") if check.change is None else f"{check.change:+.1%}"
        return say(
            f"gate.{check.kind}", name=name, value=report_time(value), base=report_time(check.base_us), change=change,
            tolerance=report_share(check.tolerance), most=report_time(most), distance=distance,
        )  # fmt: skip
    if check.allowed_share is None:
        return say("gate.limit", name=name, value=report_time(value), most=report_time(most), distance=distance)
    return say(
        "gate.limit.share",
        name=name,
        share=report_share(check.share or 0.0),
        value=report_time(value),
        limit=report_share(check.allowed_share),
        most=report_time(most),
        distance=distance,
    )


def _memory_line(check: GateCheck, name: str, value: int, most: int) -> str:
    over = value - most
    distance = say("gate.memory.above" if over > 0 else "gate.below", over=memory_text(abs(over)))
    key, shares = "gate.memory", {}
    if check.share is not None:
        key = "gate.memory.share"
        shares = {"share": report_share(check.share), "limit": report_share(check.allowed_share or 0.0)}
    return say(
        key, name=name, where=check.text, value=memory_text(value), most=memory_text(most), distance=distance, **shares
    )
