"""One rank of one run, with everything that is computed of it once and read by every screen and report."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_tui.analysis.thresholds import Thresholds
from npu_tui.ingest.source.find import Source
from npu_tui.profile.selection import WHOLE_TRACE, Selection
from npu_tui.trace.model import Trace
from npu_tui.trace.once import once

if TYPE_CHECKING:
    from npu_tui.analysis.bubbles import Idles
    from npu_tui.analysis.calls import HostOperators
    from npu_tui.analysis.collectives import PairSum, Preprocessing, Transfer
    from npu_tui.analysis.device import DeviceSlices
    from npu_tui.analysis.health import TraceHealth
    from npu_tui.analysis.kernels import KernelTable
    from npu_tui.analysis.launches import Dispatch
    from npu_tui.analysis.memory import Memory
    from npu_tui.analysis.overlap import DevicePart, Overlap, OverlapLanes
    from npu_tui.analysis.replay import Replay
    from npu_tui.analysis.replay_device import DeviceTasks
    from npu_tui.analysis.search import Searchable
    from npu_tui.analysis.steps import Step, StepSums
    from npu_tui.ingest.companions.files import Companions
    from npu_tui.profile.files import FileState
    from npu_tui.profile.part import ProfilePart
    from npu_tui.profile.step_table import StepRow
    from npu_tui.profile.tables import Tables
    from npu_tui.rules.facts.beside import Beside

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SourceKind = Literal["trace_view_json", "msprof_json", "profile_directory", "database", "chrome_trace"]

_KEPT_PARTS = 8
"""Ranges that a user marks come and go; the last ones stay measured."""


class StarvedLaunch(Struct, frozen=True):
    """A launch that an idle device waited for: its slice on the device, when that started, what waiting cost, ns."""

    item: int
    start: int
    lost: float


class Profile:
    """``trace`` as ``source`` holds it, measured by ``thresholds``.

    Each value is computed once, when it is first asked for; a thread that asks while another one computes it waits.
    Without a ``source`` (a trace that is made up, or still loading) nothing lies beside the trace. Findings of a large
    trace take so many ``threads``: one where somebody looks at it meanwhile.

    What computes a value is imported when that is asked for: all of it together takes longer than the first picture.
    """

    def __init__(
        self, trace: Trace, source: Source | None = None, thresholds: Thresholds | None = None, threads: int = 1
    ) -> None:
        self.trace = trace
        self.source = source
        self.thresholds = thresholds or Thresholds()
        self.threads = threads
        self._parts: OrderedDict[Selection, ProfilePart] = OrderedDict()
        self._parts_lock = Lock()

    @property
    def path(self) -> str:
        """What the user opened."""
        return self.trace.path if self.source is None else str(self.source.opened)

    @property
    def kind(self) -> SourceKind:
        """What the user opened, or the database that was found there: as discovery tells, else by the layers."""
        if self.source is not None and self.source.kind == "database":
            return "database"
        if self.source is not None and (self.source.is_directory or self.source.kind == "companions"):
            return "profile_directory"
        if self.source is not None and self.source.kind in ("trace_view_json", "msprof_json"):
            return self.source.kind
        kinds = {layer.name for layer in self.trace.layers}
        if not kinds & {"Ascend Hardware", "Overlap Analysis", "HCCL", "Communication"}:
            return "chrome_trace"
        return "trace_view_json" if any(layer.kind == "python" for layer in self.trace.layers) else "msprof_json"

    # The part that is asked about.

    @once
    def whole(self) -> ProfilePart:
        """All of it."""
        from npu_tui.profile.part import ProfilePart

        return ProfilePart(self, WHOLE_TRACE)

    def part(self, selection: Selection) -> ProfilePart:
        """The part that ``selection`` names, measured once as long as it is among the last that were asked for."""
        from npu_tui.profile.part import ProfilePart

        if selection == WHOLE_TRACE:
            return self.whole
        with self._parts_lock:
            found = self._parts.pop(selection, None) or ProfilePart(self, selection)
            self._parts[selection] = found
            while len(self._parts) > _KEPT_PARTS:
                self._parts.popitem(last=False)
            return found

    # Beside the trace.

    def large_tables(self) -> list[tuple[str, int]]:
        """The files beside the trace that take a while to read, largest first: name and bytes."""
        from npu_tui.ingest.companions.files import large_tables

        if self.source is None or self.source.folder is None or self.source.kind == "database":
            return []
        return large_tables(self.source.folder)

    @once
    def companions(self) -> Companions | None:
        """The files beside the trace, None where there is no folder to look into."""
        from npu_tui.ingest.companions.files import Companions

        if self.source is None or self.source.folder is None:
            return None
        if self.source.kind == "database":
            from npu_tui.ingest.database.beside import DatabaseCompanions  # most traces are JSON

            return DatabaseCompanions(self.source.folder, self.source.path)
        return Companions(self.source.folder)

    @once
    def tables(self) -> Tables:
        """The tables beside the trace, all of them read and joined to its slices here and nowhere else."""
        from npu_tui.profile.tables import Tables

        collective = np.zeros(len(self.trace.slices), np.bool_)
        for device in self.device_slices:
            collective |= device.collective
        return Tables(self.companions, self.trace, np.flatnonzero(self.compute), np.flatnonzero(collective))

    @once
    def beside(self) -> Beside:
        """Settings, environment and tables beside the trace, as the rules read them."""
        from npu_tui.profile.beside import beside_of

        return beside_of(self.companions)

    @once
    def kernel_cores(self) -> dict[int, str | None] | None:
        """The Accelerator Core of every compute slice, as kernel_details.csv has it; None without that file."""
        from npu_tui.ingest.companions.schemas import KERNELS

        if not self.tables.has(KERNELS.stem) or not len(self.tables.table(KERNELS.stem).frame):
            return None
        table = self.kernel_table
        return {item: table.core.at(k) for k, item in enumerate(table.item.tolist()) if item >= 0}

    @once
    def memory(self) -> Memory:
        """Memory of the device over time and what was allocated, as the files beside the trace tell."""
        from npu_tui.profile.memory import memory_of

        return memory_of(self.tables)

    @once
    def link_matrix(self) -> list[PairSum]:
        """What went from rank to rank, by communication_matrix.json; empty without it."""
        if self.tables.lacks_matrix:
            return []
        from npu_tui.analysis.collectives import pair_sums

        columns = ("name", "group", "source", "target", "transport", "size_mb", "transit")
        return pair_sums(self.tables.matrix.frame.select(*columns).iter_rows())

    @once
    def kernel_table(self) -> KernelTable:
        """Every kernel with what its row of kernel_details.csv says."""
        from npu_tui.profile.kernels import kernels_of

        return kernels_of(self.trace, self.device_slices, self.tables)

    def types_of(self, items: I64) -> tuple[list[str], I64]:
        """The distinct operator types of the slices ``items`` (n,), and which one each has; (n,).

        A kernel has that of its row of kernel_details.csv; what has no row, the one its name tells.
        """
        from npu_tui.analysis.operators import kernel_types

        types, code = kernel_types(self.trace, items)
        own = np.flatnonzero(self.compute[items])
        if not len(own):
            return types, code
        known = self.kernel_table.of_slices(items[own]).type
        own, known = own[known.code >= 0], known.taken(np.flatnonzero(known.code >= 0))
        code[own] = len(types) + known.code
        distinct, code = np.unique(code, return_inverse=True)
        every = [*types, *known.values]
        merged: dict[str, int] = {}
        place = [merged.setdefault(every[each], len(merged)) for each in distinct.tolist()]
        return list(merged), np.array(place, np.int64)[code]

    @once
    def transfers(self) -> list[Transfer]:
        """What every collective moved over every transport, by communication.json."""
        from npu_tui.profile.transfers import transfers_of

        return transfers_of(self.tables)

    @once
    def preprocessing(self) -> list[Preprocessing]:
        """The rows of data_preprocess.csv."""
        from npu_tui.profile.transfers import preprocessing_of

        return preprocessing_of(self.tables)

    @once
    def files(self) -> list[FileState]:
        """What became of every file that may lie beside the trace; empty where there is no folder."""
        from npu_tui.profile.files import file_states

        return file_states(self.companions, self.tables)

    @once
    def table_steps(self) -> list[StepRow]:
        """The steps as step_trace_time.csv has them."""
        from npu_tui.profile.step_table import step_rows

        return step_rows(self.tables)

    @once
    def profiler_level(self) -> int | None:
        """0, 1 or 2 where the settings of the profiler say so; only Level0 leaves name and slices of CANN out."""
        level = self.companions.profiler_level if self.companions else None
        unnamed = any(layer.kind == "cann" and not layer.lanes for layer in self.trace.layers)
        return 0 if level is None and unnamed else level

    @property
    def device(self) -> int | None:
        """The number of the only device, None where there are several or the file does not tell."""
        devices = {each.device for each in self.devices}
        return devices.pop() if len(devices) == 1 else None

    # Devices and their launches.

    @once
    def device_slices(self) -> list[DeviceSlices]:
        """What keeps each device busy."""
        from npu_tui.analysis.device import device_slices

        return device_slices(self.trace)

    @once
    def compute(self) -> Bools:
        """Which slices are kernels that compute, on any device; (n,)."""
        found = np.zeros(len(self.trace.slices), np.bool_)
        for device in self.device_slices:
            found |= device.compute
        return found

    @once
    def dispatch(self) -> list[Dispatch]:
        """The classed launches of every device that has any."""
        from npu_tui.analysis.launches import dispatch

        return dispatch(self.trace, self.device_slices, self.thresholds)

    @once
    def overlap_lanes(self) -> list[OverlapLanes]:
        """The Overlap Analysis of every device, of the file or computed."""
        from npu_tui.analysis.overlap import overlap_lanes

        return overlap_lanes(self.trace, self.device_slices)

    @once
    def overlaps(self) -> list[Overlap]:
        """The sums of ``overlap_lanes`` over the whole trace."""
        from npu_tui.analysis.device import EVERYTHING

        return [lanes.sums(EVERYTHING) for lanes in self.overlap_lanes]

    @once
    def devices(self) -> list[DevicePart]:
        """Every device, also one of an Overlap Analysis layer only."""
        from npu_tui.analysis.overlap import device_parts

        return device_parts(self.trace, self.device_slices, self.overlap_lanes, self.dispatch)

    @once
    def starved(self) -> list[StarvedLaunch]:
        """The starved launches of all devices by start."""
        links = self.trace.links
        found = [
            StarvedLaunch(int(links.target_slice[link]), int(links.target_time[link]), float(lost))
            for device in self.dispatch
            for link, lost in zip(device.link[device.starved], device.lost[device.starved], strict=True)
        ]
        return sorted(found, key=lambda launch: launch.start)

    @once
    def idles(self) -> list[Idles]:
        """When each device was free, and who was late."""
        from npu_tui.analysis.bubbles import idles

        return [
            idles(self.trace, each.slices, each.lanes, each.pairs) for each in self.devices if each.lanes is not None
        ]

    @once
    def free_slices(self) -> I64:
        """The slices of the Free lanes of all devices, by start."""
        from npu_tui.analysis.overlap import free_slices

        return free_slices(self.trace)

    @once
    def lane_excess(self) -> list[tuple[str, int]]:
        """Lanes of Overlap Analysis that disagree with the slices of their device, and by how much, ns."""
        from npu_tui.analysis.overlap import disagreement

        found = []
        for each in self.devices:
            if each.lanes is not None and each.lanes.layer is not None and each.slices is not None:
                excess = disagreement(self.trace, each.lanes, each.slices)
                found += [(lane, by) for lane, by in zip(("Computing", "Communication"), excess, strict=True) if by]
        return found

    # Steps and work.

    @once
    def steps(self) -> list[Step]:
        """All steps; one without a number where the trace has none."""
        from npu_tui.analysis.steps import steps

        return steps(self.trace)

    @once
    def step_sums(self) -> list[list[StepSums]]:
        """For every device of ``overlap_lanes`` the time of each step by kind."""
        from npu_tui.analysis.steps import step_sums

        return [step_sums(self.trace, self.steps, lanes) for lanes in self.overlap_lanes]

    @once
    def host_operators(self) -> HostOperators:
        """The operations of the framework."""
        from npu_tui.analysis.calls import host_operators

        return host_operators(self.trace)

    @once
    def device_tasks(self) -> list[DeviceTasks]:
        """The tasks of each device of ``device_slices``, in the order of their streams."""
        from npu_tui.analysis.replay_device import device_tasks

        return [device_tasks(self.trace, device) for device in self.device_slices]

    def _tasks_of(self, number: int) -> DeviceTasks:
        return self.device_tasks[number]

    @once
    def replays(self) -> list[tuple[DevicePart, Replay | None]]:
        """Every device with a model of its run, None where no launch leads to it; raises what ``planes`` does."""
        from npu_tui.analysis.replay import Replay
        from npu_tui.analysis.replay_model import build

        steps = np.array([each.item for each in self.steps if each.item >= 0], np.int64)
        found = []
        for number, device in enumerate(self.devices):
            tasks = partial(self._tasks_of, number)
            model = build(self.trace, device, tasks, lambda: self.whole.collectives, steps)
            found.append((device, None if model is None else Replay(model)))
        return found

    @once
    def event_pairs(self) -> tuple[I64, I64]:
        """Waits of streams for events and the records they wait for, as slices."""
        from npu_tui.analysis.replay_device import event_pairs

        return event_pairs(self.device_tasks)

    def operation_of(self, item: int) -> int:
        """The outermost operation of the framework that launched the kernel ``item``; -1 without one."""
        from npu_tui.analysis.launches import operation_of

        found = int(operation_of(self.trace, np.array([item], np.int64))[0])
        hosts = self.host_operators
        at = int(np.searchsorted(hosts.item, found))
        if found < 0 or at >= len(hosts.item) or hosts.item[at] != found:
            return found
        while (above := int(hosts.parent[at])) >= 0 and "::" in self.trace.name_of(int(hosts.item[above])):
            at = above
        return int(hosts.item[at])

    # What else is asked of a trace.

    @once
    def health(self) -> TraceHealth:
        """What could not be placed as it stands."""
        from npu_tui.analysis.health import trace_health

        return trace_health(self.trace)

    @once
    def searchable(self) -> Searchable:
        """The trace ready to be searched."""
        from npu_tui.analysis.search import Searchable

        return Searchable(self.trace, self.dispatch, lambda: self.steps)
