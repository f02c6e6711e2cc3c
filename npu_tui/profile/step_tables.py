"""The tables of steps, and how each device spent its time; without a trace by the files beside it."""

from __future__ import annotations

from msgspec.structs import replace

from npu_tui.analysis.steps import Step, StepSums
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import Span, TableSheet, from_tuples, table
from npu_tui.trace.kineto import is_kineto

_STEP_COLUMNS = (
    "device step name slice start end duration start_ns computing not_overlapped overlapped communication free "
    "stage bubble preparing host_duration length"
)


def steps(profile: Profile, together: bool = False) -> TableSheet:
    """The steps that the part touches by device, or of all devices ``together``, as step_trace_time.csv has them.

    Without a trace they are the rows of that file. What spans from first to last has no sum over devices.
    """
    trace, slices = profile.trace, profile.trace.slices
    if not len(slices) and profile.tables.steps:
        return _steps_of_file(profile)
    spans: list[tuple[int | None, Step, list[StepSums]]] = []
    devices = [lanes.device for lanes in profile.overlap_lanes]
    if together:
        spans = [(None, step, sums) for step, sums in profile.step_sums]
    elif devices:
        by_step = profile.step_sums
        spans = [(device, step, sums[k : k + 1]) for k, device in enumerate(devices) for step, sums in by_step]
    else:
        spans = [(None, step, []) for step in profile.steps if step.number is not None]
    unlinked = all(step.window is None for step in profile.steps)
    rows = []
    for device, step, sums in spans:
        item = step.item
        window: tuple[int | None, ...] = (None, None, None, None)
        if step.window is not None and not unlinked:  # without ProfilerStep the step is all of the trace
            start, end = max(step.window.start, 0), min(step.window.end, trace.end)
            window = start, end, end - start, start + profile.tables.start_ns
        host = int(slices.end[item] - slices.start[item]) if item >= 0 else None
        spent = _spent(sums) if sums else (None,) * 8
        rows.append((device, step.number, step.name, item if item >= 0 else None, *window, *spent, host, host))

    def place(row: int) -> list[Span]:
        step = spans[row][1]
        low, high = (0, trace.end) if step.item < 0 else (int(slices.start[step.item]), int(slices.end[step.item]))
        return [Span(low, high, words=step.name or "")]

    return replace(from_tuples(rows, _STEP_COLUMNS), place=place)


def _spent(sums: list[StepSums]) -> tuple[int | None, ...]:
    """How the devices spent a step, from ``computing`` to ``preparing``."""
    computing, communication, exposed, free = (
        sum(getattr(device.overlap, name) for device in sums)
        for name in ("computing", "communication", "not_overlapped", "free")
    )
    bubble = sum(device.bubble for device in sums)
    stage, preparing = (sums[0].stage, sums[0].preparing) if len(sums) == 1 else (None, None)
    return computing, exposed, communication - exposed, communication, free, stage, bubble, preparing


def _steps_of_file(profile: Profile) -> TableSheet:
    rows = []
    for step in profile.tables.steps:
        times, name = step.overlap, None if step.number is None else f"ProfilerStep#{step.number}"
        rows.append(
            (
                None, step.number, name, *[None] * 5, times.computing, times.not_overlapped,
                times.communication - times.not_overlapped, times.communication, times.free, step.stage, step.bubble,
                step.preparing, None, step.stage,
            )
        )  # fmt: skip
    return from_tuples(rows, _STEP_COLUMNS)


STEPS = table(
    "steps",
    steps,
    sql="rank device step name slice start end duration start_ns computing not_overlapped overlapped communication "
    "free stage bubble preparing host_duration",
    json="name? step? computing? communication_not_overlapped=not_overlapped? overlapped? communication? free? stage? "
    "bubble? preparing? duration=length?",
    page="step=name length computing not_overlapped free stage",
    section="steps",
    options={"together": True},
    row="StepRow",
    about="""One step, summed over devices; ``name`` and ``step`` are None for a trace without steps.

    ``stage_us`` and ``preparing_us`` span from first to last and are None with several devices; ``duration_us`` is the
    length on the host, without a trace that on the device.
    """,
)


def overlap(profile: Profile) -> TableSheet:
    """How each device spent its time; without a trace one row, the sum of step_trace_time.csv or of kernel_details.csv.

    Free is split into host late and device side, null without launches.
    """
    none = (None, None, None)
    spent = [
        (device.device, device.lanes.sums(profile.window), device.split) for device in profile.devices if device.lanes
    ]
    if not len(profile.trace.slices) and profile.tables.sums[1].total:
        spent = [(None, profile.tables.sums[1], None)]
    return from_tuples(
        [
            (
                device, sums.total, sums.computing, sums.communication, sums.not_overlapped,
                sums.copies if is_kineto(profile.trace) else None, sums.free,
                *(none if split is None else split.sums(profile.window)),
            )
            for device, sums, split in spent
        ],
        "device total computing communication not_overlapped copies free host_late device_side unlinked",
    )  # fmt: skip


OVERLAP = table("overlap", overlap)
