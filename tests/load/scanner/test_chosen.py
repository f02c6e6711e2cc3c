"""Args as columns: the compiled reader against the one in Python."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_tui.load import args as chosen
from npu_tui.load.args import JsonArgs
from npu_tui.native.library import VARIABLE, library
from npu_tui.trace.args import ArgColumn
from npu_tui.trace.model import Chunks, EventFile

pytestmark = pytest.mark.skipif(library() is None, reason="no compiled library for this machine")

KEYS = ("src rank", "size(Byte)", "link type", "x")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.sampled_from('ab "\\中\n'), max_size=20),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(KEYS), st.integers(), max_size=2),
)
ARGS = st.dictionaries(st.sampled_from([*KEYS, "src", "y"]), VALUES, max_size=5)
EVENT = st.one_of(
    ARGS.map(lambda args: json.dumps({"ph": "X", "args": args, "ts": "1.5"})),
    ARGS.map(lambda args: json.dumps({"name": "中", "args": args}, ensure_ascii=False)),
    st.sampled_from([
        "{}",
        '{"args": {}}',
        '{"args": 7}',
        '{"args": {"x": 1}, "args": {"x": 2}}',
        '{"args": {"x": 1, "x": null}}',
        '{"args": {"x": "one", "x": 2, "y": [{"x": 3}]}}',
        '{"args" : { "x" :-0, "src rank": 0 } }',
        '{"args": {"\\u0078": 5}}',
        '{"args": {"x": 12345678901234567890, "src rank": -7}}',
    ]),
)  # fmt: skip


def reader(tmp_path: Path, texts: list[str], first: int) -> JsonArgs:
    """The args of ``texts`` in two chunks, ``first`` of them in the first one."""
    path = tmp_path / "trace_view.json"
    parts = [", ".join(part).encode() for part in (texts[:first], texts[first:])]
    path.write_bytes(b"[" + b", ".join(parts) + b"]")
    lengths = np.array([len(part) for part in parts], np.int64)
    offsets = np.array([1, 3 + len(parts[0])], np.int64)
    chunks = Chunks(np.zeros(2, np.int32), offsets, lengths, np.array([0, first], np.int64))
    return JsonArgs(str(path), (EventFile(str(path), path.stat().st_size),), chunks, len(texts))


def told(columns: list[ArgColumn]) -> str:
    return repr([column.objects for column in columns])


@settings(max_examples=24, deadline=None, derandomize=True)
@given(st.lists(EVENT, min_size=2, max_size=9))
def test_args_are_those_of_the_reader_in_python(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    folder = tmp_path_factory.getbasetemp()
    args = reader(folder, texts, len(texts) // 2)
    wanted = np.array([*range(len(texts)), *range(len(texts))][::-1], np.int64)
    found = told(args.columns(wanted, KEYS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "off")
        assert found == told(args.columns(wanted, KEYS))


def test_whole_numbers_and_texts_need_no_object(tmp_path: Path) -> None:
    kinds = ["HCCS", "ON_CHIP", "HCCS", "a text of more than one word"]
    texts = [
        json.dumps({"args": {"src rank": k, "link type": kind, "x": 1.5, "y": {}}}) for k, kind in enumerate(kinds)
    ]
    rank, size, link, other = reader(tmp_path, texts, 3).columns(np.array([3, 0, 2, 1]), KEYS)
    assert rank.numbers(0, 3).tolist() == [-1, 0, 2, 1]
    assert size.numbers(0, 99).tolist() == [-1] * 4
    assert [link.texts[code] for code in link.text_codes.tolist()] == [kinds[k] for k in (3, 0, 2, 1)]
    assert len(link.texts) == 3
    assert other.objects == [1.5] * 4
    assert other.text_codes.tolist() == [-1] * 4


def test_more_texts_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, room in (("_TEXTS", 4), ("_HEAP", 64)):
        with monkeypatch.context() as patch:
            patch.setattr(chosen, name, room)
            texts = [json.dumps({"args": {"x": f"text {k % 50} of many"}}) for k in range(100)]
            found = reader(tmp_path, texts, 30).columns(np.arange(100), ("x",))[0]
        assert found.objects == [f"text {k % 50} of many" for k in range(100)]
        assert len(found.texts) == 50
