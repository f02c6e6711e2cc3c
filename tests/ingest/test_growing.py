"""A gzip that is scanned while it is unpacked gives what it gives when it is unpacked first."""

from __future__ import annotations

import gzip
import random
import threading
import time
from functools import cache

import pytest
from equality import assert_same, assert_same_events

from npu_tui.ingest import load as loading
from npu_tui.ingest.errors import Cancelled, InputError
from npu_tui.ingest.load import load
from npu_tui.ingest.scanner import reading
from npu_tui.ingest.scanner.library import library
from npu_tui.ingest.source import growing, unpack

pytestmark = pytest.mark.skipif(library() is None, reason="there is no compiled library for this machine")
pytest.importorskip("isal")

RNG = random.Random(3)


def event(k: int) -> str:
    odd = ['"a\\u0062"', "{}", "[1, {}]", '"' + "x" * RNG.randrange(900) + '"', "1.5e3"][k % 5]
    return (
        f'{{"ph": "{"XXXCX"[k % 5]}", "name": "n{k % 90}", "pid": 1, "tid": {k % 7}, "ts": "{k}.{k % 999:03d}", '
        f'"dur": {k % 9}, "args": {{"v": {odd}}}}}'
    )


PLAIN = ("[" + ",\n".join(event(k) for k in range(5_000)) + "]").encode()


@cache
def packed() -> bytes:
    return gzip.compress(PLAIN, 5)


@pytest.fixture(autouse=True)
def small_and_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Growing from the first byte on, in small blocks that come late, read by several threads."""
    monkeypatch.setattr(growing, "WORTH", 1)
    monkeypatch.setattr(loading, "_LONGEST_HEAD", 1 << 18)
    monkeypatch.setattr(unpack, "_BLOCK", 1 << 14)
    monkeypatch.setattr(reading, "_BEYOND", 1 << 12)
    monkeypatch.setattr(reading, "thread_count", lambda size: 2)


def loaded(path, **words):
    try:
        return load(path, range_bytes=1 << 16, **words)
    except InputError as error:
        return error.message.code


def slowly(monkeypatch, seconds):
    """Blocks come ``seconds`` apart; which have come is in the list returned."""
    used = []
    inner = unpack.inflated

    def late(*words):
        for taken in inner(*words):
            used.append(taken)
            time.sleep(seconds)
            yield taken

    monkeypatch.setattr(growing, "inflated", late)
    return used


@pytest.mark.parametrize("seconds", [0, 0.01])
def test_the_trace_is_the_same(tmp_path, monkeypatch, seconds):
    used = slowly(monkeypatch, seconds)
    path = tmp_path / "trace_view.json.gz"
    path.write_bytes(packed())
    (tmp_path / "plain").mkdir()
    plain = tmp_path / "plain" / "trace_view.json"
    plain.write_bytes(PLAIN)
    found, expected = loaded(path), loaded(plain)
    assert len(used) > 3
    assert_same(found, expected)
    assert_same_events(found, expected, step=97)


CASES = {
    "an event longer than what is there": lambda: gzip.compress(
        b'[{"ph": "X", "name": "a", "ts": 1, "dur": 1, "args": {"s": "' + b"y" * 600_000 + b'"}}, ' + PLAIN[1:]
    ),
    "cut": lambda: packed()[: len(packed()) * 2 // 3],
    "damaged": lambda: packed()[: len(packed()) // 2] + b"\0\1\2" + packed()[len(packed()) // 2 + 3 :],
    "two members": lambda: gzip.compress(PLAIN[:300_000], 1) + gzip.compress(PLAIN[300_000:], 1),
    "the second member told": lambda: gzip.compress(PLAIN[:-60_000], 1) + gzip.compress(PLAIN[-60_000:], 1),
    "nothing but blanks": lambda: gzip.compress(b" " * 600_000),
    "no array": lambda: gzip.compress(b"{} " * 20_000),
    "text behind": lambda: gzip.compress(PLAIN + b" and more" * 10_000),
    "cut inside": lambda: gzip.compress(PLAIN[:-9_001]),
    "brackets in between": lambda: gzip.compress(PLAIN[:300_000] + b"}}]}]" * 9 + PLAIN[300_000:]),
}


@pytest.mark.parametrize("case", CASES)
def test_whatever_it_holds_it_is_what_it_was(case, tmp_path, monkeypatch):
    slowly(monkeypatch, 0.002)
    path = tmp_path / "trace_view.json.gz"
    path.write_bytes(CASES[case]())
    found = loaded(path)
    monkeypatch.setattr(loading, "growing", lambda file: None)
    expected = loaded(path)
    assert type(found) is type(expected)
    assert_same(found, expected)


def test_who_cancels_does_not_wait_for_the_rest(tmp_path, monkeypatch):
    slowly(monkeypatch, 0.05)
    path = tmp_path / "trace_view.json.gz"
    path.write_bytes(gzip.compress(PLAIN, 0) if len(packed()) < 1 << 20 else packed())
    with pytest.raises(Cancelled):
        loaded(path, progress=lambda *_: False)
    assert not [each for each in threading.enumerate() if each.name == "unpacking" and each.is_alive()]
