"""One event of the trace: its fields, as far as columns are made of them."""

from __future__ import annotations

from npu_tui.ingest.scanner.layout import MOST_VALUES, NUMBER, REGION
from npu_tui.ingest.scanner.source.memory import Region, bits_of_float, compiled, read8, read32, read64, write64
from npu_tui.ingest.scanner.source.numbers import decimal, digits, nanoseconds, whole
from npu_tui.ingest.scanner.source.tables import put, region
from npu_tui.ingest.scanner.source.texts import blank_end, plain_end, text_end, value_end

OTHER, SLICE, SAMPLE, SOURCE, STEP, TARGET = 0, 1, 2, 3, 4, 5
"""Kinds of events."""

_MOST_ID_DIGITS = 19
"""Numbers of so many digits are whole ones for every reader."""

_PH, _NAME, _PID, _TID = 0x226870, 0x22656D616E, 0x22646970, 0x22646974
_TS, _DUR, _CAT, _ID, _ARGS = 0x227374, 0x22727564, 0x22746163, 0x226469, 0x2273677261

_N = NUMBER
_KIND, _NAME_AT, _NAME_LENGTH = _N["kind"], _N["name_at"], _N["name_length"]
_CATEGORY_AT, _CATEGORY_LENGTH = _N["category_at"], _N["category_length"]
_TIME, _TIME_AT, _TIME_LENGTH = _N["time"], _N["time_at"], _N["time_length"]
_DURATION, _HAS_DURATION = _N["duration"], _N["has_duration"]
_DURATION_AT, _DURATION_LENGTH = _N["duration_at"], _N["duration_length"]
_PROCESS, _PROCESS_AT, _THREAD, _THREAD_AT = _N["pid"], _N["pid_at"], _N["tid"], _N["tid_at"]
_ID_AT, _ID_LENGTH, _ID_QUOTED = _N["id_at"], _N["id_length"], _N["id_quoted"]
_TASK_AT, _TASK_LENGTH, _STACK_AT, _STACK_LENGTH = (
    _N["task_at"],
    _N["task_length"],
    _N["stack_at"],
    _N["stack_length"],
)
_STREAM, _PHYSIC_STREAM, _CONNECTION, _CORRELATION = (
    _N["stream"],
    _N["physic_stream"],
    _N["connection"],
    _N["correlation"],
)
_VALUES = _N["values"]
_SCRATCH, _POWERS = REGION["scratch"], REGION["powers"]
VALUE_WORDS = 5
"""Words of scratch per value: offset and length of the key, bits of the value, offset and length if it is inexact."""


@compiled
def is_word(buffer: Region, at: int, length: int, first: int, second: int) -> bool:
    """Whether the text at ``at`` is the one of the two words of 8 bytes, padded with zeros."""
    if length > 16:
        return False
    if length >= 8:
        if read64(buffer, at) != first:
            return False
        rest = length - 8
        return (rest == 8 and read64(buffer, at + 8) == second) or (
            rest < 8 and read64(buffer, at + 8) & ((1 << (8 * rest)) - 1) == second
        )
    return read64(buffer, at) & ((1 << (8 * length)) - 1) == first and second == 0


@compiled
def event_end(state: Region, buffer: Region, at: int) -> int:
    """Take the event at ``at`` apart into the state; its end, or ``-1 - offset`` of what is none of a common event."""
    seen = 0
    kind = OTHER
    args_at, args_as = -1, OTHER
    put(state, _NAME_AT, -1)
    put(state, _CATEGORY_AT, -1)
    put(state, _TIME_AT, -1)
    put(state, _HAS_DURATION, 0)
    put(state, _PROCESS, -1)
    put(state, _PROCESS_AT, -1)
    put(state, _THREAD, 0)
    put(state, _THREAD_AT, -1)
    put(state, _ID_AT, -1)
    at = blank_end(buffer, at + 1)
    if read8(buffer, at) == 125:
        put(state, _KIND, OTHER)
        return at + 1
    while True:
        if read8(buffer, at) != 34:
            return -1 - at
        begin = at
        word = read64(buffer, at + 1)
        three, four, five = word & 0xFFFFFF, word & 0xFFFFFFFF, word & 0xFFFFFFFFFF
        if three == _PH:
            field, at = 1, at + 4
        elif three == _TS:
            field, at = 2, at + 4
        elif four == _DUR:
            field, at = 4, at + 5
        elif four == _PID:
            field, at = 8, at + 5
        elif four == _TID:
            field, at = 16, at + 5
        elif five == _NAME:
            field, at = 32, at + 6
        elif five == _ARGS:
            field, at = 64, at + 6
        elif four == _CAT:
            field, at = 128, at + 5
        elif three == _ID:
            field, at = 256, at + 4
        else:
            at = plain_end(buffer, at + 1)
            if at < 0:
                return at
            field, at = 0, at + 1
        if seen & field:
            return -1 - begin
        seen |= field
        at = blank_end(buffer, at)
        if read8(buffer, at) != 58:
            return -1 - at
        at = blank_end(buffer, at + 1)
        byte = read8(buffer, at)
        if field == 1:
            end = -1
            if byte == 34:
                end = plain_end(buffer, at + 1)
                if end < 0:
                    return end
                if end == at + 2:
                    letter = read8(buffer, at + 1)
                    if letter == 88:
                        kind = SLICE
                    elif letter == 67:
                        kind = SAMPLE
                    elif letter == 115:
                        kind = SOURCE
                    elif letter == 116:
                        kind = STEP
                    elif letter == 102:
                        kind = TARGET
                at = end + 1
            else:
                at = value_end(buffer, at)
        elif field == 2:
            at = time_end(state, buffer, at, byte)
        elif field == 4:
            at = duration_end(state, buffer, at, byte)
        elif field == 8:
            at = place_end(state, buffer, at, byte, _PROCESS, _PROCESS_AT)
        elif field == 16:
            at = place_end(state, buffer, at, byte, _THREAD, _THREAD_AT)
        elif field == 32:
            if byte != 34:
                return -1 - at
            end = text_end(buffer, at + 1)
            if end < 0:
                return end
            put(state, _NAME_AT, at + 1)
            put(state, _NAME_LENGTH, end - at - 1)
            at = end + 1
        elif field == 128:
            if byte != 34:
                return -1 - at
            end = text_end(buffer, at + 1)
            if end < 0:
                return end
            put(state, _CATEGORY_AT, at + 1)
            put(state, _CATEGORY_LENGTH, end - at - 1)
            at = end + 1
        elif field == 256:
            at = id_end(state, buffer, at, byte)
        elif field == 64:
            args_at = at
            # Where the phase comes later, a duration tells slices from samples.
            args_as = kind if seen & 1 else SLICE if seen & 4 else SAMPLE
            end = -1
            if args_as == SLICE:
                end = slice_args_end(state, buffer, at)
            elif args_as == SAMPLE:
                end = sample_args_end(state, buffer, at)
            if end < 0:
                if seen & 1 and (args_as == SLICE or args_as == SAMPLE):
                    return end
                args_as = OTHER
                end = value_end(buffer, at)
            at = end
        else:
            at = value_end(buffer, at)
        if at < 0:
            return at
        at = blank_end(buffer, at)
        byte = read8(buffer, at)
        if byte == 125:
            break
        if byte != 44:
            return -1 - at
        at = blank_end(buffer, at + 1)
    put(state, _KIND, kind)
    if (kind == SLICE or kind == SAMPLE) and args_as != kind:
        if args_at < 0:
            begin_slice_args(state)
            put(state, _VALUES, 0)
        else:
            end = slice_args_end(state, buffer, args_at) if kind == SLICE else sample_args_end(state, buffer, args_at)
            if end < 0:
                return end
    return at + 1


@compiled
def time_end(state: Region, buffer: Region, at: int, byte: int) -> int:
    """The place after the time at ``at``: any text, or a number."""
    if byte == 34:
        time, end, exact = nanoseconds(buffer, at + 1)
        if not exact or read8(buffer, end) != 34:
            exact = False
            end = plain_end(buffer, at + 1)
            if end < 0:
                return end
        put(state, _TIME_AT, at + 1)
        put(state, _TIME_LENGTH, 0 if exact else end - at - 1)
        put(state, _TIME, time)
        if not exact and end == at + 1:
            return -1 - at
        return end + 1
    _, end, _ = decimal(buffer, at, region(state, _POWERS))
    if end < 0:
        return end
    time, stop, exact = nanoseconds(buffer, at)
    put(state, _TIME_AT, at)
    put(state, _TIME_LENGTH, 0 if exact and stop == end else end - at)
    put(state, _TIME, time)
    return end


@compiled
def duration_end(state: Region, buffer: Region, at: int, byte: int) -> int:
    """The place after the duration at ``at``: a number, or the text of one."""
    quoted = 1 if byte == 34 else 0
    value, end, exact = decimal(buffer, at + quoted, region(state, _POWERS))
    if end < 0:
        return end
    if quoted == 1 and read8(buffer, end) != 34:
        return -1 - end
    put(state, _HAS_DURATION, 1)
    put(state, _DURATION, bits_of_float(value))
    put(state, _DURATION_AT, at + quoted)
    put(state, _DURATION_LENGTH, 0 if exact else end - at - quoted)
    return end + quoted


@compiled
def place_end(state: Region, buffer: Region, at: int, byte: int, value_word: int, at_word: int) -> int:
    """The place after the process or thread at ``at``: its number, or its name."""
    if byte == 34:
        end = plain_end(buffer, at + 1)
        if end < 0:
            return end
        put(state, at_word, at + 1)
        put(state, value_word, end - at - 1)
        return end + 1
    value, end = whole(buffer, at)
    put(state, value_word, value)
    return end


@compiled
def id_end(state: Region, buffer: Region, at: int, byte: int) -> int:
    """The place after the id at ``at``: a text, a number of digits, or nothing."""
    if byte == 34:
        end = plain_end(buffer, at + 1)
        if end < 0:
            return end
        put(state, _ID_AT, at + 1)
        put(state, _ID_LENGTH, end - at - 1)
        put(state, _ID_QUOTED, 1)
        return end + 1
    if read32(buffer, at) == 0x6C6C756E:
        return at + 4
    _, end = digits(buffer, at, 0)
    if end == at or end - at > _MOST_ID_DIGITS or (byte == 48 and end - at > 1):
        return -1 - end
    put(state, _ID_AT, at)
    put(state, _ID_LENGTH, end - at)
    put(state, _ID_QUOTED, 0)
    return end


@compiled
def begin_slice_args(state: Region) -> None:
    """A slice without args."""
    put(state, _TASK_AT, -1)
    put(state, _STACK_AT, -1)
    put(state, _STREAM, -1)
    put(state, _PHYSIC_STREAM, -1)
    put(state, _CONNECTION, -1)
    put(state, _CORRELATION, -1)


@compiled
def slice_args_end(state: Region, buffer: Region, at: int) -> int:
    """The place after the args at ``at`` of a slice."""
    begin_slice_args(state)
    if read8(buffer, at) != 123:
        return -1 - at
    at = blank_end(buffer, at + 1)
    if read8(buffer, at) == 125:
        return at + 1
    seen = 0
    while True:
        if read8(buffer, at) != 34:
            return -1 - at
        begin = at + 1
        end = plain_end(buffer, begin)
        if end < 0:
            return end
        length = end - begin
        first = read8(buffer, begin)
        field = 0
        if first == 84 and is_word(buffer, begin, length, 0x707954206B736154, 0x65):
            field = 1
        elif first == 83 and is_word(buffer, begin, length, 0x49206D6165727453, 0x64):
            field = 2
        elif first == 80 and is_word(buffer, begin, length, 0x5320636973796850, 0x6449206D61657274):
            field = 4
        elif first == 99 and is_word(buffer, begin, length, 0x697463656E6E6F63, 0x64695F6E6F):
            field = 8
        elif first == 99 and is_word(buffer, begin, length, 0x74616C6572726F63, 0x64695F6E6F69):
            field = 16
        elif first == 67 and is_word(buffer, begin, length, 0x61747320_6C6C6143, 0x6B63):
            field = 32
        if seen & field:
            return -1 - begin
        seen |= field
        at = blank_end(buffer, end + 1)
        if read8(buffer, at) != 58:
            return -1 - at
        at = blank_end(buffer, at + 1)
        if field == 0:
            at = value_end(buffer, at)
        elif field == 1 or field == 32:
            if read8(buffer, at) != 34:
                return -1 - at
            end = text_end(buffer, at + 1)
            if end < 0:
                return end
            put(state, _TASK_AT if field == 1 else _STACK_AT, at + 1)
            put(state, _TASK_LENGTH if field == 1 else _STACK_LENGTH, end - at - 1)
            at = end + 1
        else:
            value, at = whole(buffer, at)
            if field == 2:
                put(state, _STREAM, value)
            elif field == 4:
                put(state, _PHYSIC_STREAM, value)
            elif field == 8:
                put(state, _CONNECTION, value)
            else:
                put(state, _CORRELATION, value)
        if at < 0:
            return at
        at = blank_end(buffer, at)
        byte = read8(buffer, at)
        if byte == 125:
            return at + 1
        if byte != 44:
            return -1 - at
        at = blank_end(buffer, at + 1)


@compiled
def sample_args_end(state: Region, buffer: Region, at: int) -> int:
    """The place after the args at ``at`` of a counter event, whose values are all numbers."""
    put(state, _VALUES, 0)
    if read8(buffer, at) != 123:
        return -1 - at
    at = blank_end(buffer, at + 1)
    if read8(buffer, at) == 125:
        return at + 1
    scratch, powers = region(state, _SCRATCH), region(state, _POWERS)
    count = 0
    while True:
        if read8(buffer, at) != 34 or count == MOST_VALUES:
            return -1 - at
        begin = at + 1
        end = plain_end(buffer, begin)
        if end < 0:
            return end
        at = blank_end(buffer, end + 1)
        if read8(buffer, at) != 58:
            return -1 - at
        at = blank_end(buffer, at + 1)
        value, stop, exact = decimal(buffer, at, powers)
        if stop < 0:
            return stop
        place = 8 * VALUE_WORDS * count
        write64(scratch, place, begin)
        write64(scratch, place + 8, end - begin)
        write64(scratch, place + 16, bits_of_float(value))
        write64(scratch, place + 24, at)
        write64(scratch, place + 32, 0 if exact else stop - at)
        count += 1
        put(state, _VALUES, count)
        at = blank_end(buffer, stop)
        byte = read8(buffer, at)
        if byte == 125:
            return at + 1
        if byte != 44:
            return -1 - at
        at = blank_end(buffer, at + 1)
