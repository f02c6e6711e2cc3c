"""The model of a run: nothing changed gives the recorded times, and a cause removed what the simulator gives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs import measured
from measured import part_of
from situations import Situation, Trouble
from troubled import TROUBLED

from npu_tui.analysis.replay import ANY_THREAD, NO_CHANGE, Change, HostCut, Replay, TaskCut

if TYPE_CHECKING:
    from conftest import Sample

    from npu_tui.profile.profile import Profile
    from npu_tui.trace.model import Trace

#: Fixtures without a link from the host to a device.
WITHOUT_LAUNCHES = {"chrome_generic"}


def replays(found: Profile) -> list[Replay]:
    return [each for _, each in found.replays if each is not None]


def of_job(situation: Situation) -> tuple[Trace, Replay]:
    found = measured(replace(situation, paired=True))
    (only,) = replays(found)
    return found.trace, only


def named(trace: Trace, part: str) -> np.ndarray:
    codes = [code for code, name in enumerate(trace.names) if part in name]
    return np.flatnonzero(np.isin(trace.slices.name, codes))


def without(trace: Trace, part: str) -> Change:
    items = named(trace, part)
    return Change(host=(HostCut(ANY_THREAD, (trace.slices.start[items], trace.slices.end[items])),))


def test_every_fixture_is_reproduced(sample: Sample) -> None:
    found = replays(part_of(sample.trace))
    assert found or sample.name.split("/")[0] in WITHOUT_LAUNCHES
    for each in found:
        assert each.error <= 0.001
        assert each.model.missed == 0
        assert np.abs(each.base.time - each.model.time).max() <= 5_000


def test_every_real_profile_is_reproduced(real: Sample) -> None:
    (only,) = replays(part_of(real.trace))
    assert only.trusted
    assert only.error <= 0.001
    assert only.model.missed == 0
    tasks = only.model.tasks
    kernels = tasks.kind == 0
    assert np.abs(only.base.ends[kernels] - real.trace.slices.end[tasks.item[kernels]]).max() <= 1_000


def gain(before: Situation, after: Situation, change: str | Change) -> tuple[float, float, float]:
    """Predicted and simulated gain, and the length of the run before, ns."""
    trace, own = of_job(before)
    _, other = of_job(after)
    removed = without(trace, change) if isinstance(change, str) else change
    return own.gain(removed), own.recorded - other.recorded, own.recorded


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize(
    ("trouble", "remedy", "change"),
    [
        ("loader", {"dataloader_ns": 180_000}, "DataLoader"),
        ("compile", {"compile_permille": 0}, "aclopCompileAndExecute"),
        ("slow_python", {"slow_lines": ()}, "relative_bias"),
        ("collection", {"trouble": Trouble()}, "GC"),
        ("straggler", {"trouble": Trouble()}, Change(in_time=frozenset({2}))),
    ],
)
def test_what_the_simulator_says(trouble: str, remedy: dict, change: str | Change, seed: int) -> None:
    before = replace(TROUBLED[trouble], seed=seed)
    predicted, simulated, length = gain(before, replace(before, **remedy), change)
    assert simulated > 0
    assert predicted == pytest.approx(simulated, abs=0.03 * length, rel=0.1)


def test_kernels_made_shorter() -> None:
    trace, own = of_job(replace(TROUBLED["ai_cpu"], seed=5))
    found = named(trace, "NonZero")
    kernels = found[np.isin(found, own.model.tasks.item)]
    length = int((trace.slices.end[kernels] - trace.slices.start[kernels]).sum())
    assert 0.9 * length <= own.gain(Change(tasks=(TaskCut(kernels),))) <= length
    assert own.gain(Change(tasks=(TaskCut(kernels, 2.0),))) <= -0.9 * length


def test_nothing_is_nothing() -> None:
    _, own = of_job(replace(TROUBLED["slow_python"], seed=5))
    assert NO_CHANGE.is_empty
    assert own.gain(NO_CHANGE) == 0
    assert own.gain(Change(in_time=frozenset({3}), waits=frozenset({-5}))) == 0


@given(st.lists(st.tuples(st.integers(0, 25_000_000), st.integers(1, 4_000_000)), max_size=4), st.floats(0, 1))
def test_less_work_never_takes_longer(rows: list[tuple[int, int]], keep: float) -> None:
    own = _hungry()
    start = np.array([low for low, _ in rows], np.int64)
    span = start, start + np.array([length for _, length in rows], np.int64)
    part = Change(host=(HostCut(ANY_THREAD, span, keep),))
    whole = Change(host=(HostCut(ANY_THREAD, span),))
    assert 0 <= own.gain(part) <= own.gain(whole) <= sum(length for _, length in rows)


def _hungry(known: list[Replay] = []) -> Replay:  # noqa: B006 - built once
    if not known:
        known.append(of_job(replace(TROUBLED["slow_python"], seed=5))[1])
    return known[0]
