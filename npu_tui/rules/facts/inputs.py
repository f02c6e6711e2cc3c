"""What facts are made from: how the run was set up, and what the devices of a profile share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from npu_tui.analysis.calls import HostOperators
from npu_tui.analysis.collectives import Collectives, Preprocessing, Transfer
from npu_tui.analysis.device import Window
from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.memory import Memory
from npu_tui.analysis.overlap import DevicePart, Overlap
from npu_tui.analysis.replay import Replay
from npu_tui.analysis.steps import Step
from npu_tui.analysis.thresholds import Thresholds
from npu_tui.trace.args import Copies, PlaneArgs
from npu_tui.trace.model import Trace

Input = Literal[
    "device", "links", "overlap", "cann", "python", "planes", "steps", "frequency", "kernel_details", "pmu",
    "metadata", "memory", "shapes", "peak", "l2_cache", "transfers", "preprocess",
]  # fmt: skip
"""What a rule may need of a profile: layers and events of the trace, counters, and companion files."""


class Setup(Struct, frozen=True, dict=True):
    """How the run was set up, by the files beside the trace: settings of the profiler, environment of the job.

    None or empty where a file is missing. ``settings`` are those of profiler_info_<rank>.json by name, ``ranks`` those
    whose profiles lie in the same folder, ``groups`` the ranks of the job in every group by its name, ``chip`` what the
    profile calls its device.
    """

    settings: Mapping[str, object] = {}
    environment: Mapping[str, str] | None = None
    ranks: tuple[int, ...] = ()
    groups: Mapping[str, tuple[int, ...]] = {}
    chip: str | None = None


class Inputs(Struct, frozen=True):
    """What the facts of all devices of a profile, or of a part of it, are made from; times in ns.

    ``step`` is the number of the step that ``window`` is, ``steps`` are all of the trace. What takes a while is called
    where a rule needs it: args of the tasks of collectives (``planes``) and of copies between host and device, the
    collectives that start in the window, the operations of the framework, and of the tables beside the trace kernels
    (kernel_details.csv), memory, what collectives moved (communication.json), the rows of data_preprocess.csv and the
    sums of step_trace_time.csv; all but the collectives are of the whole trace. ``replay_of`` a device is the model of
    its run and its host, None where no launch leads to it.

    ``planes``, ``copies`` and ``collectives`` raise ``InputError`` if the file is gone.
    """

    trace: Trace
    window: Window
    step: int | None
    thresholds: Thresholds
    setup: Setup
    steps: Sequence[Step]
    planes: Callable[[], PlaneArgs]
    copies: Callable[[], Copies]
    collectives: Callable[[], Collectives]
    hosts: Callable[[], HostOperators]
    all_kernels: Callable[[], KernelTable]
    memory: Callable[[], Memory]
    transfers: Callable[[], Sequence[Transfer]]
    preprocessing: Callable[[], Sequence[Preprocessing]]
    table_sums: Callable[[], Overlap]
    replay_of: Callable[[DevicePart], Replay | None]
