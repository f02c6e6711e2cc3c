"""The Summary tab: the job on one page, with its steps, settings, files, and our figures against the profiler's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from rich.text import Text

from npu_tui import __version__
from npu_tui.analysis.joins import Difference, JoinCheck
from npu_tui.analysis.memory import AMOUNTS
from npu_tui.analysis.steps import FEWEST_STEPS, step_spread
from npu_tui.load.companion_schema import HOST_CPU, HOST_DISK, HOST_MEMORY, HOST_NETWORK
from npu_tui.profile.checks import checks_of
from npu_tui.profile.file_tables import PORTS, setting_of, value_text
from npu_tui.profile.memory_tables import MEMORY_PEAKS
from npu_tui.profile.profile import Profile
from npu_tui.profile.work_tables import OPERATORS, STEPS
from npu_tui.strings import knows, say, words
from npu_tui.subjects import subject_of
from npu_tui.trace.classes import OpClass
from npu_tui.trace.recorder import recorder_of
from npu_tui.trace.text import brief, duration_text, memory_text, printable, share_text
from npu_tui.tui.tabs.declared import bar, places_of, spark
from npu_tui.tui.tabs.table import GAP, Content, Context, Place, TabRow, TabTable
from npu_tui.tui.terminal.frames import class_colour

# How the parts of a step are drawn: as above the lanes.
_FILLS = ("█", OpClass.CUBE), ("▒", OpClass.COMMUNICATION), ("╱", OpClass.WAIT)
_BAR = 12
_MOST_STEPS = 400
_LONGEST = 200
_LONGEST_ITEM = 36
_CURVE = 90
_MOST_DIFFERENCES = 5
_OF_TEXT = ("op_statistic.csv", "api_statistic.csv", "operator_details.csv", "l2_cache.csv")
"""Files that no database has a table for."""
_PARTS = ("computing", "not_overlapped", "free")


def summary(now: Context) -> Content:
    """Steps, where the time goes, the machine and its versions, then traffic, checks, files and settings, row by row.

    Each turn goes on to the next section; Enter goes to the place.
    """
    profile = now.profile
    sections = [
        _step_rows(now.trace, profile), _most_time(now.trace, profile), _alone(profile), _machine(profile),
        _traffic(profile),
        _checks(checks_of(profile)), _file_rows(profile), _settings(profile),
    ]  # fmt: skip
    rows: list[TabRow] = []
    starts = []
    for section in sections:
        if section:
            starts.append(len(rows))
            rows += section
    at = starts[now.turn % len(starts)] if starts else None
    again = say("summary.again")
    headings = tuple(say(f"summary.{key}") for key in ("section", "item", "value"))
    return TabTable(headings, rows, _head(profile), at, at_top=True, again=again)


def _summary_row(
    section: str, item: str, value: Text | str = "", more: str = "", places: Sequence[Place] = ()
) -> TabRow:
    """A row; ``more`` follows the value, so that a long one leaves no gap in other rows."""
    if more:
        value = Text.assemble(value, GAP if str(value) else "", brief(more, _LONGEST))
    cut = brief(item, _LONGEST_ITEM)
    told = None if cut == item else partial("{}\n{}".format, printable(item), value)
    return TabRow((say(f"summary.{section}"), cut, value), places, told=told)


def _head(profile: Profile) -> str:
    trace = profile.trace
    level = profile.profiler_level
    if (about := subject_of(trace).about(trace, profile.judged)) is not None:
        return about
    if not len(trace.slices):
        return say("summary.no_trace", kernels=len(profile.kernel_table))
    return say(
        "summary.head",
        rank=say("report.unknown") if trace.rank is None else trace.rank,
        device=say("report.unknown") if profile.device is None else profile.device,
        level=say("report.unknown") if level is None else level,
        kernels=len(profile.kernel_table),
        span=trace.end,
    )


def _step_rows(index: int, profile: Profile) -> list[TabRow]:
    """How each step was spent, and how their lengths spread."""
    sheet = STEPS.make(profile, together=True)
    names, hosts, lengths = sheet.values("name"), sheet.values("host_duration"), []
    rows = []
    for row, times in enumerate(zip(*(sheet.values(name) for name in _PARTS), strict=True)):
        whole = sum(time or 0 for time in times)
        if not whole:
            continue
        lengths.append(whole if hosts[row] is None else hosts[row])
        rows.append(_split(names[row] or say("report.steps.none"), times, lengths[-1], places_of(index, sheet, row)))
    if 0 < sum(number is not None for number in sheet.values("step")) < FEWEST_STEPS:
        rows.append(_summary_row("steps", "", "", say("not_checked.steps.few")))
    found = step_spread(np.array(lengths, np.int64)) if sheet.place is not None else None
    if found is None or len(lengths) < 2:
        return rows
    for row in range(found.warm_up):
        *cells, value = rows[row].cells
        rows[row] = TabRow((*cells, Text.assemble(value, GAP, say("summary.warm_up"))), rows[row].places)
    curve = spark(lengths[:_MOST_STEPS])
    percentiles = say("summary.percentiles", p50=found.p50, p90=found.p90, p99=found.p99)
    if found.warm_up:
        percentiles += GAP + say("summary.percentiles.without", warm=found.warm_up)
    return [
        _summary_row("steps", say("summary.all", count=len(lengths)), curve[:_CURVE], percentiles),
        *rows[:_MOST_STEPS],
    ]


def _split(name: str, times: Sequence[int], length: int, places: Sequence[Place]) -> TabRow:
    """A step with a bar of how it was spent; ``length`` (ns) is that on the host, else the time of the device."""
    shares = [time / sum(times) for time in times]
    compute, exposed, free = map(share_text, shares)
    value = Text(f"{duration_text(length):>9} ")
    for (glyph, kind), share in zip(_FILLS, shares, strict=True):
        value.append(glyph * round(_BAR * share), style=class_colour(kind))
    return _summary_row("steps", name, value, say("summary.split", compute=compute, exposed=exposed, free=free), places)


_MOST = 3  # operators that the summary names; tab 6 has all


def _most_time(index: int, profile: Profile) -> list[TabRow]:
    """What takes most of the device, of the links and of the memory."""
    operators, rows = OPERATORS.make(profile), []
    columns = zip(*(operators.values(name, _MOST) for name in ("type", "total", "ratio", "calls")), strict=True)
    for row, (kind, total, share, calls) in enumerate(columns):
        words = say("summary.most.operator", total=total, share=share, count=calls)
        rows.append(_summary_row("most", kind or "", words, places=places_of(index, operators, row)))
    if len(found := profile.collectives):
        waited = say("summary.most.collectives", count=len(found), total=int(found.elapsed.sum()))
        rows.append(_summary_row("most", say("summary.most.communication"), waited))
    for name, peak, reached in zip(
        *((sheet := MEMORY_PEAKS.make(profile)).values(name) for name in ("component", "peak", "at")), strict=True
    ):
        words = say("summary.most.peak", peak=peak, at=reached)
        rows.append(
            _summary_row("most", say("summary.most.memory", name=name), words, places=places_of(index, sheet, 0))
        )
        break
    return rows


def _settings(profile: Profile) -> list[TabRow]:
    """The settings of the profiler, what the program added, and the variables of the job that are set."""
    rows = []
    told = (("setting", profile.setup.settings), ("added", profile.setup.added))
    for section, name, value in ((section, *row) for section, pairs in told for row in sorted(pairs.items())):
        rows.append(_summary_row(section, name.strip("_"), brief(value_text(value), _LONGEST)))
    environment = profile.setup.environment or {}
    unset = [name for name, value in environment.items() if not value]
    rows += [_summary_row("variable", name, brief(value, _LONGEST)) for name, value in environment.items() if value]
    if unset:
        rows.append(_summary_row("variable", say("summary.unset"), str(len(unset)), ", ".join(unset)))
    return rows


def _machine(profile: Profile) -> list[TabRow]:
    """What ran the job, and the versions of what recorded it: what a profile must say to be compared."""
    companions = profile.companions
    if companions is None:
        return [_summary_row("version", "npu-tui", __version__)]
    info, recorder = companions.device_info, recorder_of(profile.trace)
    cores = [
        say(f"summary.machine.{key}", value=info[key])
        for key in ("ai_core_num", "aiv_num", "aic_frequency")
        if info.get(key)
    ]
    told = {
        "chip": profile.setup.chip, "cores": GAP.join(cores), "driver": info.get("drvVersion"),
        "host": companions.host_name,
    }  # fmt: skip
    rows = [
        _summary_row("machine", say(f"summary.machine.{name}"), brief(str(value or say("report.unknown")), _LONGEST))
        for name, value in told.items()
        if value or (name == "chip" and recorder.has_files)
    ]
    versions = {name: str(value) for name, value in companions.profiler_info.items() if "version" in name}
    if recorder.has_files and not any("cann" in name.lower() for name in versions):
        versions["CANN"] = say("report.unknown")
    rows += [_summary_row("version", name, brief(value, _LONGEST)) for name, value in sorted(versions.items())]
    return [*rows, _summary_row("version", "npu-tui", __version__)]


def _traffic(profile: Profile) -> list[TabRow]:
    """What network cards and the host did, by the files of sys_io and host_sys."""
    sheet = PORTS.make(profile)
    rows = []
    for transport, port, mean, most, errors, dropped in zip(
        *(sheet.values(n) for n in ("transport", "port", "mean_bandwidth", "most_bandwidth", "errors", "dropped")),
        strict=True,
    ):
        name = transport if port is None else say("summary.port", name=transport, port=port)
        worst = [
            say(f"summary.{key}", value=f"{value:g}")
            for key, value in (("errors", errors), ("dropped", dropped))
            if value
        ]
        rows.append(
            _summary_row(
                "traffic", name, say("summary.bandwidth", mean=f"{mean:.1f}", most=f"{most:.1f}"), GAP.join(worst)
            )
        )
    for schema in (HOST_CPU, HOST_MEMORY, HOST_DISK, HOST_NETWORK):
        if profile.tables.has(schema.stem):
            for cells in profile.tables.table(schema.stem).frame.iter_rows(named=True):
                told = {
                    name: "?" if cell is None else f"{cell:,.0f}" for name, cell in cells.items() if name != "device"
                }
                rows.append(_summary_row("traffic", schema.stem, say(f"summary.{schema.stem}", **told)))
    return rows


def _alone(profile: Profile) -> list[TabRow]:
    """What the subject says of itself, where nothing lies beside it."""
    return [_summary_row(*fact) for fact in subject_of(profile.trace).summary(profile)]


def _file_rows(profile: Profile) -> list[TabRow]:
    """Every file that may lie beside a trace: how far it could be read, what it holds, which setting makes it.

    The profiler's settings are nothing to what it has not written.
    """
    rows, asked = [], subject_of(profile.trace).is_profiled and recorder_of(profile.trace).has_files
    for file in profile.tables.files:
        if file.state == "missing" and not asked:
            continue
        tells = say(f"summary.tells.{file.name}")
        word = say(f"summary.state.{file.state}")
        if file.state == "missing":
            by_text = profile.kind == "database" and profile.profiler_level != 0 and file.name in _OF_TEXT
            setting = say("summary.makes.text") if by_text else setting_of(profile, file.name)
            makes = say("summary.makes", tells=tells, setting=setting)
            rows.append(_summary_row("file", file.name, Text(word, style="dim"), makes))
            continue
        value = word if not file.rows else say("summary.rows", state=word, count=file.rows)
        problems = [words(problem).removeprefix(f"{file.name}: ") for problem in file.problems]
        rows.append(_summary_row("file", file.name, value, "; ".join([*problems, tells])))
    return rows


def _checks(checks: list[JoinCheck]) -> list[TabRow]:
    """Our figures against each file, and what differs."""
    rows = []
    for check in checks:
        same = check.rows - check.differing
        value = Text(bar(same / check.rows if check.rows else 1.0, 8)).append(
            f" {share_text(same / max(check.rows, 1))}"
        )
        more = say(
            "summary.compared", rows=check.rows, figures=check.compared, differing=check.differing, ours=check.ours_only
        )
        rows.append(_summary_row("check", check.file, value, more))
        rows += [
            _summary_row(
                "check",
                " ".join(difference.key),
                _number(difference.name, difference.theirs),
                _difference_text(difference),
            )
            for difference in check.differences[:_MOST_DIFFERENCES]
        ]
    return rows


def _number(name: str, value: int | None) -> str:
    if value is None:
        return say("report.unknown")
    if name in AMOUNTS:
        return memory_text(value)
    return f"{value:,}" if name == "count" else duration_text(value)


def _difference_text(difference: Difference) -> str:
    label = say(f"summary.figure.{difference.name}") if knows(f"summary.figure.{difference.name}") else difference.name
    return say("summary.differs", name=label, ours=_number(difference.name, difference.ours))
