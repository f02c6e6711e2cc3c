"""Pipelines: filling and draining blame nobody, a slow stage gains what the schedule gives back; a small sample."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pipelines import SITUATIONS, gain_of, measured, write

from npu_tui.analysis.pipelines import pipeline_fills
from npu_tui.strings import words


@pytest.mark.parametrize(
    "name",
    [
        "slow third of four",
        "slow first, seen from the second",
        "slow last, seen from the first",
        "slow backward only, seen from the last",
        "gathered, slow first",
        "six stages, slow second seen from the fifth",
        "two passes, slow last",
    ],
)
def test_a_slow_stage_gains_what_even_stages_would(name: str) -> None:
    pipeline = SITUATIONS[name]
    found, length = measured(pipeline)
    even = write(replace(pipeline, slow=()), Path("/dev/null"))
    simulated, step = (length - even) / pipeline.steps, length / pipeline.steps
    assert abs(gain_of(found) - simulated) <= max(0.1 * simulated, 0.03 * step)
    lead = found.findings.findings[0]
    assert lead.id == "COMM.STRAGGLER"
    assert "for a slow stage of the pipeline" in words(lead.title)
    assert lead.confidence == "medium"  # the stage beside this one may pass on the delay of another
    assert "move layers" in words(lead.advice[0])


@pytest.mark.parametrize(
    "name",
    [
        "even",
        "even, seen from the last",
        "even, gathered",
        "even, uneven passes",
        "even, two passes",
        "even, one pass, seen from the first",
    ],
)
def test_filling_and_draining_blame_nobody(name: str) -> None:
    found, _ = measured(SITUATIONS[name])
    assert not [each for each in found.findings.findings if each.id in ("COMM.STRAGGLER", "COMM.LINK")]
    exposed = next(each for each in found.findings.findings if each.id == "COMM.EXPOSED")
    assert exposed.severity == "info"
    assert "the pipeline that fills and drains" in words(exposed.detail)


def test_the_bubble_of_even_stages_is_all_their_waiting() -> None:
    found, _ = measured(replace(SITUATIONS["even"], noise=0.0))
    fills = pipeline_fills(found.trace, found.collectives, 3)
    waits = {row.item: max(after for _, after in row.arrivals or [(0, 0)]) for row in found.collectives}
    waited = {item: wait for item, wait in waits.items() if wait > 100_000}
    assert {item: fills[item] for item in waited} == pytest.approx(waited, rel=0.005)
    # Two stages lie behind the second of four, and one before it: three passes of 3.5 ms a step.
    assert sum(waited.values()) / 3 == pytest.approx(3 * 3_500_000, rel=0.1)


def test_a_first_stage_that_begins_late_is_late() -> None:
    slow = SITUATIONS["slow last, seen from the first"]
    found, _ = measured(replace(slow, slow=(), micro=8, rank=1, late=15_000_000, seed=4))
    assert gain_of(found) == pytest.approx(15_000_000, rel=0.04)


def test_the_last_stage_is_filled_with_forward_passes_only() -> None:
    found, length = measured(replace(SITUATIONS["even"], rank=3, late=10_000_000))
    assert gain_of(found) == pytest.approx(10_000_000, abs=0.03 * length / 3)


def test_a_lane_with_one_receive_a_step_has_no_rhythm_where_the_stages_are_not_known() -> None:
    found, _ = measured(replace(SITUATIONS["even"], micro=3, stages=2, rank=0))
    shorter, _ = measured(replace(SITUATIONS["even"], micro=1, stages=2))
    assert pipeline_fills(found.trace, found.collectives, 3)
    assert pipeline_fills(shorter.trace, shorter.collectives, 3) == {}
    assert pipeline_fills(found.trace, found.collectives, 9) == {}  # one receive a step
    assert pipeline_fills(found.trace, found.collectives, 4) == {}  # not as often in every step
