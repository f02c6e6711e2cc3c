"""The ranks of one run."""

from __future__ import annotations

from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.api.errors import told
from npu_tui.api.profile import Profile
from npu_tui.api.tables import Tables
from npu_tui.trace.once import once

if TYPE_CHECKING:
    import polars as pl

    from npu_tui.report.job.schema import JobReport
    from npu_tui.tables.tables import ProfileTables


class Job(Tables):
    """The ranks of one run; its tables have the rows of all ranks, told apart by ``rank``. ``open_job`` makes one."""

    def __init__(self, tables: ProfileTables) -> None:
        self._tables = tables

    @once
    def profiles(self) -> list[Profile]:
        """The profile of every rank, by rank."""
        with told():
            return [Profile(each) for each in self._tables.profiles]

    @property
    def ranks(self) -> pl.LazyFrame:
        """What ``npu-tui ranks`` says of every rank: who is slow of its own, who came last, what the job would gain."""
        return self.table("ranks")

    @once
    def data(self) -> JobReport:
        """The report about the job; the fields are those of ``npu-tui ranks --format json``."""
        from npu_tui.report.job.build import job_report

        with told():
            return job_report(self._tables.job)

    def report(self) -> str:
        """The report about the job as text."""
        from npu_tui.output.job_document import RANKS, job_document
        from npu_tui.output.text import text

        return text(job_document(self.data), RANKS)

    def __repr__(self) -> str:
        return f"<Job {self.data.source.path}: {self.data.source.ranks} ranks>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{escape(self.report())}</pre>"


def open_job(path: str | PathLike[str], *, cached: bool = True) -> Job:
    """The job whose ranks lie in the folder ``path``, with traces or with the files beside them alone.

    Nothing is read before it is asked for. Raises ``Error`` if nothing is there.
    """
    from npu_tui.analysis.thresholds import Thresholds
    from npu_tui.ingest.source.find import find_sources
    from npu_tui.tables.opened import job_tables

    with told():
        find_sources(Path(path))
        return Job(job_tables(Path(path), Thresholds(), cached))
