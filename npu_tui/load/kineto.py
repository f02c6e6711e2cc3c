"""What PyTorch's profiler and dumps of graphs leave out of their events: rank, links, call stacks, totals of memory.

From the launch of a graph to the kernels that it replays ROCm writes no link, and tools that cut traces drop all links;
but a launch and its kernels have equal args ``correlation``. With ``profile_memory=True`` instants named ``[memory]``
have the totals of memory (torch/csrc/profiler/collection.cpp, libkineto's output_json.cpp).

The dump of a captured ACLGraph is written to debug a graph, and is no profile: processes called ``<pid> aclGraph`` with
a thread a stream, tasks in their order with times of 10 us each, ``EVENT_RECORD_<id>`` and ``EVENT_WAIT_<id>`` among
them, and no link.
"""

from __future__ import annotations

import gzip
import json
import mmap
import re
import zlib
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from npu_tui.load.args import JsonArgs, json_args
from npu_tui.load.errors import InputError
from npu_tui.load.format import Survey
from npu_tui.load.unpack import MAGIC, plain_path
from npu_tui.trace.arrays import I64
from npu_tui.trace.classes import BETWEEN, FRAME, is_of_user
from npu_tui.trace.kineto import COPY, DEVICE_CATEGORIES, FILL, KERNEL, LAUNCH, made_up_links
from npu_tui.trace.message import message
from npu_tui.trace.model import EVENTS, Trace
from npu_tui.trace.recorder import recorder_by, recorder_of
from npu_tui.trace.side_file import held_bytes, open_regular

_FRAMES = "python_function"
_DEEPEST = 64
"""Frames of user code around each other, beyond which a stack begins anew: a recursion would make long texts."""
_RUNTIME = ("_runtime", "_driver")  # how the categories of calls end that may launch
_GRAPH_LAUNCH = re.compile(r"(?:cuda|hip)GraphLaunch\w*")


_BEFORE_1_11 = {
    "Operator": "cpu_op", "Runtime": "cuda_runtime", "Kernel": KERNEL, "Memcpy": COPY, "Memset": FILL,
    "Python function": _FRAMES,
}  # fmt: skip
"""What Kineto called its categories up to PyTorch 1.10, where links from launches were ``async``."""


def renamed(categories: dict[str, int], link_categories: dict[str, int]) -> None:
    """Give the categories of Kineto up to PyTorch 1.10 their later names; traces of others stay as they are."""
    if not {"Operator", "Runtime"} <= categories.keys() or not categories.keys().isdisjoint(_BEFORE_1_11.values()):
        return
    for codes, names in ((categories, _BEFORE_1_11), (link_categories, {"async": LAUNCH})):
        pairs = [(names.get(name, name), code) for name, code in codes.items()]
        codes.clear()
        codes.update(pairs)


def complete(trace: Trace, categories: Sequence[str]) -> None:
    """Add the links and call stacks that Kineto leaves out, where the file has its ``categories``."""
    if recorder_by(categories).kind:
        _link_launches(trace)
        _link_operations(trace)
        _add_stacks(trace)


def rank_in(path: str, categories: Sequence[str]) -> int | None:
    """The rank that Kineto wrote into the file at ``path`` with events of ``categories``; None without it."""
    return distributed(path).rank if recorder_by(categories).kind else None


def _link_launches(trace: Trace) -> None:
    """Add the links from every launch of a graph to its kernels; those of all launches where ``trace`` has none."""
    slices, links = trace.slices, trace.links
    if LAUNCH in trace.link_categories:
        named = np.array([_GRAPH_LAUNCH.fullmatch(name) is not None for name in trace.names] + [False])
        calls = np.flatnonzero(named[slices.name])
    else:
        of_runtime = np.array([name.endswith(_RUNTIME) for name in trace.categories] + [False])
        calls = np.flatnonzero(of_runtime[slices.category])
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


_OPERATION = "cpu_op"
_CORRELATION = "External id"


class _Flow(Struct):
    """The fields of a link's end that name the operation it comes from."""

    id: Any = None


def _link_operations(trace: Trace) -> None:
    """Add the links from every operation to its kernels, where torch_npu has made the calls between them up.

    With MSPTI it has no call for a kernel and writes one at the start of the kernel; but the ``id`` of their link is
    the ``External id`` of the operation, which is no later than the launch and on its line of code
    (``test/profiler/test_mspti_backend.py`` of https://gitcode.com/Ascend/pytorch).
    """
    slices, links = trace.slices, trace.links
    made_up = made_up_links(trace)
    if not len(made_up) or _OPERATION not in trace.categories:
        return
    operations = np.flatnonzero(slices.category == trace.categories.index(_OPERATION))
    with suppress(InputError):  # the file is gone: it cannot be read again
        named = trace.args.columns(slices.event[operations], (_CORRELATION,))[0].numbers(0, 1 << 62)
        asked = _ids_of(json_args(trace), links.source_event[made_up])
        order = np.argsort(named, kind="stable")
        at = np.minimum(np.searchsorted(named[order], asked), max(len(order) - 1, 0))
        hit = (named[order][at] == asked) & (asked >= 0) if len(order) else np.zeros(len(asked), np.bool_)
        source, target = operations[order[at[hit]]], links.target_slice[made_up[hit]]
        begun = slices.start[source] <= slices.start[target]
        trace.add_links(LAUNCH, source[begun], target[begun], order[at[hit]][begun])


def _ids_of(args: JsonArgs, events: I64) -> I64:
    """The ``id`` of ``events``, ends of links, as numbers, else -1; (n,)."""
    decode = msgspec.json.Decoder(_Flow).decode
    wanted, ids = set(events.tolist()), {}
    for first, texts in args.texts():
        for ordinal in wanted.intersection(range(first, first + len(texts))):
            with suppress(msgspec.DecodeError):
                ids[ordinal] = decode(texts[ordinal - first]).id
    found = [ids.get(event) for event in events.tolist()]
    return np.array([one if isinstance(one, int) and 0 <= one < 1 << 62 else -1 for one in found], np.int64)


def _add_stacks(trace: Trace) -> None:
    """Give the frames of user code in ``trace`` their call stacks, where nothing else has any.

    Kineto writes no ``Call stack`` but a slice for every call of a function; what happens inside one takes its stack.
    The line of such a frame is that where its function begins.
    """
    slices = trace.slices
    if trace.stacks or _FRAMES not in trace.categories:
        return
    matches = map(FRAME.fullmatch, trace.names)
    frames = np.array([*(match is not None and is_of_user(match["file"]) for match in matches), False])[slices.name]
    frames &= slices.category == trace.categories.index(_FRAMES)
    stacks: dict[str, int] = {}
    around: list[tuple[int, str]] = []  # the ends and stacks of the frames that a time lies in
    lane = -1
    for item in np.flatnonzero(frames).tolist():
        if slices.lane[item] != lane:
            lane, around = int(slices.lane[item]), []
        while around and around[-1][0] <= slices.start[item]:
            around.pop()
        outer = around[-1][1] if len(around) < _DEEPEST and around else ""
        stack = trace.names[slices.name[item]] + (BETWEEN + outer if outer else "")
        around.append((int(slices.end[item]), stack))
        slices.stack[item] = stacks.setdefault(stack, len(stacks))
    trace.stacks += stacks


_LONGEST_HEAD = 4 << 20  # bytes at both ends of a file in which the job is looked for
_INFO = re.compile(rb'"distributedInfo"\s*:\s*')


_KINDS = {
    "TENSOR_MODEL_PARALLEL": "tp", "PIPELINE_MODEL_PARALLEL": "pp", "DATA_PARALLEL": "dp", "CONTEXT_PARALLEL": "cp",
    "EXPERT_MODEL_PARALLEL": "ep",
}  # fmt: skip
"""Megatron's names of groups; ``mesh_tp`` is that of a DeviceMesh."""


class Distributed(Struct, frozen=True):
    """What Kineto says of the job: the rank (None: nothing) and the ranks of every process group, by name."""

    rank: int | None = None
    groups: dict[str, tuple[int, ...]] = {}


def distributed(path: str | Path, survey: Survey | None = None) -> Distributed:
    """``distributedInfo`` of the text trace at ``path``; it stands before the events or after them.

    In a packed file only the beginning is looked at. A ``survey`` asks so once.
    """
    try:
        with open_regular(path) as file:
            size = held_bytes(file.fileno())
            packed = file.read(len(MAGIC)) == MAGIC
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
            name, kind = str(group.get("pg_name")), str(group.get("pg_desc") or group.get("pg_name"))
            kind = _KINDS.get(kind.removesuffix("_GROUP"), kind.removeprefix("mesh_"))
            groups[kind if kind not in groups else name] = tuple(ranks)
    return Distributed(rank if type(rank) is int and 0 <= rank < 1 << 31 else None, groups)


def groups_in(trace: Trace) -> dict[str, tuple[int, ...]]:
    """The ranks of every process group of the job, by name, as Kineto writes them into its file."""
    return distributed(trace.files[0].path).groups if recorder_of(trace).kind and trace.files else {}


_PROCESS = re.compile(r"(?:\d+ )?aclGraph", re.IGNORECASE)
_TASK = re.compile(r"EVENT_(RECORD|WAIT)_(\d+)")


def is_graph(process: str) -> bool:
    """Whether a ``process`` is a dumped graph, by its name."""
    return _PROCESS.fullmatch(process) is not None


def link_events(trace: Trace) -> None:
    """Add the links of a ``trace`` that has dumped graphs, and say in its health what they are.

    A wait belongs to the only record of its event in the graph, of several to the one with its number in the order of
    time, where there are as many waits.
    """
    graphs = {layer.index for layer in trace.layers if is_graph(layer.name)}
    if not graphs:
        return
    tasks = {code: match for code, name in enumerate(trace.names) if (match := _TASK.fullmatch(name)) is not None}
    slices, layer_of = trace.slices, [lane.layer for lane in trace.lanes]
    ends: dict[tuple[int, str], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    items = np.flatnonzero(np.isin(slices.name, list(tasks)))
    for item in items[np.argsort(slices.start[items], kind="stable")].tolist():
        layer, match = layer_of[int(slices.lane[item])], tasks[int(slices.name[item])]
        if layer in graphs:
            ends[layer, match[2]][match[1] == "WAIT"].append(item)
    pairs = []
    waiting = 0
    for records, waits in ends.values():
        waiting += len(waits)
        if len(records) == 1:
            pairs += [(records[0], wait) for wait in waits]
        elif len(records) == len(waits):
            pairs += zip(records, waits, strict=True)
    source, target = np.array(pairs, np.int64).reshape(-1, 2).T
    if len(source):
        trace.add_links(EVENTS, source, target, source)
    trace.health.warnings.append(message("odd.graph_dump", linked=len(source), waits=waiting))


_NAME = b'"[memory]"'
_MOST_BYTES = 4096
"""An event of memory is far shorter."""
_TOTALS = ("Total Allocated", "Total Reserved")


class MemoryEvent(Struct, frozen=True):
    """What was ``allocated`` and ``reserved`` (bytes) on a ``device`` at ``time``, ns as the file counts them."""

    time: int
    device: int
    allocated: int
    reserved: int


def memory_events(trace: Trace) -> list[MemoryEvent]:
    """The events of memory of devices that Kineto wrote into ``trace``, by time; none where the file is gone."""
    if not recorder_of(trace).kind or not trace.files:
        return []
    try:
        path = plain_path(trace.files[0])
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _events_in(content)
    except (OSError, ValueError):  # an empty file cannot be mapped
        return []


def _events_in(content: mmap.mmap) -> list[MemoryEvent]:
    found: list[MemoryEvent] = []
    at = content.find(_NAME)
    while at >= 0:
        event = _event_around(content, at)
        args = event.get("args") if event else None
        # Device Type 0 is the host, whose totals are not tracked.
        if event and isinstance(args, dict) and args.get("Device Type") != 0:
            allocated, reserved = (args.get(name) for name in _TOTALS)
            time, device = event.get("ts"), args.get("Device Id")
            if isinstance(allocated, int) and isinstance(reserved, int) and isinstance(time, int | Decimal):
                device = device if isinstance(device, int) else 0
                found.append(MemoryEvent(round(time * 1000), device, allocated, reserved))
        at = content.find(_NAME, at + 1)
    return sorted(found, key=lambda event: event.time)


def _event_around(content: mmap.mmap, at: int) -> dict[str, Any] | None:
    """The object of JSON around the byte ``at``; None where there is none nearby."""
    depth, start = 0, at
    while depth < 1:
        start -= 1
        if start < 0 or at - start > _MOST_BYTES:
            return None
        depth += {123: 1, 125: -1}.get(content[start], 0)
    try:
        text = content[start : start + 2 * _MOST_BYTES].decode("utf-8", "replace")
        event, _ = json.JSONDecoder(parse_float=Decimal).raw_decode(text)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
