"""A gzip read with the faster library and without it: the same bytes, whatever is wrong with it."""

from __future__ import annotations

import gzip
import random
import sys
import zlib
from pathlib import Path

import pytest

from npu_tui.load import unpack
from npu_tui.load.errors import InputError, Watcher
from npu_tui.load.unpack import open_plain
from npu_tui.trace.once import Cancelled

RNG = random.Random(7)
PLAIN = b"".join(b'{"ph": "X", "name": "n%d", "ts": %d.%03d, "dur": 1}, ' % (k % 50, k, k % 7) for k in range(6_000))
PACKED = gzip.compress(PLAIN, 6)
HALF = len(PACKED) // 2


def damaged(number: int) -> bytes:
    data = bytearray(PACKED)
    for _ in range(1 + number % 3):
        data[RNG.randrange(2, len(data))] ^= 1 << RNG.randrange(8)
    return bytes(data)


CASES = {
    "whole": PACKED,
    "two members": PACKED + gzip.compress(b"tail"),
    "padded": PACKED + b"\0" * 700,
    "padded between": PACKED + b"\0" * 700 + gzip.compress(b"tail"),
    "rubbish behind": PACKED + b"rubbish",
    "magic behind": PACKED + b"\x1f\x8b",
    "wrong sum": PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:],
    "wrong length": PACKED[:-4] + b"\1\0\0\0",
    "cut in two": PACKED[:HALF],
    "cut in its header": PACKED[:7],
    "cut before its sum": PACKED[:-8],
    "cut in its sum": PACKED[:-3],
    "empty member": gzip.compress(b""),
    "empty members": gzip.compress(b"") * 3 + PACKED,
    "with a name": gzip.compress(b"x")[:3] + b"\x08" + gzip.compress(b"x")[4:10] + b"name\0" + gzip.compress(b"x")[10:],
    "stored": gzip.compress(PLAIN, 0),
    "magic only": b"\x1f\x8b",
    "other method": b"\x1f\x8b\x07" + PACKED[3:],
} | {f"damaged {number}": damaged(number) for number in range(60)}


def outcome(path: Path) -> tuple[bytes, bool] | str:
    try:
        plain = open_plain(path)
    except InputError as error:
        return error.message.code
    with plain.stream:
        assert plain.unpacked
        found = plain.stream.read()
        assert plain.size == len(found)
        return found, plain.cut


def test_both_libraries_read_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "_BLOCK", 1 << 14)
    path = tmp_path / "trace_view.json.gz"
    for case, packed in CASES.items():
        path.write_bytes(packed)
        fast = outcome(path)
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "isal", None)
            assert outcome(path) == fast, case


def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "_SUSPICIOUS_BYTES", 4 << 20)
    path = tmp_path / "trace_view.json.gz"
    pack = zlib.compressobj(9, wbits=31)
    with path.open("wb") as file:
        for _ in range(10):
            file.write(pack.compress(b" " * (1 << 20)))
        file.write(pack.flush())
    taken = []
    with pytest.raises(InputError) as refused:
        open_plain(path, taken.append)
    assert refused.value.message.code == "input.gzip_endless"


def test_unpacking_can_be_stopped(tmp_path):
    path = tmp_path / "trace_view.json.gz"
    path.write_bytes(PACKED)
    with pytest.raises(Cancelled):
        open_plain(path, lambda done: Watcher(lambda *_: False).report(done, 0))
