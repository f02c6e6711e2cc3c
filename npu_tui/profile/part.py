"""A profile, or a range or step of it, with everything that is computed of that part once."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.calls import ApiSum, HostOperators, apis
from npu_tui.analysis.collectives import Collectives, Preprocessing, Transfer, with_ranks_of_job
from npu_tui.analysis.communication import collectives
from npu_tui.analysis.device import EVERYTHING, DeviceSlices, Window
from npu_tui.analysis.joins import Check
from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.memory import Memory
from npu_tui.analysis.operators import OperatorSum, operators
from npu_tui.analysis.overlap import DevicePart, Overlap
from npu_tui.analysis.replay import Replay
from npu_tui.analysis.steps import Step, StepSums
from npu_tui.analysis.thresholds import Thresholds
from npu_tui.ingest.heap import reused_memory
from npu_tui.profile.selection import Selection
from npu_tui.profile.step_table import step_sums
from npu_tui.rules.facts.beside import Beside
from npu_tui.rules.facts.facts import Facts
from npu_tui.rules.model import Findings
from npu_tui.trace.args import Copies, PlaneArgs
from npu_tui.trace.message import Message
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once
from npu_tui.trace.transfers import communication_args, copies_of

if TYPE_CHECKING:
    from npu_tui.profile.profile import Profile

I64 = npt.NDArray[np.int64]


class Kernels(Struct, frozen=True):
    """Compute slices ``item`` of all devices, ascending, with the ``type`` (an index into ``types``) of each; (n,).

    ``core`` is the Accelerator Core that kernel_details.csv names (None for a kernel without a row), None without that
    file.
    """

    item: I64
    types: list[str]
    type: I64
    core: list[str | None] | None

    def of(self, type_name: str, core: str | None) -> I64:
        """The slices of one operator type and core."""
        own = self.type == self.types.index(type_name)
        if self.core is not None:
            own &= np.array([each == core for each in self.core], np.bool_)
        items: I64 = self.item[own]
        return items


_WORTH_A_THREAD = 200_000
_LARGE = 2_000_000
"""So many slices are worth several threads that ask the rules."""

_NO_DEVICE = DevicePart(None, None, None, None, None, None)


class ProfilePart:
    """``selection`` of ``profile``; made by ``Profile.part``."""

    def __init__(self, profile: Profile, selection: Selection) -> None:
        self.profile = profile
        self.selection = selection

    @property
    def trace(self) -> Trace:
        """The whole trace."""
        return self.profile.trace

    @property
    def window(self) -> Window:
        """The time that is selected."""
        return self.selection.window

    @property
    def step(self) -> int | None:
        """The number of the step that is selected, None for a range or everything."""
        return self.selection.step

    @property
    def thresholds(self) -> Thresholds:
        """Those of the profile."""
        return self.profile.thresholds

    @property
    def devices(self) -> list[DeviceSlices]:
        """What keeps each device busy."""
        return self.profile.device_slices

    @property
    def steps(self) -> list[Step]:
        """All steps of the trace."""
        return self.profile.steps

    @property
    def copies(self) -> Copies:
        """What copies say of themselves; raises what ``planes`` does."""
        return copies_of(self.trace)

    @property
    def planes(self) -> PlaneArgs:
        """Args of all tasks of collectives. Raises ``InputError`` if the file is gone or has changed."""
        return communication_args(self.trace).planes

    @property
    def beside(self) -> Beside:
        """Settings, environment and tables beside the trace."""
        return self.profile.beside

    @property
    def hosts(self) -> HostOperators:
        """The operations of the framework, of the whole trace."""
        return self.profile.host_operators

    def replay_of(self, device: DevicePart) -> Replay | None:
        """The model of the whole run of ``device``, one of ``Profile.devices``, and its host."""
        return next((found for own, found in self.profile.replays if own is device), None)

    @once
    def collectives(self) -> Collectives:
        """The collectives that start in the selection. Raises ``InputError`` as ``planes`` does."""
        found = collectives(self.trace, communication_args(self.trace), self.window)
        return with_ranks_of_job(self.trace, found, self.beside.groups)

    @once
    def facts(self) -> list[Facts]:
        """What the rules read of every device, in the order of ``Profile.devices``."""
        return [Facts(device, self) for device in self.profile.devices]

    @once
    def findings(self) -> Findings:
        """The findings of all devices that did anything. Raises ``InputError`` as ``planes`` does."""
        from npu_tui.rules.find import find  # no rule is needed for the first picture

        with reused_memory():
            self.compute_ahead()
            return find(self._judged, self.profile.threads if len(self.trace.slices) >= _LARGE else 1)

    def compute_ahead(self) -> None:
        """Begin with what the findings wait for longest, in a thread of its own, where the trace is worth one.

        Most of it is reading and compiled loops, which leave the interpreter to others.
        """
        if self.profile.threads > 1 and len(self.trace.slices) >= _WORTH_A_THREAD:
            self._ahead  # noqa: B018 - it is begun once

    @once
    def _ahead(self) -> Thread:
        def compute() -> None:
            with suppress(Exception):  # it is raised again where it is asked for
                self.collectives, self.profile.replays, self.hosts  # noqa: B018 - they are kept

        begun = Thread(target=compute, name="ahead", daemon=True)
        begun.start()
        return begun

    @once
    def titles(self) -> tuple[dict[str, Message], set[str]]:
        """What the rules find above info, by id, and those that cannot tell. Raises ``InputError`` as ``planes``."""
        from npu_tui.rules.find import titles

        return titles(self._judged)

    @property
    def _judged(self) -> list[Facts]:
        """What the rules read: of all devices that did anything, or of tables where there is no trace."""
        devices = [each for each in self.facts if each.has("overlap")]
        if devices or len(self.trace.slices) or self.profile.companions is None:
            return devices
        return [Facts(_NO_DEVICE, self)]

    @property
    def table_sums(self) -> Overlap:
        """The sums of step_trace_time.csv."""
        return step_sums(self.profile.table_steps)

    @once
    def step_sums(self) -> list[tuple[Step, list[StepSums]]]:
        """The steps that the selection touches, each as a whole, with the sums of every device.

        There are no sums where no launch is linked: nothing tells when such a step is on the device.
        """
        steps, known = self.steps, self.profile.step_sums
        if all(step.window is None for step in steps):
            known = []
        found = []
        for k, step in enumerate(steps):
            window = step.window or EVERYTHING
            touched = window.end > self.window.start and window.start < self.window.end
            if touched and self.step in (None, step.number):
                found.append((step, [sums[k] for sums in known]))
        return found

    @once
    def kernels(self) -> Kernels:
        """The compute slices that start in the selection."""
        item = np.sort(np.concatenate([facts.kernels for facts in self.facts] or [np.zeros(0, np.int64)]))
        table, cores = self.profile.kernel_table.of_slices(item), self.profile.kernel_cores
        own = None if cores is None else [cores[each] for each in item.tolist()]
        return Kernels(item, table.type.values, table.type.code, own)

    @once
    def operators(self) -> list[OperatorSum]:
        """The kernels by type and core, most time first."""
        kernels = self.kernels
        return operators(self.trace, kernels.item, kernels.core, (kernels.types, kernels.type))

    @once
    def kernel_table(self) -> KernelTable:
        """The kernels that start in the selection with what kernel_details.csv says of them."""
        table = self.profile.kernel_table
        return table if self.window == EVERYTHING else table.taken(np.flatnonzero(self.window.holds(table.start)))

    @property
    def all_kernels(self) -> KernelTable:
        """Every kernel of the trace with what its row of kernel_details.csv says."""
        return self.profile.kernel_table

    @property
    def memory(self) -> Memory:
        """Memory of the device over all the time, as the files beside the trace tell."""
        return self.profile.memory

    @property
    def transfers(self) -> list[Transfer]:
        """What every collective of the trace moved over every transport, by communication.json."""
        return self.profile.transfers

    @property
    def preprocessing(self) -> list[Preprocessing]:
        """The rows of data_preprocess.csv."""
        return self.profile.preprocessing

    @once
    def checks(self) -> list[Check]:
        """Our figures of the selection against the profiler's files, which are about everything."""
        from npu_tui.profile.checks import checks_of  # not needed for the first picture

        return checks_of(self, self.profile.tables) if self.window == EVERYTHING else []

    @once
    def apis(self) -> list[ApiSum]:
        """The calls of the CANN runtime that start in the selection, by level and name."""
        return apis(self.trace, self.window)
