"""What the tables of a scanner have learned, as the values of dictionaries."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from npu_tui.ingest.json.columns.counter_events import SeriesKey, instance_name
from npu_tui.ingest.json.decoding.events import place_number
from npu_tui.ingest.scanner.state import State
from npu_tui.native.layout import DICTIONARIES, NUMBER, PLAIN

_texts = msgspec.json.Decoder(list[str]).decode
_KNOWN = NUMBER[f"known_{DICTIONARIES[0]}"]


def known_counts(state: State) -> list[int]:
    """How many values each dictionary has."""
    return state.words[_KNOWN : _KNOWN + len(DICTIONARIES)].tolist()  # type: ignore[no-any-return]


def news(state: State, known: list[int]) -> dict[str, list[Any]]:
    """The values of each dictionary after the ``known`` first ones, in the order of their codes."""
    found: dict[str, list[Any]] = {}
    for number, (name, first, last) in enumerate(zip(DICTIONARIES, known, known_counts(state), strict=True)):
        entities = state.arrays["list"][number, first:last].tolist()
        if not entities:
            found[name] = []
        elif name == "threads":
            found[name] = [_thread(state, entity) for entity in entities]
        elif name == "series":
            found[name] = [_series(state, entity) for entity in entities]
        else:
            found[name] = _decoded(state, entities)
    return found


def _decoded(state: State, entities: list[int]) -> list[str]:
    """The texts of entities."""
    heap, offset, length = state.arrays["heap"], state.arrays["offset"], state.arrays["length"]
    return _texts(b'["%b"]' % b'","'.join([
        heap[at : at + (tag >> 3)].tobytes()
        for at, tag in zip(offset[entities].tolist(), length[entities].tolist(), strict=True)
    ]))  # fmt: skip


def _words(state: State, entity: int) -> list[int]:
    """The words of an entity that is no text."""
    at, length = int(state.arrays["offset"][entity]), int(state.arrays["length"][entity]) >> 3
    return state.arrays["heap"][at : at + length].view(np.int64).tolist()  # type: ignore[no-any-return]


def _place(state: State, value: int, kind: int) -> int:
    """The number of a process or thread."""
    return value if kind == PLAIN else place_number(_decoded(state, [value])[0])


def _thread(state: State, entity: int) -> tuple[int, int]:
    process, process_kind, thread, thread_kind = _words(state, entity)
    return _place(state, process, process_kind), _place(state, thread, thread_kind)


def _series(state: State, entity: int) -> SeriesKey:
    process, kind, name, identity, key, *telling = _words(state, entity)
    texts = _decoded(state, [name, key, *telling[::2], *([identity] if identity >= 0 else [])])
    values = np.array(telling[1::2], np.int64).view(np.float64).tolist()
    label = texts[0] if identity < 0 else f"{texts[0]}[{texts[-1]}]"
    return _place(state, process, kind), label, texts[1], instance_name(texts[2 : 2 + len(values)], values)
