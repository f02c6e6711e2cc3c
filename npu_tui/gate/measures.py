"""What is measured, the limits a user may set, and the baseline file."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import orjson
from msgspec import Struct

from npu_tui import __version__
from npu_tui.analysis.evidence import Evidence
from npu_tui.analysis.limits import FEWEST_OF_P99
from npu_tui.load.errors import InputError
from npu_tui.output.envelope import VERSIONS, Old, Root, json_bytes, side_by_side
from npu_tui.output.report_schema import Report, SelectionPart
from npu_tui.strings import say, words
from npu_tui.subjects import SUBJECTS, Unit
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import read_regular
from npu_tui.trace.text import parse_duration
from npu_tui.whole_file import write_file

NOTHING_LOST: Mapping[Evidence, Message] = {}

BASELINE_MEASURES = ("step_p50", "step_p99", "device", "computing", "exposed_communication", "free", "lost")
"""The measures of a baseline; all but the step's percentiles are per step."""

# Why a measure is unknown: ids of ``not_checked`` of a report, the first that is there; for others ``_OF_THE_DEVICE``.
_REASONS = {
    "step_p50": ("steps",),
    "step_p99": ("steps",),
    "lost": ("device", "dispatch"),
    "host_late": ("device", "overlap", "overlap.free"),
}
_OF_THE_DEVICE = ("device", "overlap")
_BY_LINKS = ("lost", "host_late")
"""The measures that rest on links from launches to kernels."""
# The measures that a device without any time leaves unknown.
_BY_DEVICE = ("device", "computing", "exposed_communication", "free", "host_late", "lost")


class Measures(Struct, frozen=True):
    """Times in µs by name over the whole selection (None: not measured), and the ``total`` that they are shares of.

    ``steps`` is how many steps they are spread over, at least 1; ``reasons`` says why a measure is unknown.
    """

    times: dict[str, float | None]
    total: float | None
    steps: int
    reasons: dict[str, str]

    def per_step(self, name: str) -> float | None:
        """The time of ``name`` for one step, µs; percentiles of the steps are per step already."""
        time = self.times[name]
        return time if time is None or name.startswith("step_") else round(time / self.steps, 3)


def measures(report: Any, incomplete: Mapping[Evidence, Message] = NOTHING_LOST, no_times: str = "") -> Measures:
    """The measures of ``report``; those that rest on ``incomplete`` evidence or on a device without time are None.

    ``no_times`` is the key of the text that says why a subject has no times of a device; it has latencies at most.

    Step lengths are those of the ``ProfilerStep#N`` slices on the host, percentiles as numpy's ``linear``; those of the
    engine steps of each kind (``decode:p99``) are on the device. The other times are those of ``overlap`` and
    ``dispatch``, summed over devices.
    """
    if not hasattr(report, "overlap"):
        return Measures({}, None, 1, {"device": say(no_times)})
    overlap = report.overlap
    lengths = [step.duration_us for step in report.steps if step.duration_us is not None]
    lost = [dispatch.lost_us for dispatch in report.dispatches]
    times: dict[str, float | None] = {
        "step_p50": _percentile(lengths, 50),
        "step_p99": _percentile(lengths, 99),
        "device": overlap.total_us,
        "computing": overlap.computing_us,
        "exposed_communication": overlap.communication_not_overlapped_us,
        "free": overlap.free_us,
        "host_late": overlap.free_host_late_us,
        "lost": None if None in lost else round(sum(time_lost or 0.0 for time_lost in lost), 3),
    }
    spans: dict[str, list[float]] = {}
    for step in report.engine_steps:
        if step.device_span_us is not None:
            spans.setdefault(step.kind.lower(), []).append(step.device_span_us)
    times |= {f"{kind}:{name}": _percentile(spans[kind], rank) for kind in spans for name, rank in PERCENTILES.items()}
    why = {row.id: row.reason for row in report.not_checked}
    times |= _latencies(report)
    lost_evidence = {
        name: words(why)
        for kind, why in incomplete.items()
        for name in times
        if kind == "slices" or (kind == "links" and name in _BY_LINKS)
    }
    if not overlap.total_us:
        lost_evidence |= {name: say("gate.no_time") for name in _BY_DEVICE if times[name] == 0}
    times |= dict.fromkeys(lost_evidence)
    unknown = [name for name, time in times.items() if time is None]
    reasons = {
        name: next((why[key] for key in _REASONS.get(name, _OF_THE_DEVICE) if key in why), "") for name in unknown
    }
    if no_times:
        reasons |= {name: say("gate.no_latency" if ":" in name else no_times) for name in unknown}
    reasons |= lost_evidence
    return Measures(times, overlap.total_us, max(len(lengths), 1), reasons)


def _latencies(report: Report) -> dict[str, float | None]:
    """TTFT and TPOT of a service, µs; None if more than half of its requests have none."""
    times: dict[str, float | None] = {f"{metric}:{name}": None for metric in METRICS for name in PERCENTILES}
    for row in report.latency:
        if 2 * row.requests >= report.request_count:
            values = {"p50": row.p50_us, "p90": row.p90_us, "p99": row.p99_us, "max": row.longest_us}
            times |= {f"{row.metric}:{name}": value for name, value in values.items()}
    return times


def latency_notes(report: Any, limits: Collection[Limit]) -> list[str]:
    """How many requests the limits on latencies leave out, and that few requests decide a p99."""
    asked = {limit.measure for limit in limits if limit.measure.partition(":")[0] in METRICS}
    notes = []
    for row in report.latency if asked else []:
        if not any(measure.startswith(row.metric) for measure in asked):
            continue
        left = report.request_count - row.requests
        if left > 0:
            metric = say(f"latency.metric.{row.metric}")
            notes.append(say("gate.left_out", metric=metric, count=left, all=report.request_count))
        if row.requests < FEWEST_OF_P99 and f"{row.metric}:p99" in asked:
            notes.append(say("service.few", fewest=FEWEST_OF_P99))
    return list(dict.fromkeys(notes))


def _percentile(lengths: list[float], percent: int) -> float | None:
    return round(float(np.percentile(lengths, percent)), 3) if lengths else None


METRICS = tuple(SUBJECTS["service"])

PERCENTILES = {"p50": 50, "p90": 90, "p99": 99, "max": 100}
_OF_KIND = re.compile(rf"([^\s:]+):({'|'.join(PERCENTILES)})(?:\s*:\s*|\s+)(\S.*)")


class Limit(Struct, frozen=True):
    """The most that ``measure`` may be: ``share`` of the whole (0..1), ``time`` in µs, or ``size`` in bytes.

    A measure such as ``decode:p99`` is of the engine steps of one kind.
    """

    measure: str
    share: float | None = None
    time: float | None = None
    size: int | None = None


_MOST_PERCENT = 1e9  # a larger one is a mistake: no measure is ten million times the device time


def parse_share(text: str) -> float | None:
    """0.1 for ``10%``; None unless it is a percentage of 0 or more."""
    number, sign, rest = text.strip().partition("%")
    try:
        value = float(number)
    except ValueError:
        return None
    return value / 100 if sign and not rest and 0 <= value <= _MOST_PERCENT else None


_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*([kmgt]?)(i?)b", re.IGNORECASE)
_POWERS = ("", "k", "m", "g", "t")


def parse_size(text: str) -> int | None:
    """The bytes in ``56GB`` (56e9), ``52.5 GiB`` or ``800MB``; None if it is invalid, as a number alone is."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    factor: int = (1024 if match[3] else 1000) ** _POWERS.index(match[2].lower())
    return round(float(match[1]) * factor)


def parse_limit(name: str, unit: Unit, text: str) -> Limit | None:
    """The limit in ``text`` on what ``name`` measures; None if it is invalid.

    A bare number is: it may mean a share or a time. The p99 of steps and latencies is limited unless ``text`` says
    another one, as ``decode:p99:9ms``, ``decode:p99 9ms`` or ``p50:300ms`` do.
    """
    if unit == "size":
        size = parse_size(text)
        return None if size is None else Limit(name, size=size)
    measure, text = {"step": f"{name}_p99", "latency": f"{name}:p99"}.get(unit, name), text.strip()
    of_kind = _OF_KIND.fullmatch(f"{name}:{text}" if unit == "latency" else text)
    if of_kind is not None and unit in ("step", "latency"):
        measure, text = f"{of_kind[1].lower()}:{of_kind[2]}", of_kind[3]
    share = parse_share(text) if unit in ("time", "share") else None
    time = parse_duration(text) if share is None and unit != "share" and text[-1:].isalpha() else None
    if share is None and (time is None or time < 0):
        return None
    return Limit(measure, share, None if time is None else time / 1000)


def allowed(limit: Limit, measured: Measures) -> float | None:
    """The most µs that ``limit`` allows on this profile, None where the device time it is a share of is unknown."""
    if limit.share is None:
        return limit.time
    return limit.share * measured.total if measured.total else None


_OLD_KIND = "npu-tui baseline"  # the kind of a baseline of schema 1
TOLERANCE = 0.05
"""A p99 of the step above 1.05 times the baseline's is a regression: the rule of Ascend's tuning guide, step 20."""

NOISE = 0.001
"""A change below this share of the baseline's device time is not a regression, whatever the tolerance."""


class BaselineSource(Struct, frozen=True):
    """The profile that a baseline was written from."""

    path: str
    rank: int | None
    device: int | None
    profiler_level: int | None
    step_count: int | None


PLACES = BaselineSource.__struct_fields__[1:]
"""Facts of the source that should be the same on both sides."""


class Baseline(Root, frozen=True, kw_only=True):
    """A baseline: times in µs, what each measure is, and ``tolerances`` as shares for each."""

    OLD: ClassVar = {"kind": Old(type=Literal["npu-tui baseline"], value=lambda kind: _OLD_KIND)}

    kind: Literal["baseline"] = "baseline"
    schema_version: Literal[2] = 2
    written_by: str
    source: BaselineSource
    selection: SelectionPart | None
    definitions: dict[str, str]
    tolerances: dict[str, float]
    measures_us: dict[str, float | None]


def baseline(report: Report, measured: Measures, tolerances: dict[str, float]) -> Baseline:
    """The baseline that ``report`` makes; ``tolerances`` as shares for each measure."""
    return Baseline(
        written_by=f"npu-tui {__version__}",
        source=BaselineSource(*(getattr(report.source, name) for name in BaselineSource.__struct_fields__)),
        selection=report.selection,
        definitions={name: say(f"gate.definition.{name}") for name in (*BASELINE_MEASURES, "tolerances")},
        tolerances={name: tolerances.get(name, TOLERANCE) for name in BASELINE_MEASURES},
        measures_us={name: measured.per_step(name) for name in BASELINE_MEASURES},
    )


def write_baseline(path: Path, content: Baseline, schema: str | None = None) -> None:
    """Write ``content`` to ``path`` in one go. Raises ``OSError``."""
    write_file(path, json_bytes(content, schema=schema))


_LARGEST = 1 << 20  # bytes of the largest baseline that is read


def read_baseline(path: Path) -> dict[str, Any]:
    """The baseline in ``path`` as one flat dict. Raises ``InputError`` for anything that is no baseline."""
    try:
        content = orjson.loads(read_regular(path, _LARGEST))
    except OSError as error:
        raise _refused(path, "gate.unreadable", words=error.strerror) from None
    except orjson.JSONDecodeError as error:
        raise _refused(path, "gate.no_json", words=str(error)) from None
    if not isinstance(content, dict) or content.get("kind") not in ("baseline", _OLD_KIND):
        raise _refused(path, "gate.no_baseline")
    if str(content.get("schema_version")) not in VERSIONS:
        raise _refused(path, "gate.other_schema", version=content.get("schema_version"), known=[*VERSIONS])
    if not isinstance(content.get("sections", {}), dict):
        raise _refused(path, "gate.bad_table", table="sections")
    content = side_by_side(content)
    for table, unknown in (("measures_us", True), ("tolerances", False)):
        values = content.get(table)
        if not isinstance(values, dict) or not all(
            name in values and _is_size(values[name], unknown) for name in BASELINE_MEASURES
        ):
            raise _refused(path, "gate.bad_table", table=table)
    if all(value is None for value in content["measures_us"].values()):
        raise _refused(path, "gate.empty_baseline")
    if not isinstance(content.get("source"), dict):
        raise _refused(path, "gate.bad_table", table="source")
    return content


_MOST_US = 1e15  # thirty years: no profile lasts as long, so a larger number is damaged


def _refused(path: Path, code: str, **args: object) -> InputError:
    return InputError(message("gate.refused", path=str(path), why=message(code, **args)))


def _is_size(value: object, unknown: bool) -> bool:
    """Whether ``value`` is a number of 0 or more, or None if ``unknown`` allows that."""
    if value is None:
        return unknown
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_US
