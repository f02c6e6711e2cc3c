"""Over many seeds the right finding leads, the healthy job is left in peace, and no gain counts twice.

``NPU_TUI_SEEDS=500 python -m pytest tests/rules/test_troubles.py`` tries more of them.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from jobs import by_id, measured
from troubled import TROUBLED

from npu_tui.rules.model import Findings
from npu_tui.strings import words

SEEDS = range(int(os.environ.get("NPU_TUI_SEEDS", "2")))
LEADS = {
    "straggler": "COMM.STRAGGLER",
    "transfers": "COMM.EXPOSED",
    "slow_python": "HOST.WORK",
    "compile": "OP.COMPILE",
    "loader": "DATA.LOADER",
    "metrics": "SYNC.HOST",
    "ai_cpu": "KERNEL.BOUND",
    "step_start": "HOST.WORK",
    "allocation": "MEM.ALLOC",
    "collection": "PY.GC",
    "copies": "DATA.COPY",
    "clock": "FREQ",
}
SILENT_WHEN_HEALTHY = "healthy"


def ladder_holds(found: Findings, step_ns: float) -> None:
    """Each rung is as much shorter as its gain says; parts gain no more than there is; nothing drops below zero."""
    left = round(step_ns)
    for each in found.findings:
        if each.step_after_ns is None:
            continue
        assert each.gain_ns is not None
        if each.part_of is None:
            assert each.step_after_ns == pytest.approx(max(left - each.gain_ns, 0), abs=3)
            left = each.step_after_ns
        else:
            assert each.step_after_ns == left
            above = found.findings[: found.findings.index(each)]
            assert each.part_of in {other.id for other in above if other.part_of is None}
    weights = [each.gain_ns for each in found.findings if each.step_after_ns is not None and each.part_of is None]
    assert sum(weight for weight in weights if weight) <= step_ns * 1.2


@pytest.mark.few(5)
@pytest.mark.parametrize("trouble", LEADS)
def test_the_trouble_leads(trouble: str) -> None:
    for seed in SEEDS:
        found = measured(replace(TROUBLED[trouble], seed=seed))
        first = found.findings.findings[0]
        assert first.id == LEADS[trouble], (seed, words(first.title))
        assert first.severity in ("high", "medium"), (seed, words(first.title))
        assert first.evidence, seed
        assert first.advice, seed
        assert found.findings.verdict, seed
        by_id(found.findings)
        (facts,) = found.facts
        ladder_holds(found.findings, facts.step_ns)


def test_the_healthy_job_is_left_in_peace() -> None:
    for seed in SEEDS:
        found = measured(replace(TROUBLED[SILENT_WHEN_HEALTHY], seed=seed)).findings
        assert {each.severity for each in found.findings} == {"info"}, (
            seed,
            [words(each.title) for each in found.findings],
        )
        assert words(found.verdict[0]).startswith("No significant bottleneck"), seed
