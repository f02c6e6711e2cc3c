"""What steps keep, from histories made block by block: who leaks, who does not, and why memory ran out."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from npu_tui.load.snapshot import load_snapshot
from npu_tui.output.memory_report import MemoryReport, memory_report
from tests.snapshots import MB, Allocator, OutOfMemoryError


def _at(name: str, line: int) -> list[dict[str, object]]:
    return [{"name": name, "filename": "/home/me/net.py", "line": line}]


def _step(device: Allocator, keep: Callable[[], object] = lambda: None) -> None:
    """A step of ten activations that are released; ``keep`` takes what stays."""
    device.give(device.take(8192, _at("loss", 90)))
    held = [device.take((20 + layer) * MB, _at("layer", 10)) for layer in range(10)]
    keep()
    for block in reversed(held):
        device.give(block)


def _weights(device: Allocator) -> None:
    for layer in range(10):
        device.take((40 + layer) * MB, _at("build", 5))


def _report(device: Allocator, path: Path) -> MemoryReport:
    path.write_bytes(pickle.dumps(device.snapshot()))
    return memory_report(load_snapshot(path))


def _leaks(device: Allocator, folder: Path) -> list[tuple[str, str]]:
    found = _report(device, folder / "snapshot.pkl").findings
    return [(finding.severity, finding.title) for finding in found if finding.id == "SNAPSHOT.LEAK"]


@pytest.mark.parametrize(("size", "line"), [(41 * MB, 91), (700, 92)])
def test_blocks_in_a_row_are_no_steps(size: int, line: int, tmp_path: Path):
    """A gather takes block after block of one line, and gives none back in between."""
    device = Allocator(2600 * MB)
    _weights(device)
    with suppress(OutOfMemoryError):
        for _ in range(60):
            device.take(size, _at("gather", line))
    assert _leaks(device, tmp_path) == []
    report = _report(device, tmp_path / "snapshot.pkl")
    if size > MB:
        assert report.verdict[0].endswith("net.py:91 gather holds most: 2,050.0 MiB (82.2%)")
        assert report.findings[0].where is not None
        assert report.findings[0].where.line == line


@pytest.mark.parametrize(("size", "severity"), [(9 * MB, "high"), (200 << 10, "medium"), (64 << 10, "low")])
def test_a_leak_is_as_grave_as_it_is_large_beside_the_peak(size: int, severity: str, tmp_path: Path):
    device = Allocator()
    _weights(device)
    for _ in range(20):
        _step(device, lambda: device.take(size, _at("log", 33)))
    (told,) = _leaks(device, tmp_path)
    assert told[0] == severity
    assert told[1].startswith("net.py:33 log keeps ")


def test_what_only_every_third_step_keeps_is_told(tmp_path: Path):
    device = Allocator()
    _weights(device)
    for step in range(18):
        _step(device, lambda step=step: step % 3 or device.take(30 * MB, _at("evaluate", 44)))
    assert _leaks(device, tmp_path) == [("high", "net.py:44 evaluate keeps 30.0 MiB more in 5 of 17 steps")]


def test_a_buffer_that_fills_and_a_cache_that_is_taken_anew(tmp_path: Path):
    """A ring of five blocks is no leak; a cache of one block that grows is told by what it holds, not all it took."""
    ring, cache = Allocator(), Allocator()
    blocks: list[int] = []
    for device in (ring, cache):
        _weights(device)
    held = cache.take(30 * MB, _at("cat", 55))
    for step in range(14):
        _step(ring)
        blocks.append(ring.take(30 * MB, _at("ring", 50)))
        if len(blocks) > 5:
            ring.give(blocks.pop(0))
        _step(cache)
        longer = cache.take((35 + 5 * step) * MB, _at("cat", 55))
        cache.give(held)
        held = longer
    assert _leaks(ring, tmp_path) == []
    told = _report(cache, tmp_path / "snapshot.pkl").findings[0]
    assert told.title == "net.py:55 cat keeps 5.0 MiB more in every step"
    assert "1 block, 100.0 MiB" in told.detail


def test_what_a_peak_takes_up_is_no_waste(tmp_path: Path):
    """Gradients of four micro batches come when much is free in pieces; a moment later the peak needs all of it."""
    device = Allocator()
    _weights(device)
    gradients: list[int] = []
    for step in range(16):
        _step(device)
        if step % 4 == 0:
            gradients = [device.take(70 * MB, _at("grad", 71)) for _ in range(6)]
        if step % 4 == 3:
            for block in gradients:
                device.give(block)
    found = _report(device, tmp_path / "snapshot.pkl").findings
    assert {finding.severity for finding in found} == {"info"}
    assert "SNAPSHOT.PIECES" not in {finding.id for finding in found}


@pytest.mark.parametrize(("why", "said"), [
    ("leak", "net.py:33 log keeps 40.0 MiB more in every step"),
    ("request", "net.py:77 scores asks for more than any line holds"),
    ("pieces", "MiB is free, in pieces of up to 30.0 MiB"),
])  # fmt: skip
def test_why_memory_ran_out_is_in_the_first_sentence(why: str, said: str, tmp_path: Path):
    device = Allocator(1600 * MB)
    _weights(device)
    with suppress(OutOfMemoryError):
        for _ in range(40 if why == "leak" else 4):
            _step(device, (lambda: device.take(40 * MB, _at("log", 33))) if why == "leak" else (lambda: None))
        if why == "pieces":
            small = [device.take(22 * MB, _at("ids", 15)) for _ in range(44)]
            for block in small[::2]:
                device.give(block)
        device.take((1500 if why == "request" else 300) * MB, _at("scores", 77))
    report = _report(device, tmp_path / "snapshot.pkl")
    assert report.findings[0].id == "SNAPSHOT.OOM"
    assert report.verdict[0].endswith(said)
