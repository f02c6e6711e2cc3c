"""One base for every time that is saved or lost: a step, where there are steps; no surface has the sum of all."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_jobs import simulated
from measured import session_of

from npu_tui.jobs.findings import job_findings
from npu_tui.jobs.job import Job
from npu_tui.jobs.tables import RANKS
from npu_tui.load.load import load
from npu_tui.output.job_document import job_document
from npu_tui.output.job_report import job_report
from npu_tui.output.statement import written_document
from npu_tui.strings import LANGUAGES, say, speaking, words
from npu_tui.trace.text import duration_text
from npu_tui.tui.session import NO_HITS
from npu_tui.tui.tabs.findings import findings
from npu_tui.tui.tabs.table import Context, TabTable

MS = 1_000_000
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
PROFILES = ("dispatch_bound", "healthy", "communication_bound", "kineto", "mindspore", "older_chip", "level0")


def slow_job(steps: int, several: bool) -> Job:
    slow = {2: 30 * MS, 5: 26 * MS} if several else {4: 9 * MS}
    return simulated(8, lambda rank, step, call: 2 * MS + slow.get(rank, 0), steps=steps)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("steps", [3, 8])
def test_a_job_tells_what_a_step_gains(steps: int, several: bool) -> None:
    job = slow_job(steps, several)
    lead = job_findings(job)[0]
    each, whole = duration_text(lead.gain_ns / steps), duration_text(lead.gain_ns)
    for language in LANGUAGES:
        with speaking(language):
            title = words(lead.title)
            assert each in title
            assert whole not in title
            assert words(lead.title.args["of"]) in title
            for form in ("text", "markdown"):
                page = written_document(job_document(job_report(job), job), form, 500)
                assert each in page
                assert whole not in page
    assert lead.gain_ns / steps <= job.length / steps


@pytest.mark.parametrize("several", [False, True])
def test_the_table_of_ranks_has_the_base_of_its_steps(several: bool) -> None:
    steps = 4
    job = slow_job(steps, several)
    sheet = RANKS.make(job)
    for each, total in (("own_each", "own_excess"), ("waits_each", "job_waits"), ("gain_each", "gain")):
        for one, every in zip(sheet.values(each), sheet.values(total), strict=True):
            assert one == pytest.approx(every / steps)
    assert max(sheet.values("own_each")) < max(sheet.values("step")), "no rank works longer than a step takes"
    headings = [field.heading() for field in RANKS.panel]
    assert say("column.saves") in headings
    assert "/" in say("column.saves")


@pytest.mark.parametrize("name", PROFILES)
def test_the_heading_of_findings_says_of_what_a_gain_is(name: str) -> None:
    session = session_of(load(FIXTURES / name))
    found = session.profiles[0].findings
    session.learn(0, found)
    content = findings(Context(session, None, None, None, "HostToDevice", NO_HITS, 0))
    if not isinstance(content, TabTable) or not any(finding.gain_ns for finding in found.findings):
        return
    units = {finding.unit for finding in found.findings}
    assert len(units) == 1
    (unit,) = units
    assert say("column.gain.per", unit=say(f"finding.unit.{unit}")) in content.headings
    for finding in found.findings:
        facts = session.profiles[0].facts[0]
        assert (finding.gain_ns or 0) <= facts.step_ns
