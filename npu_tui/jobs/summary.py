"""One rank as a row of a Parquet file, and such files as ranks again: who wrote or damaged them does not matter.

A row has the columns of ``SCHEMA``; nested lists hold calls, notifies, steps and links. The file is the same byte for
byte wherever it is written. Rows that do not hold what a rank's row holds are left out, the others are read.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import orjson
import polars as pl

from npu_tui.analysis.experts import ExpertPass, Pace
from npu_tui.jobs.columns import I32, I64, Names
from npu_tui.jobs.footer import values_in
from npu_tui.jobs.model import (
    Busy,
    Calls,
    Layout,
    Line,
    LinkUse,
    Notifies,
    Passes,
    RankFinding,
    RankProfile,
    Sightings,
    StepTime,
    Stint,
    Work,
)
from npu_tui.load.errors import InputError, walled
from npu_tui.load.polars_door import silenced
from npu_tui.strings import words
from npu_tui.trace.message import Message, message

FORMAT = 5
"""Raised whenever a row means something else."""

_INTS = pl.List(pl.Int64)
_NOTIFY = pl.Struct({"waits": pl.Boolean, "peer": pl.Int64, "name": pl.String, "key": pl.UInt64, "start": pl.Int64,
                     "end": pl.Int64, "place": pl.Int64})  # fmt: skip
_SEEN = pl.Struct({"name": pl.String, "peer": pl.Int64, "after": pl.Int64, "at_most": pl.Boolean, "place": pl.Int64})
_STEP = pl.Struct({"step": pl.String, "computing": pl.Int64, "exposed": pl.Int64, "free": pl.Int64, "total": pl.Int64})
_LINK = pl.Struct({"source": pl.Int64, "target": pl.Int64, "transport": pl.String, "type": pl.String,
                   "size_mb": pl.Float64, "speed": pl.Float64, "group": pl.String})  # fmt: skip
_STINT = pl.Struct({"role": pl.String, "step": pl.String, "start": pl.Int64, "end": pl.Int64, "known_by": pl.String})
_EXPERT = pl.Struct({"layer": pl.Int64, "backward": pl.Boolean, "start": pl.Int64, "end": pl.Int64, "work": pl.Int64,
                     "tokens": pl.Int64, "sent_start": pl.Int64, "sent_end": pl.Int64, "back_start": pl.Int64,
                     "back_end": pl.Int64, "fused": pl.Boolean, "beside": pl.Int64, "idle": pl.Int64})  # fmt: skip
_GROUP = pl.Struct({"name": pl.String, "first": pl.Int64, "stride": pl.Int64, "count": pl.Int64, "ranks": _INTS})

SCHEMA: dict[str, Any] = {
    "format": pl.Int64, "rank": pl.Int64, "path": pl.String, "kind": pl.String, "broken": pl.String,
    "role": pl.String, "in_step": pl.String, "process": pl.String, "device": pl.Int64, "stints": pl.List(_STINT),
    "boot": pl.Int64, "counter": pl.Int64, "host_name": pl.String, "level": pl.Int64, "layout": _INTS,
    "groups": pl.List(_GROUP), "problems": pl.String,
    "kinds": pl.List(pl.Struct({"group": pl.String, "type": pl.String, "step": pl.String})),
    "call_name": pl.List(pl.String), "call_kind": _INTS, "call_ordinal": _INTS, "call_start": _INTS, "call_end": _INTS,
    "call_pair": _INTS, "busy_start": _INTS, "busy_end": _INTS,
    "kernels": _INTS, "computing": _INTS, "lost": _INTS, "begun": pl.Int64, "pass_start": _INTS, "pass_end": _INTS,
    "pass_done": _INTS, "pass_backward": _INTS,
    "notifies": pl.List(_NOTIFY), "seen": pl.List(_SEEN), "steps": pl.List(_STEP), "links": pl.List(_LINK),
    "lines": pl.List(pl.Struct({"file": pl.String, "line": pl.Int64, "lost": pl.Int64})),
    "told": pl.List(pl.Struct({"id": pl.String, "gain": pl.Int64})),
    "experts": pl.List(_EXPERT), "paces": pl.List(pl.Struct({"name": pl.String, "time": pl.Int64})),
}  # fmt: skip
"""Columns of a summary and their types; ``rank`` is -1 where the profile does not tell it, ``broken`` is why it cannot
be read (then all else is empty), ``told`` are the findings of the rank alone."""

_CALLS = ("call_name", "call_kind", "call_ordinal", "call_start", "call_end", "call_pair")
_BUSY = ("busy_start", "busy_end")
_WORK = ("kernels", "computing", "lost")
_PASSES = ("pass_start", "pass_end", "pass_done", "pass_backward")
_ALIKE = (_CALLS, _BUSY, _WORK, _PASSES)
"""Columns of lists that are as long as each other."""
_PLAIN = ("rank", "kind", "boot", "counter", "host_name", "level", "begun", "role", "in_step", "process", "device")
"""Fields of a rank that are columns as they are."""
_SPANS = (("call_start", "call_end"), _BUSY, ("pass_start", "pass_end"))
_NULLABLE = frozenset({"broken", "device", "boot", "counter", "level", "layout", "begun", *_BUSY, *_WORK, *_PASSES})
_LONG = ("kinds", "call_name", "notifies", "seen")
"""Columns whose lists are long, and hold more than numbers."""

_MOST_VALUES = 1_000_000
_MOST_PER_BYTE = 16
"""Values of a summary, and more for each of its bytes: times take a byte at least, and columns of one value none."""

_UNREADABLE = (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What reading a file raises that is no summary; where bytes are missing, polars may give up in a way of its own."""

_LAYOUT = 4
_MOST_RANKS = 1 << 20
_FARTHEST_NS = 1 << 61
"""Further from the epoch no time lies; differences of such times are still whole numbers of 64 bits."""


# --- Writing


def write_summary(profile: RankProfile, path: Path) -> None:
    """``profile`` as the only row of the file ``path``, which is there whole or not at all. Raises ``OSError``."""
    _write(_row(profile), path)


def write_broken(rank: int, opened: Path, kind: str, error: InputError, path: Path) -> None:
    """That the profile at ``opened`` cannot be read. Raises ``OSError``."""
    empty = RankProfile(rank, opened, kind)
    _write(_row(empty) | {"broken": _packed([error.message])}, path)


def _write(row: dict[str, Any], path: Path) -> None:
    content = io.BytesIO()
    frame = pl.DataFrame([row], schema=SCHEMA, orient="row")
    frame.write_parquet(content, compression="zstd", compression_level=3, statistics=False)
    descriptor, name = tempfile.mkstemp(".unfinished", path.name, path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content.getbuffer())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path.parent)) from error
        raise


def _row(profile: RankProfile) -> dict[str, Any]:
    calls, work, busy, layout, passes = profile.calls, profile.work, profile.busy, profile.layout, profile.passes
    rows: dict[str, Sequence[Any]] = {
        name: getattr(profile, name)
        for name in ("notifies", "seen", "steps", "links", "lines", "stints", "experts", "paces")
    }
    rows["told"] = profile.findings
    return {
        "format": FORMAT,
        **{name: getattr(profile, name) for name in _PLAIN},
        "path": str(profile.path).encode(errors="replace").decode(),
        "broken": None,
        "layout": None if layout is None else [layout.tensor, layout.pipeline, layout.data, layout.world],
        "groups": [_packed_group(name, ranks) for name, ranks in profile.groups.items()],
        "problems": _packed(profile.problems),
        "kinds": [{"group": group, "type": kind, "step": step} for group, kind, step in calls.kinds],
        "call_name": list(calls.name),
        **{name: getattr(calls, name.removeprefix("call_")).tolist() for name in _CALLS[1:]},
        **{name: None if busy is None else getattr(busy, name.removeprefix("busy_")).tolist() for name in _BUSY},
        **{name: None if work is None else getattr(work, name).tolist() for name in _WORK},
        **{
            name: None if passes is None else getattr(passes, name.removeprefix("pass_")).astype(np.int64).tolist()
            for name in _PASSES
        },
        **{name: msgspec.to_builtins(list(structs)) for name, structs in rows.items()},
    }


def _packed_group(name: str, ranks: tuple[int, ...]) -> dict[str, Any]:
    """A group whose ranks are evenly spaced is three numbers, however large it is."""
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    even = all(rank == ranks[0] + place * stride for place, rank in enumerate(ranks))
    listed = [] if even else list(ranks)
    return {"name": name, "first": ranks[0], "stride": stride, "count": len(ranks), "ranks": listed}


def _packed(messages: Sequence[Message]) -> str:
    return orjson.dumps([_plain(text) for text in messages]).decode()


def _plain(value: object) -> Any:
    if isinstance(value, Message):
        return {"code": value.code, "args": {name: _plain(arg) for name, arg in value.args.items()}}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, int | float | bool | None):
        return value
    return str(value).encode(errors="replace").decode()  # a path may be no UTF-8


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        return Message(str(value["code"]), {name: _unpacked(arg) for name, arg in value["args"].items()})
    return [_unpacked(item) for item in value] if isinstance(value, list) else value


# --- Reading


def read_summaries(paths: Sequence[Path]) -> tuple[list[RankProfile], list[Message]]:
    """The ranks in ``paths``, and a message for each that could not be read when it was summarized.

    A file that is no summary of this version is reported, and the others are read.
    """
    said: list[Message] = []
    try:
        frame = _read(list(paths))
    except _UNREADABLE:
        frame = _one_by_one(paths, said)
    sound = sound_rows(frame)
    said += [message("job.no_summary", path=path or "–") for path in frame.filter(~sound)["path"]]
    frame = frame.filter(sound).sort("rank", "path")
    profiles: list[RankProfile] = []
    groups: dict[tuple[Any, ...], tuple[int, ...]] = {}
    for row in _rows(frame):
        if row["broken"] is not None:
            said.append(message("job.broken", path=row["path"], why=_unpacked(orjson.loads(row["broken"]))[0]))
        elif row["format"] == FORMAT:
            try:
                with walled(row["path"]):
                    profiles.append(_profile(row, groups))
            except InputError:
                said.append(message("job.no_summary", path=row["path"]))
    return profiles, said


def _read(paths: list[Path]) -> pl.DataFrame:
    """The rows of all ``paths``.

    Raises ``ValueError`` where their columns are those of another version, or unpack to far more than a rank holds.
    """
    before: list[bytes] = []
    if any(values_in(path, before) > _MOST_VALUES + _MOST_PER_BYTE * path.stat().st_size for path in paths):
        raise ValueError
    with silenced():
        frame = pl.read_parquet(paths).rechunk()
    if dict(frame.schema) != dict(pl.Schema(SCHEMA)):
        raise ValueError
    return frame


def _one_by_one(paths: Sequence[Path], said: list[Message]) -> pl.DataFrame:
    frames = []
    for path in paths:
        try:
            frames.append(_read([path]))
        except _UNREADABLE:
            said.append(message("job.no_summary", path=str(path)))
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def _rows(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Every row of ``frame``, its long lists as columns."""
    if not len(frame):
        return
    texts, (called, notified, seen) = _names(frame)
    kinds = _fields_of(frame, "kinds")
    named = list(zip(*(kinds[field].to_list() for field in ("group", "type", "step")), strict=True))
    columns = {name: _column(frame, name) for name in SCHEMA if name not in _LONG}
    columns["call_name"] = [Names(texts, code) for code in _parts(frame["call_name"], called)]
    ends = _ends(frame["kinds"]).tolist()
    columns["kinds"] = [tuple(named[first:last]) for first, last in zip([0, *ends], ends, strict=False)]
    columns["notifies"] = _columns_of(frame, "notifies", Notifies, texts, notified)
    columns["seen"] = _columns_of(frame, "seen", Sightings, texts, seen)
    for cells in zip(*columns.values(), strict=True):
        yield dict(zip(columns, cells, strict=True))


def _names(frame: pl.DataFrame) -> tuple[tuple[str, ...], list[I32]]:
    """All names of calls, and what those of the calls, of the notifies and of the arrivals are in them."""
    names = [_flat(frame["call_name"])] + [_fields_of(frame, column)["name"] for column in ("notifies", "seen")]
    texts = pl.concat(names).unique(maintain_order=True)
    kind = pl.Enum(texts)
    return tuple(texts.to_list()), [column.cast(kind).to_physical().to_numpy().astype(np.int32) for column in names]


def _columns_of(
    frame: pl.DataFrame, name: str, kind: Callable[..., Any], texts: tuple[str, ...], code: I32
) -> list[Any]:
    """What every rank recorded of its peers, as the columns that ``kind`` is made of."""
    fields = _fields_of(frame, name)
    parts = {field: _parts(frame[name], fields[field].to_numpy()) for field in fields.columns if field != "name"}
    names = [Names(texts, part) for part in _parts(frame[name], code)]
    return [kind(name=of_rank, **{field: part[row] for field, part in parts.items()})
            for row, of_rank in enumerate(names)]  # fmt: skip


def _flat(column: pl.Series) -> pl.Series:
    """The values of all lists of a column."""
    return column.explode(empty_as_null=False, keep_nulls=False)


def _fields_of(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """The fields of all structs in the lists of a column."""
    return _flat(frame[name]).struct.unnest()


def _ends(column: pl.Series) -> I64:
    """Where the list of every row ends among the values of all."""
    return np.cumsum(column.list.len().fill_null(0).to_numpy().astype(np.int64))


def _parts(column: pl.Series, values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """``values``, one for every value of the lists of ``column``, by row."""
    return np.split(values, _ends(column)[:-1])


def _column(frame: pl.DataFrame, name: str) -> list[Any]:
    """The cells of a column; a list of numbers becomes an array."""
    column = frame[name]
    if SCHEMA[name] != _INTS or name == "layout":
        return column.to_list()
    values = _flat(column).to_numpy().astype(np.int64, copy=False)
    return [None if none else part for none, part in zip(column.is_null(), _parts(column, values), strict=True)]


def _profile(row: dict[str, Any], groups: dict[tuple[Any, ...], tuple[int, ...]]) -> RankProfile:
    """The rank of ``row``; equal ``groups`` of several ranks become one object."""
    return RankProfile(
        path=Path(row["path"]),
        layout=None if row["layout"] is None else Layout(*row["layout"]),
        groups={group["name"]: _ranks_of(group, groups) for group in row["groups"]},
        calls=Calls(*(row[name] for name in ("kinds", *_CALLS))),
        steps=tuple(StepTime(**fields) for fields in row["steps"]),
        links=tuple(LinkUse(**fields) for fields in row["links"]),
        problems=tuple(_unpacked(orjson.loads(row["problems"]))),
        work=None if row["kernels"] is None else Work(*(row[name] for name in _WORK)),
        lines=tuple(Line(**fields) for fields in row["lines"]),
        stints=tuple(Stint(**fields) for fields in row["stints"]),
        findings=tuple(RankFinding(**fields) for fields in row["told"]),
        experts=tuple(ExpertPass(**fields) for fields in row["experts"]),
        paces=tuple(Pace(**fields) for fields in row["paces"]),
        busy=None if row["busy_start"] is None else Busy(*(row[name] for name in _BUSY)),
        passes=None
        if row["pass_start"] is None or not len(row["pass_start"])
        else Passes(row["pass_start"], row["pass_end"], row["pass_done"], row["pass_backward"] != 0),
        **{name: row[name] for name in (*_PLAIN, "notifies", "seen")},
    )  # fmt: skip


def _ranks_of(group: dict[str, Any], groups: dict[tuple[Any, ...], tuple[int, ...]]) -> tuple[int, ...]:
    key = group["first"], group["stride"], group["count"], tuple(group["ranks"])
    if key not in groups:
        first, stride, count, listed = key
        groups[key] = listed or tuple(first + place * stride for place in range(count))
    return groups[key]


# --- Checking: a summary may come from anywhere


def sound_rows(frame: pl.DataFrame) -> pl.Series:
    """Whether each row of ``frame``, whose columns are those of ``SCHEMA``, can be a rank's."""
    sound = _holds(frame, [*_present(), *_lengths(), *_numbers()])
    # Lists of two lengths cannot be subtracted, so spans are looked at where the lengths are right.
    spans = frame.with_columns(pl.when(sound).then(pl.col(name)) for pair in _SPANS for name in pair)
    sound &= _holds(spans, [(pl.col(end) - pl.col(start)).list.min() >= 0 for start, end in _SPANS])
    packed = [
        (broken is None or _holds_messages(broken, fewest=1)) and _holds_messages(problems)
        for broken, problems in frame["broken", "problems"].iter_rows()
    ]
    return sound & pl.Series(packed, dtype=pl.Boolean)


def _holds(frame: pl.DataFrame, parts: list[pl.Expr]) -> pl.Series:
    """Whether all ``parts`` are true of each row; one that is null counts as true."""
    return frame.select(pl.all_horizontal(*(part.fill_null(value=True) for part in parts)).alias("all"))["all"]


def _present() -> list[pl.Expr]:
    """Nothing is null that never is, in lists neither."""
    parts = [pl.col(name).is_not_null() for name in SCHEMA if name not in _NULLABLE]
    for name, kind in SCHEMA.items():
        if isinstance(kind, pl.List):
            inner, element = kind.inner, pl.element()
            fields = inner.fields if isinstance(inner, pl.Struct) else []
            missing = [element.is_null(), *(element.struct.field(field.name).is_null() for field in fields)]
            parts.append(~pl.col(name).list.eval(pl.any_horizontal(*missing)).list.any())
    return parts


def _lengths() -> list[pl.Expr]:
    alike = [
        pl.col(name).list.len().eq_missing(pl.col(first).list.len()) for first, *others in _ALIKE for name in others
    ]
    return [*alike, pl.col("layout").list.len() == _LAYOUT]


def _numbers() -> list[pl.Expr]:
    """Kinds of calls are there, groups can be listed, and no time overflows."""
    start, end = (pl.element().struct.field(name) for name in ("start", "end"))
    kinds, count = pl.col("call_kind").list, pl.col("groups").list.eval(pl.element().struct.field("count")).list
    times = [
        part
        for start, end in _SPANS
        for part in (pl.col(start).list.min() > -_FARTHEST_NS, pl.col(end).list.max() < _FARTHEST_NS)
    ]
    finite = [
        ~pl.col(name).list.eval(pl.element().struct.field(field.name).is_finite().not_()).list.any()
        for name, kind in SCHEMA.items()
        if isinstance(kind, pl.List) and isinstance(kind.inner, pl.Struct)
        for field in kind.inner.fields
        if field.dtype == pl.Float64
    ]
    return [
        *finite,
        kinds.min() >= 0,
        kinds.max() < pl.col("kinds").list.len(),
        count.min() >= 0,
        count.max() <= _MOST_RANKS,
        pl.col("begun").is_between(-_FARTHEST_NS, _FARTHEST_NS),
        _of_stints(start).list.min() > -_FARTHEST_NS,
        _of_stints(end).list.max() < _FARTHEST_NS,
        _of_stints(end - start).list.min() >= 0,
        *times,
    ]


def _of_stints(value: pl.Expr) -> pl.Expr:
    return pl.col("stints").list.eval(value)


def _holds_messages(packed: str, fewest: int = 0) -> bool:
    """Whether ``packed`` holds messages, as a summary packs them, which this version has the words for."""
    try:
        messages = orjson.loads(packed)
        sound = isinstance(messages, list) and len(messages) >= fewest
        for text in messages if sound else ():
            words(_unpacked(text))
    except Exception:  # another version has other codes, with other arguments
        return False
    return sound
