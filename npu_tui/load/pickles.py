"""Pickles of plain containers, read without running any code: an interpreter of the opcodes that a snapshot needs.

``pickle.Unpickler`` that finds no class runs nothing either, but 2 MB of tuples in tuples end its process, 8 bytes take
4.4 GB, and a million events 6.1 times their file, where the columns made here take 2.7 times (in 0.9 s of processor
time; 0.4 s for its dicts alone). Here no opcode names anything: dicts, lists, tuples, texts and numbers are all there
is. ``pickletools`` tells the opcodes and their arguments; each is charged for the objects it makes, and a file may make
some times its own size.

A million entries of the same shape are no million dicts: ``Unpickler`` reads a run of them at once, into columns.
"""

from __future__ import annotations

import io
import pickletools
import shutil
from collections.abc import Callable, Iterator
from typing import Any

from npu_tui.load.pickle_runs import UNKNOWN, Objects, Runs

_FLOOR = 4 << 20
_TIMES = 2
"""The objects of a pickle may take ``_FLOOR`` bytes and this many times its size, which is read as a whole."""
_LONGEST = 1 << 16
"""Bytes of one text: a file name or the name of a function."""
_DEEPEST = 32
"""Open containers; a snapshot has seven."""
_MOST = 1 << 64
"""Numbers are below it, and negative ones not below minus it."""
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


_MARK = object()
"""Where the contents of a container begin on the stack."""


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
        """Name, argument and byte of the opcodes; of a text that is damaged what can be read."""
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
        """Take ``count`` objects from the stack, for ``SETITEMS``, ``APPENDS`` and ``TUPLE`` those behind the mark."""
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
