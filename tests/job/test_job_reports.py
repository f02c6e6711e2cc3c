"""What is said of a job outside of the screen: its page, and what its findings mean."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_jobs import simulated

from npu_tui.cli import main
from npu_tui.job import findings
from npu_tui.job.findings import IDS
from npu_tui.report.job.build import job_report
from npu_tui.report.job.html import html_job

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
    assert '<p class="verdict">rank 5 is slow by its own work' in page
    assert "15 alike" in page
    assert 'class="excess"' in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_folder_of_ranks_is_a_page_in_any_case(capsys: pytest.CaptureFixture[str]):
    two_ranks = str(Path(__file__).resolve().parents[2] / "fixtures" / "two_ranks")
    for words in (["ranks", two_ranks, "--format", "html"], ["report", two_ranks, "--format", "html"]):
        assert main(words) == 0
        assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


def test_every_finding_about_a_job_is_explained(capsys: pytest.CaptureFixture[str]):
    told = set(re.findall(r'"((?:RANK|LINK|GROUP)\.[A-Z]+)"', Path(findings.__file__).read_text(encoding="utf-8")))
    assert told == set(IDS)
    for key in IDS:
        assert main(["explain", key.lower()]) == 0
        assert capsys.readouterr().out.startswith(f"{key} · ")
