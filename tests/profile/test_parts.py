"""A part of a profile is a profile of the same trace: what depends on the window is its own, all else is shared."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
from measured import profile_at

from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.profile.parts import WHOLE_TRACE, Selection, select_step, shared
from npu_tui.profile.profile import Profile
from npu_tui.trace.once import once

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


@pytest.fixture
def profile() -> Profile:
    return profile_at(FIXTURES / "dispatch_bound")


def halves(profile: Profile) -> list[Profile]:
    middle = profile.trace.end // 2
    return [
        profile.part(Selection(Window(EVERYTHING.start, middle))),
        profile.part(Selection(Window(middle, EVERYTHING.end))),
    ]


def test_what_starts_in_two_halves_is_all_there_is(profile: Profile) -> None:
    parts = halves(profile)
    for name, items_of in (
        ("kernels", lambda part: part.kernels),
        ("collectives", lambda part: part.collectives.item),
        ("kernel_table", lambda part: part.kernel_table.item),
    ):
        items = np.concatenate([items_of(part) for part in parts])
        assert np.sort(items).tolist() == np.sort(items_of(profile)).tolist(), name
    assert sum(api.count for part in parts for api in part.apis) == sum(api.count for api in profile.apis)


def test_all_else_is_computed_once(profile: Profile) -> None:
    names = [name for name, value in vars(Profile).items() if isinstance(value, shared)]
    assert {"steps", "devices", "all_kernels", "memory", "replays"} <= set(names)
    first, second = halves(profile)
    for name in names:
        assert getattr(second, name) is getattr(first, name) is getattr(profile, name), name
        assert getattr(Profile, name).is_known(first), name
        assert name not in vars(first), name


def test_what_depends_on_the_window_is_its_own(profile: Profile) -> None:
    names = [name for name, value in vars(Profile).items() if isinstance(value, once) and not isinstance(value, shared)]
    assert {"collectives", "facts", "findings", "kernels", "step_sums"} <= set(names)
    part = halves(profile)[0]
    for name in ("collectives", "facts", "findings", "kernels"):
        assert getattr(part, name) is not getattr(profile, name), name
    assert part.window == part.selection.window != profile.window == EVERYTHING


def test_a_part_of_a_part_is_one_of_the_whole(profile: Profile) -> None:
    number = profile.steps[1].number
    assert number is not None
    selection = select_step(profile.steps, number)
    assert selection is not None
    part = profile.part(selection)
    assert (part.step, part.whole, profile.whole) == (number, profile, profile)
    assert halves(part)[0] is halves(profile)[0]
    assert part.part(WHOLE_TRACE) is profile
    assert [step.number for step, _ in part.step_sums] == [number]


def test_the_last_parts_stay_measured(profile: Profile) -> None:
    selections = [Selection(Window(0, end)) for end in range(1, 10)]
    parts = [profile.part(selection) for selection in selections]
    assert profile.part(selections[-1]) is parts[-1]
    assert profile.part(selections[1]) is parts[1]
    assert profile.part(selections[0]) is not parts[0]


def test_a_profile_that_is_dropped_frees_its_trace_at_once() -> None:
    gc.disable()
    try:
        profile = profile_at(FIXTURES / "healthy")
        _ = profile.steps, profile.dispatch, profile.overlaps, profile.health
        gone = weakref.ref(profile)
        del profile
        assert gone() is None
    finally:
        gc.enable()
