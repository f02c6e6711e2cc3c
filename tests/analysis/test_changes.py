"""Where a series of runs changes, and what one more run of a level would be."""

from __future__ import annotations

import numpy as np
import pytest

from npu_tui.analysis import changes
from npu_tui.analysis.changes import course, expected
from tests.histories import NOISES, Level, history, right, within_five


@pytest.mark.parametrize("noise", ["normal", "heavy", "skewed", "outliers"])
def test_runs_of_one_level_have_no_change(noise: str) -> None:
    told = [course(history([(count, 1.0)], noise, 0.01, seed)) for count in (8, 12, 20, 30) for seed in (1, 2, 3)]
    assert sum(bool(one.changes) or one.drift is not None for one in told) <= 1


def test_runs_that_are_alike_seldom_have_a_change() -> None:
    """Each of these has one where runs are thought to be independent."""
    told = [course(history([(20, 1.0)], "alike", 0.01, seed)).changes for seed in (1, 4, 27, 29, 38)]
    assert sum(map(bool, told)) <= 2


@pytest.mark.parametrize("levels", [[(10, 1), (5, 1.03)], [(12, 1), (9, 0.97)], [(8, 1), (6, 1.03), (9, 1)]])
def test_a_change_of_three_percent_is_found_within_five_runs(levels: Level) -> None:
    for seed in (1, 2, 3):
        values = history(levels, "normal", 0.005, seed)
        assert within_five(levels, values)
        assert right(course(values), levels)


def test_place_and_size_of_a_change() -> None:
    told = course(history([(12, 1.0), (8, 1.1)], "normal", 0.01, 5))
    (change,) = told.changes
    assert change.first <= change.place <= change.last
    assert change.place == 12
    assert change.low < 13_700 < change.high
    assert change.delta == pytest.approx(13_700, rel=0.1)
    assert told.ahead == 0


def test_the_same_runs_tell_the_same() -> None:
    values = history([(10, 1.0), (9, 1.02)], "heavy", 0.01, 3)
    assert course(values) == course(values.copy())


def test_a_single_outlier_is_no_change_but_is_told_at_the_end() -> None:
    level = 100_000 + 300 * np.sin(np.arange(14.0) ** 2)
    within = np.insert(level, 6, 140_000.0)
    assert course(within).changes == ()
    assert course(within).ahead == 0
    assert course(np.append(level, 140_000.0)).ahead == 1
    assert course(np.append(level, [140_000.0] * 3)).ahead == 3
    (change,) = course(np.append(level, [140_000.0] * 4)).changes
    assert change.place == 14


def test_drift_is_no_step() -> None:
    told = course(history([(25, 1.0)], "normal", 0.005, 4, drift=0.08))
    assert told.changes == ()
    assert told.drift == pytest.approx(137_000 * 0.08 / 24, rel=0.25)


@pytest.mark.parametrize("begin", [0, 12])
@pytest.mark.parametrize("end", [12, 24])
@pytest.mark.parametrize("noise", [0.0, 0.003])
def test_what_grows_for_a_while_is_no_step(begin: int, end: int, noise: float) -> None:
    """From some run on, up to one, or all along: where it grows is told."""
    if begin == end:
        return
    rest = noise * np.random.default_rng(begin + end).standard_normal(25)
    told = course(100_000 * (1 + 0.2 * np.clip((np.arange(25) - begin) / (end - begin), 0, 1) + rest))
    assert told.changes == ()
    assert told.drift == pytest.approx(20_000 / (end - begin), rel=0.15)
    assert np.abs(np.array(told.grows) - (begin, end)).max() <= 1


@pytest.mark.parametrize("count", [10, 12])
def test_few_runs_that_grow_evenly(count: int) -> None:
    told = course(1000 * (1 + 0.3 * np.linspace(0, 1, count)))
    assert told.changes == ()
    assert told.drift == pytest.approx(300 / (count - 1))


@pytest.mark.parametrize("seed", range(6))
def test_a_large_change_lies_where_the_means_part(seed: int) -> None:
    """Seven runs at one level and five far below it: no other place is as good, whatever the noise."""
    rng = np.random.default_rng(seed)
    spread = (0.02, 0.1, 0.4)[seed % 3]
    values = np.repeat([159.2, 129.0], [7, 5]) + rng.normal(0, spread, 12)
    (change,) = course(1000 * values).changes
    assert (change.first, change.place, change.last) == (7, 7, 7)


@pytest.mark.parametrize("count", range(8))
def test_too_few_runs_tell_nothing(count: int) -> None:
    values = np.array([100.0] * (count // 2) + [200.0] * (count - count // 2))
    assert course(values).changes == ()


def test_runs_that_are_all_the_same() -> None:
    assert course(np.full(30, 5.0)).changes == ()
    (change,) = course(np.array([100.0] * 9 + [101.0] * 5)).changes
    assert (change.place, change.delta) == (9, 1.0)
    assert course(np.array([100.0] * 9 + [100.05] * 5)).changes == ()


def test_expected_leaves_outliers_out() -> None:
    level = np.array([100.0, 101, 99, 100, 102, 98, 100, 101, 99, 150])
    told = expected(level)
    assert told is not None
    assert told.centre == pytest.approx(100.0)
    # 2.306 (t, 8 degrees) * 1.2247 * sqrt(1 + 1 / 9)
    assert told.reach == pytest.approx(2.977, abs=0.02)
    assert expected(level[:3]) is None


def test_a_long_log_is_looked_at_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST", 40)
    rng = np.random.default_rng(7)
    values = np.concatenate([1000 + rng.standard_normal(90), 1030 + rng.standard_normal(15)])
    assert [change.place for change in course(values).changes] == [25]


def test_every_noise_has_the_spread_it_says() -> None:
    rng = np.random.default_rng(0)
    for name in NOISES:
        assert NOISES[name](rng, 40_000).std() == pytest.approx(2.0 if name == "outliers" else 1.0, rel=0.25)


def test_outliers_are_named_and_hide_no_change() -> None:
    """Two runs were disturbed, one of each level: they are told, and what would show is as small as without them."""
    rng = np.random.default_rng(3)
    values = np.repeat([200_000.0, 190_000.0], [20, 16]) * (1 + 0.004 * rng.standard_normal(36))
    plain = course(values)
    values[[5, 30]] *= 1.3
    disturbed = course(values)
    assert plain.outliers == ()
    assert disturbed.outliers == (5, 30)
    assert [change.place for change in disturbed.changes] == [20]
    assert plain.visible is not None
    assert disturbed.visible == pytest.approx(plain.visible, rel=0.2)


def test_two_modes_are_no_outliers_and_half_of_eight_runs_is_told_as_off() -> None:
    """Which machine a run had is no disturbance; four of eight runs far off are seen, though four may be chance."""
    rng = np.random.default_rng(1)
    for seed in range(6):
        draw = np.random.default_rng(seed)
        modes = 100 + np.where(draw.random(40) < 0.35, 0.0, 8.0) + draw.normal(0, 0.5, 40)
        found = course(modes * 1e6)
        assert not found.changes
        assert len(found.outliers) <= 8
    halves = np.append(100 + rng.normal(0, 0.4, 4), 104 + rng.normal(0, 0.4, 4))
    assert course(halves * 1e6).ahead == 4
    disturbed = 100 + rng.normal(0, 0.5, 30)
    disturbed[[4, 11, 25]] += 20
    assert course(disturbed * 1e6).outliers == (4, 11, 25)


def test_runs_of_two_modes_show_no_change_smaller_than_the_way_between_them() -> None:
    """Four runs of one mode say nothing: four that are 5 % longer may be of both."""
    rng = np.random.default_rng(1)
    found = course(100 + rng.normal(0, 0.2, 12) + 15 * np.isin(np.arange(12), (3, 6, 9)))
    assert found.changes == ()
    assert found.visible is not None
    assert found.visible > 5
    calm = course(100 + rng.normal(0, 0.2, 12) + 15 * np.isin(np.arange(12), (6,)))
    assert calm.visible is not None
    assert calm.visible < 2
