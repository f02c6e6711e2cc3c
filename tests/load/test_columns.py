"""Events taken apart: phases of any kind, ids of any kind, codes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.load.json_columns import LinkEndRows, ValueCodes
from npu_tui.load.json_events import Event
from npu_tui.load.json_reader import EventColumns

PHASES = st.sampled_from(["X", "C", "s", "t", "f", "M", "i", "", "XX", "é", "\0", ",", "f,s"])


@given(st.lists(PHASES, max_size=12), st.lists(PHASES, max_size=12))
def test_every_event_is_counted_under_its_own_phase(first: list[str], second: list[str]) -> None:
    columns = EventColumns()
    for offset, phases in ((0, first), (100, second)):
        columns.add(offset, 100, [Event(ph=phase, ts="1.000", dur=2.0, id=1, bp="e") for phase in phases])
    part = columns.take()
    both = first + second
    assert part.phases == Counter(both)
    assert part.count == len(both)
    assert part.columns["x_event"].tolist() == [i for i, phase in enumerate(both) if phase == "X"]
    ends = [i for i, phase in enumerate(both) if phase in ("s", "t", "f")]
    assert part.columns["l_event"].tolist() == ends
    assert part.columns["l_phase"].tolist() == ["stf".index(both[i]) for i in ends]
    assert len(part.columns["c_time"]) == 0  # a sample without args has no value
    assert not part.skipped  # what has no place is told by its phase


def split(ids: list[Any]) -> tuple[list[int], list[int], dict[str, int], Counter[str]]:
    texts: ValueCodes[str] = ValueCodes()
    skipped: Counter[str] = Counter()
    ends = LinkEndRows(ValueCodes(), ValueCodes(), texts, skipped)
    ends.add([Event(ph="s", ts="1.000", id=identity) for identity in ids])
    columns = ends.take(np.arange(len(ids)))
    return columns["id"].tolist(), columns["high"].tolist(), texts, skipped


IDS = st.one_of(
    st.integers(-3, 3),
    st.integers(0, 2**130),
    st.integers(0, 2**130).map(str),
    st.sampled_from(["", "0", "00", "01", " 1", "1 ", "1 2", "+1", "1_0", "0x1", "٣", "7" * 40]),
    st.none(),
)


@given(st.lists(IDS, max_size=6))
def test_ids_are_numbers_or_codes_of_texts(ids: list[Any]) -> None:
    low, high, texts, skipped = split(ids)
    known = [str(identity) for identity in ids if identity is not None]
    assert skipped["skip.link_id"] == len(ids) - len(known)
    back = {-1 - code: text for text, code in texts.items()}
    assert [back[h] if h < 0 else str((h << 62) | n) for n, h in zip(low, high, strict=True)] == known


@pytest.mark.parametrize("same", [[5, "5"], ["5", "5"], [5, 5]])
def test_an_id_is_the_same_as_number_and_as_text(same: list[Any]) -> None:
    low, high, texts, _ = split(same)
    assert low == [5, 5]
    assert high == [0, 0]
    assert not texts
