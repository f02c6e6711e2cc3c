"""Simulated jobs against their truth; ``simulations.py`` prints the long table."""

from __future__ import annotations

import pytest
from simulations import HOST, SITUATIONS, measured

SMALL = [(situation, world) for situation in SITUATIONS for world in (8, 64)]


@pytest.mark.parametrize(("situation", "world"), [each for each in SMALL if each != ("one slow host", HOST)])
def test_the_cause_comes_first_with_its_price_on_a_true_clock(situation: str, world: int):
    row = measured(situation, world, range(3 if world == 8 else 1))
    assert row.named == 1
    assert row.alone == 1
    assert max(row.price, default=0) < 0.05
    assert row.within >= 0.95
    assert row.certain == 1


def test_a_thousand_ranks():
    row = measured("one slow rank", 1_000, range(1))
    assert (row.named, row.alone) == (1, 1)
    assert max(row.price, default=0) < 0.05
    assert row.within >= 0.95


def test_drift_over_a_minute_is_known_within_one_part_in_a_million():
    row = measured("nobody is slow", 8, range(5), pause=8e9)
    assert max(row.clock) < 60  # us over 60 s
    assert row.within >= 0.95
