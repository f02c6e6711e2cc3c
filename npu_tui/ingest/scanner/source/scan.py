"""Bytes of a trace to columns, as far as its events are of the common kinds."""

from __future__ import annotations

from npu_tui.ingest.scanner.layout import (
    DICTIONARIES,
    DONE,
    DURATION,
    ENTITIES_PER_EVENT,
    GROW,
    LINK_TIME,
    MORE,
    MOST_VALUES,
    NAMED,
    NUMBER,
    PLAIN,
    REGION,
    SAMPLE_TIME,
    SERIES,
    SLICE_TIME,
    TEXT,
    THREAD,
    VALUE,
    WRONG,
)
from npu_tui.ingest.scanner.source.events import (
    OTHER,
    SAMPLE,
    SLICE,
    SOURCE,
    VALUE_WORDS,
    event_end,
    is_word,
)
from npu_tui.ingest.scanner.source.memory import (
    Region,
    compiled,
    float_of_bits,
    nearest_even,
    read8,
    read64,
    write8,
    write32,
    write64,
    write_float,
)
from npu_tui.ingest.scanner.source.tables import code_of, entity, number, put, region
from npu_tui.ingest.scanner.source.texts import blank_end

_N, _R = NUMBER, REGION
_THREADS, _NAMES, _CATEGORIES, _TASK_TYPES, _STACKS, _SERIES, _LINK_CATEGORIES, _LINK_TEXTS = range(len(DICTIONARIES))
_KEYS = 8 * VALUE_WORDS * MOST_VALUES
"""Where in scratch the entities of keys stand, and after them the key of a thread or series."""
_COMPOSED = _KEYS + 8 * MOST_VALUES
_LOW_31 = (1 << 31) - 1
_LONGEST_DURATION = 2.0**61

_KIND, _NAME_AT, _NAME_LENGTH = _N["kind"], _N["name_at"], _N["name_length"]
_CATEGORY_AT, _CATEGORY_LENGTH = _N["category_at"], _N["category_length"]
_TIME, _TIME_AT, _TIME_LENGTH = _N["time"], _N["time_at"], _N["time_length"]
_DURATION, _HDURATION = _N["duration"], _N["has_duration"]
_DURATION_AT, _DURATION_LENGTH = _N["duration_at"], _N["duration_length"]
_PID, _PID_AT, _TID, _TID_AT = _N["pid"], _N["pid_at"], _N["tid"], _N["tid_at"]
_ID_AT, _ID_LENGTH, _ID_QUOTED = _N["id_at"], _N["id_length"], _N["id_quoted"]
_TASK_AT, _TASK_LENGTH = _N["task_at"], _N["task_length"]
_STACK_AT, _STACK_LENGTH = _N["stack_at"], _N["stack_length"]
_STREAM, _PHYSIC_STREAM = _N["stream"], _N["physic_stream"]
_CONNECTION, _CORRELATION, _VALUES = _N["connection"], _N["correlation"], _N["values"]
_X, _C, _L, _EVENTS = _N["x"], _N["c"], _N["l"], _N["events"]
_RARE, _INEXACT, _CHUNKS = _N["rare_count"], _N["inexact_count"], _N["chunks"]
_X_ROOM, _C_ROOM, _L_ROOM = _N["x_room"], _N["c_room"], _N["l_room"]
_RARE_ROOM, _INEXACT_ROOM, _CHUNK_ROOM = _N["rare_room"], _N["inexact_room"], _N["chunk_room"]
_ENTITIES, _ENTITY_ROOM, _HEAP_USED, _HEAP_ROOM = _N["entities"], _N["entity_room"], _N["heap_used"], _N["heap_room"]
_SCRATCH, _R_RARE, _R_INEXACT = _R["scratch"], _R["rare"], _R["inexact"]
_X_TIME, _X_DURATION, _X_THREAD, _X_NAME = _R["x_time"], _R["x_duration"], _R["x_thread"], _R["x_name"]
_X_CATEGORY, _X_TASK, _X_STACK, _X_EVENT = _R["x_category"], _R["x_task_type"], _R["x_stack"], _R["x_event"]
_X_STREAM, _X_CONNECTION, _X_CORRELATION = _R["x_stream"], _R["x_connection"], _R["x_correlation"]
_C_TIME, _C_SERIES, _C_VALUE = _R["c_time"], _R["c_series"], _R["c_value"]
_L_TIME, _L_CATEGORY, _L_THREAD, _L_EVENT = _R["l_time"], _R["l_category"], _R["l_thread"], _R["l_event"]
_L_ID, _L_HIGH, _L_PHASE = _R["l_id"], _R["l_high"], _R["l_phase"]
_PHASE_X, _PHASE_C, _PHASE_S = _N["phase_X"], _N["phase_C"], _N["phase_s"]
_WITHOUT = _N["without_duration"]
_LAUNCH_WITHOUT, _LINK_WITHOUT = _N["launch_without_id"], _N["link_without_id"]
_BUFFER = _R["buffer"]
_FILLED, _POSITION, _BASE, _CUT = _N["filled"], _N["position"], _N["base"], _N["cut"]
_CHUNK_SIZE, _WRONG_AT = _N["chunk_size"], _N["wrong_at"]
_CHUNK_OFFSET, _CHUNK_LENGTH, _CHUNK_FIRST = _R["chunk_offset"], _R["chunk_length"], _R["chunk_first"]


@compiled
def increase(state: Region, word: int) -> int:
    """Add one to a number of the state; what it was before."""
    value = read64(state, 8 * word)
    write64(state, 8 * word, value + 1)
    return value


@compiled
def text(state: Region, buffer: Region, at_word: int, length_word: int) -> int:
    """The entity of the text that two words of the state describe, an empty one where there is none."""
    at = number(state, at_word)
    if at < 0:
        return entity(state, TEXT, buffer, 0, 0)
    return entity(state, TEXT, buffer, at, number(state, length_word))


@compiled
def compose_place(state: Region, buffer: Region, scratch: Region, place: int, value_word: int, at_word: int) -> None:
    """Write the two words that tell a process or thread."""
    at, value = number(state, at_word), number(state, value_word)
    if at < 0:
        write64(scratch, place, value)
        write64(scratch, place + 8, PLAIN)
    else:
        write64(scratch, place, entity(state, TEXT, buffer, at, value))
        write64(scratch, place + 8, NAMED)


@compiled
def thread_code(state: Region, buffer: Region) -> int:
    """The code of the event's thread."""
    scratch = region(state, _SCRATCH)
    compose_place(state, buffer, scratch, _COMPOSED, _PID, _PID_AT)
    compose_place(state, buffer, scratch, _COMPOSED + 16, _TID, _TID_AT)
    return code_of(state, _THREADS, entity(state, THREAD, scratch, _COMPOSED, 32))


@compiled
def note_inexact(state: Region, kind: int, row: int, at: int, length: int) -> None:
    """Leave a number to the caller."""
    place = 32 * increase(state, _INEXACT)
    inexact = region(state, _R_INEXACT)
    write64(inexact, place, kind)
    write64(inexact, place + 8, row)
    write64(inexact, place + 16, at)
    write64(inexact, place + 24, length)


@compiled
def add_slice(state: Region, buffer: Region, event: int) -> bool:
    """A row for a slice; False if it is none of the common ones."""
    if number(state, _TIME_AT) < 0:
        return False
    row = number(state, _X)
    duration = 0
    if number(state, _HDURATION):
        if number(state, _DURATION_LENGTH) == 0:
            scaled = nearest_even(float_of_bits(number(state, _DURATION)) * 1000.0)
            if scaled > _LONGEST_DURATION or scaled < -_LONGEST_DURATION:
                return False
            duration = int(scaled)
        else:
            note_inexact(state, DURATION, row, number(state, _DURATION_AT), number(state, _DURATION_LENGTH))
    else:
        increase(state, _WITHOUT)
    if number(state, _TIME_LENGTH):
        note_inexact(state, SLICE_TIME, row, number(state, _TIME_AT), number(state, _TIME_LENGTH))
    task, stack = -1, -1
    if number(state, _TASK_AT) >= 0 and number(state, _TASK_LENGTH) > 0:
        task = code_of(state, _TASK_TYPES, text(state, buffer, _TASK_AT, _TASK_LENGTH))
    if number(state, _STACK_AT) >= 0 and number(state, _STACK_LENGTH) > 0:
        stack = code_of(state, _STACKS, text(state, buffer, _STACK_AT, _STACK_LENGTH))
    stream = number(state, _STREAM)
    if stream < 0:
        stream = number(state, _PHYSIC_STREAM)
    write64(region(state, _X_TIME), 8 * row, number(state, _TIME))
    write64(region(state, _X_DURATION), 8 * row, duration)
    write32(region(state, _X_THREAD), 4 * row, thread_code(state, buffer))
    write32(region(state, _X_NAME), 4 * row, code_of(state, _NAMES, text(state, buffer, _NAME_AT, _NAME_LENGTH)))
    category = code_of(state, _CATEGORIES, text(state, buffer, _CATEGORY_AT, _CATEGORY_LENGTH))
    write32(region(state, _X_CATEGORY), 4 * row, category)
    write32(region(state, _X_TASK), 4 * row, task)
    write32(region(state, _X_STACK), 4 * row, stack)
    write32(region(state, _X_EVENT), 4 * row, event)
    write64(region(state, _X_STREAM), 8 * row, stream)
    write64(region(state, _X_CONNECTION), 8 * row, number(state, _CONNECTION))
    write64(region(state, _X_CORRELATION), 8 * row, number(state, _CORRELATION))
    put(state, _X, row + 1)
    increase(state, _PHASE_X)
    return True


@compiled
def tells_instances(buffer: Region, at: int, length: int) -> bool:
    """Whether a key of counter args tells samples apart and is no curve of its own."""
    if length > 6 or length < 3:
        return False
    return (
        is_word(buffer, at, length, 0x64695F636361, 0)
        or is_word(buffer, at, length, 0x656964, 0)
        or is_word(buffer, at, length, 0x64695F656964, 0)
        or is_word(buffer, at, length, 0x646920636361, 0)
        or is_word(buffer, at, length, 0x646920656964, 0)
    )


@compiled
def add_samples(state: Region, buffer: Region) -> bool:
    """A row for every value of a counter event; False if it is none of the common ones."""
    if number(state, _TIME_AT) < 0:
        return False
    scratch = region(state, _SCRATCH)
    count = number(state, _VALUES)
    end = _COMPOSED + 40
    telling = 0  # a bit for every key that tells instances apart
    for k in range(count):
        place = 8 * VALUE_WORDS * k
        at, length = read64(scratch, place), read64(scratch, place + 8)
        key = entity(state, TEXT, buffer, at, length)
        for before in range(k):
            if read64(scratch, _KEYS + 8 * before) == key:
                return False
        write64(scratch, _KEYS + 8 * k, key)
        if count > 1 and tells_instances(buffer, at, length):
            if read64(scratch, place + 32) != 0:
                return False
            telling |= 1 << k
            write64(scratch, end, key)
            write64(scratch, end + 8, read64(scratch, place + 16))
            end += 16
    compose_place(state, buffer, scratch, _COMPOSED, _PID, _PID_AT)
    write64(scratch, _COMPOSED + 16, text(state, buffer, _NAME_AT, _NAME_LENGTH))
    identity = -1
    if number(state, _ID_AT) >= 0:
        identity = text(state, buffer, _ID_AT, _ID_LENGTH)
    write64(scratch, _COMPOSED + 24, identity)
    time, columns = number(state, _TIME), region(state, _C_TIME)
    for k in range(count):
        if telling & (1 << k):
            continue
        write64(scratch, _COMPOSED + 32, read64(scratch, _KEYS + 8 * k))
        series = code_of(state, _SERIES, entity(state, SERIES, scratch, _COMPOSED, end - _COMPOSED))
        row = increase(state, _C)
        write64(columns, 8 * row, time)
        write32(region(state, _C_SERIES), 4 * row, series)
        place = 8 * VALUE_WORDS * k
        write_float(region(state, _C_VALUE), 8 * row, float_of_bits(read64(scratch, place + 16)))
        if read64(scratch, place + 32) != 0:
            note_inexact(state, VALUE, row, read64(scratch, place + 24), read64(scratch, place + 32))
        if number(state, _TIME_LENGTH):
            note_inexact(state, SAMPLE_TIME, row, number(state, _TIME_AT), number(state, _TIME_LENGTH))
    increase(state, _PHASE_C)
    return True


@compiled
def is_launch(state: Region, buffer: Region) -> bool:
    """Whether the category of the event is that of launches."""
    at = number(state, _CATEGORY_AT)
    return at >= 0 and is_word(buffer, at, number(state, _CATEGORY_LENGTH), 0x65446F5474736F48, 0x65636976)


@compiled
def add_link_end(state: Region, buffer: Region, event: int, kind: int) -> bool:
    """A row for the source, step or target of a link; False if it is none of the common ones."""
    at, length = number(state, _ID_AT), number(state, _ID_LENGTH)
    if number(state, _TIME_AT) < 0:
        return False
    if at < 0:
        increase(state, _LAUNCH_WITHOUT if is_launch(state, buffer) else _LINK_WITHOUT)
        increase(state, _PHASE_S + kind - SOURCE)
        return True
    row = number(state, _L)
    plain = 0 < length < 37 and (length == 1 or read8(buffer, at) != 48)
    one, two, three, four = 0, 0, 0, 0
    k = 0
    while plain and k < length:
        digit = read8(buffer, at + k) - 48
        if digit < 0 or digit > 9:
            plain = False
        else:
            one = one * 10 + digit
            two = two * 10 + (one >> 31)
            three = three * 10 + (two >> 31)
            four = four * 10 + (three >> 31)
            one &= _LOW_31
            two &= _LOW_31
            three &= _LOW_31
        k += 1
    low, high = one | (two << 31), three | (four << 31)
    if not plain:
        low, high = 0, -1 - code_of(state, _LINK_TEXTS, text(state, buffer, _ID_AT, _ID_LENGTH))
    category = code_of(state, _LINK_CATEGORIES, text(state, buffer, _CATEGORY_AT, _CATEGORY_LENGTH))
    write64(region(state, _L_TIME), 8 * row, number(state, _TIME))
    write32(region(state, _L_CATEGORY), 4 * row, category)
    write32(region(state, _L_THREAD), 4 * row, thread_code(state, buffer))
    write32(region(state, _L_EVENT), 4 * row, event)
    write64(region(state, _L_ID), 8 * row, low)
    write64(region(state, _L_HIGH), 8 * row, high)
    write8(region(state, _L_PHASE), row, kind - SOURCE)
    if number(state, _TIME_LENGTH):
        note_inexact(state, LINK_TIME, row, number(state, _TIME_AT), number(state, _TIME_LENGTH))
    put(state, _L, row + 1)
    increase(state, _PHASE_S + kind - SOURCE)
    return True


@compiled
def has_room(state: Region, length: int) -> bool:
    """Whether an event of ``length`` bytes fits in everywhere."""
    return (
        number(state, _X) < number(state, _X_ROOM)
        and number(state, _C) + MOST_VALUES <= number(state, _C_ROOM)
        and number(state, _L) < number(state, _L_ROOM)
        and number(state, _RARE) < number(state, _RARE_ROOM)
        and number(state, _INEXACT) + 2 * MOST_VALUES <= number(state, _INEXACT_ROOM)
        and number(state, _CHUNKS) + 1 < number(state, _CHUNK_ROOM)
        and number(state, _ENTITIES) + ENTITIES_PER_EVENT <= number(state, _ENTITY_ROOM)
        and number(state, _HEAP_USED) + length + 16 * ENTITIES_PER_EVENT * MOST_VALUES <= number(state, _HEAP_ROOM)
    )


@compiled
def close_chunk(state: Region, begin: int, first: int, end: int, base: int) -> None:
    """Note the chunk of the events from ``first`` on, ``[begin, end)`` of the buffer."""
    row = increase(state, _CHUNKS)
    write64(region(state, _CHUNK_OFFSET), 8 * row, base + begin)
    write64(region(state, _CHUNK_LENGTH), 8 * row, end - begin)
    write64(region(state, _CHUNK_FIRST), 8 * row, first)


@compiled
def scan(address: int, words: int) -> int:
    """Take in events from the position of the state on; returns why it ends. The position is then the next event's.

    An event counts once the comma after it and the bracket of the next one are seen.
    """
    state = (address, 8 * words)
    buffer = region(state, _BUFFER)
    filled, base, cut = number(state, _FILLED), number(state, _BASE), number(state, _CUT)
    size = number(state, _CHUNK_SIZE)
    begin = number(state, _POSITION)
    event = number(state, _EVENTS)
    chunk, chunk_event, last_end = begin, event, begin
    why = MORE
    while True:
        wrong = begin
        end = -1 - begin
        if read8(buffer, begin) == 123:
            end = event_end(state, buffer, begin)
        following = end
        if end >= 0:
            following = blank_end(buffer, end)
            if read8(buffer, following) == 44:
                following = blank_end(buffer, following + 1)
                if read8(buffer, following) != 123:
                    following = -1 - following
            else:
                following = -1 - following
        if following < 0:
            wrong = -1 - following
            why = MORE if wrong + 8 >= filled else WRONG
            break
        if not has_room(state, end - begin):
            why = GROW
            break
        kind = number(state, _KIND)
        common = True
        if kind == SLICE:
            common = add_slice(state, buffer, event)
        elif kind == SAMPLE:
            common = add_samples(state, buffer)
        elif kind == OTHER:
            row = increase(state, _RARE)
            rare = region(state, _R_RARE)
            write64(rare, 24 * row, event)
            write64(rare, 24 * row + 8, begin)
            write64(rare, 24 * row + 16, end - begin)
        else:
            common = add_link_end(state, buffer, event, kind)
        if not common:
            why = WRONG
            break
        event += 1
        last_end = end
        begin = following
        if end - chunk >= size:
            close_chunk(state, chunk, chunk_event, end, base)
            chunk, chunk_event = following, event
        if base + end > cut:
            why = DONE
            break
    if event > chunk_event:
        close_chunk(state, chunk, chunk_event, last_end, base)
    put(state, _EVENTS, event)
    put(state, _POSITION, begin)
    put(state, _WRONG_AT, wrong)
    return why
