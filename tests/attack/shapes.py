"""Traces of one extreme shape and any size, as the events of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

EPOCH_US = 1_736_405_443_863_000
_PYTHON, _HARDWARE, _OVERLAP, _GROUPS, _CANN = 4, 5, 6, 7, 8

Event = dict[str, Any]


def slice_event(pid: int, tid: int, start_us: float, length_us: float, name: str, **args: object) -> Event:
    """An ``X`` event ``start_us`` after the epoch of all shapes."""
    ts = f"{EPOCH_US + int(start_us)}.{round(start_us % 1 * 1000):03d}"
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": length_us, "args": args}


def named(pid: int, name: str, device: str = "") -> Iterator[Event]:
    """The metadata of a process."""
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    if device:
        yield {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": device}}


def thread(pid: int, tid: int, name: str) -> Event:
    """The name of a thread."""
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def device(busy_us: float) -> Iterator[Event]:
    """A device that computes for ``busy_us``, with a host that launched it."""
    yield from named(_PYTHON, "Python")
    yield from named(_HARDWARE, "Ascend Hardware", "NPU 0")
    yield thread(_HARDWARE, 2, "Stream 2")
    yield from named(_OVERLAP, "Overlap Analysis", "NPU 0")
    for tid, lane in enumerate(("Computing", "Communication", "Communication(Not Overlapped)", "Free")):
        yield thread(_OVERLAP, tid, lane)
    yield slice_event(_OVERLAP, 0, 0, busy_us, "Computing")
    yield slice_event(_HARDWARE, 2, 0, busy_us, "MatMulV3", **{"Task Type": "AI_CORE", "Stream Id": 2})


def lanes(size: int) -> Iterator[Event]:
    """A slice on each of ``size`` threads."""
    yield from device(100)
    for tid in range(size):
        yield slice_event(_PYTHON, tid, tid, 50, "aten::add")


def depth(size: int) -> Iterator[Event]:
    """A lane of ``size`` nested slices."""
    yield from device(100)
    for level in range(size):
        yield slice_event(_PYTHON, 1, level, 2 * (size - level), f"frame {level % 100}")


def crossing(size: int) -> Iterator[Event]:
    """``size`` slices on one lane, each of which begins in the one before it and ends after it."""
    yield from device(100)
    for number in range(size):
        yield slice_event(_HARDWARE, 3, number, size + 1, "Cast")


def at_once(size: int) -> Iterator[Event]:
    """``size`` slices of one lane at the same time; with one name they would be one slice written many times."""
    yield from device(100)
    for number in range(size):
        yield slice_event(_HARDWARE, 3, 10, 5, f"Cast_{number}")


def processes(size: int) -> Iterator[Event]:
    """A named process with a slice and a counter, ``size`` times."""
    yield from device(100)
    for pid in range(100, 100 + size):
        yield from named(pid, f"worker {pid}")
        yield slice_event(pid, 1, pid, 3, "aten::add")
        yield {"ph": "C", "name": "load", "pid": pid, "ts": f"{EPOCH_US + pid}.000", "args": {"value": pid}}


def devices(size: int) -> Iterator[Event]:
    """``size`` processes of hardware, each with a device of its own."""
    yield from device(100)
    for pid in range(100, 100 + size):
        yield from named(pid, "Ascend Hardware", f"NPU {pid}")
        yield slice_event(pid, 1, pid, 3, "MatMulV3", **{"Task Type": "AI_CORE"})


def collectives(size: int) -> Iterator[Event]:
    """``size`` collectives whose plane tasks tell nothing about waiting."""
    yield from _groups(size)
    for number in range(size):
        yield slice_event(_GROUPS, 1, 10 * number, 8, f"hcom_allReduce__{number}", model="0")


def waits(size: int) -> Iterator[Event]:
    """``size`` collectives with a wait and a transfer for a peer each."""
    yield from _groups(size)
    for number in range(size):
        at = 10 * number
        yield slice_event(_GROUPS, 1, at, 8, f"hcom_allReduce__{number}", model="0")
        ranks = {"src rank": 0, "dst rank": 1, "size(Byte)": 4096, "link type": "HCCS"}
        yield slice_event(_GROUPS, 2, at, 3, "Notify_Wait", **ranks)
        yield slice_event(_GROUPS, 2, at + 3, 4, "Memcpy", **ranks)


def _groups(size: int) -> Iterator[Event]:
    yield from device(10 * size)
    yield from named(_GROUPS, "Communication", "NPU 0")
    yield thread(_GROUPS, 1, "Group 0 Communication")
    yield thread(_GROUPS, 2, "Plane 0")


def links(size: int) -> Iterator[Event]:
    """``size`` launches, each linked to its kernel."""
    yield from device(10 * size)
    for number in range(size):
        at = 10 * number
        yield slice_event(_PYTHON, 1, at, 4, "aten::add")
        yield slice_event(_HARDWARE, 3, at + 6, 3, "Add", **{"Task Type": "AI_VECTOR_CORE", "connection_id": number})
        yield link_end("s", _PYTHON, 1, at + 1, number)
        yield link_end("f", _HARDWARE, 3, at + 6, number)


def links_to_one(size: int) -> Iterator[Event]:
    """``size`` links that all end at one slice."""
    yield from device(1000)
    yield slice_event(_PYTHON, 1, 0, 900, "aten::add")
    yield slice_event(_HARDWARE, 3, 950, 3, "Add", connection_id=1)
    for number in range(size):
        yield link_end("s", _PYTHON, 1, number % 800, number)
        yield link_end("f", _HARDWARE, 3, 950, number)


def links_of_one_id(size: int) -> Iterator[Event]:
    """``size`` targets of one source."""
    yield from device(1000)
    yield slice_event(_PYTHON, 1, 0, 900, "aten::add")
    yield link_end("s", _PYTHON, 1, 5, 1)
    for number in range(size):
        yield slice_event(_HARDWARE, 3, 950 + 2 * number, 1, "Add", connection_id=1)
        yield link_end("f", _HARDWARE, 3, 950 + 2 * number, 1)


def link_end(phase: str, pid: int, tid: int, start_us: float, identity: object) -> Event:
    """One end of a link from the host to the device."""
    ts = f"{EPOCH_US + int(start_us)}.000"
    return {"ph": phase, "bp": "e", "name": "HostToDevice", "cat": "HostToDevice", "id": identity,
            "pid": pid, "tid": tid, "ts": ts}  # fmt: skip


def nested_args(size: int) -> Iterator[Event]:
    """``size`` slices whose args hold lists in lists."""
    yield from device(100)
    nested: object = 1
    for _ in range(40):
        nested = [nested, {"shape": [1, 2, 3]}]
    for number in range(size):
        yield slice_event(_HARDWARE, 3, number * 3, 2, "Cast", shapes=nested, connection_id=nested)


def odd_counters(size: int) -> Iterator[Event]:
    """``size`` counter samples whose args hold objects."""
    yield from device(100)
    for number in range(size):
        yield {
            "ph": "C",
            "name": "load",
            "pid": 9,
            "ts": f"{EPOCH_US + number}.000",
            "args": {"value": {"a": [number]}},
        }


def names(size: int) -> Iterator[Event]:
    """``size`` slices with a name of their own each."""
    yield from device(100)
    for number in range(size):
        yield slice_event(_HARDWARE, 3, number * 3, 2, f"Cast_{number}_AiCore")


def series(size: int) -> Iterator[Event]:
    """``size`` counters with a sample each."""
    yield from device(100)
    for number in range(size):
        yield {"ph": "C", "name": f"load {number}", "pid": 9, "ts": f"{EPOCH_US + number}.000", "args": {"value": 1}}


def steps(size: int) -> Iterator[Event]:
    """``size`` steps with a linked launch each."""
    yield from links(size)
    for number in range(size):
        yield slice_event(_PYTHON, 1, 10 * number - 0.5, 9, f"ProfilerStep#{number}")


def calls(size: int) -> Iterator[Event]:
    """``size`` slices of CANN, each with its own name, on one thread."""
    yield from device(10 * size)
    yield from named(_CANN, "CANN")
    for number in range(size):
        yield slice_event(_CANN, 1, 10 * number, 8, f"AscendCL@aclrt{number}")


def begun(size: int) -> Iterator[Event]:
    """``size`` nested pairs of begin and end."""
    yield from device(100)
    for phase in ("B", "E"):
        for number in range(size):
            yield {"ph": phase, "name": "f", "pid": _PYTHON, "tid": 1, "ts": f"{EPOCH_US + number}.000"}


Shape = Callable[[int], Iterator[Event]]

SHAPES: dict[str, Shape] = {
    found.__name__: found
    for found in (
        lanes, depth, crossing, at_once, processes, devices, collectives, waits, links, links_to_one,
        links_of_one_id, nested_args, odd_counters, names, series, steps, calls, begun,
    )
}  # fmt: skip


def write_shape(path: Path, shape: str, size: int) -> Path:
    """Write the trace of ``shape`` to ``path``."""
    with path.open("w", encoding="utf-8") as out:
        before = "["
        for event in SHAPES[shape](size):
            out.write(before + json.dumps(event))
            before = ",\n"
        out.write("]")
    return path
