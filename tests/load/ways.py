"""Every way in which one trace comes in: readers, parsed copy, packed, through a pipe."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path

from scanning import threads, without_scanner

from npu_tui.load.copy_container import read_container, write_container
from npu_tui.load.find import PIPED, find_source
from npu_tui.load.load import Opening, load
from npu_tui.trace.model import Trace

THREADS = (1, 2, 4)


def every_way(data: bytes, folder: Path, range_bytes: int, chunk_size: int) -> Iterator[tuple[str, Trace]]:
    """The trace of the file ``data``, which is written to ``folder``: first as usual, then in all other ways."""
    path = folder / "trace_view.json"
    path.write_bytes(data)
    alone = load(path, chunk_size=chunk_size)
    yield "alone", alone
    for count in THREADS:
        with threads(count):
            trace = load(path, chunk_size=chunk_size, range_bytes=range_bytes)
        yield f"{count} threads", trace
    with without_scanner():
        trace = load(path, chunk_size=chunk_size, range_bytes=range_bytes)
    yield "tolerant reader", trace
    yield "parsed copy", _again(alone, path)
    packed = folder / "packed" / "trace_view.json.gz"
    packed.parent.mkdir(exist_ok=True)
    packed.write_bytes(gzip.compress(data, 1))
    unpacked = load(packed, chunk_size=chunk_size, range_bytes=range_bytes)
    yield "gzip", unpacked
    yield "parsed copy of the gzip", _again(unpacked, packed)
    yield "pipe", Opening(PIPED, piped=io.BytesIO(data)).trace()  # type: ignore[arg-type]
    yield "gzip through a pipe", Opening(PIPED, piped=io.BytesIO(packed.read_bytes())).trace()  # type: ignore[arg-type]


def _again(trace: Trace, path: Path) -> Trace:
    """``trace`` of the file ``path``, written and read as its parsed copy."""
    with (path.parent / "copy").open("w+b") as out:
        assert write_container(trace, out, 0, lambda: True)
        out.flush()
        os.utime(out.name, ns=(0, 0))
        return read_container(out.fileno(), find_source(path))
