"""Traces written event by event, as torch_npu and Kineto lay them out, in folders of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_PYTHON, _CANN, _DEVICE, _GROUPS = 4001, 2, 3, 4
_NAMES = {_PYTHON: "Python", _CANN: "CANN", _DEVICE: "Ascend Hardware", _GROUPS: "Communication"}
_PLANES = 100
"""Lanes from here on are planes of the group before them."""
Event = dict[str, Any]


class ByHand:
    """One rank: what the host calls, launches and the device runs; times in us."""

    def __init__(self, gpu: bool = False, began: float = 0.0) -> None:
        """Of torch_npu, or of Kineto on a ``gpu``; times count from ``began`` on the clock of the job."""
        self.gpu = gpu
        # Kineto counts from a base of its own, so that its numbers stay exact.
        self.began = (1_000_000_000 if gpu else 1_751_000_000_000_000_000) + round(began * 1000)
        self.events: list[Event] = []
        self._launches = 0

    def add(self, pid: int | str, tid: int | str, name: str, start: float, length: float, **others: Any) -> None:
        """A slice of any layer; ``args`` and ``cat`` are taken as they are."""
        self.events.append(
            {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": self._ts(start), "dur": length} | others
        )

    def host(self, name: str, start: float, length: float, **others: Any) -> None:
        """An operation or a range on the thread of the program."""
        self.add(_PYTHON, _PYTHON, name, start, length, **({"cat": "cpu_op", "args": {}} | others))

    def call(self, name: str, start: float, length: float) -> None:
        """A call of the runtime."""
        if self.gpu:
            self.host(name, start, length, cat="cuda_runtime", args={"correlation": 100_000 + len(self.events)})
        else:
            self.add(_CANN, _PYTHON, name, start, length, args={})

    def kernel(self, name: str, start: float, length: float, stream: int = 2, **args: Any) -> None:
        """A kernel that no launch leads to."""
        if self.gpu:
            cat = args.pop("cat", "kernel")
            self.add(0, stream, name, start, length, cat=cat, args={"device": 0, "stream": stream} | args)
        else:
            self.add(_DEVICE, stream, name, start, length, args={"Task Type": "AI_CORE", "Stream Id": stream} | args)

    def launch(
        self, name: str, at: float, start: float, length: float, stream: int = 2, takes: float = 3.0, call: str = "",
        **args: Any,
    ) -> None:  # fmt: skip
        """A kernel with its launch, a call that ``takes`` so long."""
        self._launches += 1
        key = self._launches
        call = call or ("cudaLaunchKernel" if self.gpu else "Node@launch")
        ends = (("s", at), ("f", start))
        if self.gpu:
            self.host(call, at, takes, cat="cuda_runtime", args={"correlation": key})
            self.kernel(name, start, length, stream, correlation=key, **args)
            pids = (_PYTHON, _PYTHON), (0, stream)
            kind = {"cat": "ac2g", "name": "ac2g", "id": key}
        else:
            self.add(_CANN, _PYTHON, call, at, takes, args={"connection_id": key})
            self.kernel(name, start, length, stream, connection_id=key, **args)
            pids = (_CANN, _PYTHON), (_DEVICE, stream)
            kind = {"cat": "HostToDevice", "name": "HostToDevice", "id": str(key)}
        for (phase, time), (pid, tid) in zip(ends, pids, strict=True):
            self.events.append(kind | {"ph": phase, "bp": "e", "pid": pid, "tid": tid, "ts": self._ts(time)})

    def group(self, name: str, start: float, length: float, lane: int = 1) -> None:
        """A collective on the lane of its group."""
        self.add(_GROUPS, lane, name, start, length, args={})

    def task(self, name: str, start: float, length: float, plane: int, **args: Any) -> None:
        """A task of the collective that runs then, on a plane of the group with the lane before it."""
        self.add(_GROUPS, _PLANES + plane, name, start, length, args=args)

    def step(self, number: int, start: float, length: float) -> None:
        """A step of the profiler."""
        self.host(f"ProfilerStep#{number}", start, length, cat="user_annotation" if self.gpu else "cpu_op")

    def write(self, folder: Path, rank: int = 0) -> Path:
        """What torch_npu or Kineto writes into ``folder``, and what to open."""
        if self.gpu:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / "worker.pt.trace.json"
            path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": self.events}))
            return path
        profile = folder / f"rank{rank}_ascend_pt"
        out = profile / "ASCEND_PROFILER_OUTPUT"
        out.mkdir(parents=True, exist_ok=True)
        names: list[Event] = [
            {"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": name}}
            for pid, name in _NAMES.items()
        ]
        for pid, tid in dict.fromkeys((event["pid"], event["tid"]) for event in self.events):
            of_group = f"Plane {tid - _PLANES}" if pid == _GROUPS and tid >= _PLANES else f"Group {tid} Communication"
            lane = {_DEVICE: f"Stream {tid}", _GROUPS: of_group}.get(pid, f"Thread {tid}")
            names.append({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": lane}})
        (out / "trace_view.json").write_text(json.dumps(names + self.events))
        level = {"experimental_config": {"_profiler_level": "Level1"}}
        (profile / f"profiler_info_{rank}.json").write_text(json.dumps({"rank_id": rank, "config": level}))
        return profile

    def _ts(self, time: float) -> str | float:
        ns = self.began + round(time * 1000)
        return ns / 1000 if self.gpu else f"{ns // 1000}.{ns % 1000:03d}"
