"""What can be opened: one declaration each, which all others ask instead of asking what kind of thing they have.

``SUBJECTS`` is the registry: a new subject is a module of this room with its ``SUBJECT``, and a line there. One that is
no more than its declaration stands in ``declaration``.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npu_tui.load.load import Opening
    from npu_tui.subjects.declaration import Subject
    from npu_tui.trace.model import Trace

Unit = Literal["size", "share", "time", "step", "latency"]
"""What a limit is: bytes; a share of the whole; a time or a share of the device time; the time of a step, of engine
steps by kind and percentile (``decode:p99``); a latency by percentile."""

SUBJECTS: dict[str, dict[str, Unit]] = {
    "profile": {"free": "time", "host_late": "time", "lost": "time", "exposed_communication": "time", "step": "step"},
    "job": {"rank_wait": "time", "own_excess": "time"},
    "memory": {"peak": "size", "fragmentation": "share"},
    "service": {"ttft": "latency", "tpot": "latency"},
    "ftrace": {},
    "graph_dump": {},
    "history": {},
}
"""Every subject, with what ``npu-tui check`` limits of it and what such a limit is.

The command describes its options by them before anything of a subject is imported.
"""


@cache
def subject(name: str) -> Subject:
    """The subject called ``name``; it is imported when it is first asked for, as few are needed at a time."""
    from npu_tui.subjects.declaration import DECLARED

    declared = DECLARED.get(name)
    return import_module(f"npu_tui.subjects.{name}").SUBJECT if declared is None else declared


def subject_named(kind: str) -> Subject:
    """The subject of the source of that ``kind``: many kinds are profiles."""
    return subject(kind if kind in SUBJECTS else "profile")


def subjects() -> Iterator[Subject]:
    """All of them."""
    return map(subject, SUBJECTS)


def subject_of(trace: Trace) -> Subject:
    """What ``trace`` was made of."""
    return subject(trace.nature.subject)


def subject_at(opening: Opening) -> Subject:
    """What lies where ``opening`` looks, nothing of it read. Raises ``InputError`` where nothing can be opened."""
    from npu_tui.jobs.kept import is_kept, is_log
    from npu_tui.load.errors import InputError, SeveralError
    from npu_tui.trace.message import message

    if is_kept(opening.path, opening.survey):
        return subject("job")
    if is_log(opening.path, opening.survey):
        raise InputError(message(subject("history").refusals["open"], path=str(opening.path)))
    try:
        kind = opening.source.kind
    except SeveralError:
        return subject("job")
    return subject_named(kind)
