"""What is said about a profile, a job, or two of them: the data of the JSON, and the document of all other formats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npu_tui.load.errors import InputError
from npu_tui.output.envelope import Root, asked_schema, document, json_bytes
from npu_tui.subjects import subject_of
from npu_tui.trace.message import message

if TYPE_CHECKING:
    from npu_tui.compare.comparison import ProfileComparison
    from npu_tui.jobs.against import JobComparison
    from npu_tui.jobs.history import Log
    from npu_tui.jobs.job import Job
    from npu_tui.output.document import Document
    from npu_tui.output.whatif import WhatIf
    from npu_tui.profile.profile import Profile
    from npu_tui.subjects.declaration import Subject


def written_document(document: Document, form: str, rows: int | None = None) -> str:
    """``document`` as ``text``, ``markdown`` or ``html``; at most ``rows`` of a table, by default what suits it.

    A page holds its own number of rows in any case: its reader sorts them.
    """
    # Only a page needs a template engine.
    if form == "html":
        from npu_tui.output.html import html

        return html(document)
    if form == "markdown":
        from npu_tui.output.text import MARKDOWN_ROWS, markdown

        return markdown(document, rows or MARKDOWN_ROWS)
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
        """The statement as ``text``, ``markdown``, ``html`` or ``json``, in the ``schema`` that an option asks for."""
        if form == "json":
            return json_bytes(self.data, self.verdict, schema)
        return written_document(self.document(form), form, self.rows)

    def laid_out(self, schema: str | None = None) -> Any:
        """What is written as JSON, as a struct."""
        return document(self.data, self.verdict, asked_schema(schema))


def profile_statement(part: Profile, sections: Collection[str] | None = None) -> Statement:
    """The report about ``part``, all of a profile or a range or step of it, as its subject has it.

    With ``sections`` the data are those alone, where the report is made of sections; a document needs all of them.
    """
    own = _REPORTS.get(part.trace.nature.subject)
    return _timeline_statement(part, sections) if own is None else own(part)


def figures_of(part: Profile) -> Any:
    """The data of ``profile_statement``; each is computed when it is asked for."""
    from npu_tui.output.report import sections_of

    own = _REPORTS.get(part.trace.nature.subject)
    return sections_of(part) if own is None else own(part).data


def _timeline_statement(part: Profile, sections: Collection[str] | None) -> Statement:
    from npu_tui.output.report import report

    data = report(part, sections)

    def document(form: str) -> Document:
        from npu_tui.output.report_document import report_document

        return report_document(data, part if form == "html" else None)

    return Statement(data, data.verdict, document)


def _memory_statement(profile: Profile) -> Statement:
    from npu_tui.output.memory_report import memory_document, memory_report

    assert profile.trace.snapshot is not None
    data = memory_report(profile.trace.snapshot)
    return Statement(data, data.verdict, lambda form: memory_document(data, form))


_REPORTS = {"memory": _memory_statement}  # the reports of subjects that have one of their own


def log_statement(log: Log) -> Statement:
    """What became of the runs in ``log``."""
    from npu_tui.output.log_report import ROWS, log_document, log_report

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
    comparison: ProfileComparison, ignored: frozenset[str] = frozenset(), single: bool = True
) -> Statement:
    """What became of a profile, without the findings ``ignored``; those of each profile only if ``single``."""
    from npu_tui.output.compare_report import compare_document, compared, verdicts

    data = compared(comparison, single, ignored)

    def document(form: str) -> Document:
        from npu_tui.compare.picture import ComparisonPicture

        return compare_document(data, ComparisonPicture(comparison) if form == "html" else None)

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


def _memory_comparison(base: Profile, new: Profile) -> Statement:
    """What became of the peak, and who holds what."""
    from npu_tui.output.memory_compare import compared_memory, compared_memory_document

    assert base.trace.snapshot is not None
    assert new.trace.snapshot is not None
    data = compared_memory(base.trace.snapshot, new.trace.snapshot)
    return Statement(data, data.verdict, lambda form: compared_memory_document(data))


def service_comparison_statement(base: Profile, new: Profile) -> Statement:
    """What became of load and latencies."""
    from npu_tui.output.service_compare import compared_services, compared_services_document

    data = compared_services(base, new)
    return Statement(data, data.verdict, lambda form: compared_services_document(data))


def _step_comparison(base: Profile, new: Profile) -> Statement:
    from npu_tui.compare.comparison import ProfileComparison
    from npu_tui.compare.measured import MeasuredSide

    return comparison_statement(ProfileComparison(MeasuredSide(base), MeasuredSide(new)))


# The comparisons of subjects that have one of their own.
_COMPARISONS = {"memory": _memory_comparison, "service": service_comparison_statement}


def comparison_of(base: Profile, new: Profile) -> Statement:
    """``new`` held against ``base``, as their subject is compared: profiles step by step.

    Raises ``InputError`` for two of different subjects that cannot be compared.
    """
    refuse_mixed([(subject_of(side.trace), side.path) for side in (base, new)])
    return _COMPARISONS.get(base.trace.nature.subject, _step_comparison)(base, new)


def refuse_mixed(sides: Sequence[tuple[Subject, str]]) -> None:
    """Raise ``InputError`` where one of two ``sides``, each with its path, is compared with its like only."""
    for (subject, path), (other, otherwise) in zip(sides, reversed(sides), strict=True):
        if subject is not other and subject.unlike:
            raise InputError(message(subject.unlike, path=otherwise, beside=path))
