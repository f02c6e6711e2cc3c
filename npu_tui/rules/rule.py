"""What a rule is made of: inputs, thresholds, check, advice, pages; and the draft of a finding that it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.replay import Change
from npu_tui.analysis.thresholds import AnyThreshold, Threshold
from npu_tui.rules.facts.facts import Facts
from npu_tui.rules.facts.inputs import Input
from npu_tui.rules.facts.spans import Span
from npu_tui.rules.model import Confidence, Evidence, FindingClass, Kind, Severity
from npu_tui.trace.message import Message

SEVERITY_MEDIUM = Threshold("severity_medium", 0.03)
SEVERITY_HIGH = Threshold("severity_high", 0.05)

Reach = Literal["cause", "place", "broad"]
"""How near a finding comes to what must be changed: a cause, the place where time is lost, or only how much it is."""


class Draft(Struct, frozen=True):
    """What a rule found, before it is weighed against the others.

    ``removes`` is the time of the device that would not be there without it (None: cannot be told); ``weight`` (ns)
    ranks a draft that removes nothing. ``verdict`` is the line of the opening screen if this finding leads.
    ``change`` takes the cause out of the replayed run; without it the host is taken to be in time in ``removes``. A
    draft that comes ``first`` has to be fixed before anything else can be judged. What it gains is ``most`` ns over all
    steps at the most (None: whatever the run gains): the rest is the merit of other findings. Without ``advice`` of its
    own, with figures of the trace or a choice by them, it gives that of its rule.
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


class Skipped(Struct, frozen=True):
    """Why a rule could not be applied although its inputs are there."""

    reason: Message


class Rule(Kind, frozen=True, kw_only=True):
    """The rule behind a finding of one profile: ``check`` runs where all ``inputs`` are there.

    ``thresholds`` are the numbers that it compares with, ``sources`` the documents that it is taken from. A finding
    ``of_profiler`` speaks of the profile, not of the job: it is no step of the what-if ladder. One that is ``replayed``
    asks for the model of the run, which takes longest.
    """

    cls: FindingClass
    inputs: tuple[Input, ...]
    check: Callable[[Facts], Draft | Skipped | None]
    sources: tuple[str, ...]
    thresholds: tuple[AnyThreshold, ...] = ()
    reach: Reach = "broad"
    of_profiler: bool = False
    replayed: bool = False


def severity_of(facts: Facts, share: float) -> Severity:
    """The severity of something that takes ``share`` of the device's time, as msprof-analyze's advisor has it."""
    limits = facts.limits
    return "high" if share >= limits[SEVERITY_HIGH] else "medium" if share >= limits[SEVERITY_MEDIUM] else "low"
