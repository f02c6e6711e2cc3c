"""The order of work: no time counts twice, what is contained is a part, and a cause goes before what it explains."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.rules.inputs import length_of, together
from npu_tui.rules.ladder import Rung, Scale, _ladder
from npu_tui.rules.model import Confidence
from npu_tui.rules.rule import Draft, FiredRule, Reach, Rule


def candidate(name: str, *spans: tuple[int, int], reach: Reach = "place", confidence: Confidence = "high") -> FiredRule:
    low, high = np.array(spans, np.int64).reshape(-1, 2).T
    rule = Rule(name, cls="dispatch", inputs=(), check=lambda facts: None, sources=(), reach=reach)
    return FiredRule(rule, Draft("high", name, name, removes=(low, high), confidence=confidence))


def order(*candidates: FiredRule) -> list[tuple[str, int | None, str | None]]:
    rungs = _ladder(list(candidates), Scale(), 1)
    return [(rung.candidate.rule.id, rung.gain, " ".join(rung.part_of) if rung.part_of else None) for rung in rungs]


def test_the_largest_first_and_the_rest_behind_it() -> None:
    found = order(candidate("small", (0, 10)), candidate("large", (100, 190)), candidate("overlapping", (150, 250)))
    assert found == [("overlapping", 100, None), ("large", 50, None), ("small", 10, None)]


def test_what_is_contained_is_a_part_with_its_own_gain() -> None:
    found = order(candidate("whole", (0, 100)), candidate("inside", (10, 30)), candidate("mostly", (90, 102)))
    assert found == [("whole", 100, None), ("inside", 20, "whole"), ("mostly", 12, "whole")]


def test_what_keeps_a_fifth_of_its_gain_is_no_part() -> None:
    assert order(candidate("whole", (0, 400)), candidate("kept", (320, 420)))[1] == ("kept", 20, None)
    assert order(candidate("whole", (0, 400)), candidate("part", (319, 419)))[1] == ("part", 100, "whole")


def test_a_cause_that_explains_nearly_all_goes_first() -> None:
    found = order(candidate("place", (0, 100)), candidate("cause", (0, 85), reach="cause"))
    # A part is never larger than its whole.
    assert found == [("cause", 85, None), ("place", 85, "cause")]
    found = order(candidate("place", (0, 100)), candidate("cause", (0, 60), reach="cause"))
    assert found == [("place", 100, None), ("cause", 60, "place")]


def test_a_place_goes_before_what_only_says_how_much() -> None:
    found = order(candidate("broad", (0, 100), reach="broad"), candidate("place", (0, 60)))
    assert found == [("place", 60, None), ("broad", 40, None)]


def test_what_is_sure_goes_before_a_guess_that_gains_as_much() -> None:
    found = order(candidate("guess", (0, 100), confidence="low"), candidate("known", (0, 100)))
    assert found == [("known", 100, None), ("guess", 100, "known")]


def test_what_several_contain_is_a_part_of_all_of_them() -> None:
    causes = [candidate(name, span, reach="cause") for name, span in (("first", (0, 60)), ("then", (60, 100)))]
    found = order(candidate("broad", (0, 110), reach="broad"), *causes)
    assert found == [("first", 60, None), ("then", 40, None), ("broad", 100, "first then")]


def test_a_gain_is_held_while_less_than_a_fifth_of_it_comes_alone() -> None:
    own = candidate("any", (0, 100))
    held = [Rung(own, 100, 100, None, alone=alone).held for alone in (0, 19, 20, 100, None)]
    assert held == [True, True, False, False, False]


spans = st.lists(
    st.tuples(st.integers(0, 500), st.integers(1, 60)).map(lambda row: (row[0], row[0] + row[1])), min_size=1
)


@given(st.lists(st.tuples(spans, st.sampled_from(["cause", "place", "broad"])), min_size=1, max_size=6))
def test_gains_add_up_to_what_is_removed(rows: list) -> None:
    candidates = [candidate(str(k), *own, reach=reach) for k, (own, reach) in enumerate(rows)]
    rungs = _ladder(candidates, Scale(), 1)
    assert sorted(rung.candidate.rule.id for rung in rungs) == sorted(each.rule.id for each in candidates)
    steps = [rung for rung in rungs if rung.part_of is None]
    claimed = together(*(rung.candidate.span for rung in steps))
    assert sum(rung.gain or 0 for rung in steps) == length_of(claimed)
    removed = [rung.removed for rung in rungs]
    assert removed == sorted(removed, key=lambda value: value or 0)
    gains = {rung.candidate.rule.id: rung.gain or 0 for rung in steps}
    for rung in rungs:
        if rung.part_of is not None:
            assert 0 < (rung.gain or 0) <= sum(gains[name] for name in rung.part_of)


def test_what_slows_all_launches_goes_before_how_late_they_are() -> None:
    """A queue that is off gains less than launching takes, and more than half of what late launches cost."""
    late, queue = candidate("late", (0, 100), reach="broad"), candidate("queue", (65, 125), reach="cause")
    rungs = _ladder([late, queue], Scale(), 1, 70)
    assert [(rung.candidate.rule.id, rung.gain) for rung in rungs] == [("queue", 60), ("late", 65)]
    small = candidate("small", (90, 135), reach="cause")
    assert _ladder([late, small], Scale(), 1, 70)[0].candidate is late


def test_a_cause_goes_before_launching_of_which_it_leaves_at_most_twice_as_much() -> None:
    """What is left of late launches says what launching costs without it."""
    late = candidate("late", (0, 100))
    for end, lead in ((40, "cause"), (30, "late")):
        rungs = _ladder([late, candidate("cause", (0, end), reach="cause")], Scale(), 1, 50)
        assert rungs[0].candidate.rule.id == lead
        assert [rung.gain for rung in rungs] == ([40, 60] if lead == "cause" else [100, 30])
