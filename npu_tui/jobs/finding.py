"""One thing that is wrong with a job: its words, the ranks it names, what the job would save, where it shows."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from npu_tui.trace.message import Message, message

Severity = Literal["high", "medium", "low", "info"]

HIGH, MEDIUM, LOW = 0.10, 0.03, 0.01
"""Shares of the job's time that a cause of that severity costs at least."""


class Evidence(Struct, frozen=True):
    """Where it shows: a rank, and the time on its own device clock, ns since 1970."""

    rank: int
    start: int
    end: int


class JobFinding(Struct, frozen=True):
    """One thing that is wrong; ``gain`` is what the job would save, ns, None where nothing is replayed.

    ``ranks`` are those of ``role`` in a job of several.
    """

    id: str
    severity: Severity
    title: Message
    detail: Message
    ranks: tuple[int, ...]
    gain: int | None
    evidence: tuple[Evidence, ...] = ()
    role: str | None = None


def of_share(share: float) -> Severity:
    """How grave it is to cost this share of the job's time."""
    return "high" if share >= HIGH else "medium" if share >= MEDIUM else "low"


def noted(id: str, codes: tuple[str, str], ranks: tuple[int, ...], severity: Severity, /, **args: object) -> JobFinding:
    """What has no price; ``codes`` are those of its title and its detail."""
    title, detail = (message(code, **args) for code in codes)
    return JobFinding(id, severity, title, detail, ranks, None)


def priced(
    id: str, codes: tuple[str, str], ranks: tuple[int, ...], gain: int, length: float,
    evidence: tuple[Evidence, ...] = (), role: str | None = None, /, **args: object,
) -> JobFinding:  # fmt: skip
    """What a job of ``length`` ns would save ``gain`` ns without; ``codes`` as for ``noted``."""
    share = gain / max(length, 1)
    title, detail = (message(code, **{"gain": gain, "share": share} | args) for code in codes)
    return JobFinding(id, of_share(share), title, detail, ranks, gain, evidence, role)
