"""What is said about a profile, a job, or two of them: the data of the JSON, and the document of all other formats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npu_tui.load.errors import InputError
from npu_tui.output.json_document import asked_schema, document, json_bytes
from npu_tui.trace.message import message

if TYPE_CHECKING:
    from npu_tui.compare.comparison import Comparison
    from npu_tui.jobs.against import JobComparison
    from npu_tui.jobs.history import Log
    from npu_tui.jobs.job import Job
    from npu_tui.output.document import Document
    from npu_tui.output.envelope import Root
    from npu_tui.output.whatif import WhatIf
    from npu_tui.profile.profile import Profile
    from npu_tui.trace.snapshot import MemorySnapshot


def written(document: Document, form: str, rows: int | None = None) -> str:
    """``document`` as ``text``, ``markdown`` or ``html``; at most ``rows`` of a table, by default what suits it.

    A page holds its own number of rows in any case: its reader sorts them.
    """
    # Only a page needs a template engine.
    if form == "html":
        from npu_tui.output.html import html

        return html(document)
    if form == "markdown":
        from npu_tui.output.markdown import ROWS, markdown

        return markdown(document, rows or ROWS)
    from npu_tui.output.text import ROWS, text

    return text(document, rows or ROWS)


@dataclass(frozen=True)
class Statement:
    """``data`` are the fields of the JSON, ``verdict`` its lines; ``document`` is made for a format.

    Tables of text and Markdown have ``rows`` rows at most, by default what suits the format.
    """

    data: Root
    verdict: Sequence[str]
    document: Callable[[str], Document]
    rows: int | None = None

    def written(self, form: str, schema: str | None = None) -> str | bytes:
        """All of it as ``text``, ``markdown``, ``html`` or ``json``, in the ``schema`` that an option asks for."""
        if form == "json":
            return json_bytes(self.data, self.verdict, schema)
        return written(self.document(form), form, self.rows)

    def laid_out(self, schema: str | None = None) -> Any:
        """What is written as JSON, as a struct."""
        return document(self.data, self.verdict, asked_schema(schema))


def profile_statement(part: Profile, sections: Collection[str] | None = None) -> Statement:
    """The report about ``part``, all of a profile or a range or step of it; about a memory snapshot another one.

    With ``sections`` the data are those alone; a document needs all of them.
    """
    if part.trace.snapshot is not None:
        return memory_statement(part.trace.snapshot)
    from npu_tui.output.report import report

    data = report(part, sections)

    def document(form: str) -> Document:
        from npu_tui.output.report_document import report_document

        return report_document(data, part if form == "html" else None)

    return Statement(data, data.verdict, document)


def memory_statement(snapshot: MemorySnapshot) -> Statement:
    """The report about a memory ``snapshot``."""
    from npu_tui.output.memory_document import memory_document
    from npu_tui.output.memory_report import memory_report

    data = memory_report(snapshot)
    return Statement(data, data.verdict, lambda form: memory_document(data, form))


def log_statement(log: Log) -> Statement:
    """What became of the runs in ``log``."""
    from npu_tui.output.log_document import ROWS, log_document
    from npu_tui.output.log_report import log_report

    data = log_report(log)
    return Statement(data, data.verdict, lambda form: log_document(data), ROWS)


def job_statement(job: Job) -> Statement:
    """The report about ``job``."""
    from npu_tui.output.job_document import RANKS, job_document
    from npu_tui.output.job_report import job_report

    data = job_report(job)
    return Statement(data, data.verdict, lambda form: job_document(data, job, form == "html"), RANKS)


def whatif_statement(answer: WhatIf) -> Statement:
    """What a change would gain."""
    from npu_tui.output.text import ALL
    from npu_tui.output.whatif import whatif_document

    told = whatif_document(answer)
    return Statement(answer, [told.title], lambda form: told, ALL)


def comparison_statement(
    comparison: Comparison, ignored: frozenset[str] = frozenset(), single: bool = True
) -> Statement:
    """What became of a profile, without the findings ``ignored``; those of each profile only if ``single``."""
    from npu_tui.output.compare_document import compare_document, verdicts
    from npu_tui.output.compare_report import compared

    data = compared(comparison, single, ignored)

    def document(form: str) -> Document:
        from npu_tui.compare.picture import Picture

        return compare_document(data, Picture(comparison) if form == "html" else None)

    return Statement(data, list(verdicts(data)), document)


def job_comparison_statement(comparison: JobComparison, ignored: frozenset[str] = frozenset()) -> Statement:
    """What became of a job, without the findings ``ignored``. Raises ``InputError`` where no step can be compared."""
    from npu_tui.output.job_compare import RANKS_SHOWN, compared_jobs, compared_jobs_document

    data = compared_jobs(comparison, ignored)
    return Statement(
        data,
        data.verdict,
        lambda form: compared_jobs_document(data, comparison if form == "html" else None),
        RANKS_SHOWN,
    )


def memory_comparison_statement(base: MemorySnapshot, new: MemorySnapshot) -> Statement:
    """What became of the peak, and who holds what."""
    from npu_tui.output.memory_compare import compared_memory, compared_memory_document

    data = compared_memory(base, new)
    return Statement(data, data.verdict, lambda form: compared_memory_document(data))


def service_comparison_statement(base: Profile, new: Profile) -> Statement:
    """What became of the latencies of a service. Raises ``InputError`` where one of both is none."""
    from npu_tui.output.service_compare import compared_services, compared_services_document

    for side in (base, new):
        if side.judged is None:
            raise InputError(message("compare.service.mixed", path=str(side.path)))
    data = compared_services(base, new)
    return Statement(data, data.verdict, lambda form: compared_services_document(data))


def comparison_of(base: Profile, new: Profile) -> Statement:
    """``new`` held against ``base``: two memory snapshots, two inference services, or two profiles step by step.

    Raises ``InputError`` for two that are not of one kind.
    """
    sides = base, new
    held = [side.trace.snapshot for side in sides]
    if held[0] is not None and held[1] is not None:
        return memory_comparison_statement(held[0], held[1])
    for side, snapshot, other in zip(sides, held, reversed(sides), strict=True):
        if snapshot is not None:
            raise InputError(message("compare.memory.mixed", path=str(other.path), snapshot=str(side.path)))
    if any(side.judged is not None for side in sides):
        return service_comparison_statement(base, new)
    from npu_tui.compare.comparison import Comparison
    from npu_tui.compare.measured import Side

    return comparison_statement(Comparison(Side(base), Side(new)))
