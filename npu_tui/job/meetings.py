"""Calls of several ranks that are one collective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from npu_tui.job.model import BARRIERS, Call, RankProfile


@dataclass(frozen=True, slots=True)
class Meeting:
    """One collective: the call of every rank on disk that took part; ``ordinal`` counts its type in group and step."""

    group: str
    type: str
    step: str
    ordinal: int
    calls: dict[int, Call]

    @property
    def is_barrier(self) -> bool:
        """Whether no rank leaves before all have arrived."""
        return self.type in BARRIERS


@dataclass(frozen=True, slots=True)
class Unpaired:
    """Calls of one type, group and step that the ranks did not make equally often, so they are not put together."""

    group: str
    type: str
    step: str
    counts: dict[int, int]


def meetings(ranks: Sequence[RankProfile]) -> tuple[list[Meeting], list[Unpaired]]:
    """The collectives that at least two ranks recorded, by their first start, and what could not be paired.

    Calls are paired by type, group and ordinal within the step. Where ranks made different numbers of them, the
    ordinals of the profiler decide, if they overlap.
    """
    calls: dict[tuple[str, str, str], dict[int, list[Call]]] = defaultdict(lambda: defaultdict(list))
    for profile in ranks:
        for call in sorted(profile.calls, key=lambda call: call.start):
            calls[call.group, call.type, call.step][profile.rank].append(call)
    found: list[Meeting] = []
    unpaired: list[Unpaired] = []
    for (group, kind, step), by_rank in calls.items():
        if len(by_rank) < 2:
            continue
        if len({len(own) for own in by_rank.values()}) == 1:
            rows = [dict(zip(by_rank, together, strict=True)) for together in zip(*by_rank.values(), strict=True)]
        else:
            rows = _by_ordinal(by_rank)
            if not rows:
                unpaired.append(Unpaired(group, kind, step, {rank: len(own) for rank, own in by_rank.items()}))
        found += [Meeting(group, kind, step, number, row) for number, row in enumerate(rows)]
    return sorted(found, key=lambda each: min(call.start for call in each.calls.values())), unpaired


def _by_ordinal(by_rank: dict[int, list[Call]]) -> list[dict[int, Call]]:
    """The calls whose ordinal all ranks recorded once."""
    tables: dict[int, dict[int, Call]] = {}
    for rank, own in by_rank.items():
        table = {call.ordinal: call for call in own if call.ordinal is not None}
        if len(table) != len(own):
            return []
        tables[rank] = table
    common = set.intersection(*(set(table) for table in tables.values()))
    return [{rank: table[ordinal] for rank, table in tables.items()} for ordinal in sorted(common)]
