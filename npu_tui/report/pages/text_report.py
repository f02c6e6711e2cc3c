"""The report in words: the same answers as plain text for a terminal or an issue."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from npu_tui.report.finding_words import line_place, overlap_title
from npu_tui.report.foremost import foremost, shorter_steps, step_length
from npu_tui.report.parts.findings_part import verdict_lines
from npu_tui.report.schema import (
    CodeLineRow,
    CollectiveRow,
    CrossCheckRow,
    DispatchPart,
    FileRow,
    HealthPart,
    KernelGroupRow,
    MemoryPart,
    NotChecked,
    OperatorRow,
    OverlapPart,
    PairRow,
    RangeRow,
    Report,
    StepRow,
)
from npu_tui.report.wording import count_text, or_unknown, share_text, size_text, speed_text, time_text
from npu_tui.strings import say
from npu_tui.trace.message import message
from npu_tui.trace.text import brief, printable, wrapped

Row = TypeVar("Row")

_LONGEST_LIST = 10
_WIDTH = 118
_SHAPES = 60


def text_report(report: Report) -> str:
    """The lines of ``report``."""
    lines = [*_head(report), "", *verdict_lines(report)]
    lines += _titled(overlap_title(report.overlap), _overlap(report.overlap))
    lines += _section("steps", _steps([step for step in report.steps if step.computing_us is not None]))
    several = len(report.dispatches) > 1
    for found in report.dispatches:
        title = say("report.dispatch.device", device=or_unknown(found.device)) if several else say("report.dispatch")
        lines += _titled(title, _dispatch(found))
        lines += _section("ranges", _ranges(found.ranges))
        lines += _section("lines", _rows("lines.row", _line, found.code_lines))
    lines += _section("operators", _rows("operators.row", _operator, report.operators))
    shaped = [each for each in report.kernel_groups if each.shapes is not None]
    lines += _section("shapes", _rows("shapes.row", _group, shaped))
    lines += _section("memory", _memory(report.memory))
    lines += _section("cross_check", _rows("cross_check.row", _cross_check, report.cross_check))
    lines += _section("files", _files(report.files))
    longest = sorted(report.communication, key=lambda each: -each.elapsed_us)
    lines += _section("communication", _rows("communication.row", _collective, longest))
    lines += _section("link_matrix", _rows("link_matrix.row", _pair, report.link_matrix))
    lines += _section("not_checked", _not_checked(report.not_checked))
    lines += _section("health", _health(report.health))
    return "\n".join(map(printable, lines)) + "\n"


def _section(title: str, lines: list[str]) -> list[str]:
    return _titled(say(f"report.{title}"), lines)


def _titled(title: str, lines: list[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def _rows(key: str, words: Callable[[Row], dict[str, object]], rows: list[Row]) -> list[str]:
    """The first of ``rows`` in the words of ``key``, which ``words`` fills, and how many there are more."""
    lines = [say(f"report.{key}", **words(each)) for each in rows[:_LONGEST_LIST]]
    hidden = len(rows) - len(lines)
    return [*lines, say("report.more", count=hidden)] if hidden else lines


def _head(report: Report) -> list[str]:
    source, trace, selection = report.source, report.trace, report.selection
    lines = [
        say(
            "report.source",
            path=source.path,
            kind=say(f"source.kind.{source.kind}"),
            size=size_text(source.bytes),
            rank=or_unknown(source.rank),
            device=or_unknown(source.device),
            level=or_unknown(source.profiler_level),
            steps=source.step_count,
        ),
        say(
            "report.trace",
            slices=count_text(trace.slices),
            lanes=count_text(trace.lanes),
            links=count_text(trace.links),
            span=time_text(trace.span_us),
        ),
    ]
    if selection is not None:
        key = "selection" if selection.step is None else "selection.step"
        end = selection.end_us
        lines.append(
            say(
                f"report.{key}",
                step=selection.step,
                start=time_text(selection.start_us or 0.0),
                end=say("report.end") if end is None else time_text(end),
            )
        )
    return lines


def _not_checked(rows: list[NotChecked]) -> list[str]:
    """One line per reason, with all it holds for."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row.reason, []).append(row.id)
    return [
        line
        for reason, ids in by_reason.items()
        for line in wrapped(say("report.not_checked.row", id=", ".join(ids), reason=reason), _WIDTH, rest="  ")
    ]


def _overlap(overlap: OverlapPart) -> list[str]:
    if overlap.total_us is None:
        return []
    parts: list[tuple[str, float | None, float | None]] = [
        ("overlap.computing", overlap.computing_us, overlap.total_us),
        ("overlap.exposed", overlap.communication_not_overlapped_us, overlap.total_us),
        ("overlap.free", overlap.free_us, overlap.total_us),
    ]
    if overlap.free_host_late_us is not None:
        parts += [
            ("free.late", overlap.free_host_late_us, overlap.free_us),
            ("free.side", overlap.free_device_side_us, overlap.free_us),
            ("free.unlinked", overlap.free_unlinked_us, overlap.free_us),
        ]
    return [
        say(
            "report.overlap.part",
            name=say(f"report.{name}"),
            time=time_text(time),
            share=share_text(time / whole if whole and time is not None else None),
        )
        for name, time, whole in parts
    ]


def _steps(steps: list[StepRow]) -> list[str]:
    """The longest of ``steps`` where there are many."""
    shown = foremost(steps, _LONGEST_LIST, step_length)
    hidden = len(steps) - len(shown)
    return [*map(_step, shown), *([shorter_steps(steps, hidden)] if hidden else [])]


def _step(step: StepRow) -> str:
    return say(
        "report.steps.row",
        name=step.name or say("report.steps.none"),
        computing=time_text(step.computing_us),
        exposed=time_text(step.communication_not_overlapped_us),
        free=time_text(step.free_us),
        stage=time_text(step.stage_us),
    )


def _dispatch(found: DispatchPart) -> list[str]:
    if found.lost_us is None:
        return []
    lines = [
        say("report.dispatch.lost", lost=time_text(found.lost_us), starved=found.starved, links=found.links),
        say(
            "report.dispatch.classes",
            near=found.near_vertical,
            shallow=found.shallow,
            queued=found.queued,
            floor=time_text(found.clock_floor_us),
        ),
    ]
    idle = found.dequeue_idle_ratio
    if found.slow_stage is not None and isinstance(idle, float):
        lines.append(say(f"report.dispatch.stage.{found.slow_stage}", idle=share_text(idle)))
    if found.drains:
        causes = [each.cause for each in found.drains]
        counted = sorted({cause: causes.count(cause) for cause in causes}.items(), key=lambda each: -each[1])
        lines.append(
            say(
                "report.dispatch.drains",
                count=len(causes),
                interrupted=sum(each.interrupted for each in found.drains),
                causes=[
                    message("finding.counted", name=message(f"finding.cause.{cause}"), count=count)
                    for cause, count in counted
                ],
            )
        )
    return lines


def _ranges(ranges: list[RangeRow]) -> list[str]:
    """Those of ``ranges`` that lose most where there are many."""
    shown = foremost(ranges, _LONGEST_LIST, lambda each: each.lost_us)
    lines = [say("report.ranges.row", **_range(each)) for each in shown]
    hidden = len(ranges) - len(shown)
    return [*lines, say("report.ranges.more", count=hidden)] if hidden else lines


def _range(each: RangeRow) -> dict[str, object]:
    return {
        "start": time_text(each.start_us),
        "end": time_text(each.end_us),
        "near": each.near_vertical,
        "links": each.links,
        "idle": share_text(each.idle_ratio),
        "lost": time_text(each.lost_us),
    }


def _line(each: CodeLineRow) -> dict[str, object]:
    place = line_place(each)
    return {"lost": time_text(each.lost_us), "launches": each.launches, "place": place}


def _memory(memory: MemoryPart | None) -> list[str]:
    if memory is None:
        return []
    lines = [
        say(
            "report.memory.peak",
            component=each.component,
            amount=each.amount,
            size=each.peak_bytes,
            at=each.at_us * 1000,
        )
        for each in memory.peaks[:_LONGEST_LIST]
    ]
    if memory.gap_bytes is not None and memory.gap_at_us is not None:
        lines.append(say("report.memory.gap", size=memory.gap_bytes, at=memory.gap_at_us * 1000))
    if memory.allocations:
        lines.append(say("report.memory.kept", count=memory.never_released, size=memory.never_released_bytes))
    return lines


def _group(each: KernelGroupRow) -> dict[str, object]:
    return {
        "total": time_text(each.total_us),
        "count": count_text(each.count),
        "type": each.type,
        "shapes": brief(each.shapes or "", _SHAPES),
        "longest": time_text(each.max_us),
    }


def _pair(each: PairRow) -> dict[str, object]:
    return {
        "source": each.source, "target": each.target, "transport": each.transport,
        "bandwidth": speed_text(each.bandwidth_gb_s), "size": size_text(each.size_bytes),
    }  # fmt: skip


def _files(files: list[FileRow]) -> list[str]:
    """What became of the files that are not whole, and which ones are missing where any is there."""
    if all(each.state == "missing" or each.rows is None for each in files):
        return []
    lines = [
        say("report.files.row", name=each.name, state=say(f"summary.state.{each.state}"), said=each.tells)
        for each in files
        if each.state not in ("missing", "read")
    ]
    missing = [each.name for each in files if each.state == "missing"]
    return [*lines, *(wrapped(say("report.files.missing", names=missing), _WIDTH, rest="  ") if missing else [])]


def _cross_check(each: CrossCheckRow) -> dict[str, object]:
    return {
        "file": each.file, "rows": each.rows, "matched": each.matched, "figures": each.figures,
        "differing": each.differing,
    }  # fmt: skip


def _operator(each: OperatorRow) -> dict[str, object]:
    return {
        "total": time_text(each.total_us),
        "share": share_text(each.ratio),
        "count": count_text(each.count),
        "type": each.type,
        "core": "" if each.core is None else f" ({each.core})",
    }


def _collective(each: CollectiveRow) -> dict[str, object]:
    size, peer = each.size_bytes, each.peer_rank
    return {
        "name": each.name,
        "elapsed": time_text(each.elapsed_us),
        "size": size_text(size),
        "wait": time_text(each.longest_wait_us),
        "peer": "" if peer is None else say("report.communication.peer", rank=peer),
    }


def _health(health: HealthPart) -> list[str]:
    lines = [
        say(
            "report.health.events",
            events=count_text(health.events),
            skipped=count_text(sum(each.count for each in health.skipped)),
            crossing=count_text(health.crossing_slices),
            negative=count_text(health.negative_links),
        )
    ]
    if health.truncated:
        lines.append(say("report.health.truncated"))
    lines += health.warnings
    return lines
