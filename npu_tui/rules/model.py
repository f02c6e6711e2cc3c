"""What a finding is: a verdict about one thing, the places that prove it, what to do and what that would gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from npu_tui.analysis.limits import AnyThreshold
from npu_tui.rules.pages import Page
from npu_tui.strings import say
from npu_tui.trace.message import Message, Said

if TYPE_CHECKING:  # findings of a job and of a comparison are a Kind without code lines
    from npu_tui.analysis.code_lines import CodeLine
    from npu_tui.analysis.replay import Change
    from npu_tui.analysis.snapshot import BlockOwner
    from npu_tui.trace.arrays import I64

FindingClass = Literal["dispatch", "compute", "communication", "memory", "config", "data", "service"]
Severity = Literal["high", "medium", "low", "info"]
Confidence = Literal["high", "medium", "low"]

Scope = str
"""What a finding is about: the name of a subject, or ``compare`` for two profiles that are compared."""

SideName = Literal["base", "new"]
"""The two sides of a comparison."""

SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low", "info")
"""The severities, the gravest first."""

MUCH_LOST = 0.2
"""From this share of the time on a loss needs a cause, or the verdict says that none is known."""


class Kind(Struct, frozen=True):
    """One kind of finding, as ``npu-tui explain`` describes it: of one profile, of a comparison or of a job.

    The text ``explain.<id>`` says what it means. ``advice`` are words of the keys ``finding.advice.<word>``: what to
    do, as far as it needs no numbers of a trace; without any, the text named by the id. ``pages`` are public pages, the
    nearest first. ``change`` is an example of a change of code or environment that fixes it, as lines of a diff.
    ``thresholds`` are the numbers that it compares with. ``words`` of the glossary lead to it.
    """

    id: str
    cls: FindingClass
    scope: Scope = "profile"
    advice: tuple[str, ...] = ()
    pages: tuple[Page, ...] = ()
    change: str = ""
    thresholds: tuple[AnyThreshold, ...] = ()
    words: tuple[str, ...] = ()


class Evidence(Struct, frozen=True):
    """A place that proves a finding: ``[start, end)`` in ns, on ``lane`` if it has one, at ``slice`` if it is one.

    ``name`` is the name of the slice or of the lane, without control characters; ``note`` says what to look at. In a
    comparison it is in the trace of one ``side``. In a job it is on a ``rank``, in ns since 1970 by the clock of its
    device. In a memory snapshot it may be an ``event`` of the history.
    """

    start: int
    end: int
    lane: int | None = None
    name: Said = ""
    note: Said = ""
    slice: int | None = None
    side: SideName | None = None
    rank: int | None = None
    event: int | None = None


class Remedy(Struct, frozen=True, eq=False):
    """The change of the replayed run that is without a finding; at ``most`` so many ns of all steps are its gain.

    Alone it makes a step ``gain`` ns shorter.
    """

    change: Change
    most: int | None
    gain: int

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Remedy) and (self.most, self.gain) == (other.most, other.gain)
        return same and isinstance(other, Remedy) and self.change.key == other.change.key

    def __hash__(self) -> int:
        return hash((self.most, self.gain))

    def limited(self, gain: int) -> int:
        """The part of ``gain`` ns that is due to it; at worst a finding saves nothing."""
        return max(gain, 0) if self.most is None else min(max(gain, 0), self.most)


class Finding(Struct, frozen=True):
    """One verdict on a profile, a job, a memory snapshot, a service or a comparison.

    ``gain_ns`` is how much shorter the step gets once the findings above this one are fixed (None: unknown), and
    ``step_after_ns`` the length of the step then. ``part_of`` names a finding above that contains this gain already, so
    that the step gets no shorter. ``gain_after`` is how many findings above must be fixed first because they take as
    long at the same time (0: none). ``steps`` are the numbers of the steps it shows in, ``sources`` the documents that
    the rule is taken from. A ``hidden`` finding is true but not worth the work yet: the device computes too little. One
    that ``leads`` is a loss that nothing else explains: what it gains is unknown. One ``by_design`` is no fault:
    another division of the work would gain it. A gain is that of one ``unit`` (step, token, iteration, repetition, run
    or range), and ``count`` of those were measured. With a ``remedy`` the gain is that of a run that is replayed.
    ``verdict`` is its line on the opening screen, None where others come first for sure. It is the ``number``-th of its
    rule.

    In a job ``ranks`` are those it is about, of the ``role`` in a job of several. In a comparison ``delta_ns`` is what
    it adds to a step (negative: saves), within ``error_ns`` (95 %); ``p`` is how likely chance made it, ``items`` are
    all of its slices in the base and in the new profile. In a memory snapshot ``gain_bytes`` is what another setting
    reserves less, and ``owner`` the owner of the memory. None where it is not known or about something else.
    """

    id: str
    cls: FindingClass
    severity: Severity
    title: Message
    detail: Said = ""
    evidence: tuple[Evidence, ...] = ()
    advice: tuple[Message, ...] = ()
    gain_ns: int | None = None
    confidence: Confidence = "high"
    sources: tuple[str, ...] = ()
    code_lines: tuple[CodeLine, ...] = ()
    hidden: bool = False
    step_after_ns: int | None = None
    part_of: str | None = None
    steps: tuple[int, ...] = ()
    gain_after: int = 0
    leads: bool = False
    by_design: bool = False
    unit: str = "step"
    count: int = 1
    remedy: Remedy | None = None
    verdict: Message | None = None
    number: int = 1
    ranks: tuple[int, ...] = ()
    role: str | None = None
    delta_ns: float | None = None
    error_ns: float | None = None
    p: float | None = None
    items: tuple[I64, I64] | None = None
    gain_bytes: int | None = None
    owner: BlockOwner | None = None

    @property
    def whatif(self) -> str | None:
        """What ``npu-tui whatif`` is asked for the run without it; None where nothing can be replayed."""
        return None if self.remedy is None else f"fix {self.id}" + (f"#{self.number}" if self.number > 1 else "")


class Base(Struct, frozen=True):
    """What saved or lost time is divided by: ``count`` of one ``unit`` (``step``, ``token``, …)."""

    unit: str
    count: int = 1

    @property
    def words(self) -> str:
        """The name of the unit; empty for a run or a range, which do not repeat."""
        return "" if self.unit in ("run", "range") else say(f"finding.unit.{self.unit}")

    def of_one(self, time: float) -> str:
        """``time``, a sum over all units in ns, as that of one, in words."""
        return say(f"finding.each.{self.unit}", time=time / self.count)


class SubjectVerdict(Struct, frozen=True):
    """What the rules of a subject say of all of it, and what its health warns of besides."""

    findings: Findings
    warnings: tuple[Message, ...] = ()


class Findings(Struct, frozen=True):
    """All findings in the order of work, the rules that could not be applied as (id, reason), and the verdict.

    ``leaders`` are the findings that the verdict names, a line each.
    """

    findings: tuple[Finding, ...]
    not_checked: tuple[tuple[str, Message], ...]
    verdict: tuple[Said, ...]
    leaders: tuple[Finding, ...] = ()
