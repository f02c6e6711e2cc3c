"""The comparison of two inference services: its JSON document, kind ``compare_service``, and the one for readers."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from npu_tui import __version__
from npu_tui.compare.services import FigureChange, Load, ServiceComparison, compare_services
from npu_tui.output.document import Block, Cell, Document, Items, Paragraph, Table
from npu_tui.profile.profile import Profile
from npu_tui.rules.service_verdict import Judged
from npu_tui.strings import say, words
from npu_tui.trace.text import count_text, duration_text, mean_count_text, printable


class LoadRow(Struct, frozen=True, kw_only=True):
    """What one service was asked for; means of tokens are of computed prompts and of answers, null is unknown."""

    path: str
    requests: int
    requests_per_s: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    tokens_per_s: float | None


class FigureRow(Struct, frozen=True, kw_only=True):
    """A percentile of TTFT or TPOT on both sides; ``low_us`` and ``high_us`` hold its difference with 95%."""

    figure: str
    base_us: float
    new_us: float
    delta_us: float
    low_us: float
    high_us: float
    verdict: str


class PartRow(Struct, frozen=True, kw_only=True):
    """The mean of a part of TTFT (a request) or TPOT (a token); those of a metric add up to its mean."""

    metric: str
    part: str
    base_us: float
    new_us: float
    delta_us: float


class CauseRow(Struct, frozen=True, kw_only=True):
    """A finding above info of one side or of both."""

    id: str
    base: str | None
    new: str | None


class ComparedServices(Struct, frozen=True, kw_only=True):
    """What two services do differently, schema 1; ``unlike`` names what of their load differs by more than 10%."""

    schema_version: Literal[1] = 1
    kind: Literal["compare_service"] = "compare_service"
    tool_version: str = __version__
    verdict: list[str]
    base: LoadRow
    new: LoadRow
    unlike: list[str]
    forward_change: float | None
    figures: list[FigureRow]
    parts: list[PartRow]
    findings: list[CauseRow]


def compared_services(base: Profile, new: Profile) -> ComparedServices:
    """``new`` against ``base``, both inference services."""
    sides = base.judged, new.judged
    assert sides[0] is not None
    assert sides[1] is not None
    found = compare_services(sides[0], sides[1])
    titles = [{one.id: words(one.title) for one in side.findings if one.severity != "info"} for side in sides if side]
    return ComparedServices(
        verdict=_verdict(found),
        base=_load(base, sides[0], found.base),
        new=_load(new, sides[1], found.new),
        unlike=found.unlike,
        forward_change=None if found.forward is None else round(found.forward, 6),
        figures=[
            FigureRow(
                figure=one.figure, base_us=_us(one.base), new_us=_us(one.new), delta_us=_us(one.new - one.base),
                low_us=_us(one.low), high_us=_us(one.high), verdict=one.change,
            )
            for one in found.figures
        ],
        parts=[
            PartRow(
                metric=one.metric, part=one.part, base_us=_us(one.base), new_us=_us(one.new),
                delta_us=_us(one.new - one.base),
            )
            for one in found.parts
        ],
        findings=[
            CauseRow(id=id_, base=titles[0].get(id_), new=titles[1].get(id_))
            for id_ in dict.fromkeys([*titles[1], *titles[0]])
        ],
    )  # fmt: skip


def _us(time: float) -> float:
    return round(time / 1000, 3)


def _known(value: float) -> float | None:
    return None if value != value else round(value, 3)


def _load(profile: Profile, side: Judged, load: Load) -> LoadRow:
    return LoadRow(
        path=printable(profile.path), requests=load.requests, requests_per_s=_known(load.rate),
        prompt_tokens=_known(load.prompt), output_tokens=_known(load.answer),
        tokens_per_s=_known(side.figures["tokens_per_s"]),
    )  # fmt: skip


def _verdict(found: ServiceComparison) -> list[str]:
    """What became slower most, else that nothing did; first of all whether the two can be compared."""
    told = []
    if found.unlike:
        parts = [say(f"compare.service.unlike.{name}") for name in found.unlike]
        told.append(say("compare.service.unlike", parts=parts))
    if not found.figures:
        return [*told, say("compare.service.nothing")]
    moved = [one for one in found.figures if one.change in ("slower", "faster")]
    worst = max(moved or found.figures, key=lambda one: abs(one.new / max(one.base, 1) - 1))
    told.append(say(f"compare.service.{worst.change}", **_words(worst)))
    if moved:
        rows = [one for one in found.parts if worst.figure.startswith(one.metric)]
        lead = max(rows, key=lambda one: (one.new - one.base) * (1 if worst.change == "slower" else -1))
        told.append(
            say(
                "compare.service.lead",
                part=say(f"latency.part.{lead.part}"),
                base=lead.base,
                new=lead.new,
            )
        )
    if found.forward is not None and abs(found.forward) >= _WORTH:
        key = "compare.service.forward_longer" if found.forward > 0 else "compare.service.forward_shorter"
        told.append(say(key, share=abs(found.forward)))
    return told


_WORTH = 0.03


def _words(one: FigureChange) -> dict[str, object]:
    share = one.new / max(one.base, 1) - 1
    return {"figure": say(f"service.figure.{one.figure}"), "base": one.base, "new": one.new, "share": abs(share)}


def compared_services_document(found: ComparedServices) -> Document:
    """What ``found`` says."""
    about = say("compare.service.about", base=found.base.path, new=found.new.path)
    blocks: list[Block] = [Paragraph((about,), "faint"), Paragraph(tuple(found.verdict), "verdict"), _loads(found)]
    heads = [say(f"compare.service.{head}") for head in ("base", "new", "delta")]
    figures = [
        [Cell(say(f"service.figure.{row.figure}")), *map(_time, (row.base_us, row.new_us)), _delta(row.delta_us),
         Cell(say(f"compare.service.word.{row.verdict}"))]
        for row in found.figures
    ]  # fmt: skip
    parts = [
        [Cell(say(f"latency.metric.{row.metric}")), Cell(say(f"latency.part.{row.part}")),
         *map(_time, (row.base_us, row.new_us)), _delta(row.delta_us)]
        for row in found.parts if abs(row.delta_us) >= _SHOWN_US
    ]  # fmt: skip
    title = say("table.latency")
    columns = (say("column.metric"), *heads, say("compare.service.verdict"))
    blocks.append(Table("latency", title, columns, (False, True, True, True, False), figures, sortable=False))
    columns = (say("column.metric"), say("column.part"), *heads)
    blocks.append(Table("parts", say("table.latency_parts"), columns, (False, False, True, True, True), parts))
    causes = [
        say(f"compare.service.cause_{'both' if row.base and row.new else 'new' if row.new else 'base'}",
            id=row.id, title=row.new or row.base) for row in found.findings
    ]  # fmt: skip
    if causes:
        blocks.append(Items(tuple(causes)))
    return Document(f"npu-tui: {found.base.path}, {found.new.path}", [block for block in blocks if block])


_SHOWN_US = 1.0


def _time(us: float) -> Cell:
    return Cell(duration_text(us * 1000) if us else "0", us)


def _delta(us: float) -> Cell:
    return Cell(("+" if us > 0 else "−" if us < 0 else "") + (duration_text(abs(us) * 1000) if us else "0"), us)


def _loads(found: ComparedServices) -> Table:
    rows = []
    for name in ("requests", "requests_per_s", "prompt_tokens", "output_tokens", "tokens_per_s"):
        values = [getattr(side, name) for side in (found.base, found.new)]
        cells = [Cell(_number(value), value) for value in values]
        rows.append([Cell(say(f"compare.service.load.{name}")), *cells])
    heads = ("", say("compare.service.base"), say("compare.service.new"))
    return Table("load", say("compare.service.load"), heads, (False, True, True), rows, sortable=False)


def _number(value: float | None) -> str:
    if value is None:
        return say("report.unknown")
    return count_text(value) if isinstance(value, int) else mean_count_text(value)
