"""Pickles of plain containers, read without running any code: an interpreter of the opcodes that a snapshot needs.

``pickle`` calls what a file names. Here no opcode names anything: dicts, lists, tuples, texts and numbers are all there
is (https://github.com/python/cpython/blob/main/Lib/pickletools.py describes the opcodes). Room is bounded: every opcode
is charged for the objects it makes, and a file may make some times its own size.

A million entries of the same shape are no million dicts: ``Unpickler`` reads a run of them at once, into columns.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from npu_tui.load.pickle_runs import UNKNOWN, Runs

Bytes: TypeAlias = "bytes | bytearray"

_FLOOR = 4 << 20
_TIMES = 2
"""The objects of a pickle may take ``_FLOOR`` bytes and this many times its size, which is read as a whole."""
_LONGEST = 1 << 16
"""Bytes of one text: a file name or the name of a function."""
_DEEPEST = 32
"""Open containers; a snapshot has seven."""
_INTEGER = 9
"""Bytes of the longest integer: 64 bits and a sign."""


class PickleError(Exception):
    """Not a pickle of plain containers: ``code`` (of the texts) says why, at byte ``at``."""

    def __init__(self, code: str, at: int, what: str = "") -> None:
        super().__init__(code)
        self.code, self.at, self.what = code, at, what


class _Mark:
    """Where a container's contents begin on the stack."""


_MARK = _Mark()


class Unpickler:
    """Reads the pickle in ``data``, which has no frames; ``progress`` hears how many bytes are read."""

    def __init__(self, data: Bytes, progress: Callable[[int], None] = lambda done: None) -> None:
        self._data = data
        self._progress = progress
        self._room = _FLOOR + _TIMES * len(data)
        self._memo: list[Any] = []
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._runs = Runs(data)

    def load(self) -> Any:
        """The object, with ``Run`` among the entries of lists. Raises ``PickleError``."""
        try:
            return self._load()
        except (IndexError, struct.error, AttributeError):  # the stack or the file ends
            raise PickleError("input.pickle_cut", len(self._data)) from None

    def _load(self) -> Any:
        data, stack, marks, memo = self._data, self._stack, self._marks, self._memo
        size, at, room = len(data), 0, self._room
        texts: dict[str, int] = {}  # what the texts are remembered as
        unsigned, signed, double = struct.Struct("<I"), struct.Struct("<i"), struct.Struct(">d")
        while True:
            code = data[at]
            start = at
            at += 1
            if code == 0x68:  # BINGET
                stack.append(memo[data[at]])
                at += 1
                room -= 8
            elif code == 0x6A:  # LONG_BINGET
                stack.append(memo[unsigned.unpack_from(data, at)[0]])
                at += 4
                room -= 8
            elif code == 0x94:  # MEMOIZE
                if type(stack[-1]) is str:
                    texts[stack[-1]] = len(memo)
                memo.append(stack[-1])
                room -= 8
            elif code == 0x4B:  # BININT1
                stack.append(data[at])
                at += 1
                room -= 8
            elif code == 0x4D:  # BININT2
                stack.append(data[at] | data[at + 1] << 8)
                at += 2
                room -= 40
            elif code == 0x4A:  # BININT
                stack.append(signed.unpack_from(data, at)[0])
                at += 4
                room -= 40
            elif code == 0x8A:  # LONG1
                length = data[at]
                if length > _INTEGER or at + 1 + length > size:
                    raise PickleError("input.pickle_number", start)
                stack.append(int.from_bytes(data[at + 1 : at + 1 + length], "little", signed=True))
                at += 1 + length
                room -= 48
            elif code == 0x28:  # MARK
                if len(marks) >= _DEEPEST:
                    raise PickleError("input.pickle_deep", start)
                marks.append(len(stack))
                stack.append(_MARK)
                room -= 16
            elif code == 0x75:  # SETITEMS
                first = marks.pop()
                into = _container(stack, first - 1, dict, start)
                keys = stack[first + 1 :: 2]
                if (len(stack) - first) % 2 == 0 or any(type(key) is not str for key in keys):
                    raise PickleError("input.pickle_key", start)
                into.update(zip(keys, stack[first + 2 :: 2], strict=True))
                del stack[first:]
                self._runs.learn(into, texts)
            elif code == 0x7D:  # EMPTY_DICT
                run = self._runs.take(start, memo)
                if run is not None:
                    stack.append(run)
                    at = run.end
                    room -= run.room
                    self._progress(at)
                else:
                    stack.append({})
                    room -= 240
            elif code == 0x5D:  # EMPTY_LIST
                stack.append([])
                room -= 72
            elif code == 0x65:  # APPENDS
                first = marks.pop()
                _container(stack, first - 1, list, start).extend(stack[first + 1 :])
                del stack[first:]
                room -= 8
            elif code == 0x61:  # APPEND
                item = stack.pop()
                _container(stack, -1, list, start).append(item)
                room -= 8
            elif code == 0x73:  # SETITEM
                value, key = stack.pop(), stack.pop()
                if type(key) is not str:
                    raise PickleError("input.pickle_key", start)
                _container(stack, -1, dict, start)[key] = value
            elif code in (0x8C, 0x58):  # SHORT_BINUNICODE, BINUNICODE
                length = data[at] if code == 0x8C else unsigned.unpack_from(data, at)[0]
                at += 1 if code == 0x8C else 4
                if length > _LONGEST or at + length > size:
                    raise PickleError("input.pickle_text", start)
                stack.append(str(data[at : at + length], "utf-8", "replace"))
                at += length
                room -= 64 + 4 * length
            elif code in (0x88, 0x89, 0x4E):  # NEWTRUE, NEWFALSE, NONE
                stack.append(None if code == 0x4E else code == 0x88)
                room -= 8
            elif code in (0x71, 0x72):  # BINPUT, LONG_BINPUT
                number = data[at] if code == 0x71 else unsigned.unpack_from(data, at)[0]
                at += 1 if code == 0x71 else 4
                if number > len(memo):
                    raise PickleError("input.pickle_memo", start)
                if type(stack[-1]) is str:
                    texts[stack[-1]] = number
                memo[number : number + 1] = [stack[-1]]
                room -= 8
            elif code in (0x85, 0x86, 0x87, 0x29, 0x74):  # TUPLE1, TUPLE2, TUPLE3, EMPTY_TUPLE, TUPLE
                first = marks.pop() if code == 0x74 else len(stack) - {0x29: 0, 0x85: 1, 0x86: 2, 0x87: 3}[code]
                items = stack[max(first, 0) + (code == 0x74) :]
                del stack[max(first, 0) :]
                stack.append(tuple(items))
                room -= 64
            elif code == 0x47:  # BINFLOAT
                stack.append(double.unpack_from(data, at)[0])
                at += 8
                room -= 32
            elif code == 0x95:  # FRAME: its length helps only who reads a stream
                at += 8
            elif code == 0x80:  # PROTO
                at += 1
            elif code == 0x2E:  # STOP
                if marks or len(stack) != 1:
                    raise PickleError("input.pickle_cut", start)
                return stack[0]
            else:
                raise PickleError("input.pickle_code", start, f"0x{code:02x}")
            if room < 0:
                raise PickleError("input.pickle_bomb", start)

    @property
    def objects(self) -> list[Any]:
        """What entries of runs refer to, the same object once."""
        return self._runs.objects


def unframed(stream: io.FileIO | io.BytesIO, size: int) -> bytearray:
    """The ``size`` bytes of ``stream`` without the opcodes that cut them into frames of 64 KiB."""
    data, end = bytearray(size), 0
    with memoryview(data) as room:
        end = stream.readinto(room[:2])
        while True:
            head = stream.read(9)
            is_frame = len(head) == 9 and head[:1] == b"\x95"
            if not is_frame:
                room[end : end + len(head)] = head
                end += len(head)
            length = min(int.from_bytes(head[1:], "little"), size - end) if is_frame else size - end
            read = stream.readinto(room[end : end + length])
            end += read
            if not is_frame or read < length:
                break
    del data[end:]
    return data


def _container(stack: list[Any], at: int, kind: type, start: int) -> Any:
    """The container at ``at`` that an opcode at byte ``start`` fills. Raises ``PickleError`` if it is another."""
    if type(stack[at]) is not kind or stack[at] is UNKNOWN:
        raise PickleError("input.pickle_code", start, kind.__name__)
    return stack[at]
