"""The rank tests, held against counting every outcome and against published tables."""

import math
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from npu_tui.analysis.statistics import (
    discoveries,
    judge,
    paired_shift,
    rank_sum_p,
    shift,
    signed_rank_p,
    visible_change,
)


def counted_p(base, new):
    """The two-sided p by drawing every possible base out of all values."""
    together = np.concatenate((base, new))
    ranks = np.array([(together < value).sum() + ((together == value).sum() + 1) / 2 for value in together])
    centre = ranks.sum() * len(base) / len(together)
    seen = abs(ranks[: len(base)].sum() - centre)
    sums = [ranks[list(chosen)].sum() for chosen in combinations(range(len(together)), len(base))]
    return np.mean([abs(each - centre) >= seen - 1e-9 for each in sums])


@pytest.mark.parametrize("seed", range(6))
def test_rank_sum_p_is_the_share_of_all_draws(seed):
    rng = np.random.default_rng(seed)
    base, new = rng.integers(0, 8, 5).astype(float), rng.integers(2, 10, 4).astype(float)
    assert rank_sum_p(base, new) == pytest.approx(counted_p(base, new))


@pytest.mark.parametrize("seed", range(4))
def test_signed_rank_p_is_the_share_of_all_signs(seed):
    rng = np.random.default_rng(seed)
    size = rng.permutation(np.arange(1.0, 9.0))
    signs = rng.choice([-1, 1], 8)
    ranks = np.arange(1, 9)[np.argsort(np.argsort(size))]
    seen = abs(ranks[signs > 0].sum() - ranks.sum() / 2)
    outcomes = [abs(ranks[np.array(each) > 0].sum() - ranks.sum() / 2) for each in product((-1, 1), repeat=8)]
    assert signed_rank_p(size * signs) == pytest.approx(np.mean(np.array(outcomes) >= seen - 1e-9))


@pytest.mark.parametrize("seed", range(4))
def test_signed_rank_p_leaves_zeros_out_and_shares_ranks(seed):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 4, 8)
    signs = rng.choice([-1, 1], 8)
    ranks = np.array([(size < each).sum() + ((size == each).sum() + 1) / 2 for each in size])
    seen = abs(ranks[signs > 0].sum() - ranks.sum() / 2)
    outcomes = [abs(ranks[np.array(each) > 0].sum() - ranks.sum() / 2) for each in product((-1, 1), repeat=8)]
    found = signed_rank_p(np.append(size * signs, [0, 0, 0]).astype(float))
    assert found == pytest.approx(np.mean(np.array(outcomes) >= seen - 1e-9))
    assert signed_rank_p(np.zeros(7)) == 1.0


def test_p_of_many_samples_is_that_of_the_normal_moments():
    """Wilcoxon's moments: n(n+1)/4 and n(n+1)(2n+1)/24 of the signed ranks, m(m+n+1)/2 and mn(m+n+1)/12 of the sums."""
    rng = np.random.default_rng(3)
    difference = rng.normal(0.1, 1, 150)
    ranks = np.argsort(np.argsort(np.abs(difference))) + 1
    away = (ranks[difference > 0].sum() - 150 * 151 / 4) / math.sqrt(150 * 151 * 301 / 24)
    assert signed_rank_p(difference) == pytest.approx(math.erfc(abs(away) / math.sqrt(2)))
    base, new = rng.normal(0, 1, 70), rng.normal(0.3, 1, 90)
    ranks = np.argsort(np.argsort(np.append(base, new))) + 1
    away = (ranks[:70].sum() - 70 * 161 / 2) / math.sqrt(70 * 90 * 161 / 12)
    assert rank_sum_p(base, new) == pytest.approx(math.erfc(abs(away) / math.sqrt(2)))


@pytest.mark.parametrize("count", [6, 9, 12])
def test_the_paired_interval_holds_what_the_test_does_not_reject(count):
    """Its ends are where the p of the differences less a shift passes 5 %; the estimate is the median of all means."""
    difference = np.random.default_rng(count).normal(2, 3, count)
    found = paired_shift(difference)
    means = [(first + second) / 2 for first, second in combinations_with_replacement(difference, 2)]
    assert found.estimate == pytest.approx(np.median(means))
    assert found.p == signed_rank_p(difference)
    little = min(np.diff(np.sort(means))) / 3
    for end, outwards in ((found.low, -little), (found.high, little)):
        assert signed_rank_p(difference - end - outwards) < 0.05 <= signed_rank_p(difference - end + outwards)


def test_four_a_side_is_the_least_that_can_tell():
    assert shift(np.arange(3.0), np.arange(3.0) + 9) is None
    found = shift(np.arange(4.0), np.arange(4.0) + 9)
    assert found.p == pytest.approx(2 / 70)
    assert (found.low, found.high) == (6, 12)
    assert found.estimate == 9


def test_interval_ranks_are_those_of_the_tables():
    # Critical values of U at 5 % two-sided: 23 for 10 and 10, 2 for 5 and 5.
    from npu_tui.analysis.statistics import _interval_rank, _signed_interval_rank

    assert _interval_rank(10, 10) == 23
    assert _interval_rank(5, 5) == 2
    assert _signed_interval_rank(10) == 8
    assert _signed_interval_rank(6) == 0


def test_large_samples_agree_with_the_exact_count():
    rng = np.random.default_rng(5)
    base, new = rng.normal(0, 1, 60), rng.normal(0.3, 1, 60)
    exact = rank_sum_p(base, new)
    grown = rank_sum_p(base, np.append(new, np.median(new)))
    assert grown == pytest.approx(exact, rel=0.15)


def test_paired_needs_six():
    assert paired_shift(np.ones(5)) is None
    found = paired_shift(np.array([5.0, 6, 7, 5, 6, 8]))
    assert found.low >= 5
    assert found.p == pytest.approx(2 / 64)


def test_q_values_grow_with_p_and_keep_unknowns():
    q = discoveries(np.array([0.01, np.nan, 0.04, 0.03]))
    assert q[[0, 2, 3]] == pytest.approx([0.03, 0.04, 0.04])
    assert np.isnan(q[1])


def test_visible_change_shrinks_with_samples():
    rng = np.random.default_rng(1)
    few = visible_change(rng.normal(100, 2, 4), rng.normal(100, 2, 4))
    many = visible_change(rng.normal(100, 2, 400), rng.normal(100, 2, 400))
    assert many < few
    assert many == pytest.approx(2.87 * 2 * (2 / 400) ** 0.5, rel=0.15)


def test_a_single_step_borrows_the_noise_of_the_other_side():
    noisy = np.array([10.0, 11.0, 12.0, 13.0, 14.0])
    assert visible_change(np.array([10.0]), np.array([12.0])) is None
    assert visible_change(np.full(4, 10.0), np.full(4, 12.0)) is None, "no noise was measured"
    alone = visible_change(np.array([12.0]), noisy)
    assert alone == pytest.approx(2.87 * 1.4826 * 1.0 * np.sqrt(1 + 1 / 5))
    assert visible_change(noisy, np.array([99.0])) == pytest.approx(alone), "its own value tells no noise"


def test_steps_that_mostly_grow_while_their_mean_shrinks_tell_nothing():
    base, new = np.array([10.0] * 7 + [40.0]), np.array([11.0] * 8)
    assert judge(base, new, 0.03).verdict == "unsure"
    assert judge(new, base, 0.03).verdict == "unsure"
    assert judge(base[:7], new, 0.03).verdict == "slower"


def test_few_samples_tell_a_change_far_beyond_their_noise():
    base = np.array([100.0, 104.0])
    assert judge(base, np.array([300.0, 309.0]), 0.03).verdict == "slower"
    assert judge(np.array([300.0, 309.0]), base, 0.03).verdict == "faster"
    assert judge(base, np.array([110.0, 120.0]), 0.03).verdict == "unsure"
    assert judge(base[:1], np.array([300.0]), 0.03).verdict == "unsure"  # nothing tells of their noise
