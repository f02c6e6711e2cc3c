"""Places in a group to ranks of the job.

A task of a collective, and communication_matrix.json, name a rank by its place in the group; only what several ranks
say together tells which rank that is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from npu_tui.job.model import Calls, Notify, RankProfile, Seen

_Told = TypeVar("_Told", Notify, Seen)


def members(own: Mapping[int, RankProfile], places: Mapping[int, set[int]], most: int = 0) -> tuple[int, ...] | None:
    """The ranks of a group in their order, None where nothing tells them.

    ``own`` are the profiles that took part, ``places`` the places that each may have; ``most`` is the highest
    place of all. The ranks are those of the smallest listed group in which every place fits, or all of ``own``.
    """
    listed = {id(ranks): ranks for profile in own.values() for ranks in profile.groups.values()}
    candidates = sorted(listed.values(), key=len)
    for order in (*candidates, tuple(sorted(own))):
        place = {rank: number for number, rank in enumerate(order)}
        if most < len(order) and all(
            rank in place and (found == {place[rank]} or len(found) > 1) for rank, found in places.items()
        ):
            return order
    return None


def placed(ranks: Sequence[RankProfile]) -> list[RankProfile]:
    """``ranks`` with the peers of their notifies and arrivals as ranks of the job.

    Where nothing tells the ranks of a group, its places are the ranks if that is so for all that are known; else what
    was told of its peers is left out.
    """
    own: dict[str, dict[int, RankProfile]] = defaultdict(dict)
    place: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    most: dict[str, int] = defaultdict(int)
    groups: dict[int, dict[str, str]] = {}
    for profile in ranks:
        told: list[Notify | Seen] = [*profile.notifies, *profile.seen]
        told = [each for each in told if each.place >= 0]
        if not told:
            continue
        calls = profile.calls if isinstance(profile.calls, Calls) else Calls.of(profile.calls)
        group_of = groups[profile.rank] = {
            name: calls.kinds[kind][0] for name, kind in zip(calls.name, calls.kind.tolist(), strict=True)
        }
        for each in told:
            group = group_of.get(each.name, "")
            own[group][profile.rank] = profile
            place[group][profile.rank].add(each.place)
            most[group] = max(most[group], each.place, each.peer)
    order = {group: members(mine, place[group], most[group]) for group, mine in own.items()}
    same = {group for group, mine in place.items() if all(found == {rank} for rank, found in mine.items())}

    def of_job(told: Iterable[_Told], group_of: Mapping[str, str]) -> tuple[_Told, ...]:
        found = []
        for each in told:
            group = group_of.get(each.name, "")
            known = order.get(group)
            if each.place < 0:
                found.append(each)
            elif known is not None:
                found.append(replace(each, peer=known[each.peer], place=-1))
            elif group in same:
                found.append(replace(each, place=-1))
        return tuple(found)

    return [
        profile
        if profile.rank not in groups
        else replace(
            profile,
            notifies=of_job(profile.notifies, groups[profile.rank]),
            seen=of_job(profile.seen, groups[profile.rank]),
        )
        for profile in ranks
    ]
