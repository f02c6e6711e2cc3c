"""What ranks recorded of each other, as columns: against the same by dictionaries, one row at a time."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from made_jobs import EPOCH, simulated
from msgspec.structs import replace

from npu_tui.jobs.clock import notify_bounds
from npu_tui.jobs.columns import Names, TextCodes
from npu_tui.jobs.job import Job
from npu_tui.jobs.meetings import views
from npu_tui.jobs.model import Notify, RankProfile, Seen
from npu_tui.jobs.summary import read_summaries, write_summary

MS = 1_000_000


def told_of(rank: int, draw: np.random.Generator, names: list[str]) -> RankProfile:
    """A rank with notifies of few ids and peers, so that many belong together, and some have no other half."""
    notifies = tuple(
        Notify(bool(draw.integers(2)), int(draw.integers(5)), str(draw.choice(names)),
               (7, 1 << 40, (1 << 64) - 2)[draw.integers(3)], EPOCH + int(start), EPOCH + int(start) + 50)
        for start in draw.integers(0, MS, 60)
    )  # fmt: skip
    return RankProfile(rank, Path(f"r{rank}"), "companions", notifies=notifies)


@pytest.mark.parametrize("seed", range(5))
def test_the_kth_wait_belongs_to_the_kth_record(seed: int):
    draw = np.random.default_rng(seed)
    ranks = [told_of(rank, draw, ["a", "b"]) for rank in (0, 2, 3)]
    index = {0: 0, 2: 1, 3: 2}
    records, waits = defaultdict(list), defaultdict(list)
    for profile in ranks:
        for each in profile.notifies:
            if each.peer in index:
                side = waits[each.peer, profile.rank, each.name, each.key] if each.waits else None
                side = records[profile.rank, each.peer, each.name, each.key] if side is None else side
                side.append(each.end if each.waits else each.start)
    expected = sorted(
        (index[key[0]], index[key[1]], start, end)
        for key, begun in records.items()
        if len(begun) == len(waits[key])
        for start, end in zip(sorted(begun), sorted(waits[key]), strict=True)
    )
    found = notify_bounds(ranks, index)
    rows = zip(*(column.tolist() for column in (found.source, found.target, found.began, found.ended)), strict=True)
    assert sorted(rows) == expected
    assert expected


def test_sightings_are_found_in_the_meetings_of_their_names():
    job = simulated(3, lambda rank, step, call: MS)
    name = job.ranks[1].calls[5].name
    seen = [(), (Seen(name, 9, 40, False), Seen("another", 9, 1, True), Seen(name, 2, 50, True)), ()]
    found = views(job.meetings, seen)
    met = job.meetings
    assert found.entry[1] == -1
    assert (found.peer.tolist(), found.after.tolist()) == ([9, 9, 2], [40, 1, 50])
    for entry in found.entry[[0, 2]].tolist():
        assert met.rank[entry] == 1
        assert met.table.name(int(met.call[entry])) == name


def test_rows_come_back_from_columns_and_from_a_summary(tmp_path: Path):
    draw = np.random.default_rng(1)
    ranks = [
        replace(told_of(rank, draw, ["hcom_a", "hcom_é"]), calls=own.calls, seen=(Seen("hcom_a", 1, -3, True, 4),))
        for rank, own in enumerate(simulated(2, lambda rank, step, call: MS).ranks)
    ]
    ranks.append(RankProfile(2, Path("r2"), "companions"))
    assert ranks[1].seen[:] == (Seen("hcom_a", 1, -3, True, 4),)
    for each in ranks:
        write_summary(each, tmp_path / f"{each.rank}.rank.npu")
    again, said = read_summaries(sorted(tmp_path.iterdir()))
    assert said == []
    for ours, theirs in zip(again, ranks, strict=True):
        assert list(ours.calls) == list(theirs.calls)
        assert list(ours.notifies) == list(theirs.notifies)
        assert list(ours.seen) == list(theirs.seen)
    assert len(Job(Path("job"), again).meetings) == len(Job(Path("job"), ranks).meetings)


def test_equal_names_have_one_code_whoever_wrote_them():
    shared = ("x", "y")
    codes = TextCodes()
    first = codes.of(Names(shared, np.array([1, 0, 1], np.int32)))
    second = codes.of(Names.of(["y", "z", "y"]))
    assert first.tolist() == [1, 0, 1]
    assert second.tolist() == [1, 2, 1]
    assert len(codes) == 3
