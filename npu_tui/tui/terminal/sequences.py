"""The bytes of a terminal cut into text, whole sequences and pastes, whatever else comes between.

Sequences are those of ECMA-48: control sequences (``ESC [``), single shifts (``ESC O``) and strings (``ESC ]``, ``P``,
``X``, ``^``, ``_``). Mouse reports of three bytes (``ESC [ M``) are left out: terminals are asked for those of SGR.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

PASTE_BEGINS, PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"
MOST_PASTED = 1 << 20
"""Bytes of a paste that are kept."""

_LONE_SECONDS, _PART_SECONDS = 0.1, 0.5
"""How long the rest of a sequence may take: of one that a key may be the whole of, and of any other."""

_STRING = rb"\x1b[\]PX^_][^\x03\x07\x18\x1a\x1b]{0,65536}"
_WHOLE = re.compile(
    rb"(?P<left_out>\x1b\[M[\x20-\xff]{3}|" + _STRING + rb"(?:\x07|\x1b\\))"
    rb"|\x1b\[\[[A-E]|\x1b\[(?!\[|M)[-0-?]{0,4096}[ -/]{0,4}[@-~]|\x1bO[0-9;]{0,8}[@-~]"
    rb"|\x1b[^\x03\x11\x1b\[O\]PX^_\x80-\xff]"
)
_PART = re.compile(
    rb"(?:\x1b(?:\[(?:\[|M[\x20-\xff]{0,2}|[-0-?]{0,4096}[ -/]{0,4})?|O[0-9;]{0,8})?|" + _STRING + rb"\x1b?)\Z"
)
_BROKEN = re.compile(_STRING + rb"|\x1b\[M[\x20-\xff]{0,2}|\x1b\[[-0-?]*[ -/]*|\x1bO[0-9;]*")
_KEYS = re.compile(rb"\x1b[\[O\]PX^_]?\Z")
"""What a key sends that is the beginning of a sequence too: Esc, and Alt with one of these characters."""

_LONGEST = 32
"""No key and no answer that anybody needs has more bytes."""

_SGR_MOUSE = re.compile(r"\x1b\[<(\d+);(-?\d+);(-?\d+)([mM])\Z")
_STOPS = (b"\x03", b"\x11", b"\x1b[99;5u", b"\x1b[113;5u")
"""What Ctrl+C and Ctrl+Q send. Alone within a paste they end it: its end may never come."""

Kind = Literal["text", "sequence", "key", "paste"]


class Piece(NamedTuple):
    """Text that was typed, a whole ``sequence``, Esc or Alt with a ``key`` that nothing follows, or a paste."""

    kind: Kind
    text: str


class Cutter:
    """Cuts what is read. Bytes that are no UTF-8, broken sequences, and answers in strings are left out.

    ``strange`` counts the bytes that are no UTF-8.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held = b""
        self._since = 0.0
        self._pasted: bytearray | None = None
        self.strange = 0

    def cut(self, data: bytes) -> list[Piece]:
        """The pieces that are whole with ``data``."""
        if self._pasted is not None and data in _STOPS:
            self._pasted, self._held = None, b""
        data, self._held = self._held + data, b""
        self._since = self._clock()
        return list(self._pieces(data))

    def rest(self) -> list[Piece]:
        """What is taken for whole because nothing follows; called now and then."""
        held = self._held
        if not held or self._pasted is not None:
            return []
        is_key = _KEYS.match(held) is not None
        if self._clock() - self._since < (_LONE_SECONDS if is_key else _PART_SECONDS):
            return []
        self._held = b""
        return [Piece("key", held.decode("ascii"))] if is_key else []

    def _pieces(self, data: bytes) -> Iterator[Piece]:
        at = 0
        while at < len(data):
            if self._pasted is not None:
                end = self._paste(data, at)
                if end < 0:
                    return
                yield Piece("paste", self._pasted.decode("utf-8", "replace").replace("\x00", ""))
                self._pasted, at = None, end
                continue
            if data[at] != 0x1B:
                end = data.find(b"\x1b", at)
                yield from self._text(data[at:] if end < 0 else data[at:end], end < 0)
                if end < 0:
                    return
                at = end
                continue
            found = _WHOLE.match(data, at)
            if found is not None:
                at = found.end()
                yield from self._sequence(found)
            elif _PART.match(data, at):
                self._held = data[at:]
                return
            elif broken := _BROKEN.match(data, at):
                at = broken.end()
            else:
                at += 1
                yield Piece("key", "\x1b")

    def _paste(self, data: bytes, at: int) -> int:
        """Take what belongs to the paste; returns where what follows begins, -1 where the end has not come."""
        assert self._pasted is not None
        end = data.find(PASTE_ENDS, at)
        # The end may come in parts.
        stop = end if end >= 0 else max(len(data) - len(PASTE_ENDS) + 1, at)
        self._pasted += data[at:stop][: max(MOST_PASTED - len(self._pasted), 0)]
        if end >= 0:
            return end + len(PASTE_ENDS)
        self._held = data[stop:]
        return -1

    def _sequence(self, found: re.Match[bytes]) -> Iterator[Piece]:
        sequence = found[0]
        if sequence == PASTE_BEGINS:
            self._pasted = bytearray()
        elif found["left_out"] is None and sequence != PASTE_ENDS and len(sequence) <= _LONGEST:
            yield Piece("key" if len(sequence) == 2 else "sequence", sequence.decode("ascii"))

    def _text(self, data: bytes, is_last: bool) -> Iterator[Piece]:
        """The characters in ``data``; the beginning of one is held back where more may come."""
        found, at = [], 0
        while at < len(data):
            try:
                found.append(data[at:].decode("utf-8"))
                break
            except UnicodeDecodeError as error:
                found.append(data[at : at + error.start].decode("utf-8"))
                at += error.start
                if is_last and error.reason == "unexpected end of data":
                    self._held = data[at:]
                    break
                self.strange += error.end - error.start
                at += error.end - error.start
        text = "".join(char for char in "".join(found) if not "\x80" <= char <= "\x9f")
        if text:
            yield Piece("text", text)


def within(sequence: str, columns: int, rows: int) -> str:
    """``sequence``, where it reports the mouse outside a terminal of so many cells at the nearest place inside."""
    found = _SGR_MOUSE.match(sequence)
    if found is None:
        return sequence
    code, x, y = (int(number[:9]) for number in found.groups()[:3])
    return f"\x1b[<{code};{min(max(x, 1), columns)};{min(max(y, 1), rows)}{found[4]}"
