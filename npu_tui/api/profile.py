"""One rank of one run."""

from __future__ import annotations

from html import escape
from os import PathLike, fspath
from typing import TYPE_CHECKING

from npu_tui.api.errors import Error, told
from npu_tui.api.results import Comparison, Report, Timeline
from npu_tui.api.tables import Tables
from npu_tui.strings import say, words

if TYPE_CHECKING:
    from npu_tui.ingest.source.find import Form
    from npu_tui.profile.profile import Profile as Measured

Span = str | tuple[int | None, int | None]
"""A range of time: a text such as ``"12ms..14ms"``, or start and end in ns, None for an open end."""


class Profile(Tables):
    """One rank of one run; what is asked of it is computed once. ``open`` makes one."""

    def __init__(self, measured: Measured) -> None:
        from npu_tui.tables.tables import tables_of

        self.measured = measured
        self._tables = tables_of(measured)

    @property
    def path(self) -> str:
        """What was opened."""
        return self.measured.path

    @property
    def rank(self) -> int | None:
        """The rank, None where nothing tells it."""
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
        with told():
            return "\n".join(words(each) for each in self.measured.findings.verdict)

    def report(self, range: Span | None = None, step: int | None = None) -> Report:
        """The report about all of it, about a ``range`` of time, or about ``ProfilerStep#step`` on the device.

        Raises ``Error`` for a range or step that is not there.
        """
        with told():
            return Report(self._part(range, step))

    def compare(self, other: Profile) -> Comparison:
        """``other`` against this one as the base: differences are other minus this, per step where both have steps."""
        from npu_tui.compare.comparison import Comparison as Compare
        from npu_tui.compare.measured import Side

        with told():
            return Comparison(Compare(Side(self.measured), Side(other.measured)))

    def timeline(self, range: Span | None = None, step: int | None = None, dark: bool = False) -> Timeline:
        """The lanes as a picture: a ``range`` of time, ``ProfilerStep#step``, or the first step; at most 60 rows."""
        from npu_tui.output.timeline import timeline_files

        with told():
            return Timeline(timeline_files(self._part(range, step))[dark])

    def _part(self, span: Span | None, step: int | None) -> Measured:
        from npu_tui.analysis.device import EVERYTHING, Window
        from npu_tui.profile.selection import WHOLE_TRACE, Selection, parse_range, select_step

        selection: Selection | None = WHOLE_TRACE
        if span is not None and step is not None:
            raise Error(say("query.both"))
        if isinstance(span, str):
            selection = parse_range(span)
        elif span is not None:
            start, end = (bound if given is None else int(given)
                          for given, bound in zip(span, (EVERYTHING.start, EVERYTHING.end), strict=True))  # fmt: skip
            selection = Selection(Window(start, end)) if start < end else None
        if selection is None:
            raise Error(say("cli.bad_range"))
        if step is not None:
            selection = select_step(self.measured.steps, step)
            if selection is None:
                raise Error(say("cli.no_step", step=step))
        return self.measured.part(selection)

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
    from npu_tui.ingest.opening import opening_of
    from npu_tui.profile.profile import Profile as Measure

    with told():
        opening = opening_of(fspath(path), cached, source)
        return Profile(Measure(opening.trace(), opening.source))
