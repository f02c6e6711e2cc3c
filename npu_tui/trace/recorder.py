"""Who wrote a trace and for which device: all that differs between Ascend's profilers and PyTorch's own (Kineto).

Everything that is not the same for all of them is declared here, once for each, and asked nowhere else: what a slice
of a device is and which links lead to it, what the file says of operations, clocks and collectives, what is never
recorded, and the words in which a text about one device differs from that about the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from npu_tui.trace import kineto, transfers
from npu_tui.trace.args import CommunicationArgs
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.model import ASYNC_NPU, HOST_TO_DEVICE, Layer, Trace
from npu_tui.trace.once import of_trace

Work = Callable[[Trace, Sequence[Layer]], tuple[Bools, Bools, Bools]]
Items = Callable[[Trace], I64]


class Recorder(Struct, frozen=True, kw_only=True):
    """A profiler and its device. Functions are of a trace; slices and links are given by their indices, ascending.

    ``kind`` is that of a profile and of a rank that it wrote; empty where the files tell it. ``chip`` is the device in
    a word, ``words`` are the texts and words of advice about it in place of those about an NPU.

    ``work`` gives masks over all slices: what the layers of a device compute, exchange with other ranks and copy.
    ``collectives`` are those of all devices, ``exchanging`` the kernels among them that exchange by themselves,
    ``communication`` the args of both. ``launches`` are the links from a launch to what it launched, ``before`` what
    was launched before the trace began, and of how many slices; ``callers`` the links from what launches for the
    framework to what that launched: an operation, or a call in an ``operation``, the category of such a slice.
    ``outermost`` is in the names of operations in which others are nested.

    Host and device have ``one_clock``, up to ``clock_part`` of the least time from a launch to its start.
    ``copies_apart``: a copy beside which nothing runs is a time of its own, not a part of Free. ``graphs_unlinked``: a
    replayed graph may have a link to its first kernel only. ``kernel_keys`` are the columns by which kernels of two
    profiles are the same, the finest first. ``names_are_symbols`` of C++, without a type. ``flops_unnamed`` are those
    of a kernel whose name is of no product. ``names_fused``: names tell which kernels are fused. ``has_frames``: each
    call of a function is a slice; the line of code is then where the function begins. ``has_runtime``: calls of the
    runtime lie among the operations of the host. ``has_files``: environment and tables lie beside a trace.
    ``shows_lanes``, with devices or without them, in a table of their own. ``has_one_reason`` for all that is not
    known: it is of another tool. ``collective_args`` tell type, group and
    number of a collective, which ``counts_in_job`` if it is that in the job; collectives that ``waits_within`` are
    kernels that wait in themselves. What wrote a rank of a job may have no trace (``has_trace``), no moments of time
    (``has_times``) or no profile at all; ``is_of_any``: what it lacks the job lacks, whatever its other ranks have, and
    ``job_notes`` say so.

    ``advice`` is the field of a rule with the advice that holds, None in a rule that has no meaning; ``own_advice``: no
    other advice of its drafts does. ``host_advice`` is what to do about a slow host, empty where that depends on its
    stage, ``blocking`` the variable that makes launches block. ``unsaid`` are reasons of a report that say nothing of
    it, ``again`` what to change for which missing answers, ``overhead`` how to see what the profiler costs.
    """

    kind: str = ""
    chip: str = "NPU"
    words: Mapping[str, str] = field(default_factory=lambda: {"job.no_layout.stages": "job.no_layout"})

    work: Work = transfers.work_of_tasks
    collectives: Items = transfers.collectives_of_groups
    exchanging: Items = transfers.kernels_beside_groups
    communication: Callable[[Trace], CommunicationArgs] = transfers.args_of_planes
    launches: Items = lambda trace: trace.links_of(HOST_TO_DEVICE)
    before: Callable[[Trace], tuple[I64, int]] = lambda trace: (np.zeros(0, np.int64), 0)
    callers: Items = lambda trace: trace.bound_links_of(ASYNC_NPU)
    operation: str = ""
    outermost: str = "::"

    one_clock: bool = False
    clock_part: int = 1
    copies_apart: bool = False
    graphs_unlinked: bool = True
    kernel_keys: tuple[tuple[str, ...], ...] = (("type", "dtypes", "shapes"), ("operator",))
    names_are_symbols: bool = False
    flops_unnamed: float = 0.0
    names_fused: bool = True
    has_frames: bool = False
    has_runtime: bool = False
    has_files: bool = True
    shows_lanes: Callable[[bool], bool] = lambda has_devices: False
    has_one_reason: bool = False
    has_trace: bool = True
    has_times: bool = True
    is_profile: bool = True
    is_of_any: bool = False
    job_notes: tuple[str, ...] = ()
    collective_args: tuple[str, ...] = ()
    counts_in_job: bool = False
    waits_within: bool = False

    advice: str = "advice"
    own_advice: bool = False
    host_advice: tuple[str, ...] = ()
    blocking: str = "ASCEND_LAUNCH_BLOCKING=1"
    unsaid: frozenset[str] = frozenset({"dispatch.call_lines"})
    again: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("again.level", ("apis", "communication.planes", "communication.timing", "dispatch.drains.cause")),
        ("again.stack", ("dispatch.code_lines",)),
        ("again.steps", ("steps", "steps.window")),
        ("again.directory", ("source.rank", "source.profiler_level", "operators.core")),
    )
    overhead: tuple[str, ...] = ("again.overhead",)

    def word(self, key: str) -> str:
        """The key of a text, or a word of advice, about this device in place of ``key``."""
        return self.words.get(key, key)


ASCEND = Recorder()
"""torch_npu, and whatever names nobody."""

_TASKS = ("apis", "communication.planes", "dispatch.drains.cause")
MSPROF = replace(ASCEND, again=(("again.msprof", _TASKS),), overhead=())
MINDSPORE = replace(ASCEND, again=(("again.mindspore", _TASKS),), overhead=())

KINETO = Recorder(
    kind="kineto",
    words={
        "calls.none": "not_checked.gpu",
        "job.no_layout": "job.no_layout.gpu",
        "job.no_links": "job.no_links.gpu",
        "job.no_meetings": "job.no_meetings.gpu",
        "links_between.none": "not_checked.gpu",
        "memory.none": "memory.none.gpu",
        "not_checked.apis": "not_checked.gpu",
        "not_checked.communication.planes": "not_checked.gpu",
        "not_checked.communication.timing": "not_checked.gpu",
        "not_checked.dispatch.slow_stage": "not_checked.gpu",
        "not_checked.operators.core": "not_checked.gpu",
        "not_checked.source.profiler_level": "not_checked.gpu",
    },
    work=kineto.work,
    collectives=kineto.collectives,
    exchanging=kineto.exchanging_kernels,
    communication=kineto.communication,
    launches=kineto.launches,
    before=kineto.launched_before,
    callers=kineto.calls,
    operation="cpu_op",
    outermost="",
    one_clock=True,
    copies_apart=True,
    graphs_unlinked=False,
    kernel_keys=(("name",),),
    flops_unnamed=float("nan"),
    names_fused=False,
    has_frames=True,
    has_runtime=True,
    has_files=False,
    shows_lanes=lambda has_devices: not has_devices,
    collective_args=("Collective name", "Process Group Name", "Process Group Ranks", "Seq", "Src Rank", "Dst Rank"),
    counts_in_job=True,
    advice="gpu",
    unsaid=frozenset({"overlap.lanes", "dispatch.drains.cause"}),
    again=(("again.kernels", ("device",)), ("again.steps", ("steps", "steps.window"))),
    overhead=(),
)
"""PyTorch's own profiler where torch_npu's part of it records an NPU."""

GPU = replace(
    KINETO,
    chip="GPU",
    words={
        **KINETO.words,
        "device_gaps": "gpu_device",
        "expandable": "gpu_expandable",
        "finding.exposed.unexplained.level": "finding.exposed.unexplained.gpu",
        "finding.free.unexplained.device": "finding.free.unexplained.device_gpu",
        "finding.free.unexplained.host": "finding.free.unexplained.host_gpu",
        "finding.free.unexplained.launches": "finding.free.unexplained.launches_gpu",
        "finding.free.unknown": "finding.free.unknown_gpu",
        "launch_blocking": "launch_blocking_gpu",
        "odd.clock_ahead": "odd.launches_apart",
        "odd.clock_behind": "odd.launches_apart",
        "record_launches": "gpu_launches",
    },
    clock_part=0,
    names_are_symbols=True,
    waits_within=True,
    own_advice=True,
    host_advice=("fewer_operators", "gpu_graph"),
    blocking="CUDA_LAUNCH_BLOCKING=1",
)
"""PyTorch's own profiler on a GPU, or on another device that is no NPU."""


OTHER, OPPROF = (
    replace(ASCEND, kind=kind, shows_lanes=lambda has_devices: True, has_one_reason=True)
    for kind in ("chrome_trace", "opprof")
)
"""What has lanes and names, or one kernel, but no device whose time could be judged."""

CLUSTER = replace(
    ASCEND,
    kind="cluster",
    words={
        "job.no_meetings": "job.no_meetings.cluster",
        "ranks.fact.no_traces": "ranks.fact.cluster",
        "ranks.no_trace": "job.cluster",
    },
    has_trace=False,
    has_times=False,
    is_of_any=True,
    job_notes=("job.cluster",),
)
"""The output of a cluster analysis, where a rank has nothing else."""

EXPERTS = replace(ASCEND, kind="experts", has_trace=False, is_profile=False)
"""Dumps of expert loads or a placement, where a rank has nothing else."""

COMPANIONS = replace(ASCEND, kind="companions", has_trace=False)
"""Files that lie beside a trace, without it."""


@of_trace
def recorder_of(trace: Trace) -> Recorder:
    """Who wrote ``trace``; without any work of a device that is Ascend's."""
    return recorder_by(trace.categories)


def recorder_by(categories: Sequence[str]) -> Recorder:
    """Who writes slices of ``categories``."""
    if kineto.DEVICE_CATEGORIES.isdisjoint(categories):
        return ASCEND
    return KINETO if kineto.NPU in categories else GPU


_OF_KIND = {one.kind: one for one in (KINETO, OTHER, OPPROF, CLUSTER, EXPERTS, COMPANIONS)}
_BY_WRITER = {"msprof": MSPROF, "mindspore": MINDSPORE, "msprof_json": MSPROF}


def recorder_named(kind: str, writer: str | None = None) -> Recorder:
    """Who writes profiles, or ranks, of a ``kind``; of several the ``writer`` decides."""
    return _OF_KIND.get(kind) or _BY_WRITER.get(writer or kind, ASCEND)


@of_trace
def launch_links(trace: Trace) -> I64:
    """Indices of the links from a launch to what it launched; by target time."""
    return recorder_of(trace).launches(trace)


def bound_launch_links(trace: Trace) -> I64:
    """Those of ``launch_links`` that end in a slice; by target time."""
    link = launch_links(trace)
    return link[trace.links.target_slice[link] >= 0]


def launched_before(trace: Trace) -> tuple[I64, int]:
    """The slices of devices that were launched before the trace began, and how many slices devices have."""
    return recorder_of(trace).before(trace)


def group_slices(trace: Trace) -> I64:
    """The collectives: all slices on the group lanes of communication layers, and kernels; ascending."""
    return recorder_of(trace).collectives(trace)


@of_trace
def exchange_kernels(trace: Trace) -> I64:
    """The kernels that exchange with other ranks by themselves, without those that a group lane has; ascending."""
    return recorder_of(trace).exchanging(trace)


def communication_args(trace: Trace) -> CommunicationArgs:
    """The args of collectives and their tasks, from the parsed copy or else from the file, which is read once.

    Raises ``InputError`` if the file is gone or has changed.
    """
    return trace.communication or _args_of_file(trace)


@of_trace
def _args_of_file(trace: Trace) -> CommunicationArgs:
    return recorder_of(trace).communication(trace)
