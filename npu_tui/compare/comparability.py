"""What differs between the circumstances of two profiles, and what may therefore be judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from npu_tui.trace.message import Message, message

Comparable = Literal["same_job", "comparable", "partly", "incomparable"]

_PARTLY_BELOW = 0.8
_INCOMPARABLE_BELOW = 0.2
_NOT_OF_THE_RUN = ("schedule", "start_info", "end_info", "_export_type")
"""Settings that say when was recorded, not what."""


class Circumstances(Struct, frozen=True):
    """How a profile was recorded; None where it does not say."""

    rank: int | None
    level: int | None
    stacks: bool
    device: bool
    steps: bool
    traced: bool
    settings: Mapping[str, object]
    versions: Mapping[str, str]
    environment: Mapping[str, str] | None
    collectives: frozenset[str]
    start_ns: int
    end_ns: int
    clock_jump: Message | None = None


class Setting(Struct, frozen=True):
    """One setting, version or environment variable that differs; None where a side does not have it."""

    key: str
    base: str | None
    new: str | None


class Comparability(Struct, frozen=True):
    """What the circumstances allow; ``notes`` say why, ``not_judged`` what is left out for it."""

    verdict: Comparable
    notes: list[Message]
    not_judged: list[Message]
    config: list[Setting]
    operations: float | None
    kernels: float | None

    @property
    def same_job(self) -> bool:
        """Whether both are ranks of one run."""
        return self.verdict == "same_job"


def comparability(
    base: Circumstances, new: Circumstances, operations: float | None, kernels: float | None, by_operation: bool = False
) -> Comparability:
    """``operations`` and ``kernels`` are the shares that were matched, None where neither side has any.

    ``by_operation``: the kernels have other names, so that they were matched by what launched them.
    """
    notes: list[Message] = []
    skipped: list[Message] = []
    config = _settings(base, new)
    overlapping = base.start_ns < new.end_ns and new.start_ns < base.end_ns
    same_job = bool(base.collectives) and base.collectives == new.collectives and overlapping and base.rank != new.rank
    if base.level is not None and new.level is not None and base.level != new.level:
        notes.append(message("compare.note.level", base=base.level, new=new.level))
        skipped.append(message("compare.skipped.short_kernels"))
    if base.stacks != new.stacks:
        notes.append(message("compare.note.stacks", base=base.stacks, new=new.stacks))
        skipped.append(message("compare.skipped.host_times"))
    if by_operation:
        notes.append(message("compare.note.by_operation"))
    if same_job:
        notes.append(message("compare.note.ranks", base=base.rank, new=new.rank))
    for setting in config:
        if setting.key in base.versions or setting.key in new.versions:
            notes.append(message("compare.note.version", key=setting.key, base=setting.base, new=setting.new))
    if base.traced and new.traced and not (base.steps and new.steps):
        notes.append(message("compare.note.no_steps", side=_sides(base.steps, new.steps)))
    if not (base.device and new.device):
        code = "compare.note.no_device" if base.traced and new.traced else "compare.note.no_trace"
        lacking = _sides(base.device, new.device) if base.traced and new.traced else _sides(base.traced, new.traced)
        notes.append(message(code, side=lacking))
        return Comparability("incomparable", notes, skipped, config, operations, kernels)
    for side, jump in (("base", base.clock_jump), ("new", new.clock_jump)):
        if jump is not None:
            notes.append(message("compare.note.clock_jump", side=side, why=jump))
            return Comparability("incomparable", notes, skipped, config, operations, kernels)
    if not (base.traced and new.traced):
        notes.append(message("compare.note.tables", side=_sides(base.traced, new.traced)))
    shares = [share for share in (operations, kernels) if share is not None]
    best = max(shares, default=0.0)
    if best < _INCOMPARABLE_BELOW:
        notes.append(message("compare.note.unlike", share=best))
        return Comparability("incomparable", notes, skipped, config, operations, kernels)
    if same_job:
        return Comparability("same_job", notes, skipped, config, operations, kernels)
    if min(shares) < _PARTLY_BELOW:
        notes.append(message("compare.note.partly", share=min(shares)))
        return Comparability("partly", notes, skipped, config, operations, kernels)
    return Comparability("comparable", notes, skipped, config, operations, kernels)


def _sides(base: bool, new: bool) -> str:
    """Which side lacks what neither or one of both has."""
    return "both" if not base and not new else "base" if not base else "new"


def _settings(base: Circumstances, new: Circumstances) -> list[Setting]:
    differing = []
    for before, after in (
        (base.settings, new.settings),
        (base.versions, new.versions),
        (base.environment, new.environment),
    ):
        if not before or not after:  # a side that records no settings has no other ones
            continue
        for key in dict.fromkeys([*before, *after]):
            was, now = before.get(key), after.get(key)
            if was != now and key not in _NOT_OF_THE_RUN:
                differing.append(Setting(key, None if was is None else str(was), None if now is None else str(now)))
    return differing
