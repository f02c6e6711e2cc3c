"""Groups of more ranks than two: whom a message goes to, and which rank a place in a group is."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from made_jobs import EPOCH, simulated
from msgspec.structs import replace

from npu_tui.jobs.job import Job
from npu_tui.jobs.meetings import placed
from npu_tui.jobs.model import Busy, Notify, RankProfile, RecordedCall, Seen, pair_of
from npu_tui.jobs.rank_trace import fewer
from npu_tui.jobs.summary import read_summaries, write_summary

MS = 1_000_000
STAGES = 4


def pipeline(micro: int = 6, slow: int = 2, told: bool = True, dropped: int | None = None) -> Job:
    """Four stages that send ``micro`` batches forward: ``slow`` needs 3 ms for each where the others need 1 ms.

    All messages go through one group of four, an allReduce of all ends every batch; ``told``: the pair of each message
    is known, but for the first of ``dropped``.
    """
    calls: list[list[RecordedCall]] = [[] for _ in range(STAGES)]
    time = [0] * STAGES
    number = itertools.count()
    for _ in range(micro):
        sent = 0
        for stage in range(STAGES):
            if stage:
                end = max(time[stage], sent) + 50_000
                calls[stage].append(_call("receive", number, time[stage], end, (stage - 1, stage), told))
                time[stage] = end
            time[stage] += 3 * MS if stage == slow else MS
            if stage < STAGES - 1:
                sent = time[stage]
                calls[stage].append(_call("send", number, sent, sent + 50_000, (stage, stage + 1), told))
                time[stage] = sent + 50_000
        end = max(time) + 100_000
        at = next(number)
        for stage in range(STAGES):
            name = f"hcom_allReduce__88_{at}_1"
            calls[stage].append(RecordedCall("88", "allReduce", name, "0", at, EPOCH + time[stage], EPOCH + end))
        time = [end] * STAGES
    if dropped is not None:
        calls[dropped][0] = replace(calls[dropped][0], pair=-1)
    return Job(Path("job"), [RankProfile(rank, Path(f"r{rank}"), "companions", calls=tuple(own))
                             for rank, own in enumerate(calls)])  # fmt: skip


def _call(
    kind: str, number: itertools.count[int], start: int, end: int, places: tuple[int, int], told: bool
) -> RecordedCall:
    at = next(number)
    name = f"hcom_{kind}__77_{at}_1"
    return RecordedCall("77", kind, name, "0", at, EPOCH + start, EPOCH + end, pair_of(*places) if told else -1)


def test_messages_in_a_pipeline_of_four_are_paired_by_their_two_ranks():
    job = pipeline()
    messages = [meeting for meeting in job.meetings if meeting.group == "77"]
    met = [tuple(sorted(meeting.calls)) for meeting in messages]
    assert sorted(set(met)) == [(0, 1), (1, 2), (2, 3)]
    assert len(met) == 6 * 3
    for meeting in messages:
        kinds = {call.type for call in meeting.calls.values()}
        assert kinds == {"send", "receive"}
    assert [group.ranks for group in job.groups] == [(0, 1, 2, 3)] * 2
    late = [each.last for each in job.blamed if set(each.meeting.calls) == {2, 3}]
    assert set(late) == {2}, "stage 3 waits for the slow stage 2"


def test_messages_both_ways_are_paired_by_their_way():
    """Rank 0 sends four batches and rank 1 their gradients; both ask for what they receive long before it comes."""
    calls: list[list[RecordedCall]] = [[], []]
    notifies: list[list[Notify]] = [[], []]
    for number, source in itertools.product(range(4), range(2)):
        sent = EPOCH + (10 + 10 * number + 4 * source) * MS
        asked = EPOCH + (9 * number + source) * MS
        for rank in range(2):
            kind, start = ("send", sent) if rank == source else ("receive", asked)
            name = f"hcom_{kind}__77_{2 * number + (rank == source)}_1"
            calls[rank].append(RecordedCall("77", kind, name, "0", None, start + rank, sent + MS + rank))
            notifies[rank].append(Notify(rank != source, 1 - rank, name, source, start, sent + MS))
    ranks = [
        RankProfile(rank, Path(f"r{rank}"), "trace", calls=tuple(calls[rank]), notifies=tuple(notifies[rank]))
        for rank in range(2)
    ]
    job = Job(Path("job"), ranks)
    pairs = [sorted((call.type, call.end - rank) for rank, call in met.calls.items()) for met in job.meetings]
    assert len(pairs) == 8
    assert all(one[0] == "receive" and other == ("send", one[1]) for one, other in pairs)
    assert job.clocks[1].method == "notify"
    assert job.clocks[1].edges == 8 + 8


@pytest.mark.parametrize("made", [{"told": False}, {"dropped": 1}])
def test_a_message_to_nobody_known_is_not_paired(made: dict):
    """With one unknown the k-th message of one rank need not be the k-th of the other."""
    assert {meeting.group for meeting in pipeline(**made).meetings} == {"88"}


def test_a_place_in_a_group_is_no_rank():
    """Ranks 4 to 7 are a tensor group: place 1 in it is rank 5, not rank 1."""
    ranks = []
    for place, rank in enumerate((4, 5, 6)):
        call = RecordedCall("9", "allReduce", "hcom_allReduce__9_0_1", "0", 0, EPOCH, EPOCH + MS)
        ranks.append(
            RankProfile(
                rank, Path(f"r{rank}"), "companions", groups={"tp": (4, 5, 6, 7), "all": tuple(range(8))},
                calls=(call,), notifies=(Notify(True, (place + 1) % 4, call.name, 1, EPOCH, EPOCH + 9, place),),
                seen=(Seen(call.name, 3, 700_000, False, place),),
            )
        )  # fmt: skip
    found = placed(ranks)
    assert [each.notifies[0].peer for each in found] == [5, 6, 7]
    assert {each.seen[0].peer for each in found} == {7}
    assert placed(found) == found
    assert Job(Path("job"), ranks).missing == [0, 1, 2, 3, 7]


def test_places_that_are_ranks_stay_and_others_are_left_out():
    call = RecordedCall("9", "allReduce", "hcom_allReduce__9_0_1", "0", 0, EPOCH, EPOCH + MS)
    world = [RankProfile(rank, Path("r"), "companions", calls=(call,), seen=(Seen(call.name, 5, 9, False, rank),))
             for rank in (0, 1)]  # fmt: skip
    assert [each.seen[0].peer for each in placed(world)] == [5, 5]
    other = [RankProfile(rank, Path("r"), "companions", calls=(call,), seen=(Seen(call.name, 5, 9, False, rank - 8),))
             for rank in (8, 9)]  # fmt: skip
    assert [len(each.seen) for each in placed(other)] == [0, 0]


def test_what_a_wait_hides_behind_computing_is_not_exposed(tmp_path):
    """Rank 1 comes 2 ms late; of the two that wait one computes 1.5 ms meanwhile, the other 0.5 ms."""
    job = simulated(3, lambda rank, step, call: MS + (2 * MS if rank == 1 else 0), steps=2, calls=3)
    hidden = {0: 1_500_000, 2: 500_000}
    ranks = []
    for profile in job.ranks:
        start = np.array([call.start + 100_000 for call in profile.calls], np.int64)
        took = hidden.get(profile.rank, 0)
        busy = Busy(start, start + took)
        ranks.append(replace(profile, busy=busy))
    found = Job(Path("job"), ranks)
    assert [each.last for each in found.blamed] == [1] * 6
    for each in found.blamed:
        assert each.cost == pytest.approx(2 * MS, abs=3_000)
        assert each.cost - each.exposed == 500_000
    late = next(own for own in found.sums if own.rank == 1)
    assert late.cost - late.exposed == 6 * 500_000
    assert [own.exposed for own in job.sums] == [None] * 3, "no trace tells"
    for profile in found.ranks:
        write_summary(profile, tmp_path / f"{profile.rank}.rank.npu")
    again = Job(Path("job"), read_summaries(sorted(tmp_path.iterdir()))[0])
    assert [own.exposed for own in again.sums] == [own.exposed for own in found.sums]


def test_busy_time_by_any_moment():
    own = Busy(np.array([10, 50]), np.array([20, 80]))
    asked = np.array([0, 10, 15, 20, 40, 50, 60, 80, 90])
    assert own.until(asked).tolist() == [0, 0, 5, 10, 10, 10, 20, 40, 40]
    assert Busy(np.zeros(0, np.int64), np.zeros(0, np.int64)).until(asked).tolist() == [0] * 9


def test_of_many_notifies_all_ranks_keep_those_of_the_same_collectives():
    def noted(count: int) -> list[Notify]:
        return [Notify(True, 1, f"hcom_allReduce__9_{k % 500}_1", k, k, k + 1) for k in range(count)]

    few, many, most = (fewer(noted(count)) for count in (100, 20_000, 70_000))
    assert len(few) == 100
    names = [{each.name for each in own} for own in (many, most)]
    assert names[1] < names[0]
    assert 1_000 < len(most) <= 8_192
    assert {each for each in noted(70_000) if each.name in names[1]} == set(most)
