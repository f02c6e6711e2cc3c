"""Traces of PyTorch's own profiler (Kineto): what the device did, and which call launched it.

Slices of a device have the categories ``kernel``, ``gpu_memcpy`` and ``gpu_memset``, collectives that MSPTI records for
torch_npu ``collective_comm``, whatever their names; a launch and its kernel have equal
args ``correlation``, which is the id of the ``ac2g`` links between them. Source: libkineto's output_json.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from npu_tui.trace.args import MOST_BYTES, CollectiveArgs, CommunicationArgs, PlaneArgs
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.model import HOST_TO_DEVICE, Layer, Trace
from npu_tui.trace.once import of_trace

KERNEL, COPY, FILL, COLLECTIVE = "kernel", "gpu_memcpy", "gpu_memset", "collective_comm"
DEVICE_CATEGORIES = frozenset({KERNEL, COPY, FILL, COLLECTIVE})
LAUNCH = "ac2g"
"""The category of links from a call of the runtime to what it launched."""
NPU = "privateuse1_runtime"
"""The category of calls of the runtime where torch_npu's part of Kineto records them."""
_SYNC = "cuda_sync"
ANNOTATION = "gpu_user_annotation"
"""The category of a range of the host, shown again over what it launched: no work of the device."""

_COLLECTIVE = re.compile(r"nccl|hccl|rccl|^hcom_|oneccl|ccl::", re.IGNORECASE)
_EXCHANGING = re.compile(
    r"Ai(?:cpu|v)Kernel$|^aiv_(?:all|reduce|broadcast)|Moe_?Distribute_?(?:Dispatch|Combine)"
    r"|deep_ep.*(?:dispatch|combine)|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce|shmem",
    re.IGNORECASE,
)
"""Kernels that move the data of a collective themselves: of HCCL on AIV and AI CPU, that exchange the tokens of
experts, of libraries for one server (vLLM, FlashInfer, LCCL), of shared memory between devices. msprof does not count
those of HCCL as computing."""
# A product that communicates as well computes most of its time; TorchInductor names kernels after what they follow.
_COMPUTING = re.compile(r"mat_?mul|gemm|_mm|gmm|ffn|^triton_", re.IGNORECASE)
_COPYING_KERNEL = "__amd_rocclr_copyBuffer"


def is_collective(name: str) -> bool:
    """Whether a kernel is that of a communication library, or exchanges with other ranks by itself."""
    return is_of_library(name) or exchanges(name)


def is_of_library(name: str) -> bool:
    """Whether a kernel is that of a communication library, such as NCCL."""
    return _COLLECTIVE.search(name) is not None


@lru_cache(1 << 16)  # a trace has thousands of names, each of which is asked about several times
def exchanges(name: str) -> bool:
    """Whether a kernel exchanges with other ranks by itself, and so waits for them instead of computing."""
    return _EXCHANGING.search(name) is not None and _COMPUTING.search(name) is None


@of_trace
def device_work(trace: Trace) -> dict[str, Bools]:
    """Masks over all slices: ``compute`` (also filled memory), ``collective`` and ``copy``; (n,) each.

    What has no launch and starts before anything that has one was launched before the trace began: it is left out, as
    TraceLens does. Without any launch all of it counts.
    """
    slices = trace.slices
    of = {name: slices.category == trace.categories.index(name) for name in DEVICE_CATEGORIES & set(trace.categories)}
    none = np.zeros(len(slices), np.bool_)
    kernel, copy, fill, told = (of.get(name, none) for name in (KERNEL, COPY, FILL, COLLECTIVE))
    collective = told | kernel & np.array([is_collective(name) for name in trace.names] + [False])[slices.name]
    copy = copy | (kernel & np.array([name.startswith(_COPYING_KERNEL) for name in trace.names] + [False])[slices.name])
    work = {"compute": (kernel | fill) & ~collective & ~copy, "collective": collective, "copy": copy}
    launched = trace.links.target_slice[launches(trace)]
    if not len(launched):
        return work
    counts = slices.start >= slices.start[launched].min()
    return {name: mask & counts for name, mask in work.items()}


def work(trace: Trace, layers: Sequence[Layer]) -> tuple[Bools, Bools, Bools]:
    """Masks over all slices of what the ``layers`` of a device compute, exchange with other ranks and copy; (n,)."""
    here, masks = np.zeros(len(trace.slices), np.bool_), device_work(trace)
    for lane in (trace.lanes[lane] for layer in layers if layer.kind == "hardware" for lane in layer.lanes):
        here[lane.first : lane.last] = True
    return masks["compute"] & here, masks["collective"] & here, masks["copy"] & here


def launched_before(trace: Trace) -> tuple[I64, int]:
    """The slices of devices that were launched before the trace began, and how many slices devices have."""
    codes = [trace.categories.index(name) for name in DEVICE_CATEGORIES & set(trace.categories)]
    every = np.isin(trace.slices.category, codes)
    work = np.logical_or.reduce(list(device_work(trace).values()))
    return np.flatnonzero(every & ~work), int(np.count_nonzero(every))


def runtime_calls(trace: Trace) -> I64:
    """The calls of the runtime and the driver of a GPU, which lie between the operations on the lanes of the host."""
    codes = [code for code, name in enumerate(trace.categories) if name.endswith(("_runtime", "_driver"))]
    return np.flatnonzero(np.isin(trace.slices.category, codes))


def made_up_links(trace: Trace) -> I64:
    """Indices of the ``ac2g`` links from a call that torch_npu wrote with the name and the start of its kernel."""
    link, links, slices = trace.bound_links_of(LAUNCH), trace.links, trace.slices
    source, target = links.source_slice[link], links.target_slice[link]
    made_up: Bools = (slices.name[source] == slices.name[target]) & (slices.start[source] == slices.start[target])
    return link[made_up]


@of_trace
def launches(trace: Trace) -> I64:
    """Indices of the links from a launch to what it launched, ``ac2g`` without any ``HostToDevice``; by target time.

    An ``ac2g`` link of a call that launches nothing, such as a synchronization, ends in no slice of a device. Where
    torch_npu has no call for a kernel it writes one with the name and the start of the kernel: that is no launch.
    """
    link = trace.links_of(HOST_TO_DEVICE)
    if len(link):
        return link
    link, links, slices = trace.bound_links_of(LAUNCH), trace.links, trace.slices
    codes = [trace.categories.index(name) for name in DEVICE_CATEGORIES & set(trace.categories)]
    target = links.target_slice[link]
    ends: Bools = np.isin(slices.category[target], codes) & (slices.start[target] == links.target_time[link])
    link = link[ends]
    return link[~np.isin(links.source_slice[link], links.source_slice[made_up_links(trace)])]


def synchronized_lane(trace: Trace, item: int) -> int | None:
    """The lane of the stream that the host waited for in the call, or operation, ``item``; None where nothing says so.

    CUPTI records each synchronization once more on the stream; that of an event names the stream that recorded it.
    Raises ``InputError`` if the file is gone.
    """
    if _SYNC not in trace.categories:
        return None
    slices = trace.slices
    records = np.flatnonzero(slices.category == trace.categories.index(_SYNC))
    records = records[(slices.start[records] >= slices.start[item]) & (slices.start[records] < slices.end[item])]
    if not len(records):
        return None
    record = int(records[np.argmax(slices.end[records] - slices.start[records])])
    lane = trace.lanes[int(slices.lane[record])]
    args = trace.args.one(int(slices.event[record]))
    stream = args.get("wait_on_stream", args.get("stream"))
    if not isinstance(stream, int) or stream < 0:  # of the whole device
        return None
    return next((each.index for each in trace.lanes if each.layer == lane.layer and each.tid == stream), None)


def calls(trace: Trace) -> I64:
    """Those of ``launches`` with a slice at both ends; by target time."""
    link = launches(trace)
    return link[(trace.links.source_slice[link] >= 0) & (trace.links.target_slice[link] >= 0)]


def collectives(trace: Trace) -> I64:
    """The kernels that are collectives; ascending."""
    return np.flatnonzero(device_work(trace)["collective"])


def exchanging_kernels(trace: Trace) -> I64:
    """The collectives that exchange by themselves, without those of a library; ascending."""
    named = np.array([exchanges(name) and not is_of_library(name) for name in trace.names] + [False])
    return np.flatnonzero(device_work(trace)["collective"] & named[trace.slices.name])


_ARGS = ("In msg nelems", "dtype")
_ELEMENTS = {
    "Byte": 1, "Char": 1, "Bool": 1, "Float8_e4m3fn": 1, "Float8_e5m2": 1, "Short": 2, "Half": 2, "BFloat16": 2,
    "Int": 4, "Float": 4, "Long": 8, "Double": 8,
}  # fmt: skip
"""Bytes of an element by PyTorch's names."""


def communication(trace: Trace) -> CommunicationArgs:
    """The args of collectives that are kernels; nothing is recorded of who they wait for."""
    items, none, nowhere = collectives(trace), np.zeros(0, np.int64), np.zeros(0, np.int32)
    counts, kinds = (column.objects for column in trace.args.columns(trace.slices.event[items], _ARGS))
    sizes = [
        count * _ELEMENTS[kind] if type(count) is int and 0 < count < MOST_BYTES and kind in _ELEMENTS else -1
        for count, kind in zip(counts, kinds, strict=True)
    ]
    unknown = np.zeros(len(items), np.int32)
    return CommunicationArgs(
        PlaneArgs(none, nowhere, nowhere, none, nowhere, [""]),
        CollectiveArgs(items, unknown, np.array(sizes, np.int64), [""]),
    )
