"""Which collective a kernel of NCCL or RCCL is: its type, its group, and its number within the group.

PyTorch writes them into the args of the kernel (``Collective name``, ``Process Group Name``, ``Process Group Ranks``,
``Seq``; from 2.2 on, not every version has all of them); without ``Collective name`` the name of the kernel tells the
type. Source: torch/csrc/distributed/c10d/ParamCommsUtils.hpp, libkineto's output_json.cpp.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from msgspec import Struct

from npu_tui.jobs.columns import I64
from npu_tui.jobs.model import NO_PAIR, pair_of
from npu_tui.trace.model import Trace

_ARGS = ("Collective name", "Process Group Name", "Process Group Ranks", "Seq", "Src Rank", "Dst Rank")
_TYPES = {
    "allreduce": "allReduce", "allgather": "allGather", "reducescatter": "reduceScatter", "alltoall": "alltoAll",
    "broadcast": "broadcast", "barrier": "barrier", "sendrecv": "sendRecv", "send": "send", "recv": "receive",
}  # fmt: skip
"""What the letters of a name hold, and the type: ``_allgather_base`` and ``all_gather_single`` are one."""
_NO_LETTER = re.compile("[^a-z]")


class GpuCall(Struct, frozen=True):
    """A collective: ``group`` is the same text on all ranks of a group, ``ordinal`` None where no ``Seq`` is there.

    ``pair`` stands for the two ranks of a message, ``NO_PAIR`` where they are not recorded.
    """

    type: str
    group: str
    ordinal: int | None
    pair: int = NO_PAIR


def gpu_calls(trace: Trace, items: I64) -> list[GpuCall]:
    """What each of the kernels ``items`` of a communication library is.

    Raises ``InputError`` if the file is gone or has changed.
    """
    columns = (column.objects for column in trace.args.columns(trace.slices.event[items], _ARGS))
    names = [trace.names[code] for code in trace.slices.name[items].tolist()]
    return [
        GpuCall(
            type_of(called) or type_of(name) or "",
            _group_of(group, ranks),
            number if type(number) is int and number >= 0 else None,
            pair_of(*ends) if all(type(end) is int and end >= 0 for end in ends) and ends[0] != ends[1] else NO_PAIR,
        )
        for name, called, group, ranks, number, *ends in zip(names, *columns, strict=True)
    ]


def type_of(name: Any) -> str:
    """``allGather`` of ``_allgather_base`` or ``ncclDevKernel_AllGather_RING_LL(…)``; empty where it tells nothing."""
    letters = _NO_LETTER.sub("", name.partition("(")[0].lower()) if isinstance(name, str) else ""
    return next((kind for word, kind in _TYPES.items() if word in letters), "")


def _group_of(name: Any, ranks: Any) -> str:
    """``1 [0, 1]``: split groups have equal names on ranks that never meet, and groups of the same ranks differ."""
    if isinstance(ranks, str):
        with suppress(ValueError):  # the list of a large group is cut: [0, 1, ..., 1023]
            ranks = json.loads(ranks)
    members = ", ".join(map(str, ranks)) if isinstance(ranks, list) else str(ranks or "").strip("[]")
    words = [str(name) if isinstance(name, str | int) else "", f"[{members}]" if members else ""]
    return " ".join(word for word in words if word)
