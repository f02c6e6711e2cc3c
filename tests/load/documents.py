"""Trace files made to mislead a reader that cuts them into pieces."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Event = dict[str, Any]

#: Pieces of text that look like structure.
FRAGMENTS = [
    '}, {"',
    '},{"ph":"X"',
    "}]",
    "}, {",
    '"',
    "\\",
    '\\"}, {\\"',
    "]",
    "[",
    "{",
    "}",
    ",",
    ":",
    " ",
    "\n",
    "\t",
    "é",
    "算子",
    "\U0001f600",
    "a",
]
TEXT = st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=8
)
VALUE = st.recursive(
    TEXT
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.none()
    | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXT, inner, max_size=3)
        | st.lists(st.fixed_dictionaries({"a": inner, "b": TEXT}), max_size=4)
    ),
    max_leaves=8,
)
TS = st.integers(0, 60_000).map(lambda ns: f"17364054438636{ns // 1000:02d}.{ns % 1000:03d}")
THREAD = {"pid": st.integers(1, 2), "tid": st.integers(1, 3)}

ARGS = st.fixed_dictionaries(
    {},
    optional={
        "Task Type": TEXT,
        "Stream Id": st.integers(0, 3),
        "connection_id": st.integers(0, 3),
        "Call stack": TEXT,
        "Input Dims": VALUE,
        "}, {": VALUE,
    },
)
SLICE = st.fixed_dictionaries(
    {"ph": st.just("X"), "name": TEXT, "ts": TS, "dur": st.integers(0, 30) | st.floats(0, 30), **THREAD},
    optional={"cat": TEXT, "args": ARGS},
)
LINK_END = st.fixed_dictionaries(
    {"ph": st.sampled_from("sft"), "name": TEXT, "ts": TS, "id": st.integers(0, 3) | st.sampled_from("123"), **THREAD},
    optional={"cat": st.sampled_from(["HostToDevice", "async_npu"]), "bp": st.just("e")},
)
SAMPLE = st.fixed_dictionaries(
    {
        "ph": st.just("C"),
        "name": st.sampled_from(["HBM 0/Read", '}, {"']),
        "ts": TS,
        "pid": st.just(9),
        "tid": st.just(0),
    }
    | {"args": st.dictionaries(st.sampled_from(["value", "acc_id", '}, {"']), st.integers(0, 9), max_size=3)}
)
NAME = st.fixed_dictionaries(
    {"ph": st.just("M"), "name": st.sampled_from(["process_name", "thread_name"]), **THREAD}
    | {"args": st.fixed_dictionaries({"name": st.sampled_from(["Python", "CANN", "Ascend Hardware", '}, {"'])})}
)

#: Events of any writer of the Trace Event Format: texts for numbers, numbers for texts, marks, instants.
ANY_THREAD = {"pid": st.sampled_from([1, "1", "app"]), "tid": st.sampled_from([1, 2, "2", "worker", ""])}
ANY_TS = TS | TS.map(float) | st.integers(0, 60)
FOREIGN = (
    st.fixed_dictionaries(
        {"ph": st.just("X"), "name": TEXT, "ts": ANY_TS, **ANY_THREAD},
        optional={"dur": st.integers(0, 30) | st.sampled_from(["3", "3.25", "1E-3", 2.0004]), "args": ARGS | st.none()},
    )
    | st.fixed_dictionaries(
        {"ph": st.sampled_from("BBEE"), "ts": ANY_TS, **ANY_THREAD}, optional={"name": TEXT, "args": ARGS}
    )
    | st.fixed_dictionaries(
        {
            "ph": st.sampled_from("bbee"),
            "name": st.sampled_from("ab"),
            "ts": ANY_TS,
            "id": st.sampled_from([1, "1", "0x1"]),
        }
        | {"cat": st.sampled_from(["queue", ""]), **ANY_THREAD}
    )
    | st.fixed_dictionaries({"ph": st.sampled_from("iIn"), "name": TEXT, "ts": ANY_TS, **ANY_THREAD})
    | st.fixed_dictionaries(
        {"ph": st.just("C"), "name": TEXT, "ts": ANY_TS, **ANY_THREAD, "id": st.sampled_from([0, "0"])}
        | {"args": st.dictionaries(st.sampled_from(["used", "free"]), st.integers(0, 9) | st.floats(0, 9), max_size=2)}
    )
)


STYLES: list[dict[str, Any]] = [{}, {"separators": (",", ":")}, {"indent": 1}, {"ensure_ascii": False}]


@dataclass(frozen=True)
class Document:
    """The text of a file and where its events lie in it, [start, end) in bytes each."""

    data: bytes
    spans: list[tuple[int, int]]

    @property
    def events(self) -> list[bytes]:
        return [self.data[start:end] for start, end in self.spans]


@st.composite
def documents(draw: st.DrawFn, elements: st.SearchStrategy[Any] = SLICE | LINK_END | SAMPLE | NAME) -> Document:
    """A well-formed file with at least one slice, in any style of white space, escapes and key order."""
    events = draw(st.lists(elements, max_size=12))
    events.insert(draw(st.integers(0, len(events))), draw(SLICE))
    opening, closing = draw(
        st.sampled_from(
            [
                ("[", "]"),
                (" \n[ ", " ] \n"),
                ('{"traceEvents": [', "]}"),
                ('{"a":[{}],"traceEvents":[', '], "b": [{"c":1}, {"d":2}]}'),
            ]
        )
    )
    separator = draw(st.sampled_from([",", ", ", " ,\n ", "\n,"]))
    lot = random.Random(draw(st.integers(0, 2**32 - 1)))  # drawing each place of each key takes longer than reading all
    return render([_text(lot, event) for event in events], opening, separator, closing)


def _text(lot: random.Random, event: Event) -> str:
    """``event`` in any order of its keys and any style."""
    keys = lot.sample(list(event), len(event))
    style = lot.choice(STYLES)
    return json.dumps({key: event[key] for key in keys}, **style)


def render(events: list[str], opening: str = "[", separator: str = ", ", closing: str = "]") -> Document:
    """A document of ready-made elements."""
    data, spans = opening.encode(), []
    for index, event in enumerate(events):
        data += separator.encode() if index else b""
        text = event.encode()
        spans.append((len(data), len(data) + len(text)))
        data += text
    return Document(data + closing.encode(), spans)
