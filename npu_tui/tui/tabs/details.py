"""Details of the selection: a kernel, its chain, its args."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from npu_tui.analysis.calls import Chain, chain_of, launched_in, passes_of
from npu_tui.analysis.code_lines import CodeLine, line_of
from npu_tui.analysis.device import Window
from npu_tui.analysis.drains import host_lead
from npu_tui.analysis.kernels import KernelTable
from npu_tui.analysis.launches import Dispatch
from npu_tui.analysis.ranges import namesakes, self_time
from npu_tui.analysis.replay_device import is_of_event
from npu_tui.analysis.statistics import distribution
from npu_tui.load.errors import InputError
from npu_tui.output.svg import class_word
from npu_tui.profile.module_tables import borrowed_of
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.strings import words as say_words
from npu_tui.trace.arrays import I64
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import Trace
from npu_tui.trace.text import (
    duration_text,
    exact_text,
    memory_text,
    on_one_line,
    printable,
    share_text,
    signed_text,
    size_text,
    speed_text,
)
from npu_tui.tui.commands import BY_ID, keys_label
from npu_tui.tui.tabs.declared import bar, spread_words, sum_words
from npu_tui.tui.tabs.device import idle_at, labelled, range_text, threads_text, why_text
from npu_tui.tui.tabs.links import Waterfall, events_are_ready, legend, nothing_selected, shape_text, waited_text
from npu_tui.tui.tabs.range import path_at_cursor, path_lines, path_note
from npu_tui.tui.tabs.table import Content, Context
from npu_tui.tui.terminal.frames import ALERT
from npu_tui.view.curves import NO_VALUE, STARVING_NS, StepCurve, quantity_text
from npu_tui.view.outline import series_name
from npu_tui.view.scene import LinkClasses, LinkShape

_BAR = 8
_RATIO = "_ratio"
_PERCENT = "cube_utilization_percent"


def kernel_facts(table: KernelTable, item: int) -> list[RenderableType]:
    """Type, core, tensors, wait, busy pipes and bandwidth of the kernel that is slice ``item``; none for others."""
    found = np.flatnonzero(table.item == item)
    if not len(found):
        return []
    at = int(found[0])
    facts: list[tuple[str, str | None]] = [
        ("type", table.type.at(at)),
        ("core", table.core.at(at)),
        ("block", _whole(table.block_dim[at])),
        ("wait", duration_text(int(table.wait[at])) if at else None),  # what ran before the first one is not known
        ("hits", None if np.isnan(table.hit_rate[at]) else share_text(float(table.hit_rate[at]))),
        ("bytes", None if np.isnan(table.bytes[at]) else size_text(float(table.bytes[at]))),
        ("speed", None if np.isnan(table.speed[at]) else speed_text(float(table.speed[at]))),
    ]
    parts: list[RenderableType] = [
        _labelled_texts((say(f"kernel.{name}"), value) for name, value in facts if value is not None)
    ]
    for way, shapes, dtypes, formats in (
        ("in", table.shapes, "input_types", "input_formats"),
        ("out", table.outputs, "output_types", "output_formats"),
    ):
        tensors = _tensors(shapes.at(at), *(_detail(table, column, at) for column in (dtypes, formats)))
        if tensors:
            parts.append(labelled(say(f"kernel.{way}"), printable(tensors)))
    pipes = _pipes(table, at)
    if pipes.plain:
        parts.append(pipes)
    return parts


def _labelled_texts(facts: Iterable[tuple[str, str]]) -> Text:
    """Texts after their labels."""
    line = Text()
    for label, text in facts:
        line.append(f"{label} " if label else "", style="dim").append(f"{printable(text)}   ")
    return line


def _whole(value: float) -> str | None:
    return f"{value:,.0f}" if value > 0 else None


def _detail(table: KernelTable, column: str, at: int) -> str | None:
    coded = table.details.get(column)
    return None if coded is None else coded.at(at)


def _tensors(shapes: str | None, dtypes: str | None, formats: str | None) -> str:
    """Every tensor as ``32,3,224,224 FLOAT NCHW``."""
    if shapes is None:
        return ""
    columns = [text.split(";") if text is not None else [] for text in (shapes, dtypes, formats)]
    count = len(columns[0])
    columns = [column if len(column) == count else [""] * count for column in columns]
    tensors = (" ".join(part.strip() for part in parts if part.strip()) for parts in zip(*columns, strict=True))
    return say("list.tensors").join(tensors)


def _pipes(table: KernelTable, at: int) -> Text:
    """A bar for every pipe of the core that was busy, by the columns of its PMU."""
    line = Text(overflow="fold")
    for column, coded in table.details.items():
        text = coded.at(at) if column.endswith(_RATIO) or column == _PERCENT else None
        try:
            share = float(text or "") / (100.0 if column == _PERCENT else 1.0)
        except ValueError:
            continue
        if share <= 0.0 or not np.isfinite(share):
            continue
        line.append(f"{printable(column.removesuffix(_RATIO).removesuffix('_percent'))} ", style="dim")
        line.append(f"{bar(share, _BAR):{_BAR}}", style="on grey23")
        line.append(f" {share_text(share)}   ")
    return line


_STACK = "Call stack"
_MOST_EDGES = 4


def details_depend_on(now: Context) -> object:
    """The selection, without one and on a chart the cursor; and whether the critical path is known."""
    return now.trace in now.session.paths, _depend_on(now)


def _depend_on(now: Context) -> object:
    row = now.focused
    if row is not None and row.kind == "chart":
        return row.trace, now.session.scene.charts[row.trace][row.chart], now.cursor
    if row is not None and row.kind == "counter":
        return row.trace, "counter", row.series, now.cursor
    beside = now.cursor if now.selection is None or (row is not None and row.kind == "path") else None
    return now.selection, now.marked, now.over, now.trace, beside, now.alone


def details_are_ready(now: Context) -> bool:
    """Whether the args can be read at once (those of a packed trace have to be unpacked first), kernels as well."""
    if any(not Profile.idles.is_known(profile) for profile in now.session.profiles):
        return not now.session.whole
    if now.selection is None:
        return True
    profile = now.session.profiles[now.selection.trace]
    if not events_are_ready(now):
        return False
    tables = not profile.compute[now.selection.item] or Profile.all_kernels.is_known(profile)
    return tables and profile.trace.args.is_ready


def details(now: Context) -> Content:
    """The selected slice, a chart at the cursor, why a device is free, or what colours and lines mean."""
    row, scene = now.focused, now.session.scene
    if row is not None and row.kind == "counter":
        curve = now.session.painter.cache.curve(row)
        return _counter(scene.traces[row.trace], row.series, curve, scene.to_trace(row.trace, now.cursor), now.cursor)
    if row is not None and row.kind == "chart":
        return _chart(now.session.painter.cache.curve(row), scene.to_trace(row.trace, now.cursor), now.cursor)
    ranged = _why_free_in_range(now)
    if now.selection is None:
        on_path = path_at_cursor(now)
        hints = [Text(nothing_selected(now), style="dim"), *path_note(now), *legend(now.profile.trace)]
        return Group(*on_path, *(ranged or _why_free_at_cursor(now)), *hints)
    trace = now.selection.trace
    profile = now.session.profiles[trace]
    item = now.selection.item
    kernel: Sequence[RenderableType] = [*event_lines(profile, item), *pass_lines(profile.trace, item)]
    if profile.compute[item]:
        kernel = kernel_facts(profile.kernel_table, item)
    classes, offset = scene.link_classes[trace], scene.offsets[trace]
    told = _slice_facts(profile.trace, item, offset, kernel)
    start = int(profile.trace.slices.start[item])
    free = _why_free_at(now, trace, start) if now.session.whole and item in profile.free_slices else []
    code = line_of(profile.trace, item)
    first = [*told[:2], *path_lines(now, trace, item), *borrowed_lines(profile, item), *([_code(code)] if code else [])]
    parts = [*first, *told[2:]]
    chain = chain_of(profile.trace, item)
    if chain is not None and chain.holds(item):
        at = 1 if now.alone else len(first)  # who asked for the chain sees it first
        parts[at:at] = _chain(profile.trace, classes, profile.dispatch, item, chain)
        if chain.kernel == item and classes.starved[chain.link] and not ranged:
            launched, lost = int(profile.trace.links.source_time[chain.link]), int(classes.lost[chain.link])
            host = threads_text(now, trace, chain.link, launched - lost, launched)
            parts += _why_free_at(now, trace, start - 1) or host  # before the first kernel of a step nothing is free
    # What came last answers first: going to a finding marks a range, and from there keys lead to slices.
    slice_facts = [*free, *parts[1 if free else 0 :]]
    if now.selection == now.over:
        return Group(*ranged, *slice_facts)
    return Group(*slice_facts, *([Text(""), *ranged] if ranged else []))


def _why_free_in_range(now: Context) -> list[RenderableType]:
    """Why devices were free within the range."""
    if not now.session.whole:
        return []
    marked = now.marked_in(now.trace)
    return range_text(now, now.trace, Window(*marked)) if marked is not None else []


def _why_free_at_cursor(now: Context) -> list[RenderableType]:
    """Why a device is free at the cursor."""
    if why := now.profile.trace.nature.no_free:
        return [Text(say(why)), Text("")]
    found = _why_free_at(now, now.trace, now.session.scene.to_trace(now.trace, now.cursor))
    return [*found, Text("")] if found else []


def _why_free_at(now: Context, index: int, when: int) -> list[RenderableType]:
    """Why a device is free at ``when`` ns of its trace, where one is."""
    found = idle_at(now.session.profiles[index], when) if now.session.whole else None
    return [] if found is None else why_text(now, index, *found)


def _chart(curve: StepCurve, when: int, cursor: int) -> RenderableType:
    """What a chart shows, and its value at ``when`` ns of its trace, where the cursor stands."""
    value, style = curve.at(when), "bold"
    known = 0 if value is None else value
    if curve.kind == "depth":
        words = f"{known:,}"
        scale = Text.assemble((f"{say('chart.deepest')} ", "dim"), f"{curve.high:,}")
    elif curve.kind == "share":
        words, scale = say("chart.going_on" if value else "chart.pausing"), Text(say("chart.share.scale"), "dim")
    elif curve.kind == "cpu":
        legend = curve.function.legend
        words, scale = (say_words(legend[int(known) >> 3]) if legend else ""), Text(say("chart.cpu.scale"), "dim")
    elif curve.kind == "network":
        most = quantity_text(curve.high, "B/s")
        words, scale = quantity_text(known, "B/s"), Text(say("chart.network.scale", most=most), "dim")
    elif curve.kind in ("memory", "stack"):
        words, scale = memory_text(known), Text(say("chart.memory.scale", size=curve.high), "dim")
    else:
        words, scale = signed_text(known), Text(say("chart.scale"), "dim")
        style = f"bold {ALERT}" if value is not None and value <= STARVING_NS else "bold"
    if value is None:
        words = say("chart.unknown")
    line = Text.assemble((f"{say('chart.now')} ", "dim"), f"{exact_text(cursor)}   ", (words, style), "   ", scale)
    return Group(Text(say(f"chart.{curve.kind}.words")), line)


def _counter(trace: Trace, series: int, curve: StepCurve, when: int, cursor: int) -> RenderableType:
    """The value of a counter at ``when`` ns of its trace with its unit, and between what it lies."""
    found = trace.counters.series[series]
    word = f" {curve.unit}" if curve.unit else ""
    value = curve.at(when)
    line = Text.assemble((f"{say('chart.now')} ", "dim"), f"{exact_text(cursor)}   ")
    line.append(say("chart.unknown") if value is None else f"{_number_or_dash(value)}{word}", style="bold")
    for key, bound in (("chart.lowest", curve.low), ("chart.highest", curve.high)):
        line.append(f"   {say(key)} ", style="dim")
        line.append(f"{_number_or_dash(bound)}{word}")
    name = f"{trace.layers[found.layer].name} / {series_name(found.name, found.instance)}"
    return Group(Text(printable(name), style="bold"), line)


def _number_or_dash(value: float) -> str:
    """A number as it is; what stands for none is a dash."""
    return "–" if value == NO_VALUE else f"{value:,.10g}"


def _chain(trace: Trace, marks: LinkClasses, devices: list[Dispatch], item: int, chain: Chain) -> list[RenderableType]:
    """How the kernel of ``chain`` came about, to which slice ``item`` led; ``marks`` are those of the trace's links."""
    launch = [_launch(trace, marks, devices, chain.link)] if chain.kernel == item else []
    return [*launch, Waterfall(trace, chain, devices)]


def _slice_facts(trace: Trace, item: int, offset: int, kernel: Sequence[RenderableType]) -> list[RenderableType]:
    """Name, times, args and call stack of slice ``item``.

    ``offset`` is its place on the scene's clock, ns, ``kernel`` what its tables say of a kernel.
    """
    slices = trace.slices
    parts: list[RenderableType] = [
        Text(printable(trace.name_of(item)), style="bold", overflow="fold"),
        _facts(trace, item, offset),
    ]
    same = distribution(trace, namesakes(trace, item).items)
    if same is not None and same.count > 1:
        label = say("details.same", count=f"{same.count:,}") + "  "
        parts.append(labelled(label, f"{spread_words(trace, same)}   {sum_words(same)}"))
    parts += list(kernel)
    try:
        args = trace.args.one(int(slices.event[item]))
    except InputError as error:
        return [*parts, Text(printable(say("details.gone", why=error.message)), style="dim")]
    return parts + _args(args)


def borrowed_lines(profile: Profile, item: int) -> list[RenderableType]:
    """From where the code of the replayed kernel ``item`` is, what it is and how sure; nothing of any other slice."""
    found = profile.whole.borrowed
    if found is None or (at := int(found.of(np.array([item]))[0])) < 0:
        return []
    cells = {name: column.at(0) for name, column in borrowed_of(found, np.array([item])).items()}
    parts = [part for part in (cells["operation"], cells["module"], cells["code"]) if part is not None]
    state = cells["borrowed"] or "none"
    sure = say(f"borrow.sure.{state}", count=int(found.choices[at]), kind=found.kind.at(at) or "")
    return [labelled(say("borrow.details"), printable(f"{' · '.join(parts)} ({sure})" if parts else sure))]


def event_lines(profile: Profile, item: int) -> Sequence[RenderableType]:
    """What a stream waits for, or who waits for this record of an event: the edges of a graph, and of events at all."""
    trace = profile.trace
    if not is_of_event(trace.name_of(item)):
        return []
    waits, records = profile.event_pairs
    slices = trace.slices
    found = []
    for key, own, other in (("waits_for", waits, records), ("awaited_by", records, waits)):
        for each in other[own == item].tolist()[:_MOST_EDGES]:
            lane, end = trace.lanes[int(slices.lane[each])].name, int(slices.end[each])
            words = say("details.event", name=trace.name_of(each), lane=lane, at=exact_text(end))
            found.append(labelled(say(f"details.{key}"), printable(words)))
    return found or [Text(say("details.event_unknown"), style="dim")]


def pass_lines(trace: Trace, item: int) -> Iterator[Text]:
    """The forward operation of slice ``item`` and its backward ones: how long on the host, and what they launched."""
    found = passes_of(trace, item)
    if found is None:
        return
    for key, hosts in (("phase.forward", (found.forward,)), ("phase.backward", found.backward)):
        name, start = printable(trace.name_of(hosts[0])), exact_text(int(trace.slices.start[hosts[0]]))
        name = say("passes.more", name=name, count=len(hosts) - 1) if len(hosts) > 1 else name
        yield labelled(say(key), say("passes.line", name=name, start=start, times=pass_times(trace, hosts)))


def pass_times(trace: Trace, hosts: Sequence[int]) -> str:
    """The time of the operations ``hosts`` on the host and that of what they launched, where there are links."""
    kernels = [items for host in hosts if (items := launched_in(trace, host)) is not None]
    host = duration_text(_total_length(trace, np.array(hosts)))
    if not kernels:
        return host
    return say(
        "passes.times", host=host, device=duration_text(_total_length(trace, np.unique(np.concatenate(kernels))))
    )


def _total_length(trace: Trace, items: I64) -> int:
    return int((trace.slices.end[items] - trace.slices.start[items]).sum())


def _code(code: CodeLine) -> Text:
    """The line of user code that launched or called, and how to open it."""
    place = say("lines.place", file=code.file, line=code.line)
    line = labelled(say("details.code"), printable(say("details.code_line", place=place, function=code.function)))
    line.append(f"   {say('details.open', key=keys_label(BY_ID['open_code']))}", style="dim")
    return line


def _facts(trace: Trace, item: int, offset: int) -> Text:
    slices = trace.slices
    start, end, lane = int(slices.start[item]), int(slices.end[item]), trace.lanes[int(slices.lane[item])]
    facts = [
        (say("details.start"), exact_text(start + offset)),
        (say("details.duration"), duration_text(end - start)),
        (say("details.end"), exact_text(end + offset)),
        (say("details.self"), duration_text(self_time(trace, item))),
        ("", class_word(OpClass(int(slices.op_class[item])), trace.nature.by_category)),
        (say("details.lane"), f"{trace.layers[lane.layer].name} / {lane.name}"),
        (say("details.row"), str(int(slices.depth[item]))),
    ]
    if trace.nature.is_dated:
        facts.append((say("details.raw"), f"{trace.start_ns + start} ns"))
    return _labelled_texts(facts)


def _launch(trace: Trace, marks: LinkClasses, devices: list[Dispatch], link: int) -> Text:
    """The class of a launch, what it cost, and how far the host was ahead."""
    starved = bool(marks.starved[link])
    line = Text.assemble((say("details.launch") + " ", "dim"))
    line.append_text(shape_text(LinkShape(int(marks.shape[link])), starved))
    line.append(f"   {say('stage.wait')} ", style="dim")
    line.append(waited_text(devices, link, int(trace.links.latency[link])), style="bold")
    line.append(f"   {say('details.lost')} ", style="dim")
    line.append(duration_text(int(marks.lost[link])), style=f"bold {ALERT}" if starved else "bold")
    for launches in devices:
        at = int(np.searchsorted(launches.link, link))
        if at < len(launches.link) and launches.link[at] == link:
            lead = float(host_lead(trace, launches)[at])
            if not np.isnan(lead):
                line.append(f"   {say('details.lead')} ", style="dim")
                line.append(signed_text(lead), style="bold")
    return line


def _args(args: dict[str, object]) -> list[RenderableType]:
    table = Table.grid(padding=(0, 2))
    parts: list[RenderableType] = []
    short = [
        (printable(key), "–" if str(value) == str(NO_VALUE) else on_one_line(str(value)))
        for key, value in args.items()
        if key != _STACK
    ]
    if short:
        parts.append(_labelled_texts(short))
    stack = args.get(_STACK)
    if isinstance(stack, str) and stack:
        parts.append(Text(say("details.stack"), style="dim"))
        for frame in stack.replace("\r\n", "\n").split("\n"):
            table.add_row("", Text(printable(frame.rstrip(";")), overflow="fold"))
        parts.append(table)
    return parts
