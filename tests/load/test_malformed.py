"""Every malformation of the table: what is kept, what is said, and that no damage costs more than linear time."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
sys.path.insert(0, str(FIXTURES))

from malformed import MALFORMATIONS, Malformation, first_event_end, truncations  # noqa: E402 - its folder is no package
from measured import part_of, profile_of  # noqa: E402
from refusals import refused  # noqa: E402
from small_trace import SLICES, small_trace  # noqa: E402
from written import text_report  # noqa: E402

from npu_tui.load import json_chunks as chunks  # noqa: E402
from npu_tui.load.args import json_args  # noqa: E402
from npu_tui.load.errors import InputError  # noqa: E402
from npu_tui.load.json_chunks import ChunkReader  # noqa: E402
from npu_tui.load.json_events import (  # noqa: E402
    decode_events,
    strict_json,
)
from npu_tui.load.load import load  # noqa: E402
from npu_tui.output.report import report  # noqa: E402
from npu_tui.output.report_tables import health_lines  # noqa: E402
from npu_tui.strings import words  # noqa: E402

EVENT = b'{"ph": "X", "name": "op", "pid": 1, "tid": 2, "ts": "1.000", "dur": 1}'
SAID = {
    "truncated": ("cut off",),
    "no events": ("no complete event", "is empty", "without content", "expected a JSON array"),
    "bound": ("without a slice at the",),
    "negative": ("with the end before the start",),
    "cross": ("overlaps another slice", "overlap another slice"),
    "far": ("away from all others",),
}
"""The program's words for the topics of the table."""


def paths_of(malformation: Malformation, folder: Path) -> list[Path]:
    """Writes the damaged files into ``folder``; what a user opens of them: the file, the directory, or each rank's."""
    damaged = malformation.damage(small_trace())
    files = damaged if isinstance(damaged, dict) else {"trace_view.json": damaged}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    names = [Path(name) for name in files]
    if len(names) > 1 and all(name.parent == Path() for name in names):
        return [folder]
    return [folder / name for name in names]


@pytest.mark.few(30)
@pytest.mark.parametrize("malformation", MALFORMATIONS, ids=lambda malformation: malformation.id)
def test_malformation(malformation: Malformation, tmp_path: Path) -> None:
    paths = paths_of(malformation, tmp_path)
    for chunk_size in (64, 1 << 16):
        _read_as_the_table_says(malformation, paths, chunk_size)


def _read_as_the_table_says(malformation: Malformation, paths: list[Path], chunk_size: int) -> None:
    kept, said = 0, ""
    for path in paths:
        try:
            trace = load(path, chunk_size=chunk_size)
        except InputError as error:
            said += words(error.message)
            assert "\n" not in said
            assert str(path) in said
            assert "byte " in said
            assert "; " in said, "what to do comes after what is wrong"
        else:
            kept += len(trace.slices)
            said += "\n".join(health_lines(profile_of(trace)))
            if chunk_size == 64 and malformation.health:
                assert text_report(report(part_of(trace))).replace("\n", "").isprintable()
            for ordinal in range(sum(trace.events.values())):
                json_args(trace).event(ordinal)
    assert malformation.kept <= kept <= malformation.kept + malformation.added
    assert ("byte " in said) == malformation.refused
    for topic in malformation.health:
        assert any(each in said for each in SAID.get(topic, (topic,))), said
    if kept == SLICES and not malformation.health:
        assert "skipped" not in said


def test_every_truncation_of_the_small_trace(tmp_path: Path) -> None:
    path, data = tmp_path / "trace_view.json", small_trace()
    for size, (cut, slices) in enumerate(truncations(data)):
        if size % 61 and size > 40:
            continue
        path.write_bytes(cut)
        if size < first_event_end(data):
            with pytest.raises(InputError):
                load(path)
        else:
            trace = load(path, chunk_size=256)
            assert len(trace.slices) == slices
            assert trace.health.truncated


BROKEN = {
    "without its end": b'{"ph": "X", "args": {"a": 1}, "name": "b"',
    "with a text that never ends": b'{"ph": "X", "name": "b, "pid": 1}',
    "with a list that never ends": b'{"ph": "X", "args": {"a": [1, 2}}',
    "with a brace too many": EVENT + b"}",
    "with a bracket behind it": EVENT + b"]",
    "with the end of an array and a new one": EVENT + b"][" + EVENT,
    "with a second list of events": EVENT + b'], "version": 1, "traceEvents": [' + EVENT,
    "with half of an event": EVENT[:40],
    "with a comma too many": EVENT + b",",
}


@pytest.mark.parametrize("chunk_size", [64, 1 << 16])
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_what_lies_behind_damage_is_read(broken: bytes, chunk_size: int, tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json"
    path.write_bytes(b"[" + b", ".join([EVENT] * 50 + [broken] + [EVENT] * 50) + b"]")
    trace = load(path, chunk_size=chunk_size)
    assert len(trace.slices) >= 100
    assert not trace.health.truncated
    assert {json_args(trace).event(ordinal)["name"] for ordinal in range(len(trace.slices))} == {"op"}


MANY = BROKEN | {
    "separated by commas twice": EVENT + b", ",
    "on lines without commas": EVENT + b"\n" + EVENT,
    "of blanks": b" " * 200,
    "of zeros": b"\0" * 200,
    "of brackets": b"[" * 200,
    "of boundaries": b'}, {"ph": [' * 20,
    "of opened texts": b'}, {"ph": "' * 20,
    "of lists in lists": b'{"a": [' * 20,
    "of scalars": b'1, "a", null',
    "of bytes": bytes(range(1, 256)),
}


@pytest.mark.parametrize("broken", MANY.values(), ids=MANY)
def test_no_damage_takes_more_than_linear_time(broken: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in bytes decoded or looked at for brackets: twice the file, three times the work at most."""
    small, large = (_looked_at(broken, size, monkeypatch) for size in (1 << 14, 1 << 15))
    assert large <= 3 * small
    assert large <= 300 * (1 << 15)


def _looked_at(broken: bytes, size: int, monkeypatch: pytest.MonkeyPatch) -> int:
    looked = 0

    def counted_decode(data: bytes) -> list[object]:
        nonlocal looked
        looked += len(data)
        return list(decode_events(data))

    def counted_spans(block: bytes, *rest: object, **more: object) -> object:
        nonlocal looked
        found = original(block, *rest, **more)
        at, end = (*rest, 0, len(block))[:2] if len(rest) >= 2 else (0, len(block))
        looked += int(end) - int(at)  # type: ignore[call-overload]
        return found

    original = chunks.object_spans
    monkeypatch.setattr(chunks, "object_spans", counted_spans)
    unit = b", ".join([EVENT, broken, EVENT]) + b", "
    data = b"[" + unit * (size // len(unit)) + EVENT + b"]"
    reader: ChunkReader[object] = ChunkReader(io.BytesIO(data), 1, counted_decode, strict_json)
    for _ in reader:
        pass
    monkeypatch.setattr(chunks, "object_spans", original)
    return looked


def test_a_hundred_thousand_brackets(tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json"
    deep = b'{"ph": "X", "args": ' + b"[" * 100_000
    path.write_bytes(b"[" + EVENT + b", " + deep + b"]" * 100_000 + b"}, " + EVENT + b"]")
    assert len(load(path).slices) == 2
    path.write_bytes(b"[" * 100_000)
    with refused("no complete event"):
        load(path)


def test_an_event_larger_than_every_chunk(tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json"
    long = {
        **json.loads(EVENT),
        "name": "long",
        "args": {"Input Dims": "}, {" * 300_000, "list": [{"name": 1}] * 9_000},
    }
    path.write_bytes(b"[" + EVENT + b", " + json.dumps(long).encode() + b", " + EVENT + b"]")
    trace = load(path)
    assert sorted(trace.names) == ["long", "op"]
    assert len(trace.slices) == 3
    assert json_args(trace).event(1)["args"] == long["args"]


PEAKS = """
import resource, sys
from npu_tui.load.errors import InputError
from npu_tui.load.load import load
from npu_tui.strings import words
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        load(path)
    except InputError as error:
        assert words(error.message)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
"""Kilobytes that refusing a file has taken at most, one file after the other."""


def test_large_files_of_nothing_take_little_memory(tmp_path: Path) -> None:
    most = {"blanks": 48_000, "zeros": 48_000, "brackets": 48_000, "half an event": 144_000}
    for name, fill in zip(most, (b" " * (60 << 20), b"", b"[", b'[{"ph": "X'), strict=True):
        (tmp_path / name).mkdir()
        with (tmp_path / name / "trace_view.json").open("wb") as file:
            file.write(fill)
            file.truncate((48 if name == "half an event" else 60) << 20)  # a hole: zeros that take no disk
    command = [sys.executable, "-c", PEAKS, *(tmp_path / name / "trace_view.json" for name in most)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for (name, bound), grown in zip(most.items(), done.stdout.split(), strict=True):
        assert int(grown) < bound, name
