"""The tables of files beside a trace (network cards, state, our figures against theirs, links), and of lanes alone.

Traces without a device have tables of lanes, names, and the cores of one kernel with their pipes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from npu_tui.analysis.collectives import PairSum
from npu_tui.analysis.device import core_lanes, lane_times
from npu_tui.load.companion_schema import NIC, ROCE
from npu_tui.load.formats.opprof import Core, measured_cores
from npu_tui.profile.columns import absolute
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import (
    COLUMNS,
    MISSING,
    RankedSlices,
    TableSheet,
    attribute_rows,
    coded,
    columns,
    from_tuples,
    numbers,
    table,
)
from npu_tui.strings import say, words
from npu_tui.trace.arrays import I64, distinct, summed
from npu_tui.trace.recorder import recorder_named
from npu_tui.trace.text import printable

if TYPE_CHECKING:
    import polars as pl

_OF_LANES = {
    **columns("whole", "ns", "time", "busy waits on_chain span"),
    **columns("real", "0..1", "share", "busy_share of_slowest"),
    **columns("label", "", "name", "core pipe"),
}
_LANES = "layer lane slices busy busy_share waits on_chain"
_CORES = "core span of_slowest pipe busy busy_share waits"
LaneRow = tuple[str, str, int | None, int, float | None, int | None, int | None]


def _is_shown(profile: Profile) -> bool:
    return recorder_named(profile.kind).shows_lanes(bool(profile.devices))


def _of_operator(profile: Profile) -> list[Core]:
    """The cores of the operator that ``msprof op`` measured; none of anything else."""
    source = profile.source
    return measured_cores(source.path) if profile.kind == "opprof" and source is not None else []


def lanes(profile: Profile) -> TableSheet:
    """The lanes with slices: of the simulator pipes of cores, of PTO cores; what works longest comes first."""
    trace = profile.trace
    rows: list[tuple[LaneRow, int]] = []
    if _is_shown(profile):
        found, (of_cores, _) = lane_times(trace), core_lanes(trace)
        has_chain, pipes = bool(found.chained.any()), frozenset(of_cores.tolist())
        times = (found.lane, found.slices, found.busy, found.span, found.wait, found.chained)
        for index, count, busy, span, wait, chained in zip(*(column.tolist() for column in times), strict=True):
            lane, known = trace.lanes[index], index in pipes
            row = (
                trace.layers[lane.layer].name, lane.name, count, busy, busy / span if span else None,
                wait if known else None, chained if known and has_chain else None,
            )  # fmt: skip
            rows.append((row, index))
    for core in _of_operator(profile):
        rows += [((core.name, pipe.name, None, pipe.busy, pipe.share, pipe.waits, None), -1) for pipe in core.pipes]
    rows.sort(key=lambda row: -row[0][3])
    sheet = from_tuples([row for row, _ in rows], _LANES, COLUMNS | _OF_LANES)
    if not len(trace.slices):
        return sheet

    def place(row: int) -> RankedSlices:
        lane = trace.lanes[rows[row][1]]
        return RankedSlices(lane.last - lane.first, lambda: _longest_slices(profile, np.arange(lane.first, lane.last)))

    return TableSheet(sheet.rows, sheet.data, place)


def _longest_slices(profile: Profile, items: I64) -> I64:
    slices = profile.trace.slices
    return items[np.argsort(slices.start[items] - slices.end[items], kind="stable")]


LANES = table(
    "lanes",
    lanes,
    sql=_LANES,
    json="layer lane count=slices? busy busy_share? waits? on_chain?",
    page="process=layer lane count=slices busy share=busy_share pipe_waits=waits on_chain",
    panel="busy share=busy_share pipe_waits=waits on_chain count=slices lane process=layer",
    section="lanes",
    tab=True,
    row="LaneRow",
    about="""A lane of a trace without a device, or a pipe of one kernel; shares are of the time of its layer.

    ``waits_us`` is time in instructions that wait for other pipes, ``on_chain_us`` that in the longest chain.
    """,
    own=_OF_LANES,
)


def cores(profile: Profile) -> TableSheet:
    """The cores that ran one kernel, or tasks of PTO, each with its busiest pipe; the slowest comes first."""
    rows = sorted(_cores(profile), key=lambda row: -row[1])
    slowest = max((row[1] for row in rows), default=0)
    found = [
        (core, span, span / slowest if slowest else None, pipe, busy, busy / span if span else None, waits)
        for core, span, pipe, busy, waits in rows
    ]
    return from_tuples(found, _CORES, COLUMNS | _OF_LANES)


CoreRow = tuple[str, int, str | None, int, int | None]
"""A core, how long it ran, its busiest pipe, how long that worked and waited, ns."""


def _cores(profile: Profile) -> Iterator[CoreRow]:
    for core in _of_operator(profile):
        longest = max(core.pipes, key=lambda pipe: pipe.busy)
        yield core.name, core.span, longest.name, longest.busy, longest.waits
    trace = profile.trace
    known, are_cores = core_lanes(trace)
    if not _is_shown(profile) or not len(known):
        return
    times, slices = lane_times(trace), trace.slices
    at = np.searchsorted(times.lane, known)
    if are_cores:
        for lane, k in zip(known.tolist(), at.tolist(), strict=True):
            one = trace.lanes[lane]
            span = int(slices.end[one.first : one.last].max() - slices.start[one.first])
            yield one.name, span, None, int(times.busy[k]), None
        return
    of_layer: dict[int, list[int]] = {}
    for k in at.tolist():
        of_layer.setdefault(trace.lanes[times.lane[k]].layer, []).append(k)
    for layer, members in of_layer.items():
        most = max(members, key=lambda k: int(times.busy[k]))
        pipe = trace.lanes[times.lane[most]].name
        yield trace.layers[layer].name, int(times.span[most]), pipe, int(times.busy[most]), int(times.wait[most])


CORES = table(
    "cores",
    cores,
    sql=_CORES,
    json="core span of_slowest? pipe? busy busy_share? waits?",
    page="core span of_slowest pipe busy share=busy_share pipe_waits=waits",
    panel="core span of_slowest pipe busy share=busy_share pipe_waits=waits",
    section="cores",
    tab=True,
    row="CoreRow",
    about="A core of one kernel, or of PTO's swimlanes, from its first to its last work, with its busiest pipe.",
    own=_OF_LANES,
)


def names(profile: Profile) -> TableSheet:
    """The names of slices by their time, most first."""
    slices = profile.trace.slices
    if not _is_shown(profile) or not len(slices):
        return TableSheet(0, {})
    length = slices.end - slices.start
    known, code = distinct(slices.name)
    total = summed(code, length, len(known))
    longest = np.zeros(len(known), np.int64)
    np.maximum.at(longest, code, length)
    order = np.lexsort((known, -total))
    count = np.bincount(code, minlength=len(known))
    rows = [(profile.trace.names[known[k]], int(count[k]), int(total[k]), int(longest[k])) for k in order.tolist()]
    sheet = from_tuples(rows, "name slices total longest")

    def place(row: int) -> RankedSlices:
        return RankedSlices(rows[row][1], lambda: _longest_slices(profile, np.flatnonzero(code == order[row])))

    return TableSheet(sheet.rows, sheet.data, place)


NAMES = table(
    "names",
    names,
    sql="name slices total longest",
    json="name count=slices total longest",
    page="total count=slices longest name",
    panel="total count=slices longest name",
    section="names",
    tab=True,
    row="NameRow",
    about="The slices of one name in a trace without a device; those within each other count each.",
)


_RATES = (
    "receive_percent", "receive_errors", "receive_dropped", "send_percent", "send_errors", "send_dropped",
)  # fmt: skip
_OF_CARDS = {
    **columns("whole", "", "id", "port"),
    **columns("whole", "", "count", "samples"),
    **columns("real", "MB/s", "mean_count", "bandwidth mean_bandwidth most_bandwidth"),
    **columns("real", "%", "mean_count", " ".join((*_RATES, "received", "sent", "errors", "dropped"))),
}


def has_ports(profile: Profile) -> bool:
    """Whether nic.csv or roce.csv lies beside the trace."""
    return any(profile.tables.has(schema.stem) for schema in (NIC, ROCE))


def _sample_frames(profile: Profile) -> list[tuple[str, pl.DataFrame]]:
    """The samples of each kind of card that have a time, by time."""
    tables = profile.tables
    return [
        (schema.stem, tables.table(schema.stem).frame.drop_nulls(["time"]).sort("time", maintain_order=True))
        for schema in (NIC, ROCE)
        if tables.has(schema.stem)
    ]


def network(profile: Profile) -> TableSheet:
    """Every sample of the network cards."""
    frames = _sample_frames(profile)
    if not frames:
        return from_tuples((), "transport device port start start_ns bandwidth " + " ".join(_RATES), _OF_CARDS)
    which = np.repeat(np.arange(len(frames)), [len(frame) for _, frame in frames])

    def whole(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.concatenate([frame[name].fill_null(MISSING).to_numpy().astype(np.int64) for _, frame in frames])

    def real(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.concatenate([frame[name].fill_null(np.nan).to_numpy().astype(np.float64) for _, frame in frames])

    time = whole("time") - profile.tables.start_ns
    return TableSheet(
        len(time),
        {
            "transport": coded([name for name, _ in frames], which),
            "device": numbers(whole("device"), MISSING),
            "port": numbers(whole("function"), MISSING),
            "start": numbers(time),
            "start_ns": absolute(profile, time),
            **{name: numbers(real(name)) for name in ("bandwidth", *_RATES)},
        },
    )


def port_samples(profile: Profile) -> Iterator[tuple[str, int | None, int | None, I64, I64]]:
    """Card, device and number of each port, when it was sampled, ns since the trace's start, and bytes/s then."""
    for name, frame in _sample_frames(profile):
        for (device, port), samples in frame.drop_nulls(["bandwidth"]).group_by(
            ["device", "function"], maintain_order=True
        ):
            time = samples["time"].to_numpy().astype(np.int64) - profile.tables.start_ns
            yield name, device, port, time, np.rint(samples["bandwidth"].to_numpy() * 1e6).astype(np.int64)


NETWORK = table(
    "network",
    network,
    sql="rank transport device port start start_ns bandwidth receive_percent receive_errors receive_dropped "
    "send_percent send_errors send_dropped",
    own=_OF_CARDS,
)


def ports(profile: Profile) -> TableSheet:
    """What each port of the network cards carried, the shares of the bandwidth that came and went, the worst rates."""
    rows = []
    for name, frame in _sample_frames(profile):
        for (device, port), samples in frame.group_by(["device", "function"], maintain_order=True):
            bandwidth = samples["bandwidth"].drop_nulls()
            if not len(bandwidth):
                continue
            worst = [
                max((top for column in columns if (top := samples[column].max()) is not None), default=None)
                for columns in (("receive_errors", "send_errors"), ("receive_dropped", "send_dropped"))
            ]
            shares = samples["receive_percent"].mean(), samples["send_percent"].mean()
            rows.append((name, device, port, len(bandwidth), bandwidth.mean(), bandwidth.max(), *shares, *worst))
    names = "transport device port samples mean_bandwidth most_bandwidth received sent errors dropped"
    return from_tuples(rows, names, _OF_CARDS)


PORTS = table(
    "ports",
    ports,
    json="transport device? port? samples mean_mb_s=mean_bandwidth max_mb_s=most_bandwidth received_percent=received? "
    "sent_percent=sent? errors_percent=errors? dropped_percent=dropped?",
    page="transport device port mean=mean_bandwidth most=most_bandwidth received sent errors dropped",
    panel="transport device port mean=mean_bandwidth most=most_bandwidth received sent errors dropped",
    section="ports",
    tab=True,
    row="PortRow",
    about="""What a port of a network card carried by nic.csv or roce.csv.

    Shares of the bandwidth that were received and sent are means, errors and dropped packets at their worst.
    """,
    own=_OF_CARDS,
)


def checks(profile: Profile) -> TableSheet:
    """Our figures against each file of the profiler."""
    from npu_tui.profile.checks import checks_of  # not needed for the first picture

    rows = checks_of(profile)
    return attribute_rows(
        rows,
        "file rows matched figures=compared differing ours_only",
        ratio=lambda row: (row.rows - row.differing) / max(row.rows, 1),
    )


CHECKS = table(
    "cross_check",
    checks,
    json="file rows matched figures differing ours_only",
    page="file rows matched figures differing",
    section="cross_check",
    row="CrossCheckRow",
    about="Our figures against one file of the profiler: its rows, those we have, figures compared, rows that differ.",
)


# Files that MindSpore writes under other settings than torch_npu.
_OF_MINDSPORE = ("operator_details.csv", "api_statistic.csv")


_OF_MSPROF = {
    "kernel_details.csv": "--task-time=on --ai-core=on", "op_statistic.csv": "--task-time=on",
    "api_statistic.csv": "--ascendcl=on", "task_time.csv": "--task-time=on", "l2_cache.csv": "--l2=on",
    "communication.json": "--analyze=on --rule=communication",
    "communication_matrix.json": "--analyze=on --rule=communication_matrix",
    "memory_record.csv": "--task-memory=on", "operator_memory.csv": "--task-memory=on",
    "static_op_mem.csv": "--task-memory=on", "npu_module_mem.csv": "--sys-hardware-mem=on",
    "host_cpu_usage.csv": "--host-sys=cpu", "host_mem_usage.csv": "--host-sys=mem",
    "host_disk_usage.csv": "--host-sys=disk", "host_network_usage.csv": "--host-sys=network",
    "nic.csv": "--sys-io-profiling=on", "roce.csv": "--sys-io-profiling=on",
    "pcie.csv": "--sys-interconnection-profiling=on", "hccs.csv": "--sys-interconnection-profiling=on",
}  # fmt: skip
"""The options of msprof that write a file; it writes no other one.

https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/profiling/atlasprofiling_16_0011.html
"""


def setting_of(profile: Profile, file: str) -> str:
    """What makes the profiler of ``profile`` write ``file``; empty where it never does."""
    if profile.writer == "msprof":
        return "msprof " + _OF_MSPROF[file] if file in _OF_MSPROF else ""
    own = "_mindspore" * (file in _OF_MINDSPORE and profile.writer == "mindspore")
    return say(f"summary.makes{own}.{file}")


def files(profile: Profile) -> TableSheet:
    """What became of every file that may lie beside the trace."""
    states = profile.tables.files
    return attribute_rows(
        states,
        "file=name state rows",
        problems=lambda row: [printable(words(problem)) for problem in row.problems],
        tells=lambda row: say(f"summary.tells.{row.name}"),
        setting=lambda row: setting_of(profile, row.name),
    )


FILES = table(
    "files",
    files,
    json="name=file state rows? problems tells setting",
    page="file state rows? tells setting",
    section="files",
    row="FileRow",
    about="""A file that may lie beside the trace: ``state`` is missing, empty, cut_off, unreadable or read.

    ``problems`` say what could not be read; ``setting`` makes the profiler write it.
    """,
    types={"problems": list[str]},
)


def value_text(value: object) -> str:
    """A value that was set, in a line: a mapping as its keys with their values."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {entry}" for key, entry in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def metadata(profile: Profile) -> TableSheet:
    """What the program added to its profile (``add_metadata``), by name."""
    rows = [(name, value_text(value)) for name, value in sorted(profile.setup.added.items())]
    return from_tuples(rows, "name value", _OWN)


_OWN = columns("label", "", "name", "value")

METADATA = table(
    "metadata",
    metadata,
    sql="rank name value",
    json="name value",
    section="metadata",
    row="MetadataRow",
    about="What the program itself put into profiler_metadata.json (``add_metadata``).",
    own=_OWN,
)


def link_matrix(profile: Profile) -> TableSheet:
    """What went from rank to rank over each transport."""
    return pair_sheet(profile.tables.link_matrix)


def pair_sheet(pairs: Sequence[PairSum]) -> TableSheet:
    """A row for each of ``pairs``."""
    return attribute_rows(
        pairs,
        "group_name=group source target transport transit=time gb_s=speed",
        size=lambda pair: round(pair.size),
        route=lambda pair: say("links_between.pair", source=pair.source, target=pair.target),
    )


LINK_MATRIX = table(
    "link_matrix",
    link_matrix,
    json="group=group_name source target transport size transit bandwidth=gb_s?",
    page="route transport bandwidth=gb_s size time=transit group=group_name",
    panel="route transport bandwidth=gb_s size time=transit group=group_name",
    section="link_matrix",
    row="PairRow",
    about="What went from rank ``source`` to ``target`` of a group by one transport, by communication_matrix.json.",
)
