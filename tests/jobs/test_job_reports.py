"""What is said of a job outside of the screen: its page, and what its findings mean."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from made_jobs import simulated
from msgspec.structs import replace
from written import html_job, job_markdown, job_text

from npu_tui.cli.main import main
from npu_tui.jobs.finding import JOB_FINDINGS
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import Busy
from npu_tui.output.job_report import job_report

MS = 1_000_000


class Tags(HTMLParser):
    """Checks that tags are closed in their order; ``rows`` counts those of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.rows += tag == "tr"
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_of_a_job_has_verdict_heat_map_and_the_dearest_collective():
    job = simulated(16, lambda rank, step, call: MS + (MS // 2 if rank == 5 else 0))
    page = html_job(job_report(job), job)
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.rows > 16
    assert '<p class="verdict">rank 5 is slow: at its peers' in page
    assert "15 similar" in page
    assert ">role<" not in page, "a job without roles has no column for them"
    assert 'class="excess"' in page
    assert "http" not in page.replace("http-equiv", "")


def test_waits_that_computing_does_not_hide_have_a_column_where_a_trace_tells_them():
    """Rank 1 comes 2 ms late six times; the others compute 1.5 ms of each meanwhile."""
    job = simulated(3, lambda rank, step, call: MS + (2 * MS if rank == 1 else 0), steps=2, calls=3)
    ranks = []
    for profile in job.ranks:
        start = np.array([call.start + 100_000 for call in profile.calls], np.int64)
        ranks.append(replace(profile, busy=Busy(start, start + (0 if profile.rank == 1 else 1_500_000))))
    told = Job(Path("job"), ranks)
    row = next(row for row in job_report(told).rank_table if row.rank == 1)
    assert row.job_waits_us - row.job_waits_exposed_us == pytest.approx(6 * 1_500)
    assert "not overlapped" not in job_text(job_report(job))
    for write in (job_text, job_markdown, lambda found: html_job(found, told)):
        page = write(job_report(told))
        assert "not overlapped" in page
        assert any(f"{time} ms" in page for time in ("1.499", "1.500"))  # of each of two steps


def test_a_folder_of_ranks_is_a_page_in_any_case(capsys: pytest.CaptureFixture[str]):
    two_ranks = str(Path(__file__).resolve().parents[2] / "fixtures" / "two_ranks")
    for words in (["ranks", two_ranks, "--format", "html"], ["report", two_ranks, "--format", "html"]):
        assert main(words) == 0
        page = capsys.readouterr().out
        assert page.startswith("<!DOCTYPE html>")
        assert "its own profile: DATA.LOADER 4.546 ms, STEP.START 4.546 ms" in page
        # Bars of a collective are as wide as any page, the names above them keep their size.
        names, bars = page.partition('id="waterfall"')[2].partition("</svg></g></svg>")[0].split("<svg ")[1:]
        assert all(part.startswith(('class="bars"', 'width="100%"')) for part in (names, bars))
        assert (names.count("<text"), bars.count("<text")) == (2, 0)
        assert bars.count("<path") > 2


def test_every_finding_about_a_job_is_explained(capsys: pytest.CaptureFixture[str]):
    ids = [kind.id for kind in JOB_FINDINGS]
    assert len({*ids}) == len(ids) > 10
    for key in ids:
        assert main(["explain", key.lower()]) == 0
        assert capsys.readouterr().out.startswith(f"{key} · ")
