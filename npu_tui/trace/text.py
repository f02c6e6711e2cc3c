"""Text for terminals: widths in cells, characters without side effects, numbers with their units.

A trace is untrusted: its names pass through ``printable`` (any output) or ``drawable`` (the screen) first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

BOUND = 1 << 62
"""Sums and differences of numbers below it stay in 64 bits, which is what NumPy and JSON can hold."""

LONGEST = 1 << 53
"""A length in ns, 104 days, or a size in bytes is below it: a thousand of them can be added up."""

WIDTHS = " ▏▎▍▌▋▊▉█"
"""A cell filled from its left by eighths, from none to all eight."""
HEIGHTS = " ▁▂▃▄▅▆▇█"
"""The same from its foot."""
_LONGEST = 40  # Python refuses to parse texts of more than 4,300 digits, and takes quadratic time below that


def whole_number(value: object) -> int | None:
    """``value``, a number or its digits, as an integer; None if it is not one or exceeds ``BOUND``."""
    if isinstance(value, str) and len(value) > _LONGEST:
        return None
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -BOUND <= number <= BOUND else None


def decimal_number(text: str | None) -> int | None:
    """The number whose digits ``text`` is, and nothing else; None for others and where it exceeds ``BOUND``."""
    return whole_number(text) if text is not None and text.isdecimal() else None


_ODD = re.compile(r"[^\x20-\x7e]")
# Characters that Unicode calls letters or symbols but that terminals draw as nothing, and variation selectors.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0") | {chr(code) for code in range(0xFE00, 0xFE10)}
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS = frozenset({"Mn", "Me"})
_JOINERS = frozenset("\u200c\u200d")


def printable(text: str) -> str:
    """``text`` with control, escape, invisible and direction-changing characters replaced by a question mark."""
    return text if text.isascii() and text.isprintable() else _ODD.sub(_printable_char, text)


def _printable_char(match: re.Match[str]) -> str:
    char = match[0]
    return "?" if unicodedata.category(char) in _UNSAFE or char in _INVISIBLE or _is_tag(char) else char


_BEYOND = re.compile(r"[^\x00-\x7e]")


def escaped(json: str) -> str:
    """``json`` with escapes for the characters that ``printable`` replaces: the same values, safe on a terminal."""
    return json if json.isascii() and "\x7f" not in json else _BEYOND.sub(_escape, json)


def _escape(match: re.Match[str]) -> str:
    if _printable_char(match) != "?":
        return match[0]
    return "\\u" + match[0].encode("utf-16-be").hex("|", 2).replace("|", "\\u")


def _is_tag(char: str) -> bool:
    # Tag characters and further variation selectors: invisible, and they can hide text in names.
    return 0xE0000 <= ord(char) <= 0xE01EF


def on_one_line(text: str) -> str:
    """The value of an arg on one line: the profiler separates inputs by a semicolon and a line end."""
    return text.replace(";\r\n", "; ").replace("\r\n", " ").replace("\n", " ")


def brief(text: str, longest: int = 200) -> str:
    """``printable`` text, cut to ``longest`` characters; names may have any length."""
    return printable(text) if len(text) <= longest else printable(text[: longest - 1]) + "…"


def drawable(text: str) -> str:
    """``text`` as characters of one or two cells each, so that what follows keeps its column on every terminal.

    Accents are composed with their letters; marks without a composed letter, joiners and variation selectors are
    dropped. A character that controls the terminal, reorders the line or has no width of its own becomes ``?``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_drawable_char, unicodedata.normalize("NFC", text)))


@lru_cache(maxsize=4096)
def _drawable_char(char: str) -> str:
    if unicodedata.category(char) in _MARKS or char in _JOINERS:
        return ""
    return char if char_cells(char) else "?"


@lru_cache(maxsize=4096)
def char_cells(char: str) -> int:
    """The width of ``char`` in cells, 1 or 2, by East_Asian_Width (Unicode Annex 11); 0 if it must not be drawn.

    Marks, conjoining Hangul vowels, skin tones and the letters of flags combine with their neighbours, and terminals
    disagree about the width of the result.
    """
    if not char.isprintable() or unicodedata.category(char) in ("Mn", "Me", "Mc", "Cf") or char in _INVISIBLE:
        return 0
    if unicodedata.bidirectional(char) in ("R", "AL", "AN") or _changes_neighbours(ord(char)):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _changes_neighbours(code: int) -> bool:
    return (
        0x1160 <= code <= 0x11FF or 0xD7B0 <= code <= 0xD7FF or 0x1F1E6 <= code <= 0x1F1FF or 0x1F3FB <= code <= 0x1F3FF
    )


def cell_count(text: str) -> int:
    """The width of a ``drawable`` text in cells."""
    return len(text) if text.isascii() else sum(map(char_cells, text))


def shortened(text: str, cells: int, ahead: bool = False) -> str:
    """A ``drawable`` text cut to ``cells`` cells with ``…`` at the end, or with ``ahead`` at its beginning."""
    if cell_count(text) <= cells:
        return text
    chars, room = [], cells - 1
    for char in reversed(text) if ahead else text:
        room -= char_cells(char)
        if room < 0:
            break
        chars.append(char)
    if cells < 1:
        return ""
    return "…" + "".join(reversed(chars)) if ahead else "".join(chars) + "…"


def padded(text: str, cells: int, right: bool = False) -> str:
    """A ``drawable`` text filled with blanks to ``cells`` cells, aligned ``right`` or left."""
    blanks = " " * (cells - cell_count(text))
    return blanks + text if right else text + blanks


_NOT_FIRST = frozenset("，。、；：！？）】》”’％…,.;:!?)]}%")
_NOT_LAST = frozenset("（【《“‘([{")


def wrapped(text: str, cells: int, first: str = "", rest: str = "") -> list[str]:
    """A ``drawable`` text in lines of at most ``cells`` cells; ``first`` starts the first line, ``rest`` the others.

    Lines break at blanks and between wide characters (Chinese has no blanks), never before closing punctuation.
    """
    lines, line, blank = [], first, ""
    empty = True
    for piece in _unbreakable_pieces(text):
        if piece == " ":
            blank = "" if empty else " "
            continue
        if not empty and cell_count(line) + cell_count(blank) + cell_count(piece) > cells:
            lines.append(line)
            line, blank = rest, ""
        line += blank + piece
        empty, blank = False, ""
    return lines if empty else [*lines, line]


def _unbreakable_pieces(text: str) -> list[str]:
    """The unbreakable pieces of a text: words, wide characters with the punctuation beside them, single blanks."""
    pieces: list[str] = []
    glued = False
    for char in text:
        if char.isspace():
            if pieces and pieces[-1] != " ":
                pieces.append(" ")
            glued = False
            continue
        wide = char_cells(char) == 2
        joins = bool(pieces) and pieces[-1] != " " and (glued or char in _NOT_FIRST or pieces[-1][-1] in _NOT_LAST)
        if joins:
            pieces[-1] += char
        else:
            pieces.append(char)
        glued = not wide
    return pieces


_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "": 1_000_000}
_TIME = re.compile(r"\s*([-+]?\d+(?:\.\d*)?|[-+]?\.\d+)\s*(ns|us|µs|μs|ms|s|)\s*", re.IGNORECASE)
_EVENT = re.compile(r"\s*(?:event|事件)?\s*(\d[\d,]{,20})\s*(?:ev|events?|个?事件)?\s*", re.IGNORECASE)
_UNITS_LONGEST = 100  # letters: a time is shorter, and a pattern may take long over more
_SCALES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_UNIT_NAMES = ("ps", "ns", "µs", "ms", "s")


def parse_duration(text: str) -> int | None:
    """A text such as ``12.3ms``, ``40 us`` or ``1.5s`` in ns (a bare number is in ms); None if it is not a duration.

    On an axis of events ``4000`` and ``event 4,000`` are events.
    """
    # The user types it, or it comes in a link: a limit keeps the pattern from long texts.
    event = _EVENT.fullmatch(text) if _Axis.events is not None and len(text) <= _UNITS_LONGEST else None
    if event is not None and _Axis.events is not None:
        return whole_number(int(event[1].replace(",", "")) * _Axis.events.event_ns)
    match = _TIME.fullmatch(text) if len(text) <= _UNITS_LONGEST else None
    if match is None:
        return None
    # A float would round 9007199.254740993s to another nanosecond. Imported here: few runs parse a time.
    from decimal import ROUND_HALF_UP, Decimal

    ticks = Decimal(match[1]) * _UNITS[match[2].lower()] * ticks_per_us() / 1000
    return whole_number(ticks.to_integral_value(ROUND_HALF_UP))


class EventAxis(NamedTuple):
    """An axis that counts events instead of time, ``event_ns`` for each.

    It has the words of a length, with and without room, and of a moment.
    A memory snapshot without times has one: ``4,000 events``, ``4,000ev``, ``event 4,000``.
    """

    event_ns: int
    length: Callable[[int], str]
    short: Callable[[int], str]
    moment: Callable[[int], str]


class _Axis:
    events: EventAxis | None = None
    fine: bool = False


def read_fine(fine: bool) -> None:
    """Take numbers of times from now on for picoseconds, as in a trace that ``is_fine``, or for nanoseconds."""
    _Axis.fine = fine


def ticks_per_us() -> int:
    """How many units of time make a microsecond: picoseconds or nanoseconds, by ``read_fine``."""
    return 1_000_000 if _Axis.fine else 1_000


def unit_text(power: int) -> str:
    """The name of 10^``power`` (0, 3, 6, 9) units of time: picoseconds or nanoseconds, by ``read_fine``."""
    return _UNIT_NAMES[power // 3 + (0 if _Axis.fine else 1)]


def event_axis() -> EventAxis | None:
    """The axis of events that the texts of times are in, None where they are times."""
    return _Axis.events


def read_in(axis: EventAxis | None) -> None:
    """Write times as events of ``axis`` from now on; None: as times."""
    _Axis.events = axis


_SECOND = 1_000_000_000


def duration_text(ns: float, digits: int = 4, gap: str = " ") -> str:
    """A duration in a fitting unit with about ``digits`` significant digits: ``16.80 µs``, ``173.5 ms``.

    ``gap`` separates number and unit.
    """
    if ns < 0:
        return "−" + duration_text(-ns, digits, gap)
    if _Axis.events is not None:
        return (_Axis.events.length if gap else _Axis.events.short)(round(ns / _Axis.events.event_ns))
    for power in (9, 6, 3):
        scale = 10**power
        if ns >= scale * 0.99995:  # 999.96 µs would round to "1000 µs": that is 1.000 ms
            value = ns / scale
            digits_before = len(str(int(value + 0.5)))
            return f"{value:.{max(digits - digits_before, 0)}f}{gap}{unit_text(power)}"
    return f"{ns:.0f}{gap}{unit_text(0)}"


def wait_text(ns: float) -> str:
    """A time to wait, with about two digits: ``12 s``, ``35 min``, ``2.5 h``."""
    if ns < 120e9:
        return duration_text(ns, 2)
    return f"{ns / 60e9:.0f} min" if ns < 7200e9 else f"{ns / 3600e9:.1f} h"


def time_text(ns: float, digits: int = 4) -> str:
    """A duration in a cell of a table, where nothing needs no unit."""
    return duration_text(ns, digits) if ns else "0"


def about_text(ns: float) -> str:
    """An estimated duration, with two digits: ``93 µs``."""
    return duration_text(ns, 2)


def limit_text(ns: float) -> str:
    """A configured duration, such as a threshold: ``10 ms``, ``2.5 ms``."""
    scale, unit = next(((scale, unit) for scale, unit in _SCALES if abs(ns) >= scale), (1, "ns"))
    return f"{ns / scale:g} {unit}"


def signed_text(ns: float, digits: int = 4, gap: str = " ") -> str:
    """A duration in ns as people write a difference: with a plus where it is longer."""
    return ("+" if ns > 0 else "") + duration_text(ns, digits, gap)


def exact_text(ns: int) -> str:
    """A time in milliseconds, from a second on in seconds, with all its digits: ``54.904512 ms``."""
    if _Axis.events is not None:
        return _Axis.events.moment(round(ns / _Axis.events.event_ns))
    sign, digits = "-" if ns < 0 else "", 6 if abs(ns) < _SECOND else 9
    whole, rest = divmod(abs(ns), 10**digits)
    return f"{sign}{whole}.{rest:0{digits}d} {unit_text(digits)}"


def moment_text(ns: float) -> str:
    """A time since the start of the trace, to the microsecond: ``54.905 ms``, ``54.904512 s``."""
    if _Axis.events is not None:
        return _Axis.events.moment(round(ns / _Axis.events.event_ns))
    return f"{ns / 1e6:.3f} {unit_text(6)}" if abs(ns) < _SECOND else f"{ns / 1e9:.6f} {unit_text(9)}"


def share_text(share: float) -> str:
    """A share (0..1) as a percentage: ``6.5%``; 0 and 1 have no digits: ``100%``."""
    return f"{share:.1%}" if 0.0 < share < 0.9995 else f"{share:.0%}"


def percent_text(share: float) -> str:
    """A configured share (0..1), such as a threshold: ``60%``, ``2.5%``."""
    return f"{100 * share:g}%"


def runs(numbers: Iterable[int], gap: int = 1) -> list[tuple[int, int]]:
    """The first and the last of ``numbers`` that follow each other, ascending, none further than ``gap`` apart."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        first = found.pop()[0] if found and number - found[-1][1] <= gap else number
        found.append((first, number))
    return found


def count_text(count: int) -> str:
    """An integer: ``12,345``."""
    return f"{count:,}"


def size_text(size: float) -> str:
    """A number of bytes: ``16.777 MB``, below ten thousand ``512 B``."""
    return f"{size / 1e6:.3f} MB" if size >= 1e4 else f"{size:,.0f} B"


MIB = 1 << 20


def memory_text(size: float) -> str:
    """Bytes of memory in binary units, as allocators count: ``1,452.0 MiB``, ``10.13 GiB``, ``512 B``."""
    for power, unit in ((2**30, "GiB"), (MIB, "MiB"), (2**10, "KiB")):
        if abs(size) >= power * (10 if unit == "GiB" else 1):
            return f"{size / power:,.2f} {unit}" if unit == "GiB" else f"{size / power:,.1f} {unit}"
    return f"{size:,.0f} B"


def memory_change_text(size: float) -> str:
    """A difference of bytes of memory, with a plus where there are more."""
    return f"{'+' if size > 0 else ''}{memory_text(size)}"


def speed_text(gigabytes: float) -> str:
    """A bandwidth in GB/s: ``18.25 GB/s``."""
    return f"{gigabytes:.2f} GB/s"


def flops_text(flops: float) -> str:
    """Floating-point operations: ``8.996 GFLOP``, ``132.6 GFLOP``, below a thousand ``0``."""
    for power, unit in ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP")):
        if flops >= power:
            return f"{flops / power:.4g} {unit}"
    return f"{flops:.0f}"


def change_text(ns: float, digits: int = 4) -> str:
    """A difference of times with its sign: ``+13.70 ms``, ``−210.0 µs``, ``±0``."""
    return signed_text(ns, digits) if ns else "±0"


def share_change_text(share: float) -> str:
    """A difference as a share with its sign: ``+9.2%``."""
    return f"{'+' if share >= 0 else '−'}{share_text(abs(share))}"


def probability_text(p: float) -> str:
    """A probability to two digits: ``0.028``, ``<0.0001``."""
    return "<0.0001" if p < 1e-4 else f"{p:.2g}"


def mean_count_text(count: float) -> str:
    """A mean number of calls: ``2.5``; an integer has no digits: ``24``."""
    return f"{count:,.0f}" if count == round(count) else f"{count:,.1f}"
