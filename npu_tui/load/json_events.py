"""Events of a text trace, decoded from JSON, and what metadata events say of processes and threads.

The fields are those of the Trace Event Format; in ``args`` torch_npu and msprof add what ``SliceArgs`` lists. Events as
these two write them are decoded strictly and fast, all others one by one: Python's writer puts ``NaN`` and ``Infinity``
bare, keeps lone surrogates and writes in the encoding of the host, which torch_npu leaves to the locale (GBK); other
writers leave control characters in texts as they are, or give numbers as texts.
"""

from __future__ import annotations

import json
import re
from binascii import crc32
from collections import Counter
from decimal import Decimal
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Struct

from npu_tui.load.times import TimeUnit
from npu_tui.trace.text import BOUND, whole_number

_LONGEST = 300  # a whole number of more digits stays a text: none means anything, and Python refuses some of them

_HOLE = 16  # zero bytes in a row that no writer puts into a text: what a disk has lost
_DEEPEST = 100  # decoders recurse: deeper args of a hostile file would end them
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]+|[\]}]+', re.DOTALL)
"""A text, whose end may be missing, or brackets of one way."""

_strict = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


def loose_value(data: bytes) -> Any:
    """The value that ``data`` holds. Raises ``ValueError`` if it cannot be read as JSON at all."""
    try:
        return _strict(data)
    except (ValueError, RecursionError):
        return _parsed(data, None)


def strict_json(data: bytes) -> bytes:
    """``data`` as strict JSON in UTF-8, numbers with all their digits and ``NaN`` and ``Infinity`` as texts.

    Raises ``ValueError`` if it cannot be read as JSON at all.
    """
    return _encode(_parsed(data, Decimal))


def _parsed(data: bytes, parse_float: type[Decimal] | None) -> Any:
    if bytes(_HOLE) in data:
        raise ValueError("a hole in the file")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("gb18030", "replace")
    try:
        return _shallow_loads(text, parse_float)
    except ValueError:
        mended = _mended(text)
        if mended == text:
            raise
        return _shallow_loads(mended, parse_float)


def _shallow_loads(text: str, parse_float: type[Decimal] | None) -> Any:
    try:
        return _parsed_json(text, parse_float)
    except RecursionError:
        try:
            return _parsed_json(_shallow(text), parse_float)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


_FIELDS = '"(?:ph|cat|pid|tid|ts|dur|id|args|bp|s|tts|cname)"\\s*:'
_NAME = re.compile(rf'("name"\s*:\s*")(.{{0,4096}}?)("\s*(?:,\s*{_FIELDS}|\}}\s*\Z))', re.DOTALL)
"""The name of an event up to the next field or the end of the event, whatever quotes are in it."""
_FIELD_INSIDE = re.compile(_FIELDS)
_BARE = re.compile(r'(\\(?:["\\]|u[0-9a-fA-F]{4}))|["\\]')
_PAIR = re.compile(r"\\.", re.DOTALL)
_QUOTE = re.compile(r'\\.|([\[{,:]\s*)?"(?=(\s*[,:}\]]|\s*\Z)?)', re.DOTALL)
"""A quote, with what stands before one that begins a text, and after one that ends it."""
_NO_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')


def _mended(text: str) -> str:
    r"""``text``, one event, with quotes and backslashes escaped that its writer has put bare into texts.

    Kineto writes names such as ``{"device": "npu"}(12): run`` and ``torch\cuda\_init(3): f``
    (https://github.com/pytorch/kineto/pull/1459, https://github.com/pytorch/pytorch/issues/98432).
    """
    text = _NO_ESCAPE.sub(lambda match: match[0] if match[1] else "\\\\", _NAME.sub(_escaped, text))
    return _QUOTE.sub(lambda match: '\\"' if match[0] == '"' and match[2] is None else match[0], text)


def _escaped(match: re.Match[str]) -> str:
    before, name, after = match.groups()
    is_broken = '"' in _PAIR.sub("", name) or any(escape[1] is None for escape in _NO_ESCAPE.finditer(name))
    if not is_broken or _FIELD_INSIDE.search(name):
        return match[0]
    return f"{before}{_BARE.sub(lambda bare: bare[1] or chr(92) + bare[0], name)}{after}"


def _parsed_json(text: str, parse_float: type[Decimal] | None) -> Any:
    return _paired(
        json.loads(
            text,
            strict=False,
            parse_float=parse_float,
            parse_int=lambda digits: int(digits) if len(digits) <= _LONGEST else digits,
            parse_constant=str,
            object_pairs_hook=lambda pairs: {_paired(key): _paired(value) for key, value in pairs},
        )
    )


def _shallow(text: str) -> str:
    """``text`` with an ellipsis in place of what lies deeper than ``_DEEPEST`` lists and objects."""
    pieces, depth, begin = [], 0, 0
    for match in _BRACKETS.finditer(text):
        if match[0][0] in "[{":
            if depth <= _DEEPEST < depth + len(match[0]):
                pieces.append(text[begin : match.start() + _DEEPEST - depth])
            depth += len(match[0])
        elif match[0][0] in "]}":
            if depth - len(match[0]) <= _DEEPEST < depth:
                pieces.append('"…"')
                begin = match.start() + depth - _DEEPEST
            depth -= len(match[0])
    return "".join([*pieces, text[begin:]]) if depth <= _DEEPEST else text


def _paired(value: Any) -> Any:
    """``value`` without lone surrogates in texts and lists; objects inside are free of them already."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return [_paired(item) for item in value] if isinstance(value, list) else value


NO_PROCESS = -1
"""Stands for the process of an event that names none."""

NO_THREAD = -1
"""Stands for a thread that is named by what can name none."""

NO_DURATION = -5e-324
"""Stands for the duration of an event that has none: less than nothing, and no nanosecond."""

_Int64: TypeAlias = Annotated[int, msgspec.Meta(gt=-BOUND, lt=BOUND)]


class Event(msgspec.Struct, gc=False):
    """One element of the trace; ``ts`` in us as text, ``dur`` in us, ``args`` still JSON."""

    ph: str = ""
    name: str = ""
    pid: _Int64 = NO_PROCESS
    tid: _Int64 = 0
    ts: str = ""
    dur: float = NO_DURATION
    cat: str = ""
    id: int | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")
    bp: str = ""
    bind_id: int | str | None = None
    flow_in: bool = False
    flow_out: bool = False


class _Loose(msgspec.Struct, gc=False):
    ph: msgspec.Raw = msgspec.Raw(b"")
    name: msgspec.Raw = msgspec.Raw(b"")
    pid: msgspec.Raw = msgspec.Raw(b"-1")
    tid: msgspec.Raw = msgspec.Raw(b"0")
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    cat: msgspec.Raw = msgspec.Raw(b"")
    id: msgspec.Raw = msgspec.Raw(b"")
    args: msgspec.Raw = msgspec.Raw(b"")
    bp: msgspec.Raw = msgspec.Raw(b"")
    bind_id: msgspec.Raw = msgspec.Raw(b"")
    flow_in: msgspec.Raw = msgspec.Raw(b"")
    flow_out: msgspec.Raw = msgspec.Raw(b"")


class SliceArgs(msgspec.Struct, gc=False):
    """The args of a slice that become columns; the others stay in the file."""

    task_type: str = msgspec.field(name="Task Type", default="")
    stream: _Int64 = msgspec.field(name="Stream Id", default=-1)
    physic_stream: _Int64 = msgspec.field(name="Physic Stream Id", default=-1)
    connection: _Int64 = msgspec.field(name="connection_id", default=-1)
    correlation: _Int64 = msgspec.field(name="correlation_id", default=-1)
    stack: str = msgspec.field(name="Call stack", default="")


_strict_events = msgspec.json.Decoder(list[Event]).decode
_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode
_loose = msgspec.json.Decoder(_Loose).decode
_slice_args = msgspec.json.Decoder(list[SliceArgs]).decode
_one_slice_args = msgspec.json.Decoder(SliceArgs).decode
_any = msgspec.json.decode
_named: dict[int, str] = {}


def decode_events(data: bytes, unit: TimeUnit | None = None) -> list[Event]:
    """The events of a JSON array, with times of ``unit`` in us; an element that is no event has an empty ``ph``.

    Raises ``ValueError`` (``msgspec.DecodeError``) if ``data`` is not well-formed.
    """
    try:
        try:
            events = _strict_events(data)
        except msgspec.ValidationError:
            events = [_tolerated(raw) for raw in _raws(data)]
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if unit is not None:
        for event in events:
            event.ts, event.dur = unit.of(event.ts, event.dur)
    return events


def _tolerated(raw: msgspec.Raw) -> Event:
    try:
        loose = _loose(raw)
    except msgspec.ValidationError:
        return Event()
    return Event(
        ph=_text_of_value(_value_of_raw(loose.ph)),
        name=_text_of_value(_value_of_raw(loose.name)),
        pid=place_number(_value_of_raw(loose.pid)),
        tid=place_number(_value_of_raw(loose.tid)),
        ts=_literal(loose.ts),
        dur=_microseconds(_literal(loose.dur)),
        cat=_text_of_value(_value_of_raw(loose.cat)),
        id=None if bytes(loose.id) in (b"", b"null") else _literal(loose.id),
        args=loose.args,
        bp=_text_of_value(_value_of_raw(loose.bp)),
        bind_id=None if bytes(loose.bind_id) in (b"", b"null") else _literal(loose.bind_id),
        flow_in=bytes(loose.flow_in) == b"true",
        flow_out=bytes(loose.flow_out) == b"true",
    )


def _value_of_raw(raw: msgspec.Raw) -> object:
    """The value of ``raw``; a number that no machine type holds stays text, None is an absent value.

    Raises ``ValueError`` for a text that is not well-formed, as of another encoding.
    """
    data = bytes(raw)
    try:
        return _any(data) if data else None
    except ValueError:
        if data[:1] in b'"[{':
            raise
        return data.decode("ascii", "replace")


def _text_of_value(value: object) -> str:
    try:
        return value if isinstance(value, str) else "" if value is None else str(value)
    except RecursionError:  # lists in lists
        return ""


def _whole_or_minus_one(value: object) -> int:
    number = whole_number(value)
    return -1 if number is None else number


def place_number(value: object) -> int:
    """The number of a process or thread; one that is given as a name gets a negative number of its own."""
    number = _whole_or_minus_one(value)
    if number != -1 or not isinstance(value, str) or value == "-1":
        return number
    number = -2 - crc32(value.encode())
    _named[number] = value
    return number


def name_after_number(number: int) -> str:
    """The name that stands after the number of a process or thread, empty if it was given as a number."""
    return _named.get(number, "")


def _literal(raw: msgspec.Raw) -> str:
    """A number as it is written, or the text itself."""
    data = bytes(raw)
    if data[:1] == b'"':
        return str(_any(data))
    return data.decode("ascii", "replace")


def _microseconds(text: str) -> float:
    """The duration in ``text``, us; ``NO_DURATION`` where there is none, not-a-number where it is no number."""
    if not text or text == "null":
        return NO_DURATION
    try:
        return float(text)
    except ValueError:
        return float("nan")


def decode_slice_args(raws: list[msgspec.Raw], skipped: Counter[str]) -> list[SliceArgs]:
    """The column args of every slice, in order.

    Values of another type than the profiler's count as absent, the slices that have such are counted in ``skipped``.
    """
    joined = b"[%b]" % b",".join([raw or b"{}" for raw in raws])
    try:
        return _slice_args(joined)
    except ValueError:
        return [_tolerated_args(raw, skipped) for raw in raws]


def _tolerated_args(raw: msgspec.Raw, skipped: Counter[str]) -> SliceArgs:
    try:
        return _one_slice_args(raw or b"{}")
    except ValueError:
        args = SliceArgs()
        values = loose_value(bytes(raw))
        if not isinstance(values, dict):
            skipped["odd.args"] += values is not None
            return args
        strange = False
        for attribute, key in _COLUMNS.items():
            value = values.get(key)
            if value is not None:
                is_text = attribute in ("task_type", "stack")
                strange |= isinstance(value, (dict, list)) or (not is_text and whole_number(value) is None)
                setattr(args, attribute, _text_of_value(value) if is_text else _whole_or_minus_one(value))
        skipped["odd.args"] += strange
        return args


_COLUMNS = {field.name: field.encode_name for field in msgspec.structs.fields(SliceArgs)}


def decode_args(raw: bytes) -> dict[str, Any]:
    """All args of one event; empty if there are none."""
    values = loose_value(raw) if raw else {}
    return values if isinstance(values, dict) else {}


CROPPED = "npu_tui_crop"
"""The metadata by which a crop says what it holds."""
_STREAM = re.compile(r"(.*\bstream )(\d{1,18})")


class Metadata(Struct):
    """Names, labels and orders of processes, names and orders of threads.

    Packed pids of sort indexes above 31 run into those of other processes: the first name counts, a further one is kept
    in ``other_names``. Where threads of a process are named as streams, such as ``NPU stream 7``, ``stream_name`` has
    what stands before the number: MSPTI leaves the names of those of collectives out.
    """

    process_name: dict[int, str] = {}
    process_label: dict[int, str] = {}
    process_order: dict[int, int] = {}
    thread_name: dict[tuple[int, int], str] = {}
    thread_order: dict[tuple[int, int], int] = {}
    other_names: dict[int, str] = {}
    stream_name: dict[int, str] = {}
    cropped: tuple[int, int] | None = None

    def add(self, event: Event) -> None:
        """Take in one ``M`` event; unknown ones and those without a value are ignored."""
        try:
            args = decode_args(bytes(event.args))
        except ValueError:
            return
        thread = (event.pid, event.tid)
        if event.name == "process_name":
            name = str(args.get("name", ""))
            if name and name != self.process_name.setdefault(event.pid, name):
                self.other_names[event.pid] = name
        elif event.name == "process_labels":
            self.process_label[event.pid] = str(args.get("labels", ""))
        elif event.name == "process_sort_index" and isinstance(args.get("sort_index"), int):
            self.process_order[event.pid] = args["sort_index"]
        elif event.name == "thread_name":
            self.thread_name[thread] = name = str(args.get("name", ""))
            if (stream := _STREAM.fullmatch(name)) and whole_number(stream[2]) == event.tid:
                self.stream_name.setdefault(event.pid, stream[1])
        elif event.name == CROPPED:
            start, end = args.get("start_ns"), args.get("end_ns")
            if isinstance(start, int) and isinstance(end, int):  # of a crop of a crop the last one is the smaller
                self.cropped = start, end
        elif event.name == "thread_sort_index" and isinstance(args.get("sort_index"), int):
            self.thread_order[thread] = args["sort_index"]
