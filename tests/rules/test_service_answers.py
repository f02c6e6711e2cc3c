"""Answers of a service that are decoded past their end, and tokens that leave late: what holds them, what they cost."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served import figure, of_services, served, written
from service import MS, Service, Tenant

from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.service_latency import timeline
from npu_tui.load.load import load
from npu_tui.load.service import read_service
from npu_tui.rules.service_verdict import JudgedService, judge, judged
from npu_tui.strings import words

pytestmark = of_services

_ANSWERED = 40  # tokens of each answer, for which 64 are computed
_SERVICE = Service(requests=80, tenants=(Tenant(1, (200, 1000), (64, 64)),))


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


_LATE = Service(requests=80, gap=400 * MS, stream=150 * MS)  # tokens leave so long after their steps


@pytest.mark.parametrize(
    ("name", "alone", "title"),
    [
        ("detokenize", 1, "they wait for the detokenizer"),
        ("tokenize", 1, "the process that sends them tokenizes prompts meanwhile"),
        ("sendResponse", 1, "sending to some clients holds up the others"),
        ("sendResponse", 0, "Tokens leave the service late: "),
        ("", 0, "Tokens leave the service late: "),
    ],
)
def test_what_holds_tokens_is_what_runs_until_they_leave(name: str, alone: int, title: str, tmp_path: Path) -> None:
    """Ranges of the detokenizer or of sends to one client fill that time; without any nothing tells which it is."""
    written(_LATE, tmp_path, trace=True)
    path = tmp_path / "chrome_tracing.json"
    events: list[dict[str, Any]] = json.loads(path.read_bytes())
    like = next(event for event in events if event["name"] == "detokenize")
    events = [event for event in events if event["name"] != "detokenize"]
    events += [like] if name == "tokenize" else []
    zero = like["ts"] - (served(_LATE).requests[0].first_token - _LATE.output // 2) / 1000
    for request in served(_LATE).requests if name else ():
        times = request.output if alone else 1
        for at in range(times):
            args = dict(like["args"], rid=f"cmpl-{request.rid:06d}") if name == "sendResponse" else like["args"]
            begin = (request.first_token - _LATE.stream) / 1000 + at * _LATE.stream / 1000 / times
            events.append(dict(like, name=name, ts=zero + begin, dur=_LATE.stream / 1000 / times, args=args))
    path.write_text(json.dumps(events))
    first = judged(load(tmp_path), Thresholds()).findings.findings[0]
    assert first.id == "SERVICE.OUTPUT"
    assert title in words(first.title)
    assert ("Nothing tells which" in words(first.detail)) == (title.endswith("late: "))


def test_tokens_that_leave_at_multiples_of_a_time_are_held_by_a_timer(tmp_path: Path) -> None:
    """First tokens leave 400 ms after the request, or twice as long, whenever their steps end."""
    path = written(Service(requests=80, gap=400 * MS), tmp_path) / "request.csv"
    rows = list(csv.DictReader(path.open(newline="")))
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        for row in rows:
            held = -(-float(row["first_token_latency(ms)"]) // 400) * 400
            writer.writerow(row | {"first_token_latency(ms)": str(held)})
    first = judge(timeline(read_service(tmp_path))).findings.findings[0]
    assert "they are held back and sent every 400.0 ms" in words(first.title)
