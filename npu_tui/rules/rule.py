"""What a rule is made of: inputs, thresholds, check, advice, pages; and the draft of a finding that it returns.

Also how several rules say the same: places in the code, lists, sentences one after another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal, TypeVar

from msgspec import Struct

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.limits import Threshold, Thresholds
from npu_tui.analysis.replay import Change
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import NOTHING, Input, Span, length_of
from npu_tui.rules.model import Confidence, Evidence, Finding, Kind, Severity
from npu_tui.trace.arrays import I64
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief, runs

SEVERITY_MEDIUM = Threshold("severity_medium", 0.03)
SEVERITY_HIGH = Threshold("severity_high", 0.05)
GRADES = (SEVERITY_MEDIUM, SEVERITY_HIGH)
"""The limits of msprof-analyze's advisor, by which every finding is graded."""

Reach = Literal["cause", "place", "broad", "symptom"]
"""How near a finding comes to what must be changed: a cause, the place where time is lost, or only the amount of it.

A symptom comes after whatever explains as much."""


class Unexplained(Struct, frozen=True):
    """What is said of a loss that no finding explains: ``span`` is the time of the device that would need a cause.

    ``verdict`` is the line of the opening screen, ``advice`` names the recording that would show it.
    """

    span: Span
    verdict: Message
    advice: tuple[Message, ...] = ()


class Draft(Struct, frozen=True):
    """What a rule found, before it is weighed against the others.

    ``removes`` is the time of the device that would not be there without it (None: unknown); ``weight`` (ns) ranks a
    draft that removes nothing. ``verdict`` is the line of the opening screen if this finding leads. ``change`` takes
    the cause out of the replayed run; without it the host is taken to be in time in ``removes``. A draft that comes
    ``first`` has to be fixed before anything else can be judged. It gains at most ``most`` ns over all steps (None:
    whatever the run gains); what the run gains beyond that belongs to other findings. ``advice`` is given where it
    holds figures or depends on them, otherwise the rule's own advice counts. ``shown`` is every place where it shows if
    it removes nothing and the ``evidence`` has only the first of them. A draft of a loss says with ``unexplained`` what
    holds where no other finding explains it. ``reach`` is given where it differs from that of the rule. What is so
    ``by_design`` needs another division of the work: faults go before it. A ``choice`` of the user is no fault whatever
    it gains: its severity stays. What may come ``anywhere`` is not the fault of the line where it was met.
    """

    severity: Severity
    title: Message
    detail: Message
    evidence: tuple[Evidence, ...] = ()
    advice: tuple[Message, ...] | None = None
    removes: Span | None = None
    weight: float = 0.0
    confidence: Confidence = "high"
    code_lines: tuple[CodeLine, ...] = ()
    verdict: Message | None = None
    change: Change | None = None
    first: bool = False
    most: int | None = None
    shown: Span | None = None
    unexplained: Unexplained | None = None
    reach: Reach | None = None
    by_design: bool = False
    choice: bool = False
    anywhere: bool = False


class Skipped(Struct, frozen=True):
    """Why a rule could not be applied although its inputs are there."""

    reason: Message


class Rule(Kind, frozen=True, kw_only=True):
    """The rule that makes a finding of one profile: ``check`` runs where all ``inputs`` are there.

    ``sources`` are the documents that it is taken from. A finding ``of_profiler`` is about the profile, not about the
    job, and stays off the ladder. A rule that is ``replayed`` asks for the model of the run, which takes longest to
    build. ``gpu`` is the advice that holds on a GPU as well; a rule with None is about NPUs only.
    """

    check: Callable[[Facts], Draft | tuple[Draft, ...] | Skipped | None]
    sources: tuple[str, ...]
    inputs: tuple[Input, ...] = ("device", "overlap")
    reach: Reach = "broad"
    of_profiler: bool = False
    replayed: bool = False
    gpu: tuple[str, ...] | None = None

    @property
    def documents(self) -> tuple[str, ...]:
        """The titles of ``sources``: which items of them count is for those who change the rule."""
        return tuple(dict.fromkeys(_ITEMS.sub("", source) for source in self.sources))


class FiredRule(Struct, frozen=True, eq=False):
    """A rule that fires, with its draft; compared by identity."""

    rule: Rule
    draft: Draft

    @property
    def reach(self) -> Reach:
        """How near the finding comes to what must be changed."""
        return self.draft.reach or self.rule.reach

    @property
    def span(self) -> Span:
        """The time of the device that the finding removes."""
        return self.draft.removes if self.draft.removes is not None else NOTHING


_ITEMS = re.compile(r" \d+-\d+(?:(?:, | to )\d+-\d+)*$")
LISTED = 4
"""Names in a sentence; the places and the tables have the others."""


def about(subject: str, **words: object) -> tuple[Message, Message]:
    """The title and the detail of a finding, ``finding.<subject>.title`` and ``….detail``, of the same ``words``."""
    return message(f"finding.{subject}.title", **words), message(f"finding.{subject}.detail", **words)


def severity_of(limits: Thresholds | None, share: float) -> Severity:
    """The severity of what takes ``share`` of the time that is judged, by the ``limits`` of the user or the default.

    That is the time of the device, of the job, of a step of the base, or the latency of a service. What saves time, a
    negative share, is only information.
    """
    if share < 0:
        return "info"
    high, medium = ((limits or Thresholds())[limit] for limit in (SEVERITY_HIGH, SEVERITY_MEDIUM))
    return "high" if share >= high else "medium" if share >= medium else "low"


def cost_of(facts: Facts, change: Change, removes: Span) -> int:
    """What the run gains without ``change``, ns over all steps; without a replay how long the device waits for it."""
    waits = length_of(removes)
    if facts.replay is None:
        return waits
    gain = max(facts.replay.gain(facts.judged(change)), 0)
    return gain if facts.whole_steps else min(gain, waits)  # what is cut at the edge of a range is gone as a whole


def priced(
    facts: Facts,
    subject: str,
    change: Change,
    removes: Span,
    items: I64,
    words: dict[str, object],
    confidence: Confidence = "high",
    lines: tuple[CodeLine, ...] = (),
) -> Draft | None:
    """The draft about ``subject`` with its longest ``items`` (n,) as evidence; None if the gain is too small to report.

    Its texts get the ``cost``, ns a ``unit``, besides ``words``.
    """
    cost = cost_of(facts, change, removes)
    if facts.share(cost) < facts.limits[SEVERITY_MEDIUM]:
        return None
    title, detail = about(subject, cost=cost / facts.count, unit=facts.unit, **words)
    return Draft(
        severity_of(facts.limits, facts.share(cost)),
        title,
        detail,
        facts.longest(items, lambda item: message(f"finding.{subject}.place"), most=5),
        removes=removes,
        confidence=confidence,
        code_lines=lines,
        verdict=title,
        change=change,
    )


def priced_change(kind: Kind, delta: float | None, step: float, title: Message, detail: Said = "") -> Finding:
    """What adds ``delta`` ns to a step of ``step`` ns, as grave as it is dear; None: what only explains the others."""
    severity = "info" if delta is None else severity_of(None, delta / max(step, 1.0))
    return Finding(kind.id, kind.cls, severity, title, detail, delta_ns=delta)


def sentences(*parts: Said) -> Message:
    """Sentences one after another; empty ones are left out."""
    return message("list.sentences", parts=[part for part in parts if part])


def advise(*keys: str) -> tuple[Message, ...]:
    """Advice without numbers by the ends of its keys."""
    return tuple(message(f"finding.advice.{key}") for key in keys)


def line_of(code: CodeLine, inner: CodeLine | None = None) -> Said:
    """A line of code: ``main.py:354 in train()``; a frame of the module itself has no function.

    With ``inner``, the place in a library that it leads to: ``cache.py:460 in update(), called from main.py:354 …``.
    """
    if inner is not None:
        return message("finding.place_inner", inner=line_of(inner), outer=line_of(code))
    place = brief(place_in(code))
    if not code.function or code.function.startswith("<"):
        return place
    return message("finding.place", place=place, function=brief(code.function))


def place_in(code: CodeLine) -> str:
    """``main.py:354``: the file without its folders."""
    return f"{_file(code.file)}:{code.line}"


def lines_of(file: str, lines: Sequence[int]) -> Message:
    """Lines of one file: ``main.py:358–361``; a gap of one line is bridged."""
    parts = [str(a) if a == b else f"{a}–{b}" for a, b in runs(lines, gap=2)]
    return message("finding.lines", file=brief(_file(file)), lines=parts)


def _file(path: str) -> str:
    return PurePosixPath(path.replace("\\", "/")).name


def runs_of(numbers: Sequence[int]) -> list[str]:
    """Numbers as texts, runs of three or more as a range: ``0–4``, ``6``, ``7``."""
    parts: list[str] = []
    for low, high in runs(numbers):
        parts += [f"{low}–{high}"] if high - low >= 2 else map(str, range(low, high + 1))
    return parts


def stretches(spans: Iterable[tuple[int, int]], name: Said, note: str, lane: int | None = None) -> tuple[Evidence, ...]:
    """Stretches of the device's time as evidence; the text ``note`` gets how long each one is as ``time``."""
    return tuple(Evidence(start, end, lane, name, message(note, time=end - start)) for start, end in spans)


def timed(name: str, time: float) -> Message:
    """A name of the trace with how long it took, ns."""
    return message("finding.timed", name=brief(name), time=time)


def counted(name: str, count: int) -> Message:
    """A name of the trace with how often it occurs."""
    return message("finding.counted", name=brief(name), count=count)


_Name = TypeVar("_Name")


def ranked(sums: Mapping[_Name, float], most: int = LISTED) -> list[tuple[_Name, Any]]:
    """The largest of ``sums`` with their names; equal ones by name, so that no order of a file is seen."""
    return sorted(sums.items(), key=lambda pair: (-pair[1], str(pair[0])))[:most]


def most_common(names: Mapping[str, int]) -> list[Message]:
    """The names that occur most often."""
    return [counted(name, count) for name, count in ranked(names)]
