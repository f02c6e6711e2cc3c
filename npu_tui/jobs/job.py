"""A job: its ranks, one clock, who is to blame, each computed once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.limits import SHORT_NS
from npu_tui.jobs.blame import Blame, before_recorded, blame, excess
from npu_tui.jobs.clock import RankClock, clocks
from npu_tui.jobs.experts import Balance, balance_of
from npu_tui.jobs.finding import LEAST_SHARE
from npu_tui.jobs.links import Link, judged_links, placed_links
from npu_tui.jobs.meetings import RankMeetings, Unpaired, meetings, messages_without_pair, placed
from npu_tui.jobs.model import (
    SAME_BOOT,
    SAME_NAME,
    CallTable,
    Layout,
    RankProfile,
    call_table,
    is_message,
    step_order,
)
from npu_tui.jobs.pipeline import Pipelines, Staged, messaged, pipelines_of
from npu_tui.jobs.reasons import Beside, beside_peers, reasons
from npu_tui.jobs.role_steps import without_peers
from npu_tui.jobs.roles import Roles, roles_of
from npu_tui.jobs.slowness import (
    ByStep,
    Longest,
    RankSum,
    SavingsModel,
    Shape,
    SlowStage,
    by_step,
    longest_works,
    rank_sums,
    shapes_of,
    slow_cells,
    slow_stage,
    tail_excess,
)
from npu_tui.load.format import Survey
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.message import Message
from npu_tui.trace.once import ValueCache, once
from npu_tui.trace.recorder import ASCEND, Recorder, recorder_named

if TYPE_CHECKING:  # few jobs have expert files
    from npu_tui.load.formats.experts import ExpertFiles
    from npu_tui.profile.expert_tables import Loads


# Kinds of parallel groups, as the metadata names them; a group of several kinds is called after the first of these.
_KINDS = ("pp", "tp", "dp", "ep", "cp", "mp")


class BootedHost(Struct, frozen=True):
    """Ranks whose hosts booted at the same time; ``boot`` is None if the profiles do not say when.

    Where it has neither that nor a name, the host is not ``known``: others may have run on the same one.
    """

    id: str
    ranks: tuple[int, ...]
    boot: int | None
    known: bool = True


class Group(Struct, frozen=True):
    """A group of ranks; ``kind`` is None where nothing names it."""

    name: str
    kind: str | None
    ranks: tuple[int, ...]


class Only(Struct, frozen=True):
    """The group and the step of a job that are looked at, None for all."""

    group: str | None = None
    step: str | None = None


class Job:
    """The ``ranks`` found at ``path``, by rank; ``broken`` says what could not be read there.

    A job of several roles has a job of each among its ``parts``, any other one itself. The same rank is then of several
    roles, and what ranks recorded of each other stands in the parts alone.

    ``only`` narrows what is blamed to one group, by its name or kind, or to one step; clocks always rest on all.
    ``survey`` is what has been seen of its folders.
    Whatever follows from the ranks is computed once, when it is first asked for.
    """

    def __init__(
        self,
        path: Path,
        ranks: Sequence[RankProfile],
        broken: Sequence[Message] = (),
        only: Only | None = None,
        parts: Sequence[Job] = (),
        survey: Survey | None = None,
    ) -> None:
        self.path = path
        self.ranks = placed(ranks)
        self.broken = list(broken)
        self.only = only or Only()
        self.parts: tuple[Job, ...] = tuple(parts) or (self,)
        self.survey = survey or Survey()
        self.known = ValueCache()

    @once
    def role(self) -> str | None:
        """The role of all its ranks, None where they have none or several."""
        roles = {profile.role for profile in self.ranks}
        return (roles.pop() or None) if len(roles) == 1 else None

    def narrowed(self, group: str | None, step: str | None) -> Job:
        """This job with only that group and step."""
        if len(self.parts) > 1:
            parts = [part.narrowed(group, step) for part in self.parts]
            ranks = [profile for part in parts for profile in part.ranks]
            return Job(self.path, [without_peers(profile) for profile in ranks], self.broken, None, parts, self.survey)
        ranks = self.ranks
        if step is not None:
            ranks = [
                replace(
                    profile,
                    steps=tuple(step_time for step_time in profile.steps if step_time.step == step),
                    stints=tuple(stint for stint in profile.stints if stint.step == step),
                )
                for profile in ranks
            ]
        return Job(self.path, ranks, self.broken, Only(group, step), survey=self.survey)

    @property
    def recorder(self) -> Recorder:
        """Who wrote what the ranks have; of several the one whose ranks lack something, else Ascend's."""
        kinds = list(dict.fromkeys(profile.kind for profile in self.ranks))
        every = list(map(recorder_named, kinds))
        return next((one for one in every if one.is_of_any), every[0] if len(every) == 1 else ASCEND)

    @property
    def has_profiles(self) -> bool:
        """Whether more than expert files has its ranks."""
        return any(profile.recorder.is_profile for profile in self.ranks)

    @property
    def no_links(self) -> str:
        """The text for a job whose files do not measure links."""
        return self.recorder.word("job.no_links")

    @once
    def expert_files(self) -> ExpertFiles:
        """The dumps of expert loads and the placements that lie with the job."""
        from npu_tui.load.formats.experts import expert_files_in, read_expert_files

        return read_expert_files(expert_files_in(self.path, self.survey))

    @once
    def loads(self) -> list[Loads]:
        """The loads of the dumps, of every phase."""
        from npu_tui.profile.expert_tables import loads_of

        return loads_of(self.expert_files)

    @once
    def roles(self) -> Roles | None:
        """The roles on one clock; None if the job has none."""
        if not any(profile.stints or profile.role for profile in self.ranks):
            return None
        return roles_of([(part.ranks, part.clocks) for part in self.parts])

    @once
    def layout(self) -> Layout | None:
        """How the job is divided, if its profiles agree on it."""
        layouts = {profile.layout for profile in self.ranks if profile.layout is not None}
        return next(iter(layouts)) if len(layouts) == 1 else None

    @once
    def positions(self) -> dict[int, dict[str, int]]:
        """The place of every rank in its groups, by kind of group (``tp``, ``pp``, …), as its metadata names them."""
        positions: dict[int, dict[str, int]] = {}
        for profile in self.ranks:
            of_rank = positions.setdefault(profile.rank, {})
            for name, ranks in profile.groups.items():
                if name in _KINDS and profile.rank in ranks:
                    of_rank[name] = ranks.index(profile.rank)
        return positions

    @once
    def _stages(self) -> dict[int, int]:
        return {profile.rank: profile.stage for profile in self.ranks if profile.stage is not None}

    def stage(self, rank: int) -> int | None:
        """The pipeline stage of ``rank``: as files say, in a chain, else by when its passes begin."""
        told = self._known_stage(rank)
        return self._piped.get(rank) if told is None else told

    @once
    def _piped(self) -> dict[int, int]:
        return {rank: stage for run in self.pipelines.runs for stage, rank in enumerate(run.ranks)}

    def _known_stage(self, rank: int) -> int | None:
        """The stage of ``rank``: as a file says, in its group, by the sizes of groups, in a chain."""
        if rank in self._stages:
            return self._stages[rank]
        place = self.positions.get(rank, {}).get("pp")
        if place is not None:
            return place
        return self._chains.get(rank) if self.layout is None else self.layout.stage(rank)

    @once
    def lost_stages(self) -> dict[int, int]:
        """The ranks without profiles, and the stages without any profile, whose cost is unknown."""
        there = {self.stage(profile.rank) for profile in self.ranks} | {None}
        stages = {rank: self.stage(rank) for rank in self.missing}
        return {rank: stage for rank, stage in stages.items() if stage is not None and stage not in there}

    def peers_key(self, rank: int) -> Hashable:
        """A key that ``rank`` shares with the ranks that do the same work; one key for all if the layout is unknown.

        The stage and the place in the tensor group; where that leaves a rank alone, the stage only.
        """
        return self._peers.get(rank)

    @once
    def _peers(self) -> dict[int, Hashable]:
        stage = {profile.rank: self.stage(profile.rank) for profile in self.ranks}
        exact: dict[int, Hashable] = {}
        for rank, of_rank in stage.items():
            place = self.positions.get(rank, {}).get("tp")
            if place is None and self.layout is not None:
                place = rank % max(self.layout.tensor, 1)
            exact[rank] = of_rank, place
        # A stage with one tensor group has a single rank a place: then the ranks of the stage are its peers.
        alone = [key for key, count in Counter(exact.values()).items() if count == 1]
        return {rank: stage[rank] if alone else key for rank, key in exact.items()}

    @once
    def _chains(self) -> dict[int, int]:
        """The place of every rank in the chain of three or more in which ranks send to their neighbours only.

        Stages of a pipeline are such a chain, and do not do the same work; ranks that send in a ring do. Ranks without
        profiles are where others exchange messages with them.
        """
        met = self.meetings
        is_own = np.array([is_message(kind) for _, kind, _ in met.table.kinds] + [False])[met.kind]
        first = met.first[:-1][is_own & (np.diff(met.first) == 2)]
        beside: dict[int, set[int]] = defaultdict(set)
        for rank, other in np.unique(np.stack((met.rank[first], met.rank[first + 1]), axis=1), axis=0).tolist():
            beside[self.ranks[rank].rank].add(self.ranks[other].rank)
            beside[self.ranks[other].rank].add(self.ranks[rank].rank)
        lost = set(self.missing)
        for profile in self.ranks if lost else ():
            for other in lost & messaged(profile):
                beside[profile.rank].add(other)
                beside[other].add(profile.rank)
        chains: dict[int, int] = {}
        for end in sorted(rank for rank, others in beside.items() if len(others) == 1):
            chain, before = [end], -1
            while following := beside[chain[-1]] - {before}:
                if len(following) > 1 or chain[-1] in chains:
                    break
                before = chain[-1]
                chain.append(next(iter(following)))
            if len(chain) > 2 and len(beside[chain[-1]]) == 1:
                chains |= {rank: number for number, rank in enumerate(chain)}
        return chains

    @once
    def hosts(self) -> list[BootedHost]:
        """The hosts by their lowest rank."""
        hosts: list[tuple[RankProfile, list[int]]] = []
        near: dict[object, list[int]] = defaultdict(list)  # the hosts that a profile with this boot may be of
        for profile in self.ranks:
            names: list[object] = [profile.host_name] if profile.host_name else []
            boots = [] if profile.boot is None else [profile.boot // SAME_BOOT + side for side in (0, -1, 1)]
            candidates = sorted({number for key in (*names, *boots) for number in near[key]})
            host = next((number for number in candidates if _on_one_host(hosts[number][0], profile)), None)
            if host is None:
                for key in (*names, *boots[:1]):
                    near[key].append(len(hosts))
                hosts.append((profile, [profile.rank]))
            else:
                hosts[host][1].append(profile.rank)
        return [
            BootedHost(
                first.host_name or f"host{number}",
                tuple(ranks),
                first.boot,
                first.boot is not None or bool(first.host_name),
            )
            for number, (first, ranks) in enumerate(hosts)
        ]

    @once
    def host_of(self) -> dict[int, BootedHost]:
        """The host of every rank."""
        return {rank: host for host in self.hosts for rank in host.ranks}

    @once
    def calls(self) -> CallTable:
        """The calls of all ranks."""
        return call_table(self.ranks)

    @once
    def _met(self) -> tuple[RankMeetings, list[Unpaired]]:
        return meetings(self.calls)

    @property
    def meetings(self) -> RankMeetings:
        """The collectives that several ranks recorded."""
        return self._met[0]

    @property
    def unpaired(self) -> list[Unpaired]:
        """Calls that the ranks did not make equally often."""
        return self._met[1]

    @property
    def messages_apart(self) -> int:
        """How many messages of groups of more than two ranks do not say which two ranks they are between."""
        return int(np.count_nonzero(messages_without_pair(self.calls)))

    @once
    def groups(self) -> list[Group]:
        """The groups in which several ranks met, named by the metadata where that knows their ranks."""
        met, table = self.meetings, self.calls
        names: dict[str, int] = {}
        code = np.array([names.setdefault(group, len(names)) for group, _, _ in table.kinds], np.int64)
        both = np.unique(code[met.kind[met.row]] * len(self.ranks) + met.rank) if len(met) else met.row
        members: dict[str, list[int]] = {name: [] for name in names}
        group_names = list(names)
        for pair in both.tolist():
            members[group_names[pair // len(self.ranks)]].append(table.ranks[pair % len(self.ranks)])
        groups = []
        for group, ranks in members.items():
            if ranks:
                called = self._named.get(frozenset(ranks), set())
                kind = next((kind for kind in _KINDS if any(kind in name.lower().split("_") for name in called)), None)
                groups.append(Group(group, kind, tuple(ranks)))
        return sorted(groups, key=lambda group: (group.ranks, group.name))

    @once
    def _named(self) -> dict[frozenset[int], set[str]]:
        """What the metadata call the groups, by those of their ranks that have files."""
        on_disk = frozenset(profile.rank for profile in self.ranks)
        sets: dict[int, frozenset[int]] = {}  # by identity: readers share equal groups, which may be long
        named: dict[frozenset[int], set[str]] = defaultdict(set)
        for profile in self.ranks:
            for name, ranks in profile.groups.items():
                known = sets.get(id(ranks))
                if known is None:
                    known = sets[id(ranks)] = on_disk.intersection(ranks)
                named[known].add(name)
        return named

    @once
    def clocks(self) -> list[RankClock]:
        """The clock of every rank, against the lowest one's."""
        return clocks(self.ranks, self.meetings)

    @once
    def devices_apart(self) -> int:
        """How far the clocks of two devices of one host are apart at most, ns; 0 where no host has two."""
        clock_of = {clock.rank: clock for clock in self.clocks}
        farthest = 0
        for host in self.hosts:
            offsets = [clock_of[rank].offset for rank in host.ranks if clock_of[rank].is_tied]
            farthest = max(farthest, max(offsets) - min(offsets) if offsets else 0)
        return farthest

    @once
    def all_blamed(self) -> Blame:
        """Every collective on the common clock, also those that ``skewed`` leaves out."""
        begun, busy = [profile.begun for profile in self.ranks], [profile.busy for profile in self.ranks]
        more = excess(self.calls, self._peers.__getitem__, begun, busy)
        return blame(self.ranks, self.meetings, self.clocks, more)

    @once
    def skewed(self) -> Bools:
        """Which of ``all_blamed`` waited for a rank that did not record yet: that says nothing of the job; (m,)."""
        return before_recorded(self.all_blamed, self.ranks, self.clocks)

    @once
    def blamed(self) -> Blame:
        """Every collective on the common clock that all its ranks recorded."""
        blamed = self.all_blamed if not self.skewed.any() else self.all_blamed.of(~self.skewed)
        if self.only == Only():
            return blamed
        groups = {group.name for group in self.groups if self.only.group in (None, group.name, group.kind)}
        chosen = np.array(
            [group in groups and self.only.step in (None, step) for group, _, step in self.calls.kinds], np.bool_
        )
        return blamed.of(chosen[blamed.met.kind[blamed.meeting]])

    @once
    def savings(self) -> SavingsModel:
        """What the job would save if some ranks worked less."""
        # Ranks whose clocks have the same reference are an island: only their times can be compared.
        references: dict[int, int] = {}
        island = [references.setdefault(clock.reference, len(references)) for clock in self.clocks]
        exposed = [
            sum(step.exposed for step in profile.steps) if profile.busy is None and profile.steps else -1
            for profile in self.ranks
        ]
        return SavingsModel(self.blamed, np.array(island, np.int64), np.array(exposed, np.int64), *self._tails())

    def _tails(self) -> tuple[I64, I64]:
        """How long each rank goes on after its last collective, and how much of that is more than its peers do, ns.

        0 where that is not known of all ranks, or only some collectives are judged.
        """
        table, after = self.calls, np.zeros(len(self.ranks), np.int64)
        ends = [np.max(table.end[low:high], initial=0) for low, high in pairwise(table.first.tolist())]
        if self.only == Only() and all(ends) and None not in (ended := [profile.ended for profile in self.ranks]):
            after = np.maximum(np.array(ended, np.int64) - ends, 0)
        return after, tail_excess(after, [self.peers_key(profile.rank) for profile in self.ranks])

    @once
    def experts(self) -> Balance | None:
        """How evenly the experts are loaded; None where no trace has several ranks."""
        return balance_of(self.ranks, self.blamed)

    @once
    def sums(self) -> list[RankSum]:
        """What every rank did over all collectives: by rank those with files, then those without."""
        return rank_sums(self.blamed, self.savings)

    @once
    def by_step(self) -> ByStep:
        """Own excess and greatest lateness of every rank in every step."""
        return by_step(self.blamed, len(self.ranks), self.steps)

    @once
    def slow_cells(self) -> Bools:
        """The mask of the steps in which a rank's own work is slow, (ranks with files, steps)."""
        return slow_cells(self.by_step, self.length)

    @once
    def slow_stage(self) -> SlowStage | None:
        """The stage of the pipeline that holds up the others."""
        return slow_stage(self.ranks, self.stage, len(self.steps))

    @once
    def untied(self) -> tuple[int, ...]:
        """Ranks whose times nothing ties to those of the first; the output of a cluster analysis has no times."""
        timeless = {profile.rank for profile in self.ranks if not profile.recorder.has_times}
        return tuple(clock.rank for clock in self.clocks if not clock.is_tied and clock.rank not in timeless)

    @once
    def longest(self) -> list[Longest]:
        """Ranks that others wait for by the steps alone, where collectives do not show all who came last."""
        if (len(self.blamed) and not self.missing) or len(self.parts) > 1:
            return []
        least, peers = LEAST_SHARE * self.length, [self._peers[profile.rank] for profile in self.ranks]
        told = {row.rank for row in self.sums if (row.gain or 0) >= least > 0}
        return [one for one in longest_works(self.ranks, peers) if one.rank not in told and one.gain >= least]

    @once
    def shapes(self) -> dict[int, Shape]:
        """How each slow rank is slow: always, with its stage or host, in turns, or now and then."""
        ranks, hosts = [profile.rank for profile in self.ranks], [host.ranks for host in self.hosts]
        return shapes_of(self.by_step, self.slow_cells, ranks, hosts, self.slow_stage)

    @once
    def beside(self) -> list[Beside]:
        """Every rank beside its median peer: how fast it is, and what it computes more."""
        return beside_peers(self.ranks, [self._peers[profile.rank] for profile in self.ranks])

    @once
    def reasons(self) -> dict[int, list[Message]]:
        """Why each rank takes longer than those with the same work."""
        worth = {row.rank for row in self.sums if row.gain or row.gain is None}
        slow = [profile.rank in worth for profile in self.ranks]
        peers = [self._peers[profile.rank] for profile in self.ranks]
        reasons_of = reasons(self.ranks, peers, self.blamed, slow, self.beside)
        return {profile.rank: texts for profile, texts in zip(self.ranks, reasons_of, strict=True)}

    @once
    def steps(self) -> list[str]:
        """The steps that any rank recorded, in the order of their numbers; one without a name where none has one."""
        steps = {step.step for profile in self.ranks for step in profile.steps}
        kinds = {self.calls.kinds[kind][2] for kind in np.unique(self.meetings.kind).tolist()}
        steps |= {step for step in kinds if self.only.step in (None, step)}
        steps = steps - {""} or steps
        return sorted(steps, key=step_order)

    @once
    def length(self) -> int:
        """What the steps of the slowest rank took together, ns; of the collectives where no file has steps."""
        lengths = [sum(step.total for step in profile.steps) for profile in self.ranks if profile.steps]
        if lengths:
            return max(lengths)
        return self.savings.length

    @once
    def pipelines(self) -> Pipelines:
        """Which stage of a pipeline ran which micro batch when; a job of several roles has them in its parts."""
        if len(self.parts) > 1:
            return Pipelines([])
        return pipelines_of(Staged(self.ranks, self.meetings, self.clocks, self._known_stage, self.layout, self.steps))

    @once
    def links(self) -> list[Link]:
        """Every link between two ranks, judged."""
        return judged_links(placed_links(self.ranks))

    @once
    def missing(self) -> list[int]:
        """Ranks of the job that no profile on disk belongs to."""
        on_disk = {profile.rank for profile in self.ranks}
        groups = {id(ranks): ranks for profile in self.ranks for ranks in profile.groups.values()}
        known = set().union(*groups.values())
        for profile in self.ranks:
            known |= set(np.unique(profile.seen.peer).tolist())
        if self.layout is not None:
            known |= set(range(self.layout.world))
        return sorted(known - on_disk)


def members(job: Job) -> list[tuple[Job, RankProfile]]:
    """Every rank of ``job`` in the order of its ``ranks``, in full, with its part of the job."""
    return [(part, profile) for part in job.parts for profile in part.ranks]


def _on_one_host(first: RankProfile, other: RankProfile) -> bool:
    """Whether two ranks ran on one host, as far as their files say."""
    named = bool(first.host_name and other.host_name)
    if named and first.host_name != other.host_name:
        return False
    if first.boot is None or other.boot is None:
        return named
    if abs(first.boot - other.boot) > (SAME_NAME if named else SAME_BOOT):
        return False
    if first.counter is None or other.counter is None:
        return True
    return abs(first.counter - other.counter) <= SHORT_NS
