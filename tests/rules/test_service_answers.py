"""Answers of a service that are decoded past their end: what they cost, beside the same service without it."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from served import figure, written
from service import Service, Tenant

from npu_tui.analysis.service_latency import timeline
from npu_tui.load.service import read_service
from npu_tui.rules.service_verdict import JudgedService, judge
from npu_tui.strings import words

_ANSWERED = 40  # tokens of each answer, for which 64 are computed
_SERVICE = Service(requests=120, tenants=(Tenant(1, (200, 1000), (64, 64)),))


def _answered(folder: Path, tokens: int) -> JudgedService:
    """What is said of ``_SERVICE`` if its answers have so many ``tokens``."""
    path = written(_SERVICE, folder) / "request.csv"
    rows = list(csv.DictReader(path.open(newline="")))
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(row | {"reply_token_size": str(tokens)} for row in rows)
    return judge(timeline(read_service(folder)))


def test_tokens_past_the_end_of_an_answer_cost_what_they_take(tmp_path: Path) -> None:
    """The replayed end is that of the same service whose answers are as long as what they give."""
    found = _answered(tmp_path, _ANSWERED)
    first = found.findings.findings[0]
    assert first.id == "SERVICE.STOP"
    assert "every 64 tokens" in words(first.detail)
    then = figure(replace(_SERVICE, tenants=(Tenant(1, (200, 1000), (_ANSWERED, _ANSWERED)),)), "tpot", 50)
    now = found.figures["tpot_p50"]
    assert now - then > 0.2 * now
    value = words(first.detail).split("TPOT p50 ")[1].split(" → ")[1].split(" ms")[0]
    assert float(value) * 1e6 == pytest.approx(then, rel=0.1)


def test_an_end_that_is_noticed_a_step_late_is_none(tmp_path: Path) -> None:
    """One step more than tokens is how an engine that schedules ahead ends."""
    found = _answered(tmp_path, 63)
    assert "SERVICE.STOP" not in [one.id for one in found.findings.findings]
    assert np.isfinite(found.figures["e2e_p50"])
