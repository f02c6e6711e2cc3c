"""The film of a run: a trace of its replay, to the nanosecond what the replay says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jobs import measured
from measured import profile_at
from troubled import TROUBLED

from npu_tui.analysis.film import film
from npu_tui.analysis.replay import NO_CHANGE, Replay
from npu_tui.analysis.replay_device import COLLECTIVE, KERNEL
from npu_tui.output.film import PLAYED, RECORDED, align_film, causes, film_of, film_scene
from npu_tui.output.whatif import ask, owner_question, replay_of, whatif
from npu_tui.profile.profile import Profile
from npu_tui.trace.arrays import I64
from npu_tui.trace.model import Trace

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
NAMES = ("dispatch_bound", "communication_bound", "healthy", "kineto", "mindspore", "msprof_two_devices", "older_chip")


def spanned(replay: Replay, played: Trace, place: I64) -> int:
    """From the first step to the last end of a step or a task, measured on the slices of the film, ns."""
    slices, tasks = played.slices, replay.model.tasks
    busy = place[tasks.item[np.isin(tasks.kind, (KERNEL, COLLECTIVE))]]
    steps = place[np.unique(replay.model.host.item[np.isin(replay.model.host.node, replay.model.steps)])]
    ends = [int(slices.end[busy].max()) - replay.model.floor, *slices.end[steps].tolist()]
    starts = slices.start[steps].tolist() or [int(slices.start[busy].min()) - replay.model.floor]
    return max(ends) - min(starts)


@pytest.mark.parametrize("name", NAMES)
def test_the_film_of_an_unchanged_run_is_what_was_recorded(name: str) -> None:
    profile = profile_at(FIXTURES / name)
    _, replay = replay_of(profile)
    played, place = film(replay, NO_CHANGE, profile.device_slices)
    recorded = profile.trace.slices
    kept = np.flatnonzero(place[:-1] >= 0)
    new = place[kept]
    assert (played.slices.name[new] == recorded.name[kept]).all()
    # The replay may miss a recording by a little; what it says is drawn.
    most = max(2 * replay.error * replay.recorded, 1000)
    assert np.abs(played.slices.start[new] - recorded.start[kept]).max() <= most
    assert np.abs(played.slices.end[new] - recorded.end[kept]).max() <= most
    assert spanned(replay, played, place) == replay.replayed


def checked(profile: Profile, texts: list[str]) -> None:
    """A film has the length of the answer, rows without overlap, all links and the whole path."""
    shown, asked = film_of(profile, texts), ask(profile, texts)
    answer = whatif(profile, texts)
    _, replay = replay_of(profile)
    played, place = film(replay, asked.change, profile.device_slices)
    assert spanned(replay, played, place) == replay.length(asked.change)
    assert shown.path.found.path.length == replay.length(asked.change)
    assert shown.rungs[shown.count - 1].length == pytest.approx(1000 * answer.step_after_us, abs=1)
    assert shown.recorded == pytest.approx(1000 * answer.step_us, abs=1)
    trace = shown.played[0].trace
    rows = trace.rows
    assert [(lane.name, lane.layer) for lane in trace.lanes] == [
        (lane.name, lane.layer) for lane in profile.trace.lanes
    ]
    row = np.repeat(np.arange(len(rows)), np.diff(rows.offset))
    same = row[1:] == row[:-1]
    assert (rows.start[1:] >= rows.end[:-1])[same].all()
    assert (trace.slices.end >= trace.slices.start).all()
    links = trace.links
    bound = (profile.trace.links.source_slice >= 0) & (profile.trace.links.target_slice >= 0)
    assert len(links) == int(bound.sum())
    assert (links.source_time >= trace.slices.start[links.source_slice]).all()
    assert (links.source_time <= trace.slices.end[links.source_slice]).all()


@pytest.mark.parametrize("name", ["dispatch_bound", "communication_bound", "kineto"])
def test_a_film_is_as_long_as_the_answer(name: str) -> None:
    profile = profile_at(FIXTURES / name)
    texts = [finding.whatif for finding in causes(profile) if finding.whatif]
    assert texts
    for count in range(1, min(len(texts), 3) + 1):
        checked(profile, texts[:count])
    told = next(path for path in profile.critical_paths if path.owners is not None)
    removable = next(owner for owner in told.owners.owners if owner.gain)
    checked(profile, [owner_question(profile.trace, removable)])


@pytest.mark.parametrize("trouble", ["slow_python", "straggler", "metrics"])
def test_a_film_of_a_job_with_one_trouble(trouble: str) -> None:
    profile = measured(replace(TROUBLED[trouble], seed=4, paired=True))
    checked(profile, [finding.whatif for finding in causes(profile) if finding.whatif][:1])


def test_the_steps_of_both_runs_begin_together() -> None:
    profile = profile_at(FIXTURES / "dispatch_bound")
    scene = film_scene(film_of(profile, ["fix HOST.WORK"]))
    for start, _, _ in scene.steps(RECORDED):
        scene.set_offsets(align_film(scene, start))
        assert start in [begin for begin, _, _ in scene.steps(PLAYED)]
        assert start in [begin for begin, _, _ in scene.steps(RECORDED)]
