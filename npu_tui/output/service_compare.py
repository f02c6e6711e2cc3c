"""The comparison of two inference services: its JSON document, kind ``compare_service``, and the one for readers."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from npu_tui import __version__
from npu_tui.compare.services import LATENCIES, LATENCY_PARTS, LOAD, LoadRow, forward_change, load_of, unlike_in
from npu_tui.output.document import Block, Cell, Document, Items, Paragraph, Table, comparison_document, rendered
from npu_tui.output.envelope import ComparedSides, PathSource, Root
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import Record, rows_of
from npu_tui.rules.service_verdict import JudgedService
from npu_tui.strings import say, words
from npu_tui.trace.text import count_text, mean_count_text, printable


class CauseRow(Struct, frozen=True, kw_only=True):
    """A finding above info of one side or of both."""

    id: str
    base: str | None
    new: str | None

    @property
    def title(self) -> str:
        """What it is called now, else what it was."""
        return self.new or self.base or ""


@rows_of(figures=LATENCIES, parts=LATENCY_PARTS)
class ComparedServices(Root, frozen=True, kw_only=True):
    """What two services do differently; ``unlike`` names what of their load differs by more than 10%."""

    FIRST: ClassVar = ("parts",)

    schema_version: Literal[2] = 2
    kind: Literal["compare_service"] = "compare_service"
    tool_version: str = __version__
    verdict: list[str]
    base: LoadRow
    new: LoadRow
    unlike: list[str]
    forward_change: float | None
    figures: list[Record]
    parts: list[Record]
    findings: list[CauseRow]

    @property
    def source(self) -> ComparedSides[PathSource]:
        """What was compared."""
        return ComparedSides(PathSource(self.base.path), PathSource(self.new.path))


def compared_services(base: Profile, new: Profile) -> ComparedServices:
    """``new`` against ``base``, both inference services."""
    one, other = base.judged, new.judged
    assert isinstance(one, JudgedService)
    assert isinstance(other, JudgedService)
    old, now = ({cause.id: words(cause.title) for cause in side.findings.findings if cause.severity != "info"}
                for side in (one, other))  # fmt: skip
    loads = load_of(one, printable(base.path)), load_of(other, printable(new.path))
    unlike, forward = unlike_in(*loads), forward_change(one, other)
    figures, parts = LATENCIES.records((one, other)), LATENCY_PARTS.records((one, other))
    return ComparedServices(
        verdict=_service_verdict(unlike, figures, parts, forward), base=loads[0], new=loads[1], unlike=unlike,
        forward_change=forward, figures=figures, parts=parts,
        findings=[CauseRow(id=id_, base=old.get(id_), new=now.get(id_)) for id_ in {**now, **old}],
    )  # fmt: skip


def _service_verdict(unlike: list[str], figures: list[Record], parts: list[Record], forward: float | None) -> list[str]:
    """What became slower most, else that nothing did; first of all whether the two can be compared."""
    told = []
    if unlike:
        told.append(say("compare.service.unlike", parts=[say(f"compare.service.unlike.{name}") for name in unlike]))
    if not figures:
        return [*told, say("compare.service.nothing")]
    own = [one for one in figures if not one.figure.startswith("e2e")]  # the end of an answer is made of both
    moved = [one for one in own if one.verdict in ("slower", "faster")]
    share, worst = max(((one.new_us / max(one.base_us, 1e-3) - 1, one) for one in moved or own),
                       key=lambda pair: abs(pair[0]))  # fmt: skip
    figure = say(f"service.figure.{worst.figure}")
    sides = {"base": worst.base_us * 1000, "new": worst.new_us * 1000}
    told.append(say(f"compare.service.{worst.verdict}", figure=figure, share=abs(share), **sides))
    if moved:
        rows = [one for one in parts if worst.figure.startswith(one.metric)]
        lead = max(rows, key=lambda one: one.delta_us * (1 if worst.verdict == "slower" else -1))
        part = say(f"latency.part.{lead.part}")
        told.append(say("compare.service.lead", part=part, base=lead.base_us * 1000, new=lead.new_us * 1000))
    if forward is not None and abs(forward) >= _WORTH:
        key = "compare.service.forward_longer" if forward > 0 else "compare.service.forward_shorter"
        told.append(say(key, share=abs(forward)))
    return told


_WORTH = 0.03


def compared_services_document(found: ComparedServices) -> Document:
    """What ``found`` says."""
    about = say("compare.service.about", base=found.base.path, new=found.new.path)
    parts = [row for row in found.parts if abs(row.delta_us) >= _SHOWN_US]
    blocks: list[Block] = [
        Paragraph(tuple(found.verdict), "verdict"),
        _load_table(found),
        replace(rendered(LATENCIES, found.figures), sortable=False),
        rendered(LATENCY_PARTS, parts),
    ]
    causes = [
        say(f"compare.service.cause_{'both' if row.base and row.new else 'new' if row.new else 'base'}",
            id=row.id, title=row.new or row.base) for row in found.findings
    ]  # fmt: skip
    if causes:
        blocks.append(Items(tuple(causes)))
    return comparison_document(f"npu-tui: {found.base.path}, {found.new.path}", (about,), blocks)


_SHOWN_US = 1.0


def _load_table(found: ComparedServices) -> Table:
    rows = []
    for name in ("requests", *LOAD.values(), "tokens_per_s"):
        values = [getattr(side, name) for side in (found.base, found.new)]
        cells = [Cell(_number_text(value), value) for value in values]
        rows.append([Cell(say(f"compare.service.load.{name}")), *cells])
    heads = ("", say("column.base"), say("column.new"))
    return Table("load", say("compare.service.load"), heads, (False, True, True), rows, sortable=False)


def _number_text(value: float | None) -> str:
    if value is None:
        return say("report.unknown")
    return count_text(value) if isinstance(value, int) else mean_count_text(value)
