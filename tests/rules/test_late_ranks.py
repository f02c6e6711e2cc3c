"""Who is late: several ranks in their order, a rank behind the neighbours of a ring, ranks of several groups."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from generate import recorded
from jobs import check, facts_of, job, measured
from measured import profile_at
from msgspec import structs
from simulator import simulate
from troubled import TROUBLED

from npu_tui.analysis.communication import UNKNOWN, lane_and_place, unknown_waits
from npu_tui.analysis.replay import Change
from npu_tui.profile.profile import Profile
from npu_tui.rules import late_ranks
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import length_of
from npu_tui.rules.late_ranks import late
from npu_tui.rules.rule import Draft
from npu_tui.strings import words


def straggler(profile: Profile) -> Draft:
    return straggler_of(facts_of(profile))


def straggler_of(facts: Facts) -> Draft:
    draft = check("COMM.STRAGGLER", facts)
    assert isinstance(draft, Draft)
    return draft


def test_of_two_late_ranks_the_first_alone_saves_what_it_comes_later() -> None:
    draft, facts = straggler(job("two_late")), job("two_late").facts[0]
    detail = words(draft.detail)
    assert "0 ns" not in detail  # nobody waited for rank 3, which is never the last
    rows = next(part for part in draft.detail.args["parts"] if part.code == "finding.straggler.in_order").args["rows"]
    alone, both = (row.args for row in rows)
    assert (alone["rank"], both["rank"]) == (2, 3)
    lead = next(part for part in draft.detail.args["parts"] if part.code == "finding.straggler.lead").args["time"]
    assert lead == pytest.approx(1_200_000, rel=0.4)  # a tenth of 12 ms
    assert facts.replay is not None
    assert 0 < alone["gain"] < 0.25 * both["gain"]
    assert both["gain"] * facts.count == facts.replay.gain(draft.change)
    assert "ranks 2 and 3" in words(draft.advice[0])
    assert "of waiting for rank 2 and 3" in words(draft.evidence[0].note)


@pytest.fixture(scope="module")
def ring() -> Profile:
    """A ring of eight whose late rank is no neighbour of this one."""
    usual = TROUBLED["straggler"]
    return measured(replace(usual, world_size=8, trouble=replace(usual.trouble, neighbours=True, behind=True), seed=5))


def test_a_wait_in_a_later_phase_of_a_ring_is_for_a_rank_that_no_task_names(ring) -> None:
    lateness = late(ring.facts[0])
    assert lateness.peers == (UNKNOWN,)
    draft = straggler(ring)
    assert "not visible from here" in words(draft.title)
    assert draft.confidence == "low"
    assert sum(case.shown for case in lateness.cases) == int(ring.collectives.waits.unseen.sum())
    assert draft.change.in_time == {UNKNOWN}
    lead = ring.findings.findings[0]
    assert lead.id == "COMM.STRAGGLER"
    assert not any("bucket_cap_mb" in words(advice) for advice in lead.advice)


def test_no_rank_is_unseen_where_the_transfers_take_the_time() -> None:
    for name in ("healthy", "transfers", "straggler", "two_late"):
        assert not job(name).collectives.waits.unseen.any()


def _in_two_groups(folder: Path, groups: dict[str, list[int]]) -> Profile:
    """Rank 2 is late in the second group only; ``groups`` are those of profiler_metadata.json."""
    usual = TROUBLED["straggler"]
    situation = replace(usual, seed=8, tensor_bytes=2_000_000, trouble=replace(usual.trouble, late_in=1))
    for name, content in recorded(situation, simulate(situation)).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    if groups:
        named = {name: {"group_name": name, "global_ranks": ranks} for name, ranks in groups.items()}
        (folder / "profiler_metadata.json").write_text(json.dumps({"parallel_group_info": named}))
    return profile_at(folder)


def test_a_late_rank_is_named_in_its_group(tmp_path) -> None:
    profile = _in_two_groups(tmp_path / "a", {})
    collectives = profile.collectives
    assert len(np.unique(collectives.group)) == 2
    (peer,) = late(profile.facts[0]).peers
    lane, place = lane_and_place(peer)
    assert (profile.trace.lanes[lane].name, place) == ("Group 0 Communication", 2)
    draft = straggler(profile)
    assert words(draft.title).startswith("Rank 2 of Group 0 is late")
    assert "Profile rank 2 of Group 0" in words(draft.advice[0])
    assert "There is no profile of rank 2" not in words(draft.detail)


def test_a_late_rank_of_a_known_group_is_named_by_its_rank_of_the_job(tmp_path) -> None:
    profile = _in_two_groups(tmp_path / "b", {"0": [0, 4, 8, 12], "1": [0, 1, 2, 3]})
    assert late(profile.facts[0]).peers == (8,)
    draft = straggler(profile)
    assert words(draft.title).startswith("Rank 8 (2 of Group 0) is late")
    assert "There is no profile of rank 8 here" in words(draft.detail)


def test_a_rank_that_another_hides_for_good_is_not_named() -> None:
    """Rank 6 comes 88 ms after this one, rank 7 13 ms, rank 4 9 ms: with rank 6 in time hardly any waiting is left."""
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    profile = profile_at(Path(folder) / "db" / "level1" / "rank0_ascend_pt")
    lateness = late(profile.facts[0])
    assert lateness.named == (6,)
    assert set(lateness.peers) == {5, 6, 7}
    # 79.65 ms after rank 4, but 75.14 after the last of the others, and 9.16 in three more collectives; some is hidden.
    assert words(straggler(profile).title).startswith("Rank 6 is late and this rank waits 82.00 ms")
    # Ranks 5 and 7, which that wait hides, are in time as well then: they do not hide this rank's own late launches.
    assert [row.id for row in profile.findings.findings[:3]] == ["COMM.STRAGGLER", "DISPATCH.VERTICAL", "STEP.START"]


@pytest.mark.parametrize("beyond", [-0.1, 0.0, 0.1])
def test_what_a_late_rank_costs_where_the_steps_end_in_a_wait(tmp_path, beyond: float) -> None:
    """A step ends a fraction of a microsecond before the wait that it ends with, or after it, as times are rounded."""
    usual = replace(TROUBLED["straggler"], profiler_level=0, steps=4, item_sync=True, step_end_sync=False, seed=9)
    situation = replace(usual, trouble=replace(usual.trouble, late_once=True))
    for name, content in recorded(situation, simulate(situation)).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("trace_view.json"):
            events = json.loads(content)
            ends = [Decimal(each["ts"]) + Decimal(str(each["dur"])) for each in events if each["name"] == "aten::item"]
            for each in events:
                if each["name"].startswith("ProfilerStep"):
                    begin = Decimal(each["ts"])
                    each["dur"] = float(min(end for end in ends if end > begin) + Decimal(str(beyond)) - begin)
            content = json.dumps(events).encode()
        (tmp_path / name).write_bytes(content)
    facts = profile_at(tmp_path).facts[0]
    assert facts.replay is not None
    waited = unknown_waits(facts.trace, facts.collectives)
    assert facts.replay.gain(Change(in_time=frozenset({UNKNOWN}))) == pytest.approx(sum(waited.values()), rel=0.1)


def test_what_is_waited_for_the_named_ends_where_only_others_are_missing(monkeypatch) -> None:
    """Rank 3 comes a little before rank 2, too late as well: for rank 2 alone this rank waits no longer than that."""
    facts = facts_of(job("two_late"))
    lateness = late(facts)
    assert (lateness.peers, lateness.named) == ((2, 3), (2, 3))
    monkeypatch.setattr(late_ranks, "late", lambda facts: structs.replace(lateness, named=(2,)))
    each = straggler_of(facts).title.args["each"].args["time"] * facts.count
    assert each == pytest.approx(sum(case.last - case.until((2,)) for case in lateness.cases), rel=0.05)
    assert each < 0.25 * length_of(lateness.span)
