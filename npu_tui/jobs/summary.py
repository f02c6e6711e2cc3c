"""One rank as a row of a Parquet file, and such files as ranks again: who wrote or damaged them does not matter.

A row has the columns of ``SCHEMA``; nested lists hold calls, notifies, steps and links. The file is the same byte for
byte wherever it is written. Rows that do not hold what a rank's row holds are left out, the others are read.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import polars as pl

from npu_tui.jobs.model import Busy, Calls, Layout, Line, LinkUse, Names, RankProfile, StepTime, Told, Work
from npu_tui.jobs.notifies import Notifies, Sightings
from npu_tui.load.errors import InputError
from npu_tui.trace.message import Message, message

_NULLABLE = frozenset({"broken", "boot", "counter", "level", "layout", "busy_start", "busy_end", "kernels", "computing",
                       "lost", "begun"})  # fmt: skip
_ALIKE = (
    ("call_name", "call_kind", "call_ordinal", "call_start", "call_end", "call_pair"),
    ("busy_start", "busy_end"),
    ("kernels", "computing", "lost"),
)
"""Columns of lists that are as long as each other."""

_SPANS = (("call_start", "call_end"), ("busy_start", "busy_end"))

_LAYOUT = 4
_MOST_RANKS = 1 << 20
_FARTHEST_NS = 1 << 61
"""Further from the epoch no time lies; differences of such times are still whole numbers of 64 bits."""


def sound(frame: pl.DataFrame, schema: Mapping[str, Any]) -> pl.Series:
    """Whether each row of ``frame``, whose columns are those of ``schema``, can be a rank's."""
    parts = [*_present(schema), *_lengths(), *_numbers()]
    whole = _holds(frame, parts)
    even = frame.with_columns(pl.when(whole).then(pl.col(name)) for pair in _SPANS for name in pair)
    whole &= _holds(even, [(pl.col(end) - pl.col(start)).list.min() >= 0 for start, end in _SPANS])
    told = [_is_told(broken) and _is_told(problems) for broken, problems in frame["broken", "problems"].iter_rows()]
    return whole & pl.Series(told, dtype=pl.Boolean)


def _holds(frame: pl.DataFrame, parts: list[pl.Expr]) -> pl.Series:
    """Whether all ``parts`` are true of each row; one that is null counts as true."""
    return frame.select(pl.all_horizontal(*(part.fill_null(value=True) for part in parts)).alias("all"))["all"]


def _present(schema: Mapping[str, Any]) -> list[pl.Expr]:
    """Nothing is null that never is, in lists neither."""
    parts = [pl.col(name).is_not_null() for name in schema if name not in _NULLABLE]
    for name, kind in schema.items():
        if isinstance(kind, pl.List):
            inner, each = kind.inner, pl.element()
            fields = inner.fields if isinstance(inner, pl.Struct) else []
            gone = [each.is_null(), *(each.struct.field(field.name).is_null() for field in fields)]
            parts.append(~pl.col(name).list.eval(pl.any_horizontal(*gone)).list.any())
    return parts


def _lengths() -> list[pl.Expr]:
    alike = [
        pl.col(name).list.len().eq_missing(pl.col(first).list.len()) for first, *others in _ALIKE for name in others
    ]
    return [*alike, pl.col("layout").list.len() == _LAYOUT]


def _numbers() -> list[pl.Expr]:
    """Kinds of calls are there, groups can be listed, and no time overflows."""
    kinds, count = pl.col("call_kind").list, pl.col("groups").list.eval(pl.element().struct.field("count")).list
    times = [
        part
        for start, end in _SPANS
        for part in (pl.col(start).list.min() > -_FARTHEST_NS, pl.col(end).list.max() < _FARTHEST_NS)
    ]
    return [
        kinds.min() >= 0,
        kinds.max() < pl.col("kinds").list.len(),
        count.min() >= 0,
        count.max() <= _MOST_RANKS,
        pl.col("begun").is_between(-_FARTHEST_NS, _FARTHEST_NS),
        *times,
    ]


def _is_told(packed: str | None) -> bool:
    """Whether ``packed`` holds messages, as a summary packs them."""
    if packed is None:
        return True
    try:
        found = orjson.loads(packed)
    except ValueError:
        return False
    return isinstance(found, list) and all(_is_message(each) for each in found)


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("code"), str) and isinstance(value.get("args"), dict)


FORMAT = 3
"""Raised whenever a row means something else."""

_INTS = pl.List(pl.Int64)
_NOTIFY = pl.Struct({"waits": pl.Boolean, "peer": pl.Int64, "name": pl.String, "key": pl.UInt64, "start": pl.Int64,
                     "end": pl.Int64, "place": pl.Int64})  # fmt: skip
_SEEN = pl.Struct({"name": pl.String, "peer": pl.Int64, "after": pl.Int64, "at_most": pl.Boolean, "place": pl.Int64})
_STEP = pl.Struct({"step": pl.String, "computing": pl.Int64, "exposed": pl.Int64, "free": pl.Int64, "total": pl.Int64})
_LINK = pl.Struct({"source": pl.Int64, "target": pl.Int64, "transport": pl.String, "type": pl.String,
                   "size_mb": pl.Float64, "speed": pl.Float64, "group": pl.String})  # fmt: skip
_GROUP = pl.Struct({"name": pl.String, "first": pl.Int64, "stride": pl.Int64, "count": pl.Int64, "ranks": _INTS})

SCHEMA: dict[str, Any] = {
    "format": pl.Int64, "rank": pl.Int64, "path": pl.String, "kind": pl.String, "broken": pl.String,
    "boot": pl.Int64, "counter": pl.Int64, "host_name": pl.String, "level": pl.Int64, "layout": _INTS,
    "groups": pl.List(_GROUP), "problems": pl.String,
    "kinds": pl.List(pl.Struct({"group": pl.String, "type": pl.String, "step": pl.String})),
    "call_name": pl.List(pl.String), "call_kind": _INTS, "call_ordinal": _INTS, "call_start": _INTS, "call_end": _INTS,
    "call_pair": _INTS, "busy_start": _INTS, "busy_end": _INTS,
    "kernels": _INTS, "computing": _INTS, "lost": _INTS, "begun": pl.Int64,
    "notifies": pl.List(_NOTIFY), "seen": pl.List(_SEEN), "steps": pl.List(_STEP), "links": pl.List(_LINK),
    "lines": pl.List(pl.Struct({"file": pl.String, "line": pl.Int64, "lost": pl.Int64})),
    "told": pl.List(pl.Struct({"id": pl.String, "gain": pl.Int64})),
}  # fmt: skip
"""Columns of a summary and their types; ``rank`` is -1 where the profile does not tell it, ``broken`` is why it cannot
be read (then nothing else is told)."""


_OF_CALLS = ("call_name", "call_kind", "call_ordinal", "call_start", "call_end", "call_pair")
_MUCH = ("kinds", "call_name", "notifies", "seen")
"""Columns whose lists are long, and hold more than numbers."""


def write_summary(profile: RankProfile, path: Path) -> None:
    """``profile`` as the only row of the file ``path``, which is there whole or not at all. Raises ``OSError``."""
    _write(_row(profile), path)


def write_broken(rank: int, opened: Path, kind: str, error: InputError, path: Path) -> None:
    """That the profile at ``opened`` cannot be read. Raises ``OSError``."""
    empty = RankProfile(rank, opened, kind)
    _write(_row(empty) | {"broken": _packed([error.message])}, path)


def _write(row: dict[str, Any], path: Path) -> None:
    frame = pl.DataFrame([row], schema=SCHEMA, orient="row")
    descriptor, name = tempfile.mkstemp(".unfinished", path.name, path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            frame.write_parquet(stream, compression="zstd", compression_level=3, statistics=False)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _row(profile: RankProfile) -> dict[str, Any]:
    calls = profile.calls if isinstance(profile.calls, Calls) else Calls.of(profile.calls)
    work, layout = profile.work, profile.layout
    return {
        "format": FORMAT,
        "rank": profile.rank,
        "path": str(profile.path),
        "kind": profile.kind,
        "broken": None,
        "boot": profile.boot,
        "counter": profile.counter,
        "host_name": profile.host_name,
        "level": profile.level,
        "layout": None if layout is None else [layout.tensor, layout.pipeline, layout.data, layout.world],
        "groups": [_packed_group(name, ranks) for name, ranks in profile.groups.items()],
        "problems": _packed(profile.problems),
        "kinds": [{"group": group, "type": kind, "step": step} for group, kind, step in calls.kinds],
        "call_name": list(calls.name),
        "call_kind": calls.kind.tolist(),
        "call_ordinal": calls.ordinal.tolist(),
        "call_start": calls.start.tolist(),
        "call_end": calls.end.tolist(),
        "call_pair": calls.pair.tolist(),
        "busy_start": None if profile.busy is None else profile.busy.start.tolist(),
        "busy_end": None if profile.busy is None else profile.busy.end.tolist(),
        "kernels": None if work is None else work.kernels.tolist(),
        "computing": None if work is None else work.computing.tolist(),
        "lost": None if work is None else work.lost.tolist(),
        "begun": profile.begun,
        "notifies": [_fields(each, _NOTIFY) for each in profile.notifies],
        "seen": [_fields(each, _SEEN) for each in profile.seen],
        "steps": [_fields(each, _STEP) for each in profile.steps],
        "links": [_fields(each, _LINK) for each in profile.links],
        "lines": [{"file": each.file, "line": each.line, "lost": each.lost} for each in profile.lines],
        "told": [{"id": each.id, "gain": each.gain} for each in profile.told],
    }


def _fields(each: object, kind: pl.Struct) -> dict[str, Any]:
    return {field.name: getattr(each, field.name) for field in kind.fields}


def _packed_group(name: str, ranks: tuple[int, ...]) -> dict[str, Any]:
    """A group whose ranks are evenly spaced is three numbers, however large it is."""
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    even = all(rank == ranks[0] + number * stride for number, rank in enumerate(ranks))
    listed = [] if even else list(ranks)
    return {"name": name, "first": ranks[0], "stride": stride, "count": len(ranks), "ranks": listed}


def _packed(messages: Sequence[Message]) -> str:
    return orjson.dumps([_plain(each) for each in messages]).decode()


def _plain(value: object) -> Any:
    if isinstance(value, Message):
        return {"code": value.code, "args": {name: _plain(each) for name, each in value.args.items()}}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        return Message(str(value["code"]), {name: _said(each) for name, each in value["args"].items()})
    return [_said(each) for each in value] if isinstance(value, list) else value


def read_summaries(paths: Sequence[Path]) -> tuple[list[RankProfile], list[Message]]:
    """The ranks in ``paths``, and what is said of those that could not be read when they were summarized.

    A file that is no summary of this version is told, and the others are read.
    """
    said: list[Message] = []
    try:
        frame = _read(list(paths))
    except (OSError, ValueError, pl.exceptions.PolarsError):
        frame = _one_by_one(paths, said)
    good = sound(frame, SCHEMA)
    said += [message("job.no_summary", path=path or "–") for path in frame.filter(~good)["path"]]
    frame = frame.filter(good).sort("rank", "path")
    profiles: list[RankProfile] = []
    groups: dict[tuple[Any, ...], tuple[int, ...]] = {}
    for row in _rows(frame):
        if row["broken"] is not None:
            said.append(message("job.broken", path=row["path"], why=_said(orjson.loads(row["broken"]))[0]))
        elif row["format"] == FORMAT:
            profiles.append(_profile(row, groups))
    return profiles, said


def _rows(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Every row of ``frame`` with what there is much of as columns."""
    if not len(frame):
        return
    texts, (called, notified, seen) = _names(frame)
    kinds = _fields_of(frame, "kinds")
    named = list(zip(*(kinds[field].to_list() for field in ("group", "type", "step")), strict=True))
    columns = {name: _column(frame, name) for name in SCHEMA if name not in _MUCH}
    columns["call_name"] = [Names(texts, part) for part in _parts(frame["call_name"], called)]
    columns["kinds"] = [tuple(part) for part in _cut(named, frame["kinds"])]
    columns["notifies"] = _told(frame, "notifies", Notifies, texts, notified)
    columns["seen"] = _told(frame, "seen", Sightings, texts, seen)
    for cells in zip(*columns.values(), strict=True):
        yield dict(zip(columns, cells, strict=True))


def _names(frame: pl.DataFrame) -> tuple[tuple[str, ...], list[npt.NDArray[np.int32]]]:
    """All names of calls, and what those of the calls, of the notifies and of the arrivals are in them."""
    told = [_flat(frame["call_name"])] + [_fields_of(frame, name)["name"] for name in ("notifies", "seen")]
    texts = pl.concat(told).unique(maintain_order=True)
    kind = pl.Enum(texts)
    return tuple(texts.to_list()), [each.cast(kind).to_physical().to_numpy().astype(np.int32) for each in told]


def _told(
    frame: pl.DataFrame, name: str, kind: Callable[..., Any], texts: tuple[str, ...], code: npt.NDArray[np.int32]
) -> list[Any]:
    """What every rank recorded of its peers, as the columns that ``kind`` is made of."""
    fields = _fields_of(frame, name)
    parts = {field: _parts(frame[name], fields[field].to_numpy()) for field in fields.columns if field != "name"}
    names = [Names(texts, part) for part in _parts(frame[name], code)]
    return [kind(name=own, **{field: part[row] for field, part in parts.items()}) for row, own in enumerate(names)]


def _flat(column: pl.Series) -> pl.Series:
    """The values of all lists of a column."""
    return column.explode(empty_as_null=False, keep_nulls=False)


def _fields_of(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """The fields of all structs in the lists of a column."""
    return _flat(frame[name]).struct.unnest()


def _ends(column: pl.Series) -> npt.NDArray[np.int64]:
    """Where the list of every row ends among the values of all."""
    return np.cumsum(column.list.len().fill_null(0).to_numpy().astype(np.int64))


def _parts(column: pl.Series, values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """``values``, one for every value of the lists of ``column``, by row."""
    return np.split(values, _ends(column)[:-1])


def _cut(values: list[Any], column: pl.Series) -> Iterator[list[Any]]:
    """The same of a list."""
    begin = 0
    for end in _ends(column).tolist():
        yield values[begin:end]
        begin = end


def _read(paths: list[Path]) -> pl.DataFrame:
    """The rows of all ``paths``. Raises ``ValueError`` where their columns are those of another version."""
    frame = pl.read_parquet(paths).rechunk()
    if dict(frame.schema) != dict(pl.Schema(SCHEMA)):
        raise ValueError
    return frame


def _one_by_one(paths: Sequence[Path], said: list[Message]) -> pl.DataFrame:
    frames = []
    for path in paths:
        try:
            frames.append(_read([path]))
        except (OSError, ValueError, pl.exceptions.PolarsError):
            said.append(message("job.no_summary", path=str(path)))
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def _column(frame: pl.DataFrame, name: str) -> list[Any]:
    """The cells of a column; a list of numbers becomes an array."""
    column = frame[name]
    if SCHEMA[name] != _INTS or name == "layout":
        return column.to_list()
    values = _flat(column).to_numpy().astype(np.int64, copy=False)
    return [None if none else part for none, part in zip(column.is_null(), _parts(column, values), strict=True)]


def _profile(row: dict[str, Any], groups: dict[tuple[Any, ...], tuple[int, ...]]) -> RankProfile:
    calls = (row[name] for name in ("kinds", *_OF_CALLS))
    return RankProfile(
        row["rank"],
        Path(row["path"]),
        row["kind"],
        row["boot"],
        row["counter"],
        row["host_name"],
        row["level"],
        None if row["layout"] is None else Layout(*row["layout"]),
        {each["name"]: _group(each, groups) for each in row["groups"]},
        Calls(*calls),
        row["notifies"],
        row["seen"],
        tuple(StepTime(**each) for each in row["steps"]),
        tuple(LinkUse(**each) for each in row["links"]),
        tuple(_said(orjson.loads(row["problems"]))),
        None if row["kernels"] is None else Work(row["kernels"], row["computing"], row["lost"]),
        tuple(Line(**each) for each in row["lines"]),
        tuple(Told(**each) for each in row["told"]),
        None if row["busy_start"] is None else Busy(row["busy_start"], row["busy_end"]),
        row["begun"],
    )


def _group(each: dict[str, Any], groups: dict[tuple[Any, ...], tuple[int, ...]]) -> tuple[int, ...]:
    key = each["first"], each["stride"], each["count"], tuple(each["ranks"])
    if key not in groups:
        even = tuple(each["first"] + number * each["stride"] for number in range(each["count"]))
        groups[key] = key[3] or even
    return groups[key]
