"""What is declared of everything that can be opened.

Parts that only one room can make are named here and made there: ``output`` has a report and a comparison under the
name of a subject, or those of a profile; the panel has a view under every name that ``tabs`` uses. Subjects that are no
more than what is declared of them stand at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct, field

from npu_tui.trace.message import Message, Said

if TYPE_CHECKING:
    from npu_tui.profile.profile import Profile
    from npu_tui.rules.model import Kind, SubjectVerdict
    from npu_tui.trace.model import Trace

Command = Literal["report", "compare", "check"]
Deed = Literal["open", "crop", "log", "timeline"]


class Fact(NamedTuple):
    """A line of the summary: in which ``section``, about what, its value, and what is said after it."""

    section: str
    item: str
    value: str
    more: str = ""


class Measured(Struct, frozen=True):
    """What a gate holds against a limit: ``value`` in bytes, of a share its part of the bytes ``whole``, and ``where``.

    ``unknown`` says why it is not known, ``may_be_more`` why the value is the least that it can have been; a ``note``
    is added to any answer.
    """

    value: int = 0
    where: Said = ""
    whole: int | None = None
    unknown: Said = ""
    may_be_more: Said = ""
    note: Said = ""


class Without(NamedTuple):
    """Options of a command that do not go with a subject, and the text that says so, which may name the ``option``."""

    options: tuple[str, ...]
    text: str


class Subject(Struct, frozen=True, kw_only=True):
    """What holds for everything of one kind. Texts are named by their keys. One ``of_several`` profiles has no trace.

    ``about`` is the head of a screen: what there is of it as far as its verdict is known, or None where the figures of
    a rank stand there. ``summary`` are its lines in the summary; what other settings of the profiler would add is said
    where ``is_profiled``. ``hint`` is what the bottom line names in place of starved launches: a word of the footer,
    and the command. ``tabs`` are tabs of the panel, and their views, in whose place something else stands: a view of
    ``tui.tabs``, or a table by its name; a tab with nothing is left out. ``no_kernels`` is what other tabs about
    kernels and launches say.

    One that ``is_alone`` has no devices, though a profile of the NPU may lie beside it: without that a report says
    ``not_checked.<id>``, and in ``again.<id>`` what to collect. ``ways`` is what one may do with the next recording.
    One that ``lies_among`` others is not opened in their place.

    ``findings`` are the kinds that only it has, ``differences`` those of two that are compared. ``measures`` are its
    own figures for the gate; ``of_others`` is said where one of these or of the findings is asked about something else,
    ``not_here`` where a finding of something else is asked about it. ``loss`` says why its figures do not count: more
    than a share of it could not be read; None leaves that to the evidence of a profile. ``no_times`` says why times of
    a device are not measured, ``no_film`` why there is no film.

    ``without`` are options of commands that do not go with it, ``refusals`` what it cannot be used for, with the texts
    that say so, and ``unlike`` what is said where it is compared with something else.
    """

    id: str
    of_several: bool = False
    about: Callable[[Trace, SubjectVerdict | None], str | None] = lambda trace, judged: None
    summary: Callable[[Profile], list[Fact]] = lambda profile: []
    is_profiled: bool = True
    is_alone: bool = False
    lies_among: bool = False
    ways: str = "again.compare"
    hint: tuple[str, str] | None = None
    tabs: Mapping[str, str] = field(default_factory=dict)
    no_kernels: str = ""
    findings: Callable[[], Sequence[Kind]] = tuple
    differences: Callable[[], Sequence[Kind]] = tuple
    of_others: str = ""
    not_here: str = ""
    measures: Mapping[str, Callable[[Profile], Measured]] = field(default_factory=dict)
    loss: Callable[[Profile, float], Message | None] | None = None
    no_times: str = ""
    no_film: str = "film.none"
    without: Mapping[Command, Without] = field(default_factory=dict)
    refusals: Mapping[Deed, str] = field(default_factory=dict)
    unlike: str = ""


def _of_profiles() -> Sequence[Kind]:
    from npu_tui.rules.find import RULES  # all rules: the first picture does not wait for them

    return RULES


def _between_profiles() -> Sequence[Kind]:
    from npu_tui.compare.differences import DIFFERENCES

    return DIFFERENCES


def _of_jobs() -> Sequence[Kind]:
    from npu_tui.jobs.finding import JOB_FINDINGS

    return JOB_FINDINGS


def _between_jobs() -> Sequence[Kind]:
    from npu_tui.jobs.change_tables import JOB_DIFFERENCES

    return JOB_DIFFERENCES


PROFILE = Subject(id="profile", findings=_of_profiles, differences=_between_profiles)
"""The profile of one rank, and every other trace that has no subject of its own."""

JOB = Subject(
    id="job",
    of_several=True,
    findings=_of_jobs,
    differences=_between_jobs,
    without={
        "compare": Without(("step", "map", "eager"), "against.options"),
        "check": Without(("baseline", "write_baseline", "range", "step"), "gate.job.alone"),
    },
    refusals={"timeline": "mcp.is_job"},
)
"""A job of several ranks, or what was kept of one: summaries, the output of a cluster analysis, loads of experts."""

HISTORY = Subject(
    id="history",
    without={"report": Without(("range", "step", "eager", "unprofiled"), "cli.report_of_log")},
    refusals={"open": "log.no_profile"},
)
"""The log of a run: what became of its steps from run to run. It has a report, and nothing to open."""

FTRACE = Subject(id="ftrace", is_alone=True, ways="")
"""What the kernel did with threads and CPUs, opened by itself: a timeline that no rule reads."""

GRAPH_DUMP = Subject(id="graph_dump", is_alone=True, ways="")
"""The dump of a captured ACLGraph: the tasks of every stream in their order, without times of a device."""

DECLARED = {one.id: one for one in (PROFILE, JOB, HISTORY, FTRACE, GRAPH_DUMP)}
