"""Reports, jobs and comparisons in each format, as the commands write them."""

from __future__ import annotations

import json
from typing import Any

from npu_tui.compare.picture import ComparisonPicture
from npu_tui.jobs.job import Job
from npu_tui.output.compare_report import Compared, compare_document
from npu_tui.output.envelope import side_by_side
from npu_tui.output.html import html
from npu_tui.output.job_document import RANKS, job_document
from npu_tui.output.job_report import JobReport
from npu_tui.output.report_document import report_document
from npu_tui.output.report_schema import ExpertsReport, Report
from npu_tui.output.text import markdown, text
from npu_tui.profile.profile import Profile


def fields_of(written: str | bytes) -> dict[str, Any]:
    """The fields of a JSON document, sections beside the others."""
    return side_by_side(json.loads(written))


def reasons(report: JobReport | ExpertsReport) -> list[str]:
    """Why what is not known of ``report`` is not."""
    return [row.reason for row in report.not_checked]


def text_report(report: Report) -> str:
    return text(report_document(report))


def markdown_report(report: Report) -> str:
    return markdown(report_document(report))


def html_report(report: Report, part: Profile) -> str:
    return html(report_document(report, part))


def job_text(report: JobReport) -> str:
    return text(job_document(report), RANKS)


def job_markdown(report: JobReport) -> str:
    return markdown(job_document(report), RANKS)


def html_job(report: JobReport, job: Job) -> str:
    return html(job_document(report, job))


def text_comparison(report: Compared) -> str:
    return text(compare_document(report))


def markdown_comparison(report: Compared) -> str:
    return markdown(compare_document(report))


def html_comparison(report: Compared, picture: ComparisonPicture) -> str:
    return html(compare_document(report, picture))
