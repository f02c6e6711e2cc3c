"""The report about a profile as a document: verdict, device time, findings, tables, what to record next time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from npu_tui.output.document import (
    Block,
    Box,
    Document,
    Finding,
    Findings,
    Heading,
    Items,
    Paragraph,
    Picture,
    Proof,
    Tip,
    or_unknown,
    report_share,
    report_time,
)
from npu_tui.output.report_schema import (
    BorrowedPart,
    CriticalPathPart,
    DispatchPart,
    MemoryPart,
    OverlapPart,
    Report,
    SourcePart,
    StepTimes,
    experts_part,
)
from npu_tui.output.report_tables import (
    base_of,
    class_word,
    data_tables,
    findings_table,
    gain_words,
    is_alone,
    overlap_table,
    owners_table,
    profile_again,
    ranges_table,
    verdict,
)
from npu_tui.output.text import finding_lines
from npu_tui.profile.finding_tables import FINDINGS
from npu_tui.profile.parts import WHOLE_TRACE
from npu_tui.profile.profile import Profile
from npu_tui.profile.service_tables import service_about
from npu_tui.profile.table import Record
from npu_tui.rules.find import RULES
from npu_tui.rules.ladder import is_work
from npu_tui.rules.model import Base
from npu_tui.rules.model import Finding as FoundByRule
from npu_tui.strings import say
from npu_tui.trace.classes import OpClass
from npu_tui.trace.message import message
from npu_tui.trace.text import brief, count_text, printable, size_text, ticks_per_us
from npu_tui.view.palette import bar

_BAR_WIDTH, _BAR_HEIGHT = 1200, 20


def report_document(report: Report, part: Profile | None = None) -> Document:
    """What ``report`` says; with the ``part`` that it is about, a picture of its lanes too."""
    blocks: list[Block] = [Paragraph(tuple(_about_report(report)), "faint")]
    if sentences := verdict(report):
        blocks.append(Paragraph(tuple(sentences), "verdict"))
    device = overlap_table(report)
    if device is not None:
        blocks += [replace(device, sortable=False), _shares(report.overlap)]
    if part is not None:
        from npu_tui.output.svg import timeline  # only a page has a picture

        blocks.append(timeline(part))
        if part.selection == WHOLE_TRACE:
            from npu_tui.output.film import film_blocks

            blocks += film_blocks(part)
    if report.findings:
        blocks.append(_findings_block(report))
    if report.overlap.total_us is not None:
        blocks += _path_blocks(report.critical_paths)
    blocks += _dispatches(report.dispatches, base_of(report))
    for table in data_tables(report):
        blocks += [table] if table.rows else []
        if table.id == "steps":
            blocks += _step_times(report.step_times)
        elif table.id == "borrowed_code" and report.borrowed is not None:
            blocks.append(Items(tuple(_borrowed(report.borrowed))))
        elif table.id == "experts":
            blocks += experts_part(report.expert_files)
        elif table.id == "memory":
            blocks += _memory_blocks(report.memory)
        elif table.id == "files" and not is_alone(report):
            blocks += _missing_files(report.files)
    again = tuple(profile_again(report))
    blocks += [Heading(say("table.again")), Items(again)] if again else []
    if report.not_checked:
        blocks += [Heading(say("report.not_checked")), Items(_not_checked(report))]
    blocks += [Heading(say("report.health")), Items(tuple(_health(report)))]
    return Document(f"npu-tui: {report.source.path}", blocks)


# Findings for which ``npu-tui explain`` shows code before and after.
_WITH_CODE = frozenset(rule.id for rule in RULES if rule.change)


def finding_block(number: int, finding: Record) -> Finding:
    """A finding in words, the same on the screen and in every format."""
    title = f"{class_word(finding.cls)} · {finding.title}"
    gain = "" if finding.gain_us is None else say("page.gains_nothing")
    if finding.gain_us:
        words = gain_words(report_time(finding.gain_us), finding.gain_after)
        gain = say("page.gain", gain=words, unit=say(f"finding.unit.{finding.per}"))
    part = [say("page.part", id=finding.part_of)] if finding.part_of is not None and not is_work(finding) else []
    notes = [say("page.confidence", confidence=say(f"confidence.{finding.confidence}"))]
    if finding.sources:
        notes.append(say("page.sources", sources="; ".join(finding.sources)))
    if finding.whatif and (finding.gain_us or finding.gain_alone_us):
        alone = report_time(finding.gain_alone_us) if finding.gain_alone_us else say("page.no_gain")
        notes.append(say("page.whatif", change=finding.whatif, gain=alone))
    if finding.id in _WITH_CODE:
        notes.append(say("page.code", id=finding.id))
    return Finding(
        number,
        finding.id,
        finding.severity,
        " ".join([title, *([say("page.hidden")] if finding.hidden else []), *part]),
        gain,
        finding.detail,
        tuple(Proof(_place_text(place), place.name, place.note) for place in finding.evidence),
        tuple(finding.advice),
        tuple(notes),
        part=finding.part_of is not None,
    )


def finding_text(profile: Profile, finding: FoundByRule, number: int) -> str:
    """All about one finding of ``profile``, each sentence on one line; it is the ``number``-th."""
    block = finding_block(number, FINDINGS.records(profile, known=[finding])[0])
    return "\n".join(map(printable, finding_lines(block, width=sys.maxsize)))


def what_to_do(profile: Profile, finding: FoundByRule) -> str:
    """What one finding of ``profile`` means, and what to do about it."""
    block = finding_block(0, FINDINGS.records(profile, known=[finding])[0])
    steps = (say("page.step", number=number, advice=advice) for number, advice in enumerate(block.advice, 1))
    return "\n".join(map(printable, (block.detail, *steps)))


def _findings_block(report: Report) -> Findings:
    table = findings_table(report)
    numbered = list(enumerate(report.findings, 1))
    work = frozenset(number for number, finding in numbered if is_work(finding))
    return Findings(
        table.title if work else say("table.findings.none"),
        table,
        tuple(finding_block(number, finding) for number, finding in numbered),
        work,
        say("page.brief"),
    )


def _place_text(place: Record) -> str:
    start, end = (time * ticks_per_us() for time in (place.start_us, place.end_us))
    text = say("page.place", start=start, end=end)
    return text if place.lane is None else f"{text} {say('page.lane', lane=place.lane)}"


def _source_kind(source: SourcePart) -> str:
    """What was read, such as ``msprof JSON``; a folder by the profiler that has written it."""
    if source.kind == "profile_directory" and source.writer is not None:
        return say(f"source.writer.{source.writer}")
    return say(f"source.kind.{source.kind}")


def _about_service(report: Report) -> Iterator[str]:
    steps = [row.steps for row in report.service_engines]
    about = service_about(report.request_count, sum(steps), len(steps))
    yield say("list.colon").join((_source_kind(report.source), about))
    yield f"npu-tui {report.source.tool_version}"


_ABOUT = {"service": _about_service}  # what is said of what has no lanes of a device


def _about_report(report: Report) -> Iterator[str]:
    """What was read, the selection if there is one, and which version says so."""
    source, trace, selection = report.source, report.trace, report.selection
    if own := _ABOUT.get(source.kind):
        yield from own(report)
        return
    size, lanes, slices = size_text(source.bytes), count_text(trace.lanes), count_text(trace.slices)
    if is_alone(report):
        span = report_time(trace.span_us)
        yield say("report.about.alone", kind=_source_kind(source), size=size, slices=slices, lanes=lanes, span=span)
    else:
        known = {
            "kind": _source_kind(source),
            "rank": or_unknown(source.rank),
            "device": or_unknown(source.device),
            "level": or_unknown(source.profiler_level),
            "steps": source.step_count,
        }
        links, span = count_text(trace.links), report_time(trace.span_us)
        read = say("report.about", **known, size=size, slices=slices, lanes=lanes, links=links, span=span)
        yield read if source.bytes else say("report.about.no_trace", **known)
    if selection is not None:
        key = "report.selection" if selection.step is None else "report.selection.step"
        words = {
            "start": report_time(selection.start_us or 0.0),
            "end": say("report.end") if selection.end_us is None else report_time(selection.end_us),
            "step": selection.step,
        }
        yield say(key, **words)
    yield f"npu-tui {source.tool_version}"


def _shares(overlap: OverlapPart) -> Picture:
    """How the time of the device was spent, as a bar."""
    shapes: list[Box | Tip] = []
    left = 0.0
    for name, paint, share in (
        ("computing", bar(OpClass.CUBE), overlap.computing_ratio),
        ("exposed", bar(OpClass.COMMUNICATION), overlap.communication_not_overlapped_ratio),
        ("free", "free", overlap.free_ratio),
    ):
        if share:
            place = left, 0, share * _BAR_WIDTH, _BAR_HEIGHT
            shapes += [Box(*place, paint), Tip(*place, f"{say(f'report.overlap.{name}')} {report_share(share)}")]
            left += share * _BAR_WIDTH
    return Picture(say("report.overlap"), _BAR_WIDTH, _BAR_HEIGHT, shapes, head=0)


def _path_blocks(paths: Sequence[CriticalPathPart]) -> Iterator[Block]:
    """Where the step goes, by the critical path of each device; or why that is unknown."""
    for path in paths:
        unit = message(f"finding.unit.{path.per or 'run'}")
        key = "report.path.device" if len(paths) > 1 else "report.path"
        title = say(key, unit=unit, device=or_unknown(path.device))
        yield Heading(title)
        if not path.told or path.length_us is None or path.count is None:
            yield Paragraph((say("report.path.untold", reason=(path.reason or "").rstrip(".。")),))
            continue
        length = path.length_us * 1000
        if path.count > 1:
            steps = message(f"whatif.count.{path.per}", count=path.count)
            yield Paragraph((say("report.path.length", length=length, steps=steps, unit=unit),))
        else:
            yield Paragraph((say("report.path.length_one", length=length, unit=unit),))
        if path.owners:
            yield replace(owners_table(path), title="")


def _dispatches(dispatches: list[DispatchPart], base: Base) -> Iterator[Block]:
    for dispatch in dispatches:
        if dispatch.lost_us is None:
            continue
        title = say("report.dispatch")
        if len(dispatches) > 1:
            title = say("report.dispatch.device", device=or_unknown(dispatch.device))
        yield Heading(title)
        yield Items(tuple(_dispatch(dispatch, base)))
        if dispatch.ranges:
            ranges = ranges_table(dispatch.ranges)
            yield replace(ranges, title=f"{title}: {ranges.title}") if len(dispatches) > 1 else ranges


def _dispatch(dispatch: DispatchPart, base: Base) -> Iterator[str]:
    lost, starved, unasked = base.of_one(1000 * (dispatch.lost_us or 0)), dispatch.starved, dispatch.lost_unasked_us
    if isinstance(unasked, float):
        told = base.of_one(1000 * unasked)
        yield say("report.dispatch.lost_unasked", lost=lost, starved=starved, links=dispatch.links, unasked=told)
    else:
        yield say("report.dispatch.lost", lost=lost, starved=starved, links=dispatch.links)
    yield say(
        "report.dispatch.classes",
        near=dispatch.near_vertical,
        shallow=dispatch.shallow,
        queued=dispatch.queued,
        floor=report_time(dispatch.clock_floor_us),
    )
    idle = dispatch.dequeue_idle_ratio
    if dispatch.slow_stage is not None and isinstance(idle, float):
        yield say(f"report.dispatch.stage.{dispatch.slow_stage}", idle=report_share(idle))
    if causes := dispatch.drain_causes:
        yield say(
            "report.dispatch.drains",
            count=sum(causes.values()),
            interrupted=dispatch.interrupted,
            causes=[
                message("finding.counted", name=message(f"finding.cause.{cause}"), count=count)
                for cause, count in causes.items()
            ],
        )


def _step_times(times: StepTimes | None) -> Iterator[Block]:
    """Percentiles and throughput of several steps."""
    if times is not None and times.count - times.warm_up > 1:
        warm = say("report.steps.warm", count=times.warm_up) if times.warm_up else ""
        ns = {name: getattr(times, f"{name}_us") * 1000 for name in ("p50", "p90", "p99")}
        yield Items((say("report.steps.times", **ns, warm=warm, rate=times.steps_per_s),))
    if times is not None and times.unprofiled_us is not None and times.profiler_us is not None:
        taken, cost, device = times.unprofiled_us, times.profiler_us, times.device_us
        costs = "costs" if cost > 0 else "nothing"
        lines = [say(f"report.unprofiled.{costs}", time=taken * 1000, cost=cost * 1000, share=cost / (taken + cost))]
        if device is not None:
            fits = "busy" if device <= taken else "longer"
            lines.append(say(f"report.unprofiled.{fits}", time=device * 1000, share=device / taken))
        yield Items(tuple(lines))


def _borrowed(found: BorrowedPart) -> Iterator[str]:
    """What share of the replayed kernels was placed, and how sure that is."""
    shares = {name: getattr(found, name) for name in ("covered_here", "covered_there")}
    times = {name: getattr(found, f"{name}_us") * 1000 for name in ("total", "placed", "unique", "eager")}
    if found.fits:
        yield say("borrow.from", path=found.path, names=f" ({', '.join(found.sequences)})" if found.sequences else "")
    else:
        yield say("borrow.other", path=found.path, **shares)
    counts = {f"{name}_count": getattr(found, name) for name in ("placed", "unique", "with_module")}
    yield say("borrow.placed", kernels=found.kernels, eager_kernels=found.eager_kernels, **counts, **shares, **times)
    if found.unplaced:
        names = [brief(name, 60) for name in found.unplaced]
        yield say("borrow.missing", names=names, more=found.kernels - found.placed - len(names))


def _memory_blocks(memory: MemoryPart | None) -> Iterator[Block]:
    if memory is None:
        return
    lines = []
    if memory.gap_bytes is not None and memory.gap_at_us is not None:
        lines.append(say("report.memory.gap", size=memory.gap_bytes, at=memory.gap_at_us * 1000))
    if memory.allocations:
        lines.append(say("report.memory.kept", count=memory.never_released, size=memory.never_released_bytes))
    if lines:
        yield Items(tuple(lines))


def _missing_files(files: Sequence[Record]) -> Iterator[Block]:
    """The files that are missing, by the setting that makes the profiler write them; one line where all are."""
    if all(file.state == "missing" for file in files):
        yield Heading(say("table.files"))
        yield Items((say("report.files.none"),))
        return
    by_setting: dict[str, list[str]] = {}
    for file in files:
        if file.state == "missing" and file.setting:
            by_setting.setdefault(file.setting, []).append(file.name)
    if by_setting:
        missing = (say("report.files.missing", names=names, setting=text) for text, names in by_setting.items())
        yield Items(tuple(missing))


def _not_checked(report: Report) -> tuple[tuple[str, str], ...]:
    """One line for each reason, after all that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for row in report.not_checked:
        by_reason.setdefault(row.reason, []).append(row.id)
    return tuple((", ".join(ids), reason) for reason, ids in by_reason.items())


def _health(report: Report) -> Iterator[str]:
    health = report.health
    yield say(
        "report.health.events",
        events=count_text(health.events),
        skipped=count_text(sum(row.count for row in health.skipped)),
        crossing=count_text(health.crossing_slices),
        negative=count_text(health.negative_links),
    )
    if health.truncated:
        yield say("report.health.truncated")
    yield from health.warnings
