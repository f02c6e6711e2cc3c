"""An owner of a part of the critical path: whose some stretches are, and what the run without it would gain."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.analysis.path import (
    Path,
    PathKind,
)
from npu_tui.analysis.replay import Change
from npu_tui.trace.arrays import I64

Doing = Literal["work", "launch", "wait", "device"]
"""What an owner does: work that launches nothing, launching, waiting for the device, or it is of the device."""


class Owner(Struct, frozen=True, eq=False):
    """Whose some stretches are: ``on_path`` ns of the path in ``count`` stretches.

    ``name`` is the call, operator or group (empty: nothing was recorded), ``where`` the line of the user, ``thread``
    the id of the host's thread, ``peer`` the rank that comes late (see ``Path``). ``items`` are the slices that it is
    about, ``calls`` the call with those around it, innermost first. Without it the run has the ``change``, and is
    ``gain`` ns shorter; None: nothing that one could do without.
    """

    kind: PathKind
    doing: Doing
    name: str
    where: CodeLine | None
    thread: int
    peer: int
    on_path: int
    count: int
    items: I64
    change: Change | None = None
    gain: int | None = None
    calls: tuple[str, ...] = ()


class Owners(Struct, frozen=True):
    """A critical path and its owners, the one with the most time first; ``owner`` is the index of that of each stretch.

    Stretches of the host are cut where their owner changes. ``waits`` are all places where the host waits for the
    device, also off the path.
    """

    path: Path
    owner: I64
    owners: tuple[Owner, ...]
    waits: tuple[Owner, ...] = ()
