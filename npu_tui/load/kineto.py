"""What stands in a trace of Kineto besides its events: the rank, and links that it leaves out.

From the launch of a graph to the kernels that it replays ROCm writes no link, but both have equal args ``correlation``.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
from msgspec import Struct

from npu_tui.load.errors import InputError
from npu_tui.trace.kineto import DEVICE_CATEGORIES, LAUNCH, is_kineto
from npu_tui.trace.model import Trace

_GRAPH_LAUNCH = re.compile(r"(?:cuda|hip)GraphLaunch\w*")


def link_graphs(trace: Trace) -> None:
    """Add the links of ``trace`` from every launch of a graph to its kernels."""
    if not is_kineto(trace) or LAUNCH not in trace.link_categories:
        return
    slices, links = trace.slices, trace.links
    named = np.array([_GRAPH_LAUNCH.fullmatch(name) is not None for name in trace.names] + [False])
    calls = np.flatnonzero(named[slices.name])
    codes = [trace.categories.index(name) for name in DEVICE_CATEGORIES & set(trace.categories)]
    linked = np.zeros(len(slices), np.bool_)
    linked[links.target_slice[trace.bound_links_of(LAUNCH)]] = True
    kernels = np.flatnonzero(np.isin(slices.category, codes) & ~linked)
    if not len(calls) or not len(kernels):
        return
    made = ran = np.zeros(0, np.int64)
    with suppress(InputError):  # the file is gone: its args cannot be read again
        made, ran = (
            trace.args.columns(slices.event[items], ("correlation",))[0].numbers(0, 1 << 62)
            for items in (calls, kernels)
        )
    if not len(made):
        return
    order = np.argsort(made, kind="stable")
    at = np.minimum(np.searchsorted(made[order], ran), len(order) - 1)
    hit = (made[order][at] == ran) & (ran >= 0)
    source, target = calls[order[at[hit]]], kernels[hit]
    trace.add_links(LAUNCH, source, target, order[at[hit]])


GZIP = b"\x1f\x8b"
_LONGEST_HEAD = 4 << 20
_INFO = re.compile(rb'"distributedInfo"\s*:\s*')


class Distributed(Struct, frozen=True):
    """What Kineto says of the job: the rank (None: nothing) and the ranks of every process group, by name."""

    rank: int | None = None
    groups: dict[str, tuple[int, ...]] = {}


def distributed(path: str) -> Distributed:
    """``distributedInfo`` of the text trace at ``path``; it stands before the events or after them.

    Of a packed file only the beginning is looked at.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            packed = file.read(len(GZIP)) == GZIP
            for at in (0,) if packed else dict.fromkeys((0, max(size - _LONGEST_HEAD, 0))):
                file.seek(at)
                text = gzip.GzipFile(fileobj=file).read(_LONGEST_HEAD) if packed else file.read(_LONGEST_HEAD)
                if match := _INFO.search(text):
                    value, _ = json.JSONDecoder().raw_decode(text[match.end() :].decode("utf-8", "replace"))
                    return _distributed_in(value)
    except (OSError, EOFError, ValueError, RecursionError, zlib.error):
        pass
    return Distributed()


def _distributed_in(value: Any) -> Distributed:
    if not isinstance(value, dict):
        return Distributed()
    rank, groups = value.get("rank"), {}
    for group in listed if isinstance(listed := value.get("pg_config"), list) else ():
        ranks = group.get("ranks") if isinstance(group, dict) else None
        if isinstance(ranks, list) and ranks and all(type(one) is int and one >= 0 for one in ranks):
            groups[str(group.get("pg_desc") or group.get("pg_name"))] = tuple(ranks)
    return Distributed(rank if type(rank) is int and 0 <= rank < 1 << 31 else None, groups)
