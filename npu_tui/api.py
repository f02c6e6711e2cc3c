"""What ``import npu_tui`` offers: profiles, jobs, their tables, reports and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_tui.load.polars_door import watch_polars
from npu_tui.strings import say, words
from npu_tui.trace.once import once

if TYPE_CHECKING:
    import polars as pl

    from npu_tui.load.format import Form
    from npu_tui.output.compare_report import Compared
    from npu_tui.output.job_compare import ComparedJobs
    from npu_tui.output.job_report import JobReport
    from npu_tui.output.memory_compare import ComparedMemory
    from npu_tui.output.memory_report import MemoryReport
    from npu_tui.output.report_schema import Report as Said
    from npu_tui.output.service_compare import ComparedServices
    from npu_tui.output.statement import Statement
    from npu_tui.profile.profile import Profile as Measured
    from npu_tui.query.frames import ProfileTables


watch_polars()


class Error(Exception):
    """A profile that cannot be read or a question that cannot be answered; its text is one line that says why."""


@contextmanager
def errors_of_api() -> Iterator[None]:
    """Turns the errors of reading and of queries into ``Error``."""
    from npu_tui.load.errors import InputError
    from npu_tui.query.engine import QueryError

    try:
        yield
    except (InputError, QueryError) as error:
        raise Error(words(error.message)) from None


def _expect(argument: str, value: object, types: str, *kinds: type) -> None:
    """Raise ``Error`` where ``value``, given as ``argument``, is none of ``kinds``, named ``types`` in the message."""
    if not isinstance(value, kinds):
        raise Error(say("api.type", argument=argument, types=types, given=type(value).__name__))


class Tables:
    """The tables, as lazy frames of polars: ``.collect()`` makes the columns and rows that are asked for.

    Each of ``tables`` is an attribute, such as ``kernels``; ``npu-tui query PATH kernels`` says what its columns mean.

    Times are int64 ns since the first slice of the trace, ``start_ns`` since 1970; null is unknown, never 0. Texts are
    ``Enum``; ``.cast(pl.String)`` makes them plain.
    """

    _tables: ProfileTables

    def sql(self, query: str) -> pl.DataFrame:
        """The answer to ``query``, SQL of polars over the tables; (rows of the answer, its columns).

        Raises ``Error`` for a wrong query, with the nearest name of a table or column.
        """
        from npu_tui.query.query import query as answer

        _expect("query", query, "str", str)
        with errors_of_api():
            return answer(self._tables, query)

    def table(self, name: str) -> pl.LazyFrame:
        """The table ``name``. Raises ``Error`` where there is none, or where it needs a file that is gone."""
        from npu_tui.query.query import no_table

        _expect("name", name, "str", str)
        with errors_of_api():
            if name not in self._tables.names:
                raise no_table(name, self._tables)
            return self._tables.scan(name).lazy()

    @property
    def tables(self) -> list[str]:
        """The names of all tables."""
        return self._tables.names

    def __getattr__(self, name: str) -> pl.LazyFrame:
        """The table ``name``, as ``table`` gives it."""
        if name.startswith("_") or name not in self._tables.names:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return self.table(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._tables.names})


class _Said:
    """What is said, in each format; a notebook shows it as a page."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement

    def to_dict(self) -> dict[str, Any]:
        """What ``json`` gives, as an object. Raises ``Error`` as it does."""
        import msgspec

        with errors_of_api():
            fields: dict[str, Any] = msgspec.to_builtins(self._statement.laid_out())
        return fields

    def json(self) -> bytes:
        """What ``--format json`` of the command prints. Raises ``Error`` where NPU_TUI_SCHEMA is no schema."""
        with errors_of_api():
            written = self._statement.written("json")
        assert isinstance(written, bytes)
        return written

    def text(self) -> str:
        """The whole statement as text."""
        return str(self._statement.written("text"))

    def markdown(self) -> str:
        """The whole statement as Markdown."""
        return str(self._statement.written("markdown"))

    def html(self) -> str:
        """The whole statement as one HTML page that loads nothing."""
        with errors_of_api():
            return str(self._statement.written("html"))

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return _framed(self.html())


class Report(_Said):
    """All that is said about a profile, or a range or step of it; printed as text, shown as a page in a notebook."""

    @property
    def data(self) -> Said | MemoryReport:
        """A struct with the fields of ``npu-tui report --format json``, sections beside the others."""
        return self._statement.data  # type: ignore[return-value]  # one of both

    @property
    def verdict(self) -> list[str]:
        """What is wrong, in lines."""
        return list(self._statement.verdict)


class Comparison(_Said):
    """A profile against a base; printed as text, shown as a page with both timelines in a notebook.

    Two jobs are compared too, with a map of the changes by rank and step; two memory snapshots or two inference
    services without a picture.
    """

    @property
    def data(self) -> Compared | ComparedJobs | ComparedMemory | ComparedServices:
        """A struct with the fields of ``npu-tui compare --format json``, sections beside the others."""
        return self._statement.data  # type: ignore[return-value]  # one of the four

    @property
    def verdict(self) -> str:
        """What became of the step: slower, faster, same, unsure or incomparable.

        For snapshots and services it is sentences, a line each.
        """
        step = getattr(self.data, "step", None)
        return "\n".join(self._statement.verdict) if step is None else str(step.verdict)


class Timeline:
    """The lanes of a profile as a picture; a notebook shows it."""

    def __init__(self, svg: str) -> None:
        self.svg = svg
        """The picture, a whole SVG document."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture to ``path``. Raises ``OSError``."""
        _expect("path", path, "str | PathLike", str, PathLike)
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f'<div style="overflow-x: auto">{self.svg}</div>'


def _framed(page: str) -> str:
    """A whole page inside that of a notebook, which neither can style the other."""
    style = "width: 100%; height: 640px; border: 0"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(page)}"></iframe>'


Span = str | tuple[int | None, int | None]
"""A range of time: a text such as ``"12ms..14ms"``, or start and end in ns, None for an open end."""


class Profile(Tables):
    """One rank of one run; what is asked of it is computed once. ``open`` makes one."""

    def __init__(self, measured: Measured) -> None:
        from npu_tui.query.frames import tables_of

        self.measured = measured
        self._tables = tables_of(measured)

    @property
    def path(self) -> str:
        """What was opened."""
        return self.measured.path

    @property
    def rank(self) -> int | None:
        """The rank, None if unknown."""
        return self.measured.trace.rank

    @property
    def start_ns(self) -> int:
        """What all times are relative to, ns since 1970."""
        return self.measured.tables.start_ns

    @property
    def span(self) -> int:
        """From the first slice to the end of the last, ns."""
        return self.measured.trace.end

    @property
    def verdict(self) -> str:
        """What is wrong, in a line or a few. Raises ``Error`` if the file of the trace is gone."""
        with errors_of_api():
            return "\n".join(words(line) for line in self._part(None, None).findings.verdict)

    def report(self, range: Span | None = None, step: int | str | None = None) -> Report:
        """The report about all of it, about a ``range`` of time, or about ``ProfilerStep#step`` on the device.

        ``step`` may be a kind of engine steps such as ``decode``: the one of median length.
        Raises ``Error`` for a range or step that is not there.
        """
        from npu_tui.output.statement import profile_statement

        with errors_of_api():
            return Report(profile_statement(self._part(range, step)))

    def borrow(self, eager: Profile) -> None:
        """Give kernels that graphs replay the code of ``eager``, an eager or a capture profile of the same model.

        Raises ``Error`` where there is none.
        """
        from npu_tui.profile.module_tables import borrow
        from npu_tui.query.frames import tables_of

        _expect("eager", eager, "Profile", Profile)
        with errors_of_api():
            borrow(self.measured, eager.measured)
        self._tables = tables_of(self.measured)

    def compare(self, other: Profile) -> Comparison:
        """``other`` against this one as the base: differences are other minus this, per step where both have steps.

        Two memory snapshots are compared as a whole: peaks, and who holds what; two inference services by their load
        and latencies. Raises ``Error`` for one of them beside something else.
        """
        from npu_tui.output.statement import comparison_of

        _expect("other", other, "Profile", Profile)
        with errors_of_api():
            return Comparison(comparison_of(self.measured, other.measured))

    def timeline(self, range: Span | None = None, step: int | str | None = None, dark: bool = False) -> Timeline:
        """The lanes as a picture: a ``range`` of time, ``ProfilerStep#step``, or the first step; at most 60 rows."""
        from npu_tui.output.svg import timeline_files

        with errors_of_api():
            return Timeline(timeline_files(self._part(range, step))[dark])

    def _part(self, span: Span | None, step: int | str | None) -> Measured:
        from npu_tui.analysis.device import EVERYTHING, Window
        from npu_tui.profile.parts import Selection
        from npu_tui.profile.selection import NoPartError, part_of

        _expect("step", step, "int | str | None", Integral, str, type(None))
        _expect("range", span, "str | tuple | None", str, tuple, list, type(None))
        if span is None or isinstance(span, str) or step is not None:
            try:
                return part_of(self.measured, None if span is None else str(span), step)
            except NoPartError as error:
                raise Error(words(error.message)) from None
        for bound in span:
            _expect("range", bound, "tuple[int | None, int | None]", Integral, type(None))
        start, end = (None, None) if len(span) != 2 else span
        start = EVERYTHING.start if start is None else int(start)
        end = EVERYTHING.end if end is None else int(end)
        if len(span) != 2 or start >= end:
            raise Error(say("cli.bad_range"))
        return self.measured.part(Selection(Window(start, end)))

    def __repr__(self) -> str:
        trace = self.measured.trace
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"<Profile {self.path}{rank}: {len(trace.slices):,} slices, {len(trace.links):,} links, {self.span} ns>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict above the lanes."""
        lines = "".join(f"<p>{escape(line)}</p>" for line in self.verdict.splitlines())
        return f"<p><code>{escape(repr(self))}</code></p>{lines}{self.timeline()._repr_html_()}"


def open(path: str | PathLike[str], *, cached: bool = True, source: Form | None = None) -> Profile:
    """The profile at ``path``: ``trace_view.json[.gz]``, a ``*_ascend_pt`` directory, a database.

    ``cached`` uses its parsed copy, or makes one; ``source`` is ``"text"`` or ``"db"`` where both lie side by side.
    Raises ``Error`` if there is none, if there are several (see ``open_job``), or if it cannot be read.
    """
    from npu_tui.load.load import opening_of
    from npu_tui.profile.profile import Profile as Measure

    _expect("path", path, "str | PathLike", str, PathLike)
    with errors_of_api():
        opening = opening_of(fspath(path), cached, source)
        return Profile(Measure(opening.trace(), opening.source))


class Job(Tables):
    """The ranks of one run; its tables have the rows of all ranks, marked by ``rank``. ``open_job`` makes one."""

    def __init__(self, tables: ProfileTables) -> None:
        self._tables = tables

    @once
    def profiles(self) -> list[Profile]:
        """The profile of every rank, by rank."""
        with errors_of_api():
            return [Profile(profile) for profile in self._tables.profiles]

    @once
    def data(self) -> JobReport:
        """The report about the job; the fields are those of ``npu-tui ranks --format json``."""
        from npu_tui.output.job_report import job_report

        with errors_of_api():
            return job_report(self._tables.job)

    def report(self) -> str:
        """The report about the job as text."""
        from npu_tui.output.job_document import RANKS, job_document
        from npu_tui.output.text import text

        return text(job_document(self.data, self._tables.job, False), RANKS)

    def compare(self, other: Job) -> Comparison:
        """``other`` against this job as the base, as ``npu-tui compare`` of two jobs does. Raises ``Error``."""
        from npu_tui.jobs.against import JobComparison
        from npu_tui.jobs.opening import open_steps
        from npu_tui.output.statement import job_comparison_statement

        _expect("other", other, "Job", Job)
        with errors_of_api():
            base, new = (open_steps(side._tables.job.path) for side in (self, other))
            return Comparison(job_comparison_statement(JobComparison(base, new)))

    def __repr__(self) -> str:
        return f"<Job {self.data.source.path}: {self.data.source.ranks} ranks>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{escape(self.report())}</pre>"


def open_job(path: str | PathLike[str], *, cached: bool = True) -> Job:
    """The job whose ranks lie in the folder ``path``, with traces or with the files beside them alone.

    Nothing is read before it is asked for. Raises ``Error`` if nothing is there.
    """
    from npu_tui.analysis.limits import Thresholds
    from npu_tui.jobs.kept import is_kept
    from npu_tui.load.find import find_sources
    from npu_tui.query.query import job_tables

    _expect("path", path, "str | PathLike", str, PathLike)
    with errors_of_api():
        if not is_kept(Path(path)):
            find_sources(Path(path))
        return Job(job_tables(Path(path), Thresholds(), cached))


__all__ = ["SCHEMA_VERSION", "Comparison", "Error", "Job", "Profile", "Report", "Timeline", "open", "open_job"]

SCHEMA_VERSION = 2
"""Of what ``to_dict`` and ``json`` give, unless NPU_TUI_SCHEMA in the environment asks for schema 1."""
