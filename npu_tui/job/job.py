"""A job: its ranks, one clock, who is to blame, each computed once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from npu_tui.job.blame import Blamed, RankSum, blame, own_by_step, rank_sums
from npu_tui.job.clock import Clock, clocks
from npu_tui.job.links import Link, judged_links
from npu_tui.job.meetings import Meeting, Unpaired, meetings
from npu_tui.job.model import Layout, RankProfile
from npu_tui.trace.message import Message
from npu_tui.trace.once import once

_SAME_BOOT = 1_000_000
_SAME_COUNTER = 100_000
"""ns within which two ranks of one host agree on the boot of the host, and on its cycle counter."""

_KINDS = ("pp", "tp", "dp", "ep", "cp", "mp")
"""Kinds of parallel groups in the order in which a group is called after them; their names stand in the metadata."""


@dataclass(frozen=True, slots=True)
class Host:
    """Ranks whose host booted at the same time; ``boot`` is None where a profile does not tell."""

    id: str
    ranks: tuple[int, ...]
    boot: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """A group of ranks; ``kind`` is None where nothing names it."""

    name: str
    kind: str | None
    ranks: tuple[int, ...]


class Job:
    """The ``ranks`` found at ``path``, by rank; ``broken`` is what could not be read there, as it is said."""

    def __init__(self, path: Path, ranks: Sequence[RankProfile], broken: Sequence[Message] = ()) -> None:
        self.path = path
        self.ranks = list(ranks)
        self.broken = list(broken)

    @once
    def layout(self) -> Layout | None:
        """How the job is divided, if its profiles agree on it."""
        told = {profile.layout for profile in self.ranks if profile.layout is not None}
        return next(iter(told)) if len(told) == 1 else None

    def peers_key(self, rank: int) -> object:
        """What ``rank`` has in common with the ranks that do the same work; the same for all where nothing tells."""
        return None if self.layout is None else self.layout.peers_key(rank)

    @once
    def hosts(self) -> list[Host]:
        """The hosts by their lowest rank."""
        found: list[tuple[RankProfile, list[int]]] = []
        for profile in self.ranks:
            own = next((ranks for first, ranks in found if _together(first, profile)), None)
            if own is None:
                found.append((profile, [profile.rank]))
            else:
                own.append(profile.rank)
        return [
            Host(first.host_name or f"host{number}", tuple(ranks), first.boot)
            for number, (first, ranks) in enumerate(found)
        ]

    @once
    def host_of(self) -> dict[int, Host]:
        """The host of every rank."""
        return {rank: host for host in self.hosts for rank in host.ranks}

    @once
    def _met(self) -> tuple[list[Meeting], list[Unpaired]]:
        return meetings(self.ranks)

    @property
    def meetings(self) -> list[Meeting]:
        """The collectives that several ranks recorded."""
        return self._met[0]

    @property
    def unpaired(self) -> list[Unpaired]:
        """Calls that cannot be put together."""
        return self._met[1]

    @once
    def groups(self) -> list[Group]:
        """The groups in which several ranks met, named by the metadata where that knows their ranks."""
        members: dict[str, set[int]] = defaultdict(set)
        for meeting in self.meetings:
            members[meeting.group] |= set(meeting.calls)
        named: dict[frozenset[int], list[str]] = defaultdict(list)
        there = {profile.rank for profile in self.ranks}
        for profile in self.ranks:
            for name, ranks in profile.groups.items():
                named[frozenset(ranks) & there].append(name)
        found = []
        for group, own in members.items():
            names = named.get(frozenset(own), [])
            kind = next((kind for kind in _KINDS for name in names if kind in name.lower().split("_")), None)
            found.append(Group(group, kind, tuple(sorted(own))))
        return sorted(found, key=lambda group: (group.ranks, group.name))

    @once
    def clocks(self) -> list[Clock]:
        """The clock of every rank, against the lowest one's."""
        return clocks(self.ranks, self.meetings)

    @once
    def blamed(self) -> list[Blamed]:
        """Every collective on the common clock."""
        return blame(self.ranks, self.meetings, self.clocks, self.layout)

    @once
    def sums(self) -> list[RankSum]:
        """What every rank did over all collectives, by rank."""
        return rank_sums(self.blamed, [profile.rank for profile in self.ranks])

    @once
    def by_step(self) -> dict[tuple[int, str], tuple[int, int]]:
        """Own excess and greatest lateness by (rank, step), ns."""
        return own_by_step(self.blamed)

    @once
    def steps(self) -> list[str]:
        """The steps that any rank recorded, in the order of their numbers."""
        found = {each.step for profile in self.ranks for each in profile.steps}
        found |= {meeting.step for meeting in self.meetings}
        return sorted(found, key=lambda step: (not step.isdecimal(), int(step) if step.isdecimal() else 0, step))

    @once
    def length(self) -> int:
        """What the steps of the slowest rank took together, ns; of the collectives where no file tells steps."""
        told = [sum(step.total for step in profile.steps) for profile in self.ranks if profile.steps]
        if told:
            return max(told)
        ends = [arrival for each in self.blamed for arrival in each.arrivals]
        return max((a.end for a in ends), default=0) - min((a.start for a in ends), default=0)

    @once
    def links(self) -> list[Link]:
        """Every link between two ranks, judged."""
        return judged_links(use for profile in self.ranks for use in profile.links)

    @once
    def missing(self) -> list[int]:
        """Ranks of the job that no profile on disk belongs to."""
        there = {profile.rank for profile in self.ranks}
        known = {rank for profile in self.ranks for ranks in profile.groups.values() for rank in ranks}
        known |= {seen.peer for profile in self.ranks for seen in profile.seen}
        if self.layout is not None:
            known |= set(range(self.layout.world))
        return sorted(known - there)


def _together(first: RankProfile, other: RankProfile) -> bool:
    """Whether two ranks ran on one host, as far as their files tell."""
    if first.boot is None or other.boot is None:
        return bool(first.host_name) and first.host_name == other.host_name
    if abs(first.boot - other.boot) > _SAME_BOOT:
        return False
    if first.counter is None or other.counter is None:
        return True
    return abs(first.counter - other.counter) <= _SAME_COUNTER
