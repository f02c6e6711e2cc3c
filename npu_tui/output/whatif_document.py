"""The answer of ``npu-tui whatif`` as a document: the step, the changes, and each stream as recorded and predicted."""

from __future__ import annotations

from collections.abc import Sequence

from npu_tui.output.document import Block, Cell, Document, Paragraph, Table
from npu_tui.report.whatif import Ghost, Row, WhatIf
from npu_tui.strings import say
from npu_tui.trace.text import brief, duration_text

_LEVELS = " ▁▂▃▄▅▆▇█"
_LONGEST = 60
"""Characters of a change as the user wrote it."""


def whatif_document(answer: WhatIf) -> Document:
    """What ``answer`` says."""
    replayed = say(
        "whatif.replayed",
        replayed=1000 * answer.replayed_us,
        recorded=1000 * answer.recorded_us,
        error=answer.error,
        steps=answer.steps,
    )
    scale = say("whatif.scale", length=1000 * max(answer.recorded_us, answer.step_after_us * answer.steps))
    changes = _changes("changes", answer.changes, ordered=True)
    blocks: list[Block] = [Paragraph((replayed,)), changes, Paragraph((scale,)), *map(_stream, answer.timeline)]
    return Document(_head(answer), blocks)


def remedies_document(changes: tuple[Row, ...]) -> Document:
    """Changes that would shorten the step, each by itself."""
    if not changes:
        return Document(say("whatif.no_remedies"), [])
    return Document(say("whatif.remedies"), [_changes("remedies", changes, ordered=False)])


def _head(answer: WhatIf) -> str:
    """The step before and after in one line."""
    before, after = 1000 * answer.step_us, 1000 * answer.step_after_us
    gain = before - after
    if abs(gain) < 1e-4 * before:
        return say("whatif.head.same", before=before)
    share = abs(gain) / before if before else 0.0
    code = "whatif.head" if gain > 0 else "whatif.head.longer"
    return say(code, before=before, after=after, gain=abs(gain), share=share)


def _changes(id: str, changes: tuple[Row, ...], ordered: bool) -> Table:
    """A row for each change; where they apply one after another, what each adds to those above it."""
    names = ("change", "matches", "alone", "gain", "after") if ordered else ("change", "matches", "alone", "after")
    rows = [
        [
            Cell(brief(row.text, _LONGEST), name=True),
            Cell(str(row.matches), row.matches),
            _gain(row.alone_us),
            *([_gain(row.gain_us)] if ordered else []),
            Cell(duration_text(1000 * row.step_us), row.step_us),
        ]
        for row in changes
    ]
    columns = tuple(say(f"whatif.column.{name}") for name in names)
    numeric = (False, *[True] * (len(names) - 1))
    return Table(id, "", columns, numeric, rows, sortable=False)


def _gain(us: float) -> Cell:
    return Cell(duration_text(1000 * us) if us else say("whatif.no_gain"), us)


def _stream(ghost: Ghost) -> Table:
    """How busy a stream is over the run: a row as recorded, and one as predicted below it."""
    rows = [
        [Cell(say(f"whatif.{name}")), Cell(_bar(shares))]
        for name, shares in (("recorded", ghost.recorded), ("predicted", ghost.predicted))
    ]
    return Table("stream", ghost.stream, ("", ""), (False, False), rows, sortable=False)


def _bar(shares: Sequence[float]) -> str:
    """How busy, a character per part; a part that is busy at all is never blank."""
    return "".join(_LEVELS[0 if not share else max(1, round(share * (len(_LEVELS) - 1)))] for share in shares)
