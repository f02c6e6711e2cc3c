"""The blocks of memory that the library and its callers share: int64 words, regions first, then plain numbers.

A region is two words, its address and its length in bytes. Nothing else is known of the memory, and the checked build
stops at the first access outside the region that is meant. ``header`` gives the same to C: ``layout.h``, which
``build.py`` writes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]

DICTIONARIES = (
    "threads", "names", "categories", "task_types", "stacks", "series", "link_categories", "link_texts",
)  # fmt: skip
"""The dictionaries of ``RangeColumns`` in the order of their numbers here."""

_REGIONS = (
    "buffer", "slots", "hash", "offset", "length", "heap", "powers", "code", "list",
    "x_time", "x_duration", "x_thread", "x_name", "x_category", "x_task_type", "x_stack", "x_event",
    "x_stream", "x_connection", "x_correlation",
    "c_time", "c_series", "c_value",
    "l_time", "l_category", "l_thread", "l_event", "l_id", "l_high", "l_phase",
    "rare", "inexact", "chunk_offset", "chunk_length", "chunk_first",
)  # fmt: skip
_NUMBERS = (
    "filled", "position", "base", "cut", "chunk_size",
    "x_room", "c_room", "l_room", "rare_room", "inexact_room", "chunk_room", "entity_room", "heap_room",
    "events", "x", "c", "l", "rare_count", "inexact_count", "chunks",
    "phase_X", "phase_C", "phase_s", "phase_t", "phase_f", "without_duration",
    "launch_without_id", "link_without_id", "entities", "heap_used",
    *(f"known_{name}" for name in DICTIONARIES),
)  # fmt: skip

REGION = {name: 2 * i for i, name in enumerate(_REGIONS)}
"""The word that holds the address of a region; its length follows."""

NUMBER = {name: 2 * len(_REGIONS) + i for i, name in enumerate(_NUMBERS)}
"""The word of a plain number."""

WORDS = 2 * len(_REGIONS) + len(_NUMBERS)

PADDING = 64
"""Zero bytes after what is filled of the buffer: every loop ends at one, and words may be read past the end."""

MORE, WRONG, GROW, DONE = 0, 1, 2, 3
"""Why a scan ends: the bytes are used up; what follows is not one of the common events; no room; the cut is reached."""

TEXT, THREAD_WORDS, SERIES_WORDS = 0, 1, 2
"""Kinds of entities. A thread is four words: process, what kind of number that is, and the same of the thread.

A series is the two words of its process, the entities of name, id (-1: none) and key, and per key that distinguishes
instances its entity and the bits of its value.
"""

PLAIN, NAMED = 0, 1
"""A process or thread is a number, or the entity of a text."""

SLICE_TIME, DURATION, VALUE, SAMPLE_TIME, LINK_TIME = 0, 1, 2, 3, 4
"""Columns that a number is left out of: four words give that, the row, and offset and length in the buffer."""

MOST_VALUES = 16
"""Counter events with more values are not common ones."""

ENTITIES_PER_EVENT = 4 * MOST_VALUES + 8

_CHOSEN_REGIONS = (
    "text", "pieces", "bounds", "positions", "keys", "letters", "values", "kinds", "slots", "entries", "heap",
)  # fmt: skip
_CHOSEN_WORDS = ("asked", "count", "rows", "known", "used")

CHOSEN_REGION = {name: 2 * i for i, name in enumerate(_CHOSEN_REGIONS)}
"""The plan of chosen args: the words that hold the address of a region, whose length in bytes follows.

``pieces`` of ``text`` are four words each: offset, length, how many events there are, the row after those asked for.
``bounds`` have room for begin and end of the events of one, ``positions`` say which of them each row belongs to.
``keys`` are offset and length of each key in ``letters``. ``values`` (int64) and ``kinds`` (one byte) have all rows of
the first key, then those of the next. Texts are numbered: ``slots`` (int32, a power of two of them) lead to ``entries``
of three words, hash, offset and length in ``heap``.
"""

CHOSEN_WORD = {name: 2 * len(_CHOSEN_REGIONS) + i for i, name in enumerate(_CHOSEN_WORDS)}
"""The plain numbers after the regions: pieces, keys, all rows, texts known, bytes of the heap."""

CHOSEN_ABSENT, CHOSEN_NUMBER, CHOSEN_TEXT, CHOSEN_UNREAD = 0, 1, 2, 3
"""What a value is; events that are not of the common kinds are left unread."""

_CELL_REGIONS = (
    "offset", "item", "start", "end", "busy", "which", "edges", "keys", "levels", "marks",
    "count", "covered", "shown", "position", "first", "other", "leads", "from_left", "to_right", "touches",
    "start8", "end8",
)  # fmt: skip
_CELL_WORDS = ("lines", "columns", "depth", "bits", "drop")

CELL_REGION = {name: 2 * i for i, name in enumerate(_CELL_REGIONS)}
"""The plan of cells: the columns of ``Rows``, which of its rows are wanted, the edges of columns, the keys of
``Levels``, where each level of them begins, and every 64th start; then the columns of ``Cells`` in their order."""

CELL_WORD = {name: 2 * len(_CELL_REGIONS) + i for i, name in enumerate(_CELL_WORDS)}
"""The plain numbers after the regions: rows wanted, columns, levels, and the bits and the drop of the keys."""

_CSV_REGIONS = "text", "kinds", "values", "missing", "powers", "slots", "entries", "lists"
_CSV_WORDS = "size", "columns", "rows", "texts", "listed"

CSV_REGION = {name: 2 * i for i, name in enumerate(_CSV_REGIONS)}
"""The plan of the columns of a CSV file: whole rows of ``text``, the kind of each column (one byte), ``values`` (int64)
of the first column, then those of the next, and the words of up to eight bytes that stand for no value.

``slots`` (int32, a power of two of them) lead to ``entries`` of two words, offset and length of each text. ``lists``
have four words for each request of a batch: the number of its name, iteration, phase, tokens.
"""

CSV_WORD = {name: 2 * len(_CSV_REGIONS) + i for i, name in enumerate(_CSV_WORDS)}
"""The plain numbers after the regions: bytes of text, columns, room for rows, texts and requests so far."""

CSV_LEFT_OUT, CSV_WHOLE, CSV_REAL, CSV_MILLISECONDS, CSV_MICROSECONDS, CSV_DATE, CSV_TEXT, CSV_REQUESTS = range(8)
"""What the cells of a column are; times become ns, texts the number of the text from 1 on, and the
requests of a batch how many they are."""


def powers() -> U64:
    """For up to 18 decimals: the power of a fifth in 128 bits and that of ten as a float, three words each; (19, 3).

    The fifths are rounded up and their highest bit is set, as the method of Eisel and Lemire needs them
    (https://arxiv.org/abs/2101.11408).
    """
    table = np.zeros((19, 3), np.uint64)
    for decimals in range(19):
        five = 5**decimals
        bits = (five - 1).bit_length()
        fifth = min((1 << (bits + 127)) // five + 1, (1 << 128) - 1)
        table[decimals, 0], table[decimals, 1] = fifth >> 64, fifth & ((1 << 64) - 1)
        table[decimals, 2] = np.float64(10.0**decimals).view(np.uint64)
    return table


POWERS = powers()
