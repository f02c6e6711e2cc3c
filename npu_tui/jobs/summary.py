"""One rank as a file, and such files as ranks again: who wrote or damaged them does not matter.

A file is the fields of a ``RankProfile`` as msgpack, its columns as their bytes, packed by zlib, whose checksum shows
damage: 1.3 and 4.6 kB for ranks of 860 and 310 kernels, where nested lists of Parquet took 25 and 27 kB. What does not
hold what a rank's file holds is left out, the others are read.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
from msgspec.structs import astuple, replace

from npu_tui.jobs.model import RankFinding, RankProfile
from npu_tui.load.errors import InputError
from npu_tui.strings import words
from npu_tui.trace.arrays import I32, I64
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import read_regular

FORMAT = 10
"""Raised whenever a file means something else."""

_LARGEST, _MOST_TIMES, _LEAST = 64 << 20, 64, 8 << 20
"""Bytes of a file, and how many times as many it may unpack to; a small one to ``_LEAST`` all the same."""
_MOST_RANKS = 1 << 20  # no job has more: a damaged summary may name any number
_FARTHEST_NS = 1 << 61
"""Further from the epoch no time lies; differences of such times are still whole numbers of 64 bits."""


class _PackedGroup(msgspec.Struct):
    """A group whose ranks are evenly spaced is three numbers, however large it is; others are ``listed``."""

    name: str
    first: int
    stride: int
    count: int
    listed: tuple[int, ...] = ()


class _Summary(msgspec.Struct):
    """What a file holds: ``profile`` without its ``groups``, or why it is ``broken``; then all else is empty."""

    format: int
    profile: RankProfile
    groups: list[_PackedGroup] = []
    broken: Message | None = None


# --- Writing


def write_summary(profile: RankProfile, path: Path) -> None:
    """``profile`` as the file ``path``, which is there whole or not at all. Raises ``OSError``."""
    calls = dataclasses.replace(profile.calls, name=tuple(profile.calls.name))
    problems = tuple(map(_builtins_only, profile.problems))
    findings = tuple(_with_texts(finding, _builtins_only) for finding in profile.findings)
    bare = replace(profile, groups={}, calls=calls, problems=problems, findings=findings)
    _write(_Summary(FORMAT, bare, [_packed_group(name, ranks) for name, ranks in profile.groups.items()]), path)


def write_broken(rank: int, opened: Path, kind: str, error: InputError, path: Path) -> None:
    """Write that the profile at ``opened`` cannot be read. Raises ``OSError``."""
    _write(_Summary(FORMAT, RankProfile(rank, opened, kind), broken=_builtins_only(error.message)), path)


def _write(summary: _Summary, path: Path) -> None:
    content = zlib.compress(msgspec.msgpack.encode(summary, enc_hook=_encoded))
    descriptor, name = tempfile.mkstemp(".unfinished", path.name, path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path.parent)) from error
        raise


def _encoded(value: Any) -> bytes | str:
    """What stands for a ``value`` that msgpack does not know: the bytes of a column, the text of a path."""
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype.newbyteorder("<")).tobytes()
    if isinstance(value, Path):
        return _utf8(str(value))
    raise NotImplementedError  # what msgspec asks of a hook for a value that is none of its own


def _utf8(text: str) -> str:
    return text.encode(errors="replace").decode()  # a path may be no UTF-8


def _packed_group(name: str, ranks: tuple[int, ...]) -> _PackedGroup:
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    even = all(rank == ranks[0] + place * stride for place, rank in enumerate(ranks))
    return _PackedGroup(name, ranks[0] if ranks else 0, stride, len(ranks), () if even else ranks)


def _builtins_only(value: Any) -> Any:
    """A message, or an argument of one, of nothing but numbers, texts, lists and messages."""
    if isinstance(value, Message):
        return Message(value.code, {name: _builtins_only(arg) for name, arg in value.args.items()})
    if isinstance(value, list | tuple):
        return [_builtins_only(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, int | float | bool | None) else _utf8(str(value))


# --- Reading


def read_summaries(paths: Sequence[Path]) -> tuple[list[RankProfile], list[Message]]:
    """The ranks in ``paths``, and a message for each that could not be read when it was summarized.

    A file that is no summary of this version is reported, and the others are read.
    """
    said: list[Message] = []
    profiles: list[RankProfile] = []
    groups: dict[tuple[Any, ...], tuple[int, ...]] = {}
    names: dict[str, str] = {}
    for path in paths:
        try:
            summary = _read(path)
            listed = {group.name: _ranks_of(group, groups) for group in summary.groups}
        except (OSError, ValueError, RecursionError, zlib.error):
            said.append(message("job.no_summary", path=str(path)))
            continue
        if summary.broken is not None:
            said.append(message("job.broken", path=str(summary.profile.path), why=summary.broken))
        else:
            calls = summary.profile.calls
            name = tuple(map(names.setdefault, calls.name, calls.name))  # ranks have most names in common
            profiles.append(replace(summary.profile, groups=listed, calls=dataclasses.replace(calls, name=name)))
    return sorted(profiles, key=lambda profile: (profile.rank, str(profile.path))), said


def _read(path: Path) -> _Summary:
    """What the file at ``path`` holds. Raises ``OSError``, ``zlib.error``, and ``ValueError`` where it is no rank's."""
    packed = read_regular(path, _LARGEST)
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(packed, max(_MOST_TIMES * len(packed), _LEAST))
    if not unpacking.eof:
        raise ValueError(path)
    summary = msgspec.msgpack.decode(data, type=_Summary, dec_hook=_decoded)
    _check(summary.format == FORMAT and _is_sound(summary.profile))
    found = tuple(_with_texts(finding, _readable_message) for finding in summary.profile.findings)
    profile = replace(summary.profile, problems=tuple(map(_readable_message, summary.profile.problems)), findings=found)
    return replace(summary, profile=profile, broken=summary.broken and _readable_message(summary.broken))


def _with_texts(finding: RankFinding, changed: Callable[[Message], Message]) -> RankFinding:
    """``finding`` with each of its texts ``changed``."""
    return replace(finding, title=changed(finding.title), advice=tuple(map(changed, finding.advice)))


def _check(sound: bool) -> None:
    if not sound:
        raise ValueError


def _readable_message(text: Message) -> Message:
    """``text`` with the messages in it. Raises ``ValueError`` where this version has no words for them."""
    try:
        told: Message = _unpacked(text)
        words(told)
    except Exception as error:  # another version has other codes, with other arguments
        raise ValueError from error
    return told


def _decoded(kind: Any, value: Any) -> Any:
    """The value of a field of ``kind`` that ``_encoded`` has made into ``value``."""
    if kind is Path:
        return Path(value)
    if kind is object:  # an argument of a message
        return value
    (number,) = get_args(get_args(kind)[1])
    return np.frombuffer(value, np.dtype(number).newbyteorder("<")).astype(number, copy=False)


def _unpacked(value: Any) -> Any:
    """A message, or an argument of one, whose messages are those again; as msgpack they are maps."""
    if isinstance(value, Message):
        return Message(value.code, {name: _unpacked(arg) for name, arg in value.args.items()})
    if isinstance(value, dict):
        return Message(value["code"], {name: _unpacked(arg) for name, arg in value["args"].items()})
    return [_unpacked(item) for item in value] if isinstance(value, list) else value


def _ranks_of(group: _PackedGroup, groups: dict[tuple[Any, ...], tuple[int, ...]]) -> tuple[int, ...]:
    """The ranks of ``group``; equal ones of several ranks become one object in ``groups``."""
    last = group.first + group.count * group.stride
    _check(0 <= group.count <= _MOST_RANKS and _are_plain((group.first, group.stride, last, group.listed)))
    key = group.first, group.stride, group.count, group.listed
    if key not in groups:
        first, stride, count, listed = key
        groups[key] = listed or tuple(first + place * stride for place in range(count))
    return groups[key]


# --- Checking: a summary may come from anywhere


def _is_sound(profile: RankProfile) -> bool:
    """Whether ``profile`` can be a rank's: columns of a length, kinds and names that are there, times that add up."""
    tables = [
        {field.name: getattr(table, field.name) for field in _fields(table)}
        for table in (profile.calls, profile.notifies, profile.seen, profile.work, profile.busy, profile.passes)
        if table is not None
    ]
    calls, notifies, seen = tables[:3]
    kinds = calls.pop("kinds")
    lengths = [{len(column) for column in table.values()} for table in tables]
    spans = [(table["start"], table["end"]) for table in (calls, *tables[3:]) if "start" in table]
    spans += [(np.array([stint.start]), np.array([stint.end])) for stint in profile.stints]
    return (
        all(len(of_table) == 1 for of_table in lengths)
        and _are_within(calls["kind"], len(kinds))
        and all(_are_within(table["name"].code, len(table["name"].texts)) for table in (notifies, seen))
        and all(_are_spans(start, end) for start, end in spans)
        and abs(profile.begun or 0) < _FARTHEST_NS
        and abs(profile.recorded or 0) < _FARTHEST_NS
        and _are_plain(astuple(replace(profile, problems=(), findings=())))
        and all(
            _are_plain((finding.gain, finding.freed, finding.count, finding.line, finding.by_step))
            for finding in profile.findings
        )
    )


def _fields(table: Any) -> Iterator[Any]:
    return iter(dataclasses.fields(table) if dataclasses.is_dataclass(table) else msgspec.structs.fields(table))


def _are_within(codes: I64 | I32, count: int) -> bool:
    return not len(codes) or bool(codes.min() >= 0 and codes.max() < count)


def _are_spans(start: I64, end: I64) -> bool:
    if not len(start):
        return True
    return bool(start.min() > -_FARTHEST_NS and end.max() < _FARTHEST_NS and (start <= end).all())


def _are_plain(value: object) -> bool:
    """Whether the numbers in ``value`` that are in no column are finite and leave room for sums in 64 bits."""
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, int):
        return abs(value) < 2 * _FARTHEST_NS
    if isinstance(value, msgspec.Struct):
        return _are_plain(astuple(value))
    if isinstance(value, Mapping):
        return _are_plain(tuple(value.values()))
    return not isinstance(value, tuple) or all(map(_are_plain, value))
