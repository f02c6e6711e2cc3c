"""One rank of one run, or a part of it, with everything that is computed of it once for every screen and report."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.calls import ApiSum, HostOperators, apis, host_operators, outermost_operation
from npu_tui.analysis.collectives import Collectives, with_ranks_of_job
from npu_tui.analysis.communication import collectives
from npu_tui.analysis.device import EVERYTHING, DeviceSlices, Window, device_slices
from npu_tui.analysis.evidence import TraceHealth, clock_jump, trace_health
from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.launches import Dispatch, StarvedLaunch, dispatch, operation_of
from npu_tui.analysis.limits import Thresholds
from npu_tui.analysis.memory import MemoryUse
from npu_tui.analysis.overlap import (
    DevicePart,
    Overlap,
    OverlapLanes,
    device_parts,
    disagreements,
    free_slices,
    merged_layers,
    overlap_lanes,
)
from npu_tui.analysis.replay import Replay
from npu_tui.analysis.replay_device import DeviceTasks, device_tasks, event_pairs
from npu_tui.analysis.replay_model import build as replay_model
from npu_tui.analysis.replay_model import clock_floor
from npu_tui.load.find import Source, Writer, left_out_messages, writer_of
from npu_tui.load.kineto import groups_in
from npu_tui.native.library import kept_heap
from npu_tui.profile.parts import Parted, Selection, kind_of, shared
from npu_tui.trace.arrays import I64, Bools
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import EVENTS, Trace
from npu_tui.trace.once import ValueCache, once
from npu_tui.trace.recorder import communication_args, exchange_kernels, recorder_of
from npu_tui.trace.text import read_fine
from npu_tui.trace.transfers import copies_of

if TYPE_CHECKING:
    from npu_tui.analysis.borrowed import Borrowed
    from npu_tui.analysis.bubbles import Idles
    from npu_tui.analysis.cpu_time import CpuTime
    from npu_tui.analysis.engine_steps import EngineSteps
    from npu_tui.analysis.modules import Module
    from npu_tui.analysis.search import Searchable
    from npu_tui.analysis.steps import Step, StepSums
    from npu_tui.load.companions import Companions
    from npu_tui.profile.companions import CompanionTables
    from npu_tui.profile.snapshot_memory import SnapshotBeside
    from npu_tui.rules.facts import Facts
    from npu_tui.rules.inputs import Inputs, Setup
    from npu_tui.rules.judged_path import JudgedPath
    from npu_tui.rules.model import Findings, SubjectVerdict

_WORTH_A_THREAD = 200_000
_LARGE = 2_000_000
"""Slices from which a trace is worth several threads that ask the rules."""


class Profile(Parted):
    """``trace`` as ``source`` holds it, measured by ``thresholds``: all of it, or the part that is its ``selection``.

    Each value is computed once, when it is first asked for; a thread that asks while another one computes it waits.
    ``part`` gives a profile of the same trace with another window. What does not depend on the window is ``shared``
    by all of them: ``profile.part(step_3).steps`` are all steps, computed once, ``.collectives`` those of step 3.

    Without a ``source`` (a trace that is made up, or still loading) nothing lies beside the trace. Findings of a large
    trace take up to ``threads`` threads: one while a user looks at it.

    What computes a value is imported when that is asked for: all of it together takes longer than the first picture.
    """

    def __init__(
        self, trace: Trace, source: Source | None = None, thresholds: Thresholds | None = None, threads: int = 1
    ) -> None:
        super().__init__()
        self.trace = trace
        read_fine(trace.is_fine)  # its times are asked for as texts
        if (cropped := trace.health.cropped) is not None:
            self.usual = Selection(Window(*cropped))  # what lies outside of it is not silence: it is not there
        self.source = source
        self.thresholds = thresholds or Thresholds()
        self.threads = threads
        self.known = ValueCache()
        self.unprofiled: int | None = None  # of the whole profile: how long a step takes without the profiler, ns
        self.borrowed: Borrowed | None = None  # of the whole profile: code of another one, as ``borrowing`` found it

    def _again(self) -> Profile:
        return Profile(self.trace, self.source, self.thresholds, self.threads)

    # What was opened.

    @property
    def path(self) -> str:
        """What the user opened."""
        return self.trace.path if self.source is None else str(self.source.opened)

    @property
    def kind(self) -> str:
        """What the user opened, or the database that was found there: by discovery, else by the layers."""
        return kind_of(self.trace, self.source)

    @property
    def writer(self) -> Writer | None:
        """Which profiler has written it; None where neither names of files nor layers say."""
        if any(layer.name == "MindSpore" for layer in self.trace.layers):
            return "mindspore"
        return None if self.source is None else writer_of(self.source)

    # Beside the trace.

    def large_tables(self) -> list[tuple[str, int]]:
        """The files beside the trace that take a while to read, largest first: name and bytes."""
        from npu_tui.load.companions import large_tables

        if self.source is None or self.source.folder is None or self.source.format.form == "db":
            return []
        return large_tables(self.source.folder, self.source.survey)

    @shared
    def companions(self) -> Companions | None:
        """The files beside the trace, None where there is no folder to look into."""
        from npu_tui.load.companions import companions_of

        return None if self.source is None or self.source.folder is None else companions_of(self.source)

    @shared
    def tables(self) -> CompanionTables:
        """The tables beside the trace, all of them read and joined to its slices here and nowhere else."""
        from npu_tui.profile.companions import CompanionTables

        none = np.zeros(len(self.trace.slices), np.bool_)
        collective = np.logical_or.reduce([none, *(device.collective for device in self.device_slices)])
        return CompanionTables(self.companions, self.trace, np.flatnonzero(self.compute), np.flatnonzero(collective))

    @shared
    def setup(self) -> Setup:
        """Settings of the profiler, environment and groups of the job, by the files beside the trace or by Kineto."""
        from npu_tui.profile.companions import setup_of

        setup = setup_of(self.companions)
        return replace(setup, groups=groups_in(self.trace) or setup.groups)

    @shared
    def memory(self) -> MemoryUse:
        """Memory over time and allocations, by the files beside the trace or its events, else by a snapshot."""
        from npu_tui.profile.companions import memory_of

        recorded = memory_of(self.tables)
        beside = None if recorded.is_known else self.beside
        return recorded if beside is None or not beside.placed else beside.memory

    @shared
    def beside(self) -> SnapshotBeside | None:
        """The memory snapshot that was opened, or the one beside the profile."""
        from npu_tui.profile.snapshot_memory import snapshot_of

        return snapshot_of(self.trace, self.source, self.device)

    @shared
    def profiler_level(self) -> int | None:
        """0, 1 or 2 where the settings of the profiler say so; only Level0 leaves name and slices of CANN out."""
        level = self.companions.profiler_level if self.companions else None
        unnamed = any(layer.kind == "cann" and not layer.lanes for layer in self.trace.layers)
        return 0 if level is None and unnamed else level

    # Devices and their launches.

    @property
    def device(self) -> int | None:
        """The number of the only device, None if there are several or it is unknown."""
        devices = {device.device for device in self.device_slices} | {lanes.device for lanes in self.overlap_lanes}
        return devices.pop() if len(devices) == 1 else None

    @shared
    def devices(self) -> list[DevicePart]:
        """Every device, also one of an Overlap Analysis layer only."""
        return device_parts(self.trace, self.device_slices, self.overlap_lanes, self.dispatch)

    @shared
    def device_slices(self) -> list[DeviceSlices]:
        """What keeps each device busy."""
        return device_slices(self.trace)

    @shared
    def compute(self) -> Bools:
        """Which slices are kernels, of any device: those that compute or exchange with other ranks; (n,)."""
        kernels = np.zeros(len(self.trace.slices), np.bool_)
        kernels[exchange_kernels(self.trace)] = True
        compute: Bools = np.logical_or.reduce([kernels, *(device.compute for device in self.device_slices)])
        return compute

    @shared
    def dispatch(self) -> list[Dispatch]:
        """The classed launches of every device that has any; none where a clock jumps."""
        return [] if self.clock_jump else dispatch(self.trace, self.device_slices, self.thresholds)

    @shared
    def clock_jump(self) -> Message | None:
        """That the clock of the host jumps against the device's; None if it does not."""
        jump = clock_jump(self.trace, self.device_slices)
        if jump is None:
            return None
        code = recorder_of(self.trace).word(f"odd.clock_{'ahead' if jump.by > 0 else 'behind'}")
        return message(code, at=jump.at, by=abs(jump.by))

    @shared
    def starved(self) -> list[StarvedLaunch]:
        """The starved launches of all devices by start."""
        links = self.trace.links
        launches = [
            StarvedLaunch(int(links.target_slice[link]), int(links.target_time[link]), float(lost))
            for device in self.dispatch
            for link, lost in zip(device.link[device.starved], device.lost[device.starved], strict=True)
        ]
        return sorted(launches, key=lambda launch: launch.start)

    @shared
    def overlap_lanes(self) -> list[OverlapLanes]:
        """The Overlap Analysis of every device, of the file or computed."""
        return overlap_lanes(self.trace, self.device_slices)

    @shared
    def overlaps(self) -> list[Overlap]:
        """The sums of ``overlap_lanes`` over the whole trace."""
        return [lanes.sums(EVERYTHING) for lanes in self.overlap_lanes]

    @shared
    def lane_excess(self) -> list[tuple[str, int]]:
        """Lanes of Overlap Analysis that disagree with the slices of their device, and the difference, ns."""
        return disagreements(self.trace, self.devices)

    @shared
    def merged_layers(self) -> list[str]:
        """The layers of Overlap Analysis that mix processes or devices: their overlap comes from slices instead."""
        return merged_layers(self.trace)

    @shared
    def idles(self) -> list[Idles]:
        """When each device was free, and who was late."""
        from npu_tui.analysis.bubbles import idles

        return [idles(self.trace, device) for device in self.devices if device.lanes is not None]

    @shared
    def free_slices(self) -> I64:
        """The slices of the Free lanes of all devices, by start."""
        return free_slices(self.trace)

    @shared
    def cpu(self) -> CpuTime | Message | None:
        """Who had the CPU while devices waited for launches, or why that is unknown; None without a recording."""
        from npu_tui.profile.kernels import cpu_time

        return cpu_time(self.source, self.trace, self.dispatch)

    # Steps.

    @shared
    def steps(self) -> list[Step]:
        """All steps of the trace; one without a number where it has none."""
        from npu_tui.analysis.steps import steps

        return steps(self.trace)

    @shared
    def engine(self) -> EngineSteps:
        """The steps of an inference engine in figures; none in training, and where nothing says that it serves."""
        from npu_tui.profile.kernels import engine_of

        return engine_of(
            self.trace, self.steps, self.device_slices, self.dispatch, self.compute,
            lambda: self.whole.facts, lambda: self.all_kernels,
        )  # fmt: skip

    @shared
    def sums_by_device(self) -> list[list[StepSums]]:
        """For every device of ``overlap_lanes`` the time of each of ``steps`` by kind."""
        from npu_tui.analysis.steps import step_sums

        return [step_sums(self.trace, self.steps, lanes) for lanes in self.overlap_lanes]

    @once
    def step_sums(self) -> list[tuple[Step, list[StepSums]]]:
        """The steps that the selection touches, each as a whole, with the sums of every device.

        Without linked launches there are no sums, as it is unknown when such a step is on the device.
        """
        linked = any(step.window is not None for step in self.steps)
        touched = []
        for k, step in enumerate(self.steps):
            window = step.window or EVERYTHING
            if window.end > self.window.start and window.start < self.window.end and self.step in (None, step.number):
                touched.append((step, [sums[k] for sums in self.sums_by_device] if linked else []))
        return touched

    # Work.

    @shared
    def host_operators(self) -> HostOperators:
        """The operations of the framework, of the whole trace."""
        return host_operators(self.trace)

    def operation_of(self, item: int) -> int:
        """The outermost operation of the framework that launched the kernel ``item``; -1 without one."""
        operation = int(operation_of(self.trace, np.array([item], np.int64))[0])
        return outermost_operation(self.trace, self.host_operators, operation)

    @shared
    def all_kernels(self) -> KernelTable:
        """Every kernel of the trace with what its row of kernel_details.csv says."""
        from npu_tui.profile.kernels import kernels_of

        return kernels_of(self.trace, np.flatnonzero(self.compute), self.device_slices, self.tables)

    @once
    def kernel_table(self) -> KernelTable:
        """``all_kernels`` that start in the selection."""
        table = self.all_kernels
        return table if self.window == EVERYTHING else table.taken(np.flatnonzero(self.window.holds(table.start)))

    @once
    def kernels_within(self) -> KernelTable:
        """``all_kernels`` as far as they lie in the selection: what crosses its edge is cut there."""
        table = self.all_kernels
        if self.window == EVERYTHING:
            return table
        start, end = self.window.cut(table.start, table.start + table.duration)
        rows = np.flatnonzero((end > start) | ((table.duration == 0) & self.window.holds(table.start)))
        cut, length = table.taken(rows), (end - start)[rows]
        share = length / np.maximum(cut.duration, 1)
        return replace(cut, start=start[rows], duration=length, bytes=cut.bytes * share)

    @once
    def kernels(self) -> I64:
        """The compute slices that start in the selection, ascending."""
        return np.sort(np.concatenate([facts.kernels for facts in self.facts] or [np.zeros(0, np.int64)]))

    def types_of(self, items: I64) -> tuple[list[str], I64]:
        """The distinct operator types of the slices ``items`` (n,), and which one each has; (n,).

        A kernel has the type of its row of kernel_details.csv, a slice without a row the one in its name.
        """
        from npu_tui.profile.kernels import types_of

        return types_of(self.trace, items, self.compute, lambda: self.all_kernels)

    @once
    def modules(self) -> list[Module]:
        """What each ``nn.Module`` launched in the selection."""
        from npu_tui.analysis.modules import modules
        from npu_tui.profile.kernels import shapes_in

        shapes_of = shapes_in(self.trace)
        return modules(self.trace, self.window, self.device_slices, self.dispatch, self.all_kernels, shapes_of)

    @once
    def apis(self) -> list[ApiSum]:
        """The calls of the CANN runtime that start in the selection, by level and name."""
        return apis(self.trace, self.window)

    @once
    def collectives(self) -> Collectives:
        """The collectives that start in the selection. Raises ``InputError`` if the file is gone or has changed."""
        known = collectives(self.trace, communication_args(self.trace), self.window)
        return with_ranks_of_job(self.trace, known, self.setup.groups)

    # Replay.

    @shared
    def device_tasks(self) -> list[DeviceTasks]:
        """The tasks of each device of ``device_slices``, in the order of their streams."""
        return [device_tasks(self.trace, device) for device in self.device_slices]

    @shared
    def _floors(self) -> list[int]:
        """``floor_of`` each of ``devices``."""
        return [
            0
            if device.launches is None
            else clock_floor(self.trace, device.launches, partial(lambda number: self.device_tasks[number], number))
            for number, device in enumerate(self.devices)
        ]

    def floor_of(self, device: DevicePart) -> int:
        """The clock of ``device``, one of ``devices``, minus that of the host, as far as it is known, ns."""
        return next((floor for known, floor in zip(self.devices, self._floors, strict=True) if known is device), 0)

    @shared
    def replays(self) -> list[tuple[DevicePart, Replay | None]]:
        """Every device with a model of its run, None without launches; raises as ``collectives``."""
        steps = np.array([step.item for step in self.steps if step.item >= 0], np.int64)
        replays = []
        for number, device in enumerate(self.devices):
            tasks = partial(lambda number: self.device_tasks[number], number)
            model = replay_model(self.trace, device, tasks, lambda: self.collectives, steps)
            replays.append((device, None if model is None else Replay(model)))
        return replays

    def replay_of(self, device: DevicePart) -> Replay | None:
        """The model of the whole run of ``device``, one of ``devices``, and its host."""
        return next((replay for known, replay in self.replays if known is device), None)

    @shared
    def event_pairs(self) -> tuple[I64, I64]:
        """Waits of streams for events and the records they wait for, as slices."""
        waits, records = event_pairs(self.device_tasks)
        linked = self.trace.bound_links_of(EVENTS)
        ends = self.trace.links.target_slice[linked], self.trace.links.source_slice[linked]
        return np.concatenate((waits, ends[0])), np.concatenate((records, ends[1]))

    # Findings.

    @once
    def inputs(self) -> Inputs:
        """What the rules are given of the selection."""
        from npu_tui.rules.inputs import Inputs

        return Inputs(
            self.trace,
            self.window,
            self.step,
            self.thresholds,
            self.setup,
            self.steps,
            planes=lambda: communication_args(self.trace).planes,
            copies=lambda: copies_of(self.trace),
            # A range may begin in a collective, and equal ones of other steps show how long one waited.
            collectives=lambda: self.whole.collectives,
            hosts=lambda: self.host_operators,
            all_kernels=lambda: self.all_kernels,
            memory=lambda: self.memory,
            transfers=lambda: self.tables.transfers,
            preprocessing=lambda: self.tables.preprocessing,
            table_sums=lambda: self.tables.sums,
            preparing=lambda: self.tables.preparing,
            communicated=lambda: self.tables.communicated,
            floor_of=self.floor_of,
            replay_of=self.replay_of,
            types_of=self.types_of,
            engine=lambda: self.engine,
            cpu=lambda: self.cpu,
            is_of_mindspore=self.writer == "mindspore",
        )

    @once
    def facts(self) -> list[Facts]:
        """What the rules read of every device, in the order of ``devices``."""
        from npu_tui.rules.facts import Facts
        from npu_tui.rules.odd_steps import works_at_first

        every = [Facts(device, self.inputs) for device in self.devices]
        return [Facts(each.part, self.inputs, every_step=True) if works_at_first(each) else each for each in every]

    @property
    def _judged(self) -> list[Facts]:
        """What the rules read: of all devices that did anything, or of tables where there is no trace."""
        from npu_tui.rules.facts import Facts  # the rules come with all of the analysis

        devices = [facts for facts in self.facts if facts.has("overlap")]
        if devices or len(self.trace.slices) or self.companions is None:
            return devices
        return [Facts(DevicePart(None, None, None, None, None), self.inputs)]

    @once
    def judged(self) -> SubjectVerdict | None:
        """The verdict on a trace whose subject has rules of its own; None where the rules of devices apply."""
        from npu_tui.rules import judge

        return judge(self.trace, self.thresholds) if self is self.whole else self.whole.judged

    @once
    def findings(self) -> Findings:
        """The findings of all devices that did anything. Raises ``InputError`` as ``collectives`` does."""
        from npu_tui.rules.find import find
        from npu_tui.rules.left_out import capturing, with_launches, with_what_is_missing

        if self.judged is not None:
            return self.judged.findings
        self.compute_ahead()
        unsafe = self.clock_jump or capturing(self.trace)
        if len(self.trace.slices) < _LARGE:
            found = find(self._judged, 1, unsafe)
        else:
            with kept_heap():
                found = find(self._judged, self.threads, unsafe)
        found = with_launches(found, self.trace, self.kind, self.source)
        return found if self.source is None or not self.source.files else with_what_is_missing(found, self.source)

    @once
    def critical_paths(self) -> list[JudgedPath]:
        """The critical path of every device that did anything, in the selection; raises as ``collectives``."""
        from npu_tui.rules.judged_path import judged_path

        return [] if self.clock_jump else [judged_path(facts) for facts in self._judged]

    def compute_ahead(self) -> None:
        """Start what the findings wait for longest in a thread of its own, where the trace is large enough.

        It mostly reads and runs compiled loops, both of which release the interpreter lock.
        """
        if self.threads > 1 and len(self.trace.slices) >= _WORTH_A_THREAD:
            self._ahead  # noqa: B018 - it is begun once

    @once
    def _ahead(self) -> Thread:
        def compute() -> None:
            with suppress(Exception):  # it is raised again where it is asked for
                self.collectives, self.replays, self.host_operators  # noqa: B018 - they are kept

        begun = Thread(target=compute, name="ahead", daemon=True)
        begun.start()
        return begun

    @once
    def titles(self) -> tuple[dict[str, Message], set[str]]:
        """Titles of findings above info by id, and the rules without an answer; raises as ``collectives``."""
        from npu_tui.rules.find import titles

        return titles([] if self.clock_jump else self._judged)

    @shared
    def left_out(self) -> list[Message]:
        """What lies at the directory it was opened as, and is no part of it."""
        return left_out_messages(self.source) if self.source is not None else []

    @shared
    def health(self) -> TraceHealth:
        """What could not be placed as recorded."""
        health, cpu = trace_health(self.trace), self.cpu
        odd = [*self.left_out, *filter(None, [self.clock_jump])]
        if cpu is not None and not isinstance(cpu, Message):
            odd += [message("health.ftrace", count=count, what=what) for what, count in cpu.scheduling.odd.items()]
        odd += [] if self.judged is None else self.judged.warnings
        return replace(health, warnings=health.warnings + odd)

    @shared
    def searchable(self) -> Searchable:
        """The trace ready to be searched."""
        from npu_tui.analysis.search import Searchable

        return Searchable(self.trace, self.dispatch, lambda: self.steps)
