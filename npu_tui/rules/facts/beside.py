"""What facts are made from: files beside the trace, and what the devices of a profile share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

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


class Beside(Struct, frozen=True, dict=True):
    """What stands beside the trace: settings of the profiler and environment of the job.

    None or empty where a file is missing. ``settings`` are those of profiler_info_<rank>.json by name, ``ranks`` those
    whose profiles lie in the same folder, ``groups`` the ranks of the job in every group by its name, ``chip`` what the
    profile calls its device.
    """

    settings: Mapping[str, object] = {}
    environment: Mapping[str, str] | None = None
    ranks: tuple[int, ...] = ()
    groups: Mapping[str, tuple[int, ...]] = {}
    chip: str | None = None


class Shared(Protocol):
    """What the facts of all devices of a profile share: a part of it, each value computed when it is asked for.

    ``planes``, ``copies`` and ``collectives`` raise ``InputError`` if the file is gone.
    """

    @property
    def trace(self) -> Trace:
        """The whole trace."""
        ...

    @property
    def window(self) -> Window:
        """The part that is asked about, ns."""
        ...

    @property
    def step(self) -> int | None:
        """The number of the step that the part is."""
        ...

    @property
    def thresholds(self) -> Thresholds:
        """What the rules compare with."""
        ...

    @property
    def beside(self) -> Beside:
        """What stands beside the trace."""
        ...

    @property
    def steps(self) -> Sequence[Step]:
        """All steps."""
        ...

    @property
    def planes(self) -> PlaneArgs:
        """Args of the tasks of all collectives."""
        ...

    @property
    def copies(self) -> Copies:
        """What copies between host and device say of themselves."""
        ...

    @property
    def collectives(self) -> Collectives:
        """The collectives of all devices that start in the window."""
        ...

    @property
    def hosts(self) -> HostOperators:
        """The operations of the framework, of the whole trace."""
        ...

    @property
    def all_kernels(self) -> KernelTable:
        """The kernels of the whole trace with their rows of kernel_details.csv."""
        ...

    @property
    def memory(self) -> Memory:
        """Memory of the device over all the time."""
        ...

    @property
    def transfers(self) -> Sequence[Transfer]:
        """What every collective moved over every transport, by communication.json."""
        ...

    @property
    def preprocessing(self) -> Sequence[Preprocessing]:
        """The rows of data_preprocess.csv."""
        ...

    @property
    def table_sums(self) -> Overlap:
        """The sums of step_trace_time.csv."""
        ...

    def replay_of(self, device: DevicePart) -> Replay | None:
        """The model of the whole run of a device and its host, None where no launch leads to it."""
        ...
