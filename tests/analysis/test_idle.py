"""Free times with who was late, what the host did meanwhile, and what waits for the device cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from measured import profile_of

from npu_tui.analysis.bubbles import sync_sums, waits
from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.analysis.ranges import meanwhile
from npu_tui.load.load import load
from npu_tui.profile.profile import Profile

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def profile() -> Profile:
    return profile_of(load(ROOT / "fixtures" / "dispatch_bound"))


def test_the_sums_of_free_times_are_those_of_the_split(profile):
    [found], [part] = profile.idles, profile.devices
    late, side, unlinked = part.split.sums(EVERYTHING)
    assert found.late.sum() == pytest.approx(late)
    assert found.unlinked.sum() == pytest.approx(unlinked)
    assert found.length.sum() - found.late.sum() - found.unlinked.sum() == pytest.approx(side)
    assert found.length.sum() == profile.overlaps[0].free


def test_a_free_time_lies_between_what_ended_before_it_and_what_ended_it(profile):
    [found], slices = profile.idles, profile.trace.slices
    known = (found.before >= 0) & (found.after >= 0)
    assert known.sum() > 20
    assert (slices.end[found.before[known]] <= found.start[known] + 2).all()
    assert (slices.start[found.after[known]] >= found.start[known]).all()
    assert (slices.start[found.after[known]] <= found.end[known] + 2).all()


def test_a_window_cuts_free_times_and_their_late_part(profile):
    [found] = profile.idles
    at = int(found.longest()[0])
    start, end = int(found.start[at]), int(found.end[at])
    half = (start + end) // 2
    first, second = found.within(Window(start, half)), found.within(Window(half, end))
    assert first.length.sum() + second.length.sum() == end - start
    assert first.late.sum() + second.late.sum() == pytest.approx(float(found.late[at]))


def test_a_thread_is_accounted_for_to_the_nanosecond(profile):
    trace = profile.trace
    lane = max(
        (lane for lane in trace.file_lanes if trace.layers[lane.layer].kind == "python"), key=lambda lane: lane.rows
    )
    for start, end in ((0, trace.end), (trace.end // 3, trace.end // 2)):
        done = meanwhile(trace, lane, start, end)
        assert sum(time for _, time in done.names) + done.silent == pytest.approx(end - start, abs=len(done.names))
        own = trace.slices.name[done.longest]
        assert trace.names[own] in dict(done.names)


def test_every_wait_is_counted_once_and_costs_what_the_device_was_idle(profile):
    found = sync_sums(profile.trace, profile.idles, 0.0, EVERYTHING)
    items = waits(profile.trace)
    assert sorted(np.concatenate([each.items for each in found]).tolist()) == sorted(items.tolist())
    slices = profile.trace.slices
    assert sum(each.total for each in found) == int((slices.end[items] - slices.start[items]).sum())
    assert all(0 <= each.idle <= each.total for each in found)
