"""Pickles of plain containers, read without running any code: an interpreter of the opcodes that a snapshot needs.

``pickle.Unpickler`` that finds no class runs nothing either, but 2 MB of tuples in tuples end its process, 8 bytes take
4.4 GB, and a million events 6.1 times their file, where the columns made here take 2.7 times (in 0.9 s of processor
time; 0.4 s for its dicts alone). Here no opcode names anything: dicts, lists, tuples, texts and numbers are all there
is. ``pickletools`` gives the opcodes and their arguments; each is charged for the objects it makes, and a file may make
some times its own size.

A million entries of the same shape are no million dicts: ``Unpickler`` reads a run of them at once, into columns.

Such a run is, for example, a million dicts with the same keys.

The bytes of an entry are the same but for its numbers and references: EMPTY_DICT, MARK, then for every key a reference
to the key and a value, then SETITEMS. Values are numbers, pairs of numbers, references to what was there before, lists
of such references, None, True and False. All entries of a stretch are decoded side by side, field by field; they are
taken as far as each begins where the one before it ends, so that a byte of a number is never mistaken for an opcode.
"""

from __future__ import annotations

import io
import pickletools
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from npu_tui.trace.arrays import I64, U8, U64, Bools

_FLOOR = 4 << 20
_TIMES = 2
"""The objects of a pickle may take ``_FLOOR`` bytes and this many times its size, which is read as a whole."""
_LONGEST = 1 << 16  # bytes of one text: a file name or the name of a function
_DEEPEST = 32  # open containers; a snapshot has seven
_MOST = 1 << 64  # numbers are below it, and negative ones not below minus it
_ROOM = {
    "PROTO": 0, "FRAME": 0, "STOP": 0, "MARK": 16, "BINGET": 8, "LONG_BINGET": 8, "MEMOIZE": 8, "BINPUT": 8,
    "LONG_BINPUT": 8, "BININT1": 8, "BININT2": 40, "BININT": 40, "LONG1": 48, "BINFLOAT": 32, "NONE": 8, "NEWTRUE": 8,
    "NEWFALSE": 8, "SHORT_BINUNICODE": 64, "BINUNICODE": 64, "EMPTY_DICT": 240, "EMPTY_LIST": 72, "EMPTY_TUPLE": 64,
    "TUPLE1": 64, "TUPLE2": 64, "TUPLE3": 64, "TUPLE": 64, "APPEND": 8, "APPENDS": 8, "SETITEM": 8, "SETITEMS": 8,
}  # fmt: skip
"""The opcodes that are admitted, and the bytes that each takes; texts take more."""
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NOTHING = "PROTO", "FRAME", "STOP"


class PickleError(Exception):
    """Not a pickle of plain containers: ``code`` (of the texts) says why, at byte ``at``."""

    def __init__(self, code: str, at: int, what: str = "") -> None:
        super().__init__(code)
        self.code, self.at, self.what = code, at, what


_MARK = object()  # where the contents of a container begin on the stack


class Unpickler:
    """Reads the pickle in ``stream``, which has no frames; ``progress`` hears how many bytes are read."""

    def __init__(self, stream: io.BytesIO, progress: Callable[[int], None] = lambda done: None) -> None:
        self._stream = stream
        self._progress = progress
        self._size = len(stream.getbuffer())
        self._memo: list[Any] = []
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._texts: dict[str, int] = {}
        """What the texts are remembered as."""
        self._runs = Runs(stream.getbuffer())

    def load(self) -> Any:
        """The object, with ``Run`` among the entries of lists. Raises ``PickleError``."""
        room = _FLOOR + _TIMES * self._size
        self._stream.seek(0)
        try:
            for name, argument, at in self._opcodes():
                if name not in _ROOM:
                    raise PickleError("input.pickle_code", at, name)
                room -= _ROOM[name] + self._apply(name, argument, at)
                if room < 0:
                    raise PickleError("input.pickle_bomb", at)
        except (IndexError, ValueError, OverflowError):  # the stack or the file ends
            raise PickleError("input.pickle_cut", self._stream.tell()) from None
        if self._marks or len(self._stack) != 1:
            raise PickleError("input.pickle_cut", self._stream.tell())
        return self._stack[0]

    def _opcodes(self) -> Iterator[tuple[str, Any, int]]:
        """Name, argument and byte of the opcodes; from a damaged text what can be read."""
        while True:
            try:
                for opcode, argument, at in pickletools.genops(self._stream):
                    yield opcode.name, argument, at or 0
                return
            except UnicodeDecodeError as error:
                if error.encoding != "utf-8":
                    raise
                yield "BINUNICODE", error.object.decode("utf-8", "replace"), self._stream.tell()

    def _apply(self, name: str, argument: Any, at: int) -> int:
        """Do what the opcode ``name`` at byte ``at`` says; returns the bytes it takes beside those of its kind."""
        stack, memo = self._stack, self._memo
        if name.endswith("GET"):
            stack.append(memo[argument])
        elif name == "MEMOIZE" or name.endswith("PUT"):
            number = len(memo) if argument is None else argument
            if number > len(memo):
                raise PickleError("input.pickle_memo", at)
            if type(stack[-1]) is str:
                self._texts[stack[-1]] = number
            memo[number : number + 1] = [stack[-1]]
        elif name.endswith("BINUNICODE"):
            if len(argument) > _LONGEST:
                raise PickleError("input.pickle_text", at)
            stack.append(argument.encode("utf-8", "replace").decode())  # halves of letters are none
            return 4 * len(argument)
        elif name == "MARK":
            if len(self._marks) >= _DEEPEST:
                raise PickleError("input.pickle_deep", at)
            self._marks.append(len(stack))
            stack.append(_MARK)
        elif name == "EMPTY_DICT":
            run = self._runs.take(at, memo)
            if run is None:
                stack.append({})
            else:
                stack.append(run)
                self._stream.seek(run.end)
                self._progress(run.end)
                return run.room
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name.startswith("SETITEM"):
            items = self._taken(name, 2)
            if len(items) % 2 or any(type(key) is not str for key in items[::2]):
                raise PickleError("input.pickle_key", at)
            into = self._container(dict, at)
            into.update(zip(items[::2], items[1::2], strict=True))
            if name == "SETITEMS":
                self._runs.learn(into, self._texts)
        elif name.startswith("APPEND"):
            items = self._taken(name, 1)
            self._container(list, at).extend(items)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLES or name == "TUPLE":
            stack.append(tuple(self._taken(name, _TUPLES.get(name, 0))))
        elif name not in _NOTHING:
            if name == "LONG1" and not -_MOST <= argument < _MOST:
                raise PickleError("input.pickle_number", at)
            stack.append(argument)
        return 0

    def _taken(self, name: str, count: int) -> list[Any]:
        """Take ``count`` objects from the stack, for ``SETITEMS``, ``APPENDS`` and ``TUPLE`` those after the mark."""
        first = self._marks.pop() if name in ("SETITEMS", "APPENDS", "TUPLE") else len(self._stack) - count
        if first < 0:
            raise IndexError
        items = self._stack[first:]
        del self._stack[first:]
        return items[1:] if items and items[0] is _MARK else items

    def _container(self, kind: type, at: int) -> Any:
        """The container on top of the stack, which an opcode fills. Raises ``PickleError`` if it is another."""
        if type(self._stack[-1]) is not kind or self._stack[-1] is UNKNOWN:
            raise PickleError("input.pickle_code", at, kind.__name__)
        return self._stack[-1]

    @property
    def objects(self) -> Objects:
        """What entries of runs refer to, the same object once."""
        return self._runs.objects


def unframed(stream: io.FileIO | io.BytesIO, size: int) -> io.BytesIO:
    """The ``size`` bytes of ``stream`` without the opcodes that cut them into frames of 64 KiB."""
    data = io.BytesIO()
    data.write(stream.read(2))
    while (head := stream.read(9))[:1] == b"\x95":
        data.write(stream.read(min(int.from_bytes(head[1:], "little"), size)))
    data.write(head)
    shutil.copyfileobj(stream, data)
    return data


UNKNOWN: list[Any] = []
"""Stands for an entry of a run where something refers to it."""

_SIGNED, _UNSIGNED, _REFERENCE, _NONE, _FALSE, _TRUE, _LIST = range(1, 8)
_KIND, _HEAD, _BODY, _PUT = (np.zeros(256, np.uint8), *(np.zeros(256, np.int64) for _ in range(3)))
"""For every opcode: its kind of value, bytes before its number, bytes of it (0: the byte before says it)."""
for _code, _kind, _head, _body in (
    (b"K", _UNSIGNED, 1, 1), (b"M", _UNSIGNED, 1, 2), (b"J", _SIGNED, 1, 4), (b"\x8a", _SIGNED, 2, 0),
    (b"h", _REFERENCE, 1, 1), (b"j", _REFERENCE, 1, 4), (b"N", _NONE, 1, 0), (b"\x89", _FALSE, 1, 0),
    (b"\x88", _TRUE, 1, 0), (b"]", _LIST, 1, 0),
):  # fmt: skip
    _KIND[ord(_code)], _HEAD[ord(_code)], _BODY[ord(_code)] = _kind, _head, _body
_PUT[[0x94, 0x71, 0x72]] = 1, 2, 5
_DICT, _OPEN, _ITEMS, _APPENDS, _PAIR, _LONG, _SHORT = b"}(ue\x86\x8ah"

_LEAST, _LONGEST_RUN = 1 << 10, 1 << 18
"""Bytes that are tried at once: more after a stretch of nothing but entries, fewer after one that breaks off."""
_BEYOND = 1 << 10  # bytes after a stretch, so that no field reaches beyond the file
_KEYS, _FRAMES = 16, 400
"""The most keys of an entry, the most references of a list."""
_PATIENCE = 64  # entries after which a shape that failed is tried again at the latest
_PRIME = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: products of neighbours lie far apart


class EntryRun(Struct):
    """Entries of a list up to byte ``end``: a dict each with the texts ``keys``, in columns; None for what one lacks.

    ``value`` (keys, entries) is a number, or where ``is_object`` the index of an object in ``Runs.objects``. ``room``
    is what they take, bytes.
    """

    keys: tuple[str, ...]
    value: I64
    is_object: Bools
    end: int
    room: int

    def __len__(self) -> int:
        return int(self.value.shape[1])


class _EntryShape(Struct):
    """What entries look like: the texts of their keys and the opcodes that refer to these.

    ``window`` bytes are tried at once; after ``misses`` in a row the next ``wait`` entries are not tried.
    """

    names: tuple[str, ...]
    keys: list[bytes]
    window: int = _LEAST
    misses: int = 0
    wait: int = 0


class Objects(list[Any]):
    """What entries refer to, each object once."""

    def __init__(self) -> None:
        super().__init__()
        self._index: dict[int, int] = {}

    def number(self, value: Any) -> int:
        """The index of ``value``, which is added where it is new."""
        known = self._index.setdefault(id(value), len(self))
        if known == len(self):
            self.append(value)
        return known


class Runs:
    """Takes runs of entries from the pickle ``data``, once it knows what they look like."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._bytes = np.frombuffer(data, np.uint8)
        # The eight bytes from every byte on, as one number.
        self._words: U64 = np.ndarray((max(len(data) - 7, 0),), "<u8", data, 0, (1,))
        self._shapes: dict[bytes, _EntryShape] = {}
        self._composed: dict[tuple[int, ...], int] = {}
        self.objects = Objects()

    def learn(self, entry: dict[str, Any], known: dict[str, int]) -> None:
        """Take ``entry`` as what those to come look like; ``known`` are the texts that can be referred to.

        Frames of stacks stay dicts: each is referred to again.
        """
        if 2 <= len(entry) <= _KEYS and "filename" not in entry and all(name in known for name in entry):
            keys = [_reference(known[name]) for name in entry]
            shape = self._shapes.get(keys[0])
            if shape is None or not _is_within(keys, shape.keys):
                self._shapes[keys[0]] = _EntryShape(tuple(entry), keys)

    def take(self, start: int, memo: list[Any]) -> EntryRun | None:
        """The entries from byte ``start`` on, where one of a known look begins there; None if there are fewer than two.

        ``memo`` is what can be referred to; it grows by what the entries add.
        """
        data = self._data
        at = start + 1 + int(_PUT[data[start + 1]])
        shape = self._shapes.get(bytes(data[at + 1 : at + (3 if data[at + 1] == _SHORT else 6)]))
        if shape is None or data[at] != _OPEN:
            return None
        if shape.wait:
            shape.wait -= 1
            return None
        last = min(start + shape.window, len(data) - _BEYOND)
        run = None
        if last > start:
            first_bytes = np.flatnonzero(self._bytes[start:last] == _DICT) + start
            run = _DecodedEntries(self, shape, first_bytes, len(memo)).run(start, memo)
        if run is None:
            shape.misses += 1
            shape.wait = min(2**shape.misses, _PATIENCE) - 2
        else:
            shape.misses = 0
        whole = run is not None and run.end >= last
        shape.window = min(4 * shape.window, _LONGEST_RUN) if whole else max(shape.window // 4, _LEAST)
        return run

    def composed(self, key: tuple[int, ...], make: Callable[[], Any]) -> int:
        """The index of the object that ``key`` stands for, which ``make`` makes the first time."""
        known = self._composed.get(key)
        if known is None:
            known = self._composed[key] = self.objects.number(make())
        return known


def _is_within(keys: list[bytes], others: list[bytes]) -> bool:
    """Whether ``keys`` are ``others``, in their order, or some of them: entries without a stack lack its key."""
    rest = iter(others)
    return all(key in rest for key in keys)


def _reference(number: int) -> bytes:
    """The opcode that refers to what is remembered as ``number``."""
    return b"h" + bytes((number,)) if number < 256 else b"j" + number.to_bytes(4, "little")


class _DecodedEntries:
    """The entries of ``shape`` among those that may begin at bytes ``first``, decoded side by side.

    ``at`` is how far each is read, ``puts`` how many objects it has added to the ``base`` that can be referred to.
    """

    def __init__(self, runs: Runs, shape: _EntryShape, first: I64, base: int) -> None:
        self._runs, self._shape, self._base = runs, shape, base
        self._bytes, self._words = runs._bytes, runs._words
        self.first = first
        self.at = first + 1
        self.ok = np.ones(len(first), np.bool_)
        self.puts = np.zeros(len(first), np.int64)
        self.named: list[tuple[I64, I64]] = []
        self._put()
        self._skip(_OPEN)
        for byte in shape.keys[0]:
            self._skip(byte)
        # '}' is a byte of many numbers: what has not the first key is no entry.
        for name in ("first", "at", "puts"):
            setattr(self, name, getattr(self, name)[self.ok])
        self.ok = np.ones(len(self.first), np.bool_)
        self.value = np.zeros((len(shape.keys), len(self.first)), np.int64)
        self.kind = np.zeros(self.value.shape, np.uint8)
        self.extra = np.zeros(self.value.shape, np.int64)
        """A second number: for a pair the other one, for a list where it begins."""
        self.place = np.full(self.value.shape, -1, np.int64)
        """Which of its entry's additions a value is, -1 for none."""

    def _skip(self, byte: int) -> None:
        self.ok &= self._bytes[self.at] == byte
        self.at += 1

    def _put(self, where: Bools | None = None) -> Bools:
        """Pass the opcode that remembers an object, ``where`` there may be one; returns where there was."""
        length = _PUT[self._bytes[self.at]]
        if where is not None:
            length *= where
        there = length > 0
        self.puts += there
        self.at += length
        return there

    def _number(self) -> tuple[U8, I64, Bools]:
        """Pass a value: its kind and number, and whether its opcode is a number's."""
        code = self._bytes[self.at]
        kind, head, body = _KIND[code], _HEAD[code], _BODY[code]
        body = np.where(code == _LONG, self._bytes[self.at + 1], body)
        self.ok &= (kind > 0) & (body <= 8) & ~((code == _LONG) & (body == 0))
        body = np.minimum(body, 8)
        shift = (64 - 8 * np.maximum(body, 1)).astype(np.uint64)
        word = self._words[self.at + head] << shift
        plain = (word >> shift).view(np.int64)
        value = np.where(kind == _SIGNED, word.view(np.int64) >> shift.view(np.int64), plain)
        self.at += head + body
        value[body == 0] = 0
        return kind, value, (kind == _SIGNED) | (kind == _UNSIGNED)

    def _optional(self, column: int, key: bytes) -> None:
        """Decode the value of ``key``, number ``column``; an entry that lacks it has None."""
        at, ok, puts = self.at, self.ok.copy(), self.puts.copy()
        lacks = ~np.logical_and.reduce(
            [self._bytes[at + place] == byte for place, byte in enumerate(key)] or [ok | True]
        )
        self.at = at + len(key)
        self._field(column)
        if lacks.any():
            for name, before in (("at", at), ("ok", ok), ("puts", puts)):
                setattr(self, name, np.where(lacks, before, getattr(self, name)))
            self.kind[column, lacks], self.place[column, lacks] = _NONE, -1

    def _field(self, column: int) -> None:
        """Decode the value of key number ``column``."""
        before = self.puts.copy()
        kind, value, numeric = self._number()
        following = _KIND[self._bytes[self.at]]
        pair = numeric & ((following == _SIGNED) | (following == _UNSIGNED))
        if pair.any():
            # A pair of numbers, such as the id of a pool: the second one, then TUPLE2.
            at, ok = self.at, self.ok.copy()
            _, second, _ = self._number()
            tuple2 = self._bytes[self.at] == _PAIR
            self.at, self.ok = np.where(pair, self.at + 1, at), np.where(pair, self.ok & tuple2, ok)
            self.extra[column] = np.where(pair, second, 0)
            kind = np.where(pair, _PAIR, kind).astype(np.uint8)
            self._put(pair)
        listed = kind == _LIST
        if listed.any():
            self._put(listed)
            self._list(column, np.flatnonzero(listed & (self._bytes[self.at] == _OPEN)), value)
            self._put(listed & (self.puts == before))  # some writers remember a list when it is complete
        self.value[column], self.kind[column] = value, kind
        self.place[column] = np.where(self.puts > before, before, -1)

    def _list(self, column: int, rows: I64, value: I64) -> None:
        """Pass the lists of references of ``rows``: ``value`` becomes a digest of them, ``extra`` where they begin."""
        at = self.at[rows] + 1
        self.extra[column, rows] = at
        digest = np.ones(len(rows), np.uint64)
        going = np.arange(len(rows))
        for _ in range(_FRAMES):
            if not len(going):
                break
            here = at[going]
            code = self._bytes[here]
            length = np.where(code == ord("h"), 2, np.where(code == ord("j"), 5, 0))
            ended = code == _APPENDS
            self.ok[rows[going[(length == 0) & ~ended]]] = False
            shift = (64 - 8 * np.maximum(length - 1, 1)).astype(np.uint64)
            number = (self._words[here + 1] << shift) >> shift
            digest[going] = np.where(length > 0, (digest[going] ^ number) * _PRIME + np.uint64(1), digest[going])
            at[going] = here + np.maximum(length, ended)
            going = going[length > 0]
            if len(going) and int(at[going].max()) + 16 >= len(self._bytes):
                break
        self.ok[rows[going]] = False
        self.at[rows] = np.where(self.ok[rows], at, self.at[rows])
        value[rows] = digest.view(np.int64)

    def run(self, start: int, memo: list[Any]) -> EntryRun | None:
        """Those that follow each other from byte ``start`` on."""
        with np.errstate(over="ignore"):
            for column, key in enumerate(self._shape.keys):
                self._optional(column, key if column else b"")
        self._skip(_ITEMS)
        self._put()
        data = self._bytes
        # Writers append a thousand entries at a time: between two of them one batch ends and the next begins.
        between = (data[self.at] == _APPENDS) & (data[self.at + 1] == _OPEN) & (data[self.at + 2] == _DICT)
        begins = np.concatenate(([start], (self.at + 2 * between)[:-1]))
        chained = self.ok & (begins[: len(self.ok)] == self.first)
        count = len(chained) if chained.all() else int(np.argmin(chained))
        if count < 2:
            return None
        known = len(memo)
        value, is_object = self._resolved(count, memo)
        return EntryRun(
            self._shape.names, value, is_object, int(self.at[count - 1]), 9 * value.size + 8 * (len(memo) - known)
        )

    def _resolved(self, count: int, memo: list[Any]) -> tuple[I64, Bools]:
        """The values of the first ``count`` entries with references as objects; ``memo`` grows by theirs."""
        runs, value, kind = self._runs, self.value[:, :count].copy(), self.kind[:, :count]
        ends = np.cumsum(self.puts[:count])
        before = self._base + ends - self.puts[:count]
        added = np.full(int(ends[-1]), runs.objects.number(UNKNOWN), np.int64)
        for column in range(len(value)):
            for code, plain in ((_NONE, None), (_FALSE, False), (_TRUE, True)):
                here = kind[column] == code
                if here.any():
                    value[column, here] = runs.objects.number(plain)
            for code in (_PAIR, _LIST):
                here = np.flatnonzero(kind[column] == code)
                if not len(here):
                    continue
                parts = (value[column, here], self.extra[column, here] if code == _PAIR else here * 0)
                _, example, where = np.unique(np.stack(parts), axis=1, return_index=True, return_inverse=True)
                objects = [self._composed(code, column, row, memo) for row in here[example].tolist()]
                value[column, here] = np.array(objects, np.int64)[where.ravel()]
                placed = here[self.place[column, here] >= 0]
                added[before[placed] + self.place[column, placed] - self._base] = value[column, placed]
        for column in range(len(value)):
            here = np.flatnonzero(kind[column] == _REFERENCE)
            inside = value[column, here] >= self._base
            within, outside = here[inside], here[~inside]
            value[column, within] = added[value[column, within] - self._base]
            if len(outside):
                numbers, where = np.unique(value[column, outside], return_inverse=True)
                objects = [runs.objects.number(memo[number]) for number in numbers.tolist()]
                value[column, outside] = np.array(objects, np.int64)[where]
        memo.extend(map(runs.objects.__getitem__, added.tolist()))
        return value, (kind != _SIGNED) & (kind != _UNSIGNED)

    def _composed(self, code: int, column: int, row: int, memo: list[Any]) -> int:
        """The index of the pair or list that is the value of ``column`` in entry ``row``."""
        first, second = int(self.value[column, row]), int(self.extra[column, row])
        if code == _PAIR:
            return self._runs.composed((code, first, second), lambda: (first, second))
        return self._runs.composed((code, first), lambda: self._listed(second, memo))

    def _listed(self, at: int, memo: list[Any]) -> list[Any]:
        """The list of references that begins at byte ``at``, 0 for an empty one."""
        data = self._runs._data
        items: list[Any] = []
        while at and data[at] != _APPENDS:
            length = 1 if data[at] == ord("h") else 4
            items.append(memo[int.from_bytes(data[at + 1 : at + 1 + length], "little")])
            at += 1 + length
        return items
