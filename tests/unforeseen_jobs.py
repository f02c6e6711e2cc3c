"""Simulated training jobs on an Ascend NPU whose slowness no rule book lists, with the true gain of each cause.

The simulator knows only how such a job runs.  A main host thread runs Python frames and operators.  Operators enqueue
into the task queue of torch_npu, the dequeue thread launches them through CANN in order, and the streams of the device
run their tasks in order.  The host waits only where it synchronises, where it waits for another thread, or where a
queue is full; backward runs on the autograd thread while the main thread waits; collectives end once all ranks came.

A job is run with its causes and without them with otherwise identical draws, so the difference in the pace at which
steps are *completed* (host and device) is what removing a cause gains.  Two steps before the recorded ones bring the
job to its steady state.  The recorded part is written as torch_npu does: `trace_view.json` below
`rank0_ascend_pt/ASCEND_PROFILER_OUTPUT`.

    python tests/unforeseen_jobs.py -o OUT [--seed N] [NAME ...]

Times inside the simulator are integer nanoseconds; parameters say their unit (`_us`, `_ms`).
A frame is written `path(start>now): function`: the function starts at line `start` and executes line `now`.  As in real
profiles, the name of a Python slice holds `start` and a call stack holds `now`.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

COMPUTE, COPY, COMM = 2, 3, 4  # device streams
STREAM_DEPTH, QUEUE_DEPTH = 1024, 4096  # tasks that a stream, launches that the task queue can hold
NONE = 4294967295  # the profiler's "no such id"
WARMUP = 2  # steps that run before the recording
EPOCH = 1_750_000_000_000_000_000  # ns, start of every job
SORT = {"Python": 0, "CANN": 7, "Ascend Hardware": 13, "HCCL": 15, "Overlap Analysis": 23}
OBJECT = "object at 0xfffcd9a5ae00"
DATALOADER = (
    "torch/utils/data/dataloader.py(624>633): __next__ / torch/utils/data/dataloader.py(1305>1328): _next_data"
    " / torch/utils/data/dataloader.py(1280>1294): _get_data / queue.py(154>171): get"
)
SITES = {  # the lines of train_epoch at which the parts of a step are called
    "data": 101, "fetch": 102, "batch": 104, "forward": 105, "loss": 106, "backward": 108, "clip": 109,
    "optimizer": 110, "sched": 112, "log": 115, "pace": 117, "step": 118,
}  # fmt: skip
TRAIN = ("train.py", 96, "train_epoch")


class Frame(NamedTuple):
    """A Python frame; built-in functions and modules have only a name."""

    path: str
    line: int  # where the function starts
    name: str
    at: int  # the line that it executes


def parse_frame(text: str) -> Frame:
    """Reads `path(start>now): function`."""
    found = re.fullmatch(r"(.+?)\((\d+)(?:>(\d+))?\): (.+)", text)
    if not found:
        return Frame("", 0, text, 0)
    return Frame(found[1], int(found[2]), found[4], int(found[3] or found[2]))


def is_user(frame: Frame) -> bool:
    """Whether the job's own code holds the frame: everything that lies in `job/`, the folder of `train.py`."""
    return frame.path in USER_FILES


class Operator(NamedTuple):
    """A forward operator of a layer: its host entry, its kernel, and the same of its backward."""

    module: str
    source: str
    aten: str
    entry: str
    kernel: str
    backward: str
    backward_entry: str
    weight: float  # kernel time in units of `Base.kernel_us`
    backward_kernels: int


LAYER = (
    Operator("LayerNorm", "torch/nn/modules/normalization.py(195>196): forward", "aten::native_layer_norm", "aclnnLayerNorm",
             "LayerNormV4", "NativeLayerNormBackward0", "aclnnLayerNormBackward", 0.25, 1),
    Operator("Linear", "torch/nn/modules/linear.py(113>114): forward", "aten::addmm", "aclnnAddmm",
             "MatMulCommon_MatMulV2", "AddmmBackward0", "aclnnMm", 1.0, 2),
    Operator("Attention", "job_model/attention.py(58>77): forward", "npu::npu_fusion_attention", "aclnnFlashAttentionScore",
             "FlashAttentionScore", "NpuFusionAttentionBackward0", "aclnnFlashAttentionScoreGrad", 1.6, 1),
    Operator("Linear", "torch/nn/modules/linear.py(113>114): forward", "aten::addmm", "aclnnAddmm",
             "MatMulCommon_MatMulV2", "AddmmBackward0", "aclnnMm", 1.3, 2),
    Operator("GELU", "torch/nn/modules/activation.py(681>682): forward", "aten::gelu", "aclnnGelu",
             "GeluAiCore_Gelu", "GeluBackward0", "aclnnGeluBackward", 0.3, 1),
    Operator("Linear", "torch/nn/modules/linear.py(113>114): forward", "aten::addmm", "aclnnAddmm",
             "MatMulCommon_MatMulV2", "AddmmBackward0", "aclnnMm", 1.3, 2),
)  # fmt: skip


@dataclass(frozen=True)
class Base:
    """The job without its causes."""

    layers: int = 4
    host_us: float = 60.0  # host time per operator, median
    kernel_us: float = 40.0  # time of an ordinary kernel, median
    steps: int = 5  # recorded steps
    wait: str = "previous"  # the host waits per step for: the `previous` step, its own `loss`, or `none`
    loader_us: float = 400.0  # time in which the loader's workers make a batch
    copy_stream: bool = False  # the batch is copied on a stream of its own
    peers: int = 0  # other ranks of the collectives
    peer_ms: float = 0.0  # time that a peer needs per step
    transfer_us: float = 400.0  # time of a collective once all ranks are there
    stack: str = "full"  # recorded: `full` Python frames and call stacks, `ops` call stacks only, or `none`
    level: int = 1  # profiler level 0 or 1
    overlap: bool = True  # whether the Overlap Analysis layer is written
    absolute: bool = False  # whether names of library frames keep their whole path


Body = Callable[["Job", dict[str, Any]], None]


@dataclass(frozen=True)
class Cause:
    """Something slow at a place of the step; `frames` lead from the calling line to the slow call, outermost first."""

    site: str
    frames: str
    body: Body
    when: Callable[[int], bool] = lambda step: True  # by index of the recorded step, negative before the recording
    has_ops: bool = False  # whether it runs operators, which carry the line in their call stack

    def place(self, stack: str) -> dict[str, Any]:
        """File, function and line of the user's code as far as the trace records them; `lines` are all fair answers."""
        user = [f for f in map(parse_frame, self.frames.split(" / ")) if is_user(f)]
        frame = user[-1] if user else Frame(*TRAIN, SITES[self.site])
        recorded = stack == "full" or (stack == "ops" and self.has_ops)
        if not recorded or self.site == "hook":
            return {"file": None, "line": None, "function": None, "lines": []}
        by_stack = self.has_ops or not user
        lines = sorted({frame.line, frame.at} | (set() if user else {SITES["step"]}))
        return {"file": frame.path, "line": frame.at if by_stack else frame.line, "function": frame.name, "lines": lines}


@dataclass(frozen=True)
class Situation:
    """A job and what is wrong with it."""

    about: str
    base: Base
    causes: tuple[Cause, ...] = ()


class Slice(NamedTuple):
    layer: str
    tid: int
    begin: int
    end: int
    name: str
    cat: str
    args: dict[str, Any]


class Flow(NamedTuple):
    cat: str
    name: str
    id: int | str
    source: tuple[str, int, int]  # layer, thread, time
    target: tuple[str, int, int]


class Job:
    """One run of a situation, with the causes in `off` removed."""

    def __init__(self, name: str, seed: int, off: frozenset[int] = frozenset()) -> None:
        self.situation = SITUATIONS[name]
        self.base = self.situation.base
        key = zlib.crc32(name.encode())
        self.rng = np.random.default_rng([seed, key, 0])  # the job's own draws; causes and peers have others
        self.peer_rng = np.random.default_rng([seed, key, 1])
        self.off = off
        self.states: list[dict[str, Any]] = []
        for index in range(len(self.situation.causes)):
            rng = np.random.default_rng([seed, key, 2 + index])
            self.states.append({"rng": rng, "scale": math.exp(0.2 * rng.standard_normal())})
        self.host_pace = math.exp(0.1 * self.rng.standard_normal())
        self.device_pace = math.exp(0.1 * self.rng.standard_normal())
        self.pid = 200_000 + key % 700_000
        self.main, self.autograd, self.dequeuer = self.pid, self.pid + 8571, self.pid + 3198
        self.tid = self.main
        self.now = EPOCH + 1000 * (key % 10_000_000)
        self.started = self.step_began = self.now  # of the recording, of the current step
        self.queue_free = self.now
        self.queue: deque[int] = deque(maxlen=QUEUE_DEPTH)
        self.stream_free = dict.fromkeys((COMPUTE, COPY, COMM), self.now)
        self.stream_starts = {stream: deque([], STREAM_DEPTH) for stream in self.stream_free}
        self.batch_made, self.batches_taken = self.now, deque([self.now] * 2, 2)
        self.peer_came = self.now
        self.used_starts: set[int] = set()
        self.slices: list[Slice] = []
        self.flows: list[Flow] = []
        self.correlation, self.connection_id, self.python_id, self.sequence = 8000, 900, 0, 1300
        self.task_ids, self.collectives = dict.fromkeys(self.stream_free, 11000), 0
        self.frame_ids: list[int] = []
        self.stack: list[Frame] = []

    # ---- clock and recording

    def draw(self, median_us: float, sigma: float = 0.15) -> int:
        """A lognormal host time in ns, on the 10 ns grid of the host's counter."""
        return max(1, round(100 * median_us * math.exp(sigma * self.rng.standard_normal()))) * 10

    def work(self, median_us: float, sigma: float = 0.15) -> None:
        """The current thread computes; `median_us` is scaled by the host's pace."""
        self.now += self.draw(median_us * self.host_pace, sigma)

    def burn(self, median_us: float, sigma: float = 0.15) -> None:
        """The current thread is busy or blocked for a time of its own."""
        self.now += self.draw(median_us, sigma)

    def new_connection(self) -> int:
        self.connection_id += 1
        return self.connection_id

    def add(self, layer: str, tid: int, begin: int, end: int, name: str, cat: str = "", **args: Any) -> None:
        self.slices.append(Slice(layer, tid, begin, end, name, cat, args))

    def cann(self, tid: int, begin: int, end: int, call: str, mode: str = "ACL_RTS", item: str = "0") -> int:
        """Records an API call of CANN; returns its connection id."""
        level, name = ("node", "0") if call == "Node@launch" else ("acl", call.split("@")[1])
        args = {"Thread Id": tid, "Mode": mode, "level": level, "id": name, "item_id": item}
        connection = self.new_connection()
        self.add("CANN", tid, begin, end, call, **args, connection_id=connection)
        return connection

    @contextmanager
    def cpu_op(self, name: str, sequence: int = -1, forward: int = 0) -> Iterator[int]:
        """Records what runs inside as an operator of the current thread; gives its start in ns."""
        begin, args = self.now, {"Sequence number": sequence, "Fwd thread id": forward}
        if self.base.stack != "none" and self.tid == self.main:
            args["Call stack"] = ";\r\n".join(self.call_stack())
        self.work(0.4)
        yield begin
        self.work(0.3)
        self.add("Python", self.tid, begin, self.now, name, "cpu_op", **args)

    def call_stack(self) -> Iterator[str]:
        """The executing lines, innermost first; a module counts as the two frames that call its forward."""
        for frame in reversed(self.stack):
            if frame.path:
                yield f"{full_path(frame.path)}({frame.at}): {frame.name}"
            elif frame.name.startswith("nn.Module"):
                yield f"{full_path('torch/nn/modules/module.py')}(1520): _call_impl"
                yield f"{full_path('torch/nn/modules/module.py')}(1511): _wrapped_call_impl"

    @contextmanager
    def frames(self, text: str) -> Iterator[None]:
        """Runs what is inside below the given frames."""
        with ExitStack() as opened:
            for part in text.split(" / ") if text else ():
                opened.enter_context(self.frame(parse_frame(part)))
            yield

    @contextmanager
    def frame(self, frame: Frame) -> Iterator[None]:
        begin, self.python_id = self.now, self.python_id + 1
        args = {"Python id": self.python_id, "Python parent id": self.frame_ids[-1] if self.frame_ids else 0}
        if frame.name.startswith("nn.Module"):
            args["Python module id"] = 0
        self.stack.append(frame)
        self.frame_ids.append(self.python_id)
        self.now += 300
        yield
        self.now += 200
        self.stack.pop()
        self.frame_ids.pop()
        if self.base.stack == "full" and self.tid == self.main:
            path = full_path(frame.path) if self.base.absolute and not is_user(frame) else frame.path
            name = f"{path}({frame.line}): {frame.name}" if path else frame.name
            self.add("Python", self.tid, begin, self.now, name, "python_function", **args)

    # ---- task queue, CANN and device

    def enqueue(self, entry: str, run: Callable[[int], int], stack_op: bool = True) -> None:
        """Enqueues a launch; `run` does it on the dequeue thread from the given time and returns when it ended."""
        self.correlation += 1
        begin = self.now
        if len(self.queue) == QUEUE_DEPTH:
            self.now = max(self.now, self.queue[0])
        self.burn(2.5)
        self.add("Python", self.tid, begin, self.now, "Enqueue", "enqueue", correlation_id=self.correlation)
        start = max(self.now + self.draw(5), self.queue_free)
        end = run(start + self.draw(2)) + self.draw(1)
        self.add("Python", self.dequeuer, start, end, f"Dequeue@{entry}", "dequeue", correlation_id=self.correlation)
        self.flows.append(Flow("async_task_queue", "enqueue_to_dequeue", self.correlation,
                               ("Python", self.tid, begin), ("Python", self.dequeuer, start)))  # fmt: skip
        self.queue_free = end + self.draw(0.8)
        self.queue.append(start)

    def task(self, stream: int, name: str, length: int, ready: int, kind: str, connection: int) -> tuple[int, int]:
        """Runs a task of `length` ns on a stream once the host has handed it over; returns its start and task id."""
        start = max(ready, self.stream_free[stream] + self.draw(0.9, 0.3))
        while start in self.used_starts:
            start += 1
        self.used_starts.add(start)
        self.stream_free[stream] = start + length
        self.stream_starts[stream].append(start)
        self.task_ids[stream] += 1
        args = {"Model Id": NONE, "Task Type": kind, "Physic Stream Id": stream, "Task Id": self.task_ids[stream]}
        self.add("Ascend Hardware", stream, start, start + length, name, **args,
                 **{"Batch Id": 0, "Subtask Id": NONE, "connection_id": connection})  # fmt: skip
        return start, self.task_ids[stream]

    def link(self, device_id: str, source: tuple[str, int, int], origin: int, target: tuple[str, int, int]) -> None:
        """The two arrows that end at a device task: from its launch, and from the operator that began at `origin`."""
        self.flows.append(Flow("HostToDevice", f"HostToDevice{device_id}", device_id, source, target))
        self.flows.append(Flow("async_npu", "torch_to_npu", target[2], ("Python", self.tid, origin), target))

    def has_room(self, stream: int) -> int:
        """When the stream has room for another task, ns."""
        starts = self.stream_starts[stream]
        return starts[0] if len(starts) == STREAM_DEPTH else 0

    def launch(self, entry: str, kernels: list[tuple[str, float]], stream: int = COMPUTE) -> None:
        """An aclnn call: prepared here, enqueued, and launched kernel (name, µs) by kernel on the dequeue thread."""
        with self.cpu_op(entry) as origin:
            begin = self.now
            self.work(self.base.host_us * 0.25)
            self.cann(self.tid, begin, self.now, f"AscendCL@{entry}GetWorkspaceSize", "ACL_NN")
            self.work(self.base.host_us * 0.1)

            def run(now: int) -> int:
                call, launches = now, []
                for kernel, median_us in kernels:
                    begin, now = now + 400, max(now + 400 + self.draw(2.5), self.has_room(stream))
                    launches.append((begin, now, now + self.draw(2.0), kernel, median_us))
                    now = launches[-1][2] + 300
                end = now + 500
                self.cann(self.dequeuer, call, end, f"AscendCL@{entry}", "ACL_NN")
                for begin, submit, done, kernel, median_us in launches:
                    item = f"{entry}_{kernel}"
                    connection = self.cann(self.dequeuer, begin, done, "Node@launch", "launch", item)
                    length = round(1000 * self.device_pace * median_us * math.exp(0.08 * self.rng.standard_normal()))
                    start, task_id = self.task(stream, item, length, submit + self.draw(6), "AI_CORE", connection)
                    device_id = str((stream << 64) + (task_id << 48) + NONE)
                    self.link(device_id, ("CANN", self.dequeuer, submit), origin, ("Ascend Hardware", stream, start))
                return end

            self.enqueue(entry, run)

    def op(self, name: str, entry: str, kernels: list[tuple[str, float]], sequence: int = -1) -> None:
        """An operator with one launch."""
        with self.cpu_op(name, sequence):
            self.work(self.base.host_us * 0.35)
            with self.cpu_op("empty_tensor"):
                self.work(self.base.host_us * 0.1)
            self.launch(entry, kernels)
            self.work(self.base.host_us * 0.15)

    def copy(self, direction: str, median_us: float, stream: int, blocking: bool) -> None:
        """A copy between host and device that takes `median_us` on the device."""
        with self.cpu_op("aten::to"), self.cpu_op("aten::_to_copy"), self.cpu_op("aten::copy_"):
            self.work(self.base.host_us * 0.4)
            with self.cpu_op(f"acl_memcpy_{direction}") as origin:

                def run(now: int) -> int:
                    end = now + self.draw(12)
                    connection = self.cann(self.dequeuer, now, end, "AscendCL@aclrtMemcpyAsync")
                    length = round(1000 * median_us * math.exp(0.1 * self.rng.standard_normal()))
                    start, _ = self.task(stream, "MEMCPY_ASYNC", length, now + self.draw(9), "PCIE_DMA_SQE", connection)
                    target = ("Ascend Hardware", stream, start)
                    self.link(str(connection), ("CANN", self.dequeuer, now), origin, target)
                    return end

                self.enqueue(f"acl_memcpy_{direction}", run)
            if blocking:
                self.wait_for(max(self.queue_free, self.stream_free[stream]), "aclrtSynchronizeStreamWithTimeout")

    def order(self, before: int, after: int) -> None:
        """Lets a stream wait on the device for all that another one holds by now."""

        def record(now: int) -> int:
            end = now + self.draw(4)
            connection = self.cann(self.dequeuer, now, end, "AscendCL@aclrtRecordEvent")
            self.task(before, "EVENT_RECORD", 20, end, "EVENT_RECORD_SQE", connection)
            return end

        def wait(now: int) -> int:
            end = now + self.draw(4)
            connection = self.cann(self.dequeuer, now, end, "AscendCL@aclrtStreamWaitEvent")
            self.task(after, "EVENT_WAIT", 20, max(end, self.stream_free[before]), "EVENT_WAIT_SQE", connection)
            return end

        self.enqueue("record_event", record)
        self.enqueue("wait_event", wait)

    def all_reduce(self, first: bool) -> None:
        """A gradient bucket: it ends when the slowest rank has come and the data have moved."""
        self.order(COMPUTE, COMM)
        peer_us = 1000 * self.base.peer_ms * (0.8 if first else 0.1)
        lags = [peer_us * math.exp(0.05 * self.peer_rng.standard_normal()) for _ in range(self.base.peers)]
        peers = self.peer_came + round(1000 * max(lags))
        with self.cpu_op("c10d::allreduce_"), self.cpu_op("HcclAllreduce") as origin:
            self.work(self.base.host_us * 0.5)

            def run(now: int) -> int:
                end = now + self.draw(180)
                connection = self.cann(self.dequeuer, now, end, "AscendCL@hcom_allReduce_", "HOST_HCCL", "hcom_allReduce_")
                node = self.cann(self.dequeuer, now, end, "Node@launch", "launch", "hcom_allReduce_")
                ready = max(now + self.draw(150), self.stream_free[COMM] + 900)
                transfer = round(1000 * self.base.transfer_us * math.exp(0.1 * self.rng.standard_normal()))
                start, task_id = self.task(COMM, "Notify Wait", max(200, peers - ready), ready, "Notify Wait", node)
                self.task(COMM, "SDMA", transfer, ready, "SDMA", node)
                last = self.slices[-1]
                self.peer_came = last.end
                self.collectives += 1
                self.add("HCCL", 0, start, last.end, f"hcom_allReduce__586_{self.collectives}_1", connection_id=node,
                         **{"model id": NONE, "data_type": "FP32", "alg_type": "MESH-RING", "count": 4097000})  # fmt: skip
                for context, (plane_task, begin, stop) in enumerate((("Notify_Wait", start, start + max(200, peers - ready)),
                                                                     ("Memcpy", last.begin, last.end))):  # fmt: skip
                    self.add("HCCL", 1, begin, stop, plane_task, **{
                        "notify_id": "92", "duration estimated(us)": 0.02, "stream id": COMM, "task id": task_id + context,
                        "context id": NONE, "task type": plane_task, "src rank": 0, "dst rank": 1, "transport type": "SDMA",
                        "size(Byte)": 16388000 * context, "data type": "FP32", "link type": "HCCS", "model id": NONE,
                    })  # fmt: skip
                target = ("HCCL", 0, start)
                self.link(str((connection << 32) + NONE), ("CANN", self.dequeuer, now), origin, target)
                return end

            self.enqueue("HcclAllreduce", run)

    # ---- where the host waits

    def wait_for(self, moment: int, call: str) -> None:
        """Blocks the current thread inside an API call until a moment on the device."""
        begin = self.now
        self.now = max(self.now, moment) + self.draw(11)
        self.cann(self.tid, begin, self.now, f"AscendCL@{call}")

    def item(self) -> None:
        """Reads one number of the compute stream."""
        with self.frames(f"<built-in method item of Tensor {OBJECT}>"), self.cpu_op("aten::item"):
            self.work(self.base.host_us * 0.1)
            with self.cpu_op("aten::_local_scalar_dense"):
                self.wait_for(max(self.queue_free, self.stream_free[COMPUTE]), "aclrtSynchronizeStreamWithTimeout")
                begin = self.now
                self.burn(25)
                self.cann(self.tid, begin, self.now, "AscendCL@aclrtMemcpy")

    # ---- the step

    def site(self, site: str, step: int) -> None:
        """Runs the causes of a place of the step, each with its own draws."""
        for index, cause in enumerate(self.situation.causes):
            if cause.site == site and index not in self.off and cause.when(step):
                own, self.rng = self.rng, self.states[index]["rng"]
                with self.frames(cause.frames):
                    self.burn(3)
                    cause.body(self, self.states[index])
                self.rng = own

    def go_to(self, site: str, step: int | None = None) -> None:
        """The training loop reaches a line."""
        self.stack[-1] = self.stack[-1]._replace(at=SITES[site])
        self.work(6)
        if step is not None:
            self.site(site, step)

    def fetch(self) -> None:
        """Takes a batch from the workers, which keep two ahead."""
        made = max(self.batch_made, self.batches_taken[0]) + self.draw(self.base.loader_us, 0.2)
        with self.cpu_op("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"), self.frames(DATALOADER):
            self.now = max(self.now + self.draw(60), made)
        self.batch_made = made
        self.batches_taken.append(self.now)

    def forward(self, step: int) -> list[tuple[int, int, Operator]]:
        """Runs the model; returns (sequence number, start, operator) for backward."""
        done = []
        with self.frames("nn.Module: Transformer_0 / job_model/transformer.py(131>140): forward"):
            for layer in range(self.base.layers):
                if layer == self.base.layers // 2:
                    self.site("layer", step)
                with self.frames(f"nn.Module: Block_{layer} / job_model/transformer.py(88>95): forward"):
                    for number, op in enumerate(LAYER):
                        with self.frames(f"nn.Module: {op.module}_{layer * len(LAYER) + number} / {op.source}"):
                            self.sequence += 1
                            done.append((self.sequence, self.now, op))
                            kernels = [(op.kernel, op.weight * self.base.kernel_us)]
                            self.op(op.aten, op.entry, kernels, self.sequence)
        return done

    def backward(self, done: list[tuple[int, int, Operator]], step: int) -> None:
        """Runs backward on the autograd thread while the main thread waits in it."""
        engine = f"<built-in method run_backward of torch._C._EngineBase {OBJECT}>"
        with self.frames(f"torch/_tensor.py(428>522): backward / torch/autograd/__init__.py(165>266): backward / {engine}"):
            self.work(40)
            self.tid = self.autograd
            for count, (sequence, begin, op) in enumerate(reversed(done)):
                with self.cpu_op(f"autograd::engine::evaluate_function: {op.backward}"):
                    self.work(2)
                    source = ("Python", self.main, begin)
                    self.flows.append(Flow("fwdbwd", "fwdbwd", sequence, source, ("Python", self.tid, self.now)))
                    with self.cpu_op(op.backward, sequence, 1):
                        name = f"{op.kernel.split('_')[-1]}Grad" if op.backward_kernels == 1 else op.kernel
                        for _ in range(op.backward_kernels):
                            kernels = [(name, op.weight * self.base.kernel_us * 1.1)]
                            self.op("aten::mm" if op.backward_kernels > 1 else f"{op.aten}_backward", op.backward_entry, kernels)
                if count == len(done) // 3:
                    with self.cpu_op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"):
                        self.work(5)
                        self.site("hook", step)
                if self.base.peers and count in (len(done) // 2, len(done) - 1):
                    self.all_reduce(first=count == len(done) // 2)
            self.work(30)
            self.tid = self.main

    def step(self, number: int) -> None:
        """One iteration of `train_epoch`; `number` counts from the first recorded step."""
        base = self.base
        self.step_began = self.now
        with self.cpu_op(f"ProfilerStep#{number + 10}"):
            self.go_to("data", number)
            self.go_to("fetch")
            self.fetch()
            self.go_to("batch")
            stream = COPY if base.copy_stream else COMPUTE
            self.copy("host_to_device", 120, stream, blocking=False)
            if base.copy_stream:
                self.order(COPY, COMPUTE)
            self.go_to("batch", number)
            self.go_to("forward")
            done = self.forward(number)
            self.go_to("loss", number)
            with self.frames("nn.Module: CrossEntropyLoss_0 / torch/nn/modules/loss.py(1178>1179): forward"):
                self.op("aten::nll_loss_forward", "aclnnNLLLoss", [("NLLLossAiCore_NLLLoss", 12.0)])
            self.go_to("backward")
            self.backward(done, number)
            self.go_to("clip", number)
            if base.peers:
                self.order(COMM, COMPUTE)
            self.go_to("optimizer")
            with self.frames("torch/optim/optimizer.py(374>391): wrapper"), self.cpu_op("Optimizer.step#AdamW.step"):
                with self.frames("torch/optim/adamw.py(161>187): step"):
                    for name in ("MulScalar", "AddcmulScalar", "Sqrt", "AddcdivScalar"):
                        kernels = [(f"Foreach{name}V2_Foreach{name}", base.layers * base.kernel_us * 0.2)]
                        self.op(f"aten::_foreach_{name.lower()}_", f"aclnnForeach{name}V2", kernels)
            enqueued = max(self.stream_free.values())
            self.go_to("sched", number)
            if base.wait == "loss":
                self.item()
            self.go_to("log", number)
            self.go_to("pace")
            if base.wait == "previous":
                with self.frames(f"torch_npu/npu/streams.py(201>213): synchronize / <built-in method synchronize of Event {OBJECT}>"):
                    self.wait_for(self.previous_done, "aclrtSynchronizeEvent")
            self.previous_done = enqueued
            self.go_to("step")

    def run(self) -> float:
        """Runs the job; returns the milliseconds per recorded step at which steps are completed."""
        self.previous_done = begin = self.now
        with self.frames(f"train.py(164): <module> / train.py(141): main / {TRAIN[0]}({SITES['step']}): {TRAIN[2]}"):
            for number in range(-WARMUP, self.base.steps):
                if number == 0:
                    begin, self.started = self.completed(), self.now
                self.step(number)
                self.now += 2000
        return (self.completed() - begin) / self.base.steps / 1e6

    def completed(self) -> int:
        """When host and device have done all that was asked for by now, ns."""
        return max(self.now, *self.stream_free.values())

    # ---- the file

    def events(self) -> list[dict[str, Any]]:
        """The recorded events in the shape and order of torch_npu's `trace_view.json`."""
        hidden = {"CANN"} if self.base.level == 0 else set()
        pids = {name: (self.pid << 10) | (sort << 5) for name, sort in SORT.items()} | {"Python": self.pid}
        kept = [self.clip(s) for s in self.slices if s.begin >= self.started or s.name.startswith("train.py(")]
        if self.base.overlap:
            kept += self.overlap(kept)
        framework: list[dict[str, Any]] = []
        python: list[dict[str, Any]] = []
        device: list[tuple[int, dict[str, Any]]] = []
        links: list[dict[str, Any]] = []
        for s in kept:
            span = {"pid": pids[s.layer], "tid": s.tid, "ts": stamp(s.begin), "dur": micros(s.end - s.begin)}
            if s.layer == "Python":
                event = {"ph": "X", "name": s.name, **span, "cat": s.cat, "args": s.args}
                (python if s.cat == "python_function" else framework).append(event)
            elif s.layer not in hidden:
                device.append((s.begin, {"name": s.name, **span, **({"args": s.args} if s.args else {}), "ph": "X"}))
        for flow in self.flows:
            if flow.source[2] < self.started:
                continue
            for ph, (layer, tid, ts) in (("s", flow.source), ("f", flow.target)):
                place = {"pid": pids[layer], "tid": tid, "ts": stamp(ts)}
                if flow.cat == "HostToDevice":
                    bind = {"bp": "e"} if ph == "f" else {}
                    device.append((ts, {"name": flow.name, "ph": ph, "cat": flow.cat, "id": flow.id, **place, **bind}))
                else:
                    event = {"ph": ph, "bp": "e", "name": flow.name, "id": flow.id, **place, "cat": flow.cat}
                    (links if flow.cat == "async_npu" else framework).append(event)
        device.sort(key=lambda pair: pair[0])
        names = self.metadata(kept, pids, hidden)
        first = [event for event in names if event["pid"] == self.pid]
        rest = [event for event in names if event["pid"] != self.pid]
        return framework + first + python + rest + [event for _, event in device] + links

    def clip(self, s: Slice) -> Slice:
        return s._replace(begin=max(s.begin, self.started))

    def metadata(self, kept: list[Slice], pids: dict[str, int], hidden: set[str]) -> Iterator[dict[str, Any]]:
        """Names, labels and order of processes and threads."""
        lanes = sorted({(s.layer, s.tid) for s in kept})
        named = {"Overlap Analysis": OVERLAP, "HCCL": ("Group 0 Communication", "Plane 0")}
        rows: list[tuple[int, int, str, str, Any]] = []
        for layer in dict.fromkeys(layer for layer, _ in lanes):
            label = "CPU" if layer in ("Python", "CANN") else "NPU"
            rows += [(pids[layer], 0, "process_name", "name", layer)] if layer not in hidden else []
            rows += [(pids[layer], 0, "process_labels", "labels", label)]
            rows += [(pids[layer], 0, "process_sort_index", "sort_index", SORT[layer])]
        for layer, tid in lanes:
            kind = "Stream" if layer == "Ascend Hardware" else "Thread"
            name = named[layer][tid] if layer in named else f"{kind} {tid}"
            order = self.autograd + 1 if layer == "Python" and tid == self.dequeuer else tid
            rows += [(pids[layer], tid, "thread_name", "name", name)]
            rows += [(pids[layer], tid, "thread_sort_index", "sort_index", order)]
        return ({"ph": "M", "name": n, "pid": pid, "tid": tid, "args": {key: value}} for pid, tid, n, key, value in rows)

    def overlap(self, kept: list[Slice]) -> list[Slice]:
        """The layer that sums up computing, communication and idle time of the device."""
        tasks = [s for s in kept if s.layer == "Ascend Hardware"]
        compute = union([(s.begin, s.end) for s in tasks if s.args["Task Type"] == "AI_CORE"])
        comm = union([(s.begin, s.end) for s in kept if s.layer == "HCCL" and s.tid == 0])
        window = [(min(s.begin for s in tasks), max(s.end for s in tasks))]
        lanes = (compute, comm, minus(comm, compute), minus(window, union(compute + comm)))
        return [Slice("Overlap Analysis", lane, a, b, OVERLAP[lane], "", {}) for lane in range(4) for a, b in lanes[lane]]


OVERLAP = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
Spans = list[tuple[int, int]]


def union(spans: Spans) -> Spans:
    """Merges spans that touch or overlap."""
    merged: Spans = []
    for a, b in sorted(spans):
        if merged and a <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
        else:
            merged.append((a, b))
    return merged


def minus(spans: Spans, holes: Spans) -> Spans:
    """What of `spans` lies outside `holes`; both are sorted and free of overlaps."""
    left: Spans = []
    for a, b in spans:
        for c, d in holes:
            if c < b and d > a:
                left += [(a, c)] if c > a else []
                a = max(a, d)
        left += [(a, b)] if b > a else []
    return left


def stamp(ns: int) -> str:
    """A time as the profiler writes it: µs with three decimals, as text."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def micros(ns: int) -> float | int:
    """A duration in µs, whole numbers without decimals."""
    return ns // 1000 if ns % 1000 == 0 else ns / 1000


def full_path(path: str) -> str:
    """Where a module lies: the job's folder, the standard library, or site-packages."""
    if path.startswith("<"):
        return path
    if path in USER_FILES or path.startswith("job_model/"):
        return f"/workspace/job/{path}"
    root = "/usr/local/lib/python3.10"
    return f"{root}/{path}" if path.split("/")[0] in STDLIB or "/" not in path else f"{root}/site-packages/{path}"


STDLIB = {"json", "logging", "concurrent", "http", "importlib", "multiprocessing", "sqlite3"}
USER_FILES = {
    "train.py", "job_model/transformer.py", "job_model/attention.py", "checkpoint.py", "clip.py", "config.py", "dataset.py",
    "ema.py", "feeder.py", "figures.py", "guard.py", "history.py", "ledger.py", "metrics.py", "postprocess.py", "progress.py",
    "prompts.py", "registry.py", "report.py", "schedule.py", "snapshot.py", "telemetry.py", "tokens.py", "watchdog.py",
    "logbook.py", "augment.py", "shadow.py", "probe.py", "plugins.py",
}  # fmt: skip


# ---- what causes do


def spend(ms: float, calls: int = 1, inner: str = "", sigma: float = 0.3) -> Body:
    """Computes or blocks for `ms` in all, in `calls` calls of the `inner` frames."""

    def body(job: Job, state: dict[str, Any]) -> None:
        for _ in range(calls):
            with job.frames(inner):
                job.burn(1000 * ms * state["scale"] / calls, sigma)

    return body


def held_lock(ms: float) -> Body:
    """Takes a lock that a writer thread holds for `ms` after each call, and gives that writer something to write."""

    def body(job: Job, state: dict[str, Any]) -> None:
        with job.frames(f"<built-in method acquire of _thread.RLock {OBJECT}>"):
            job.now = max(job.now + 1000, state.get("released", 0))
        state["released"] = job.now + job.draw(1000 * ms * state["scale"], 0.2)

    return body


def awaited(ms: float, inner: str) -> Body:
    """Awaits the result of a thread that works for `ms` from the start of the step on."""

    def body(job: Job, state: dict[str, Any]) -> None:
        with job.frames(inner):
            job.now = max(job.now + 5000, job.step_began + job.draw(1000 * ms * state["scale"], 0.15))

    return body


def produced(ms: float, inner: str) -> Body:
    """Takes from a queue of two places whose producer needs `ms` per piece."""

    def body(job: Job, state: dict[str, Any]) -> None:
        taken = state.setdefault("taken", deque([job.now] * 2, 2))
        made = max(state.get("made", 0), taken[0]) + job.draw(1000 * ms * state["scale"], 0.15)
        with job.frames(inner):
            job.now = max(job.now + 4000, made)
        state["made"] = made
        taken.append(job.now)

    return body


def native(name: str, ms: float) -> Body:
    """An operator of a compiled extension that works on the host."""

    def body(job: Job, state: dict[str, Any]) -> None:
        with job.cpu_op(name):
            job.burn(1000 * ms * state["scale"], 0.2)

    return body


def tiny_ops(count: int, names: tuple[str, ...], inner: str = "") -> Body:
    """`count` times a row of operators with short kernels."""

    def body(job: Job, state: dict[str, Any]) -> None:
        for _ in range(count):
            with job.frames(inner):
                for name in names:
                    job.op(f"aten::{name}", f"aclnnInplace{name.strip('_').title()}", [(f"{name.strip('_').title()}AiCore", 2.5)])

    return body


def norms(count: int) -> Body:
    """A norm and its value, parameter by parameter."""

    def body(job: Job, state: dict[str, Any]) -> None:
        for _ in range(count):
            job.op("aten::linalg_vector_norm", "aclnnLinalgVectorNorm", [("LpNormV2", 6.0)])
            job.item()

    return body


def close_check(job: Job, state: dict[str, Any]) -> None:
    """Compares two tensors on the device and reads the verdict."""
    with job.cpu_op("aten::allclose"):
        for name in ("Sub", "Abs", "LeTensor", "All"):
            job.op(f"aten::{name.lower()}", f"aclnn{name}", [(f"{name}AiCore_{name}", 5.0)])
        job.item()


def read_back(ms: float, inner: str) -> Body:
    """Copies a tensor to the host and works on it there for `ms`."""

    def body(job: Job, state: dict[str, Any]) -> None:
        with job.frames(f"<built-in method cpu of Tensor {OBJECT}>"):
            job.copy("device_to_host", 90, COMPUTE, blocking=True)
        with job.frames(inner):
            job.burn(1000 * ms * state["scale"], 0.25)

    return body


# ---- the situations

HOST = Base()  # the host is slower than the device: each host millisecond counts
DEVICE = Base(kernel_us=260.0)  # the device is the slower one; the host waits for the step before
SYNCED = Base(kernel_us=150.0, wait="loss")  # the loss is read in each step, then host and device start anew
AHEAD = Base(kernel_us=240.0, wait="none", steps=6)  # nothing holds the host back

SITUATIONS: dict[str, Situation] = {
    "lock_of_logging_thread": Situation("a lock that a logging thread holds while it writes", replace(HOST, steps=6), (
        Cause("log", "logbook.py(37>44): record / logging/__init__.py(922): acquire", held_lock(17)),)),
    "print_to_slow_terminal": Situation("print to a slow terminal in every step", SYNCED, (
        Cause("log", "report.py(12>19): show / <built-in function print>", spend(5)),)),
    "json_of_metrics": Situation("json.dumps of metrics, and a shuffled index list", replace(HOST, level=0, steps=6), (
        Cause("log", "metrics.py(61>70): dump / json/__init__.py(183>234): dumps / json/encoder.py(183>199): encode",
              spend(4, 12, "json/encoder.py(413>431): _iterencode")),
        Cause("data", "dataset.py(112>120): reorder / random.py(376>394): shuffle", spend(2.5)))),
    "socket_of_metrics": Situation("a blocking send in every second step", replace(HOST, steps=8), (
        Cause("log", f"telemetry.py(88>97): push / <built-in method sendall of socket {OBJECT}>", spend(9),
              lambda step: step % 2 == 1),)),
    "thread_pool_result": Situation("the awaited result of a slow pool", replace(SYNCED, kernel_us=60.0), (
        Cause("batch", "augment.py(71>83): views / concurrent/futures/_base.py(428>453): result",
              awaited(12, f"threading.py(288>320): wait / <built-in method acquire of _thread.lock {OBJECT}>")),)),
    "lambda_in_scheduler": Situation("a slow lambda in a scheduler, called from library code", HOST, (
        Cause("sched", "torch/optim/lr_scheduler.py(146>161): step / torch/optim/lr_scheduler.py(268>278): get_lr"
              " / torch/optim/lr_scheduler.py(277>278): <listcomp> / schedule.py(29): <lambda>", spend(3.5, 40, "<built-in function sum>")),)),
    "compiled_extension": Situation("a C++ operator that works on the host", replace(HOST, stack="ops"), (
        Cause("layer", "job_model/transformer.py(88>93): forward", native("ragged_ext::pack_rows", 5), has_ops=True),)),
    "stat_on_nfs": Situation("os.stat of a marker on NFS, hidden behind the device", replace(DEVICE, steps=6), (
        Cause("log", "checkpoint.py(21>27): marker_exists / genericpath.py(16>19): exists / <built-in function stat>", spend(4)),)),
    "regex_on_tokens": Situation("regular expressions on tokens", replace(HOST, overlap=False), (
        Cause("data", "tokens.py(54>60): split", spend(6, 60, f"<built-in method sub of re.Pattern {OBJECT}>")),)),
    "numpy_postprocessing": Situation("outputs copied to the host and worked on with numpy", DEVICE, (
        Cause("loss", "postprocess.py(33>41): decode", read_back(5, "numpy/lib/function_base.py(3886>3902): percentile"),
              has_ops=True),)),
    "deepcopy_of_state": Situation("copy.deepcopy of the state in some steps", replace(HOST, peers=3, peer_ms=7.0, steps=6), (
        Cause("log", "shadow.py(18>23): keep / copy.py(128>146): deepcopy / copy.py(227>231): _deepcopy_dict",
              tiny_ops(60, ("clone",), "copy.py(128>153): deepcopy / torch/_tensor.py(84>125): __deepcopy__"),
              lambda step: step % 3 == 1, has_ops=True),)),
    "pickle_in_gradient_hook": Situation("pickling in a gradient hook on the autograd thread", replace(HOST, stack="none"), (
        Cause("hook", "feeder.py(66>72): send / <built-in method dumps of ForkingPickler>", spend(4)),)),
    "hash_of_batch": Situation("hashlib of a batch, and a tensor read back for a check", replace(HOST, kernel_us=70.0, steps=6), (
        Cause("batch", f"registry.py(40>48): fingerprint / <built-in method update of _hashlib.HASH {OBJECT}>", spend(6)),
        Cause("sched", "guard.py(77>81): finite", read_back(1.5, "<built-in function all>"), has_ops=True))),
    "subprocess_of_status": Situation("a status tool as a subprocess in two of the steps", replace(SYNCED, steps=8), (
        Cause("log", "watchdog.py(15>22): device_status / subprocess.py(421>425): check_output / subprocess.py(506>550): run"
              " / subprocess.py(1165>1209): communicate / selectors.py(402>416): select"
              f" / <built-in method poll of select.poll {OBJECT}>", spend(45), lambda step: step in (2, 6)),)),
    "sleep_as_backoff": Situation("time.sleep right in the training loop", HOST, (
        Cause("data", "<built-in function sleep>", spend(5, sigma=0.03)),)),
    "queue_of_slow_producer": Situation("a queue whose producer thread is too slow", replace(HOST, steps=7), (
        Cause("data", "feeder.py(25>31): next_batch / queue.py(154>171): get",
              produced(16, f"threading.py(288>320): wait / <built-in method acquire of _thread.lock {OBJECT}>")),)),
    "tqdm_refresh": Situation("a progress bar that redraws in every step", replace(SYNCED, absolute=True), (
        Cause("log", "progress.py(14>18): advance / tqdm/std.py(1198>1242): update / tqdm/std.py(1325>1347): refresh"
              f" / tqdm/std.py(1464>1492): display / <built-in method write of _io.TextIOWrapper {OBJECT}>", spend(3.5)),)),
    "allclose_in_assert": Situation("an assertion that compares tensors", replace(DEVICE, kernel_us=120.0, stack="none"), (
        Cause("layer", "guard.py(31>36): check", close_check, has_ops=True),)),
    "pandas_append": Situation("rows appended to a data frame, hidden behind the device", replace(AHEAD, level=0), (
        Cause("log", "history.py(30>36): add_row / pandas/core/reshape/concat.py(157>395): concat",
              spend(3, 15, "pandas/core/internals/managers.py(1823>1830): _consolidate")),)),
    "sqlite_of_metrics": Situation("a database commit per step", replace(HOST, stack="none", copy_stream=True), (
        Cause("log", f"ledger.py(20>28): insert / <built-in method commit of sqlite3.Connection {OBJECT}>", spend(7)),)),
    "yaml_reload": Situation("a configuration read again in some steps, and a web probe in all", replace(HOST, steps=6), (
        Cause("data", "config.py(44>49): reload / yaml/__init__.py(117>125): safe_load / yaml/constructor.py(47>51): get_single_data",
              spend(12, 30, "yaml/composer.py(63>84): compose_node"), lambda step: step % 2 == 0),
        Cause("log", "probe.py(9>16): alive / http/client.py(1331>1374): getresponse / socket.py(692>705): readinto"
              f" / <built-in method recv_into of socket {OBJECT}>", spend(2)))),
    "zlib_compression": Situation("a compressed snapshot, hidden behind the device", replace(DEVICE, copy_stream=True), (
        Cause("clip", "snapshot.py(52>58): pack / <built-in function compress>", spend(5)),)),
    "norm_by_parameter": Situation(".item() per parameter for the gradient norm", replace(DEVICE, kernel_us=90.0, stack="ops"), (
        Cause("clip", "clip.py(18>22): grad_norm", norms(40), has_ops=True),)),
    "tokenizer_in_loop": Situation("a tokenizer in the training loop", replace(HOST, absolute=True), (
        Cause("data", "prompts.py(70>79): encode / transformers/tokenization_utils_base.py(2790>2848): __call__"
              " / transformers/tokenization_utils_base.py(2939>2962): batch_encode_plus",
              spend(8, 8, f"<built-in method encode_batch of tokenizers.Tokenizer {OBJECT}>")),)),
    "image_decode": Situation("images decoded in the main thread, and a slow sort", replace(HOST, peers=2, peer_ms=7.0), (
        Cause("data", "torch/utils/data/_utils/fetch.py(46>51): fetch / dataset.py(61>66): __getitem__ / PIL/Image.py(900>946): convert",
              spend(9, 16, f"PIL/ImageFile.py(155>269): load / <built-in method decode of ImagingDecoder {OBJECT}>")),
        Cause("batch", "dataset.py(140>147): by_length / <built-in function sorted>", spend(2)))),
    "average_of_weights": Situation("weights averaged in a Python loop", replace(HOST, stack="ops"), (
        Cause("sched", "ema.py(25>31): update", tiny_ops(45, ("mul_", "add_")), has_ops=True),)),
    "figure_each_third_step": Situation("a figure drawn in each third step", replace(SYNCED, steps=6), (
        Cause("log", "figures.py(48>63): draw / matplotlib/figure.py(3243>3390): savefig / matplotlib/backend_bases.py(2034>2175): print_figure",
              spend(60, 20, "matplotlib/artist.py(53>72): draw_wrapper"), lambda step: step % 3 == 0),)),
    "timer_signal": Situation("a timer's handler that flushes a file, hidden behind the device", replace(DEVICE, steps=7), (
        Cause("layer", "watchdog.py(40>47): on_alarm / <built-in function fsync>", spend(6), lambda step: step % 2 == 0),)),
    "import_in_first_step": Situation("an import inside a function, once", replace(SYNCED, steps=4), (
        Cause("loss", "plugins.py(11>13): metric / <frozen importlib._bootstrap>(1022>1027): _find_and_load"
              " / <frozen importlib._bootstrap>(987>1006): _find_and_load_unlocked",
              spend(70, 25, "<frozen importlib._bootstrap_external>(877>883): exec_module / <built-in function exec>"),
              lambda step: step == 0),)),
    "name_lookup": Situation("a name looked up while other ranks are slower anyway",
                             replace(HOST, stack="ops", peers=3, peer_ms=32.0), (
        Cause("log", "probe.py(31>35): resolve / socket.py(946>955): getaddrinfo / <built-in function getaddrinfo>", spend(6)),)),
    "healthy_device_bound": Situation("nothing: the device is busy", DEVICE),
    "healthy_far_ahead": Situation("nothing: the host runs far ahead", replace(AHEAD, steps=8)),
    "healthy_collectives": Situation("nothing: collectives below the computing", replace(DEVICE, peers=3, peer_ms=29.0)),
    "healthy_loader": Situation("nothing: the loader is busy but fast enough", replace(DEVICE, loader_us=9000.0, level=0)),
    "healthy_no_frames": Situation("nothing, and no stacks recorded", replace(AHEAD, stack="none", overlap=False)),
    "healthy_three_streams": Situation("nothing: copies and collectives on streams of their own",
                                       replace(DEVICE, copy_stream=True, peers=2, peer_ms=28.0, absolute=True)),
}  # fmt: skip


def pace(name: str, seed: int, off: frozenset[int] = frozenset()) -> float:
    """Milliseconds per completed step without the causes in `off`."""
    return Job(name, seed, off).run()


def truth(name: str, seed: int) -> dict[str, Any]:
    """What is wrong and what it costs.

    `gain_ms_per_step` is the mean over the recorded steps when that cause alone is removed.  `file`, `line` and `function`
    name the user's code, null where the trace does not record it; `lines` are all lines of that frame that it may record.
    """
    situation = SITUATIONS[name]
    full = pace(name, seed)
    causes = []
    for index, cause in enumerate(situation.causes):
        gain = full - pace(name, seed, frozenset({index}))
        causes.append({**cause.place(situation.base.stack), "gain_ms_per_step": round(gain, 4)})
    everything = frozenset(range(len(situation.causes)))
    without = pace(name, seed, everything) if situation.causes else full
    return {
        "name": name, "about": situation.about, "seed": seed, "steps": situation.base.steps, "stack": situation.base.stack,
        "causes": causes, "step_ms_with": round(full, 4), "step_ms_without": round(without, 4),
    }  # fmt: skip


def write(name: str, seed: int, folder: Path | str) -> dict[str, Any]:
    """Writes both profiles and the truth of a situation below `folder`; returns the truth."""
    found = truth(name, seed)
    everything = frozenset(range(len(SITUATIONS[name].causes)))
    for kind, off in (("with", frozenset[int]()), ("without", everything)):
        job = Job(name, seed, off)
        job.run()
        place = Path(folder) / name / kind / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        place.mkdir(parents=True, exist_ok=True)
        (place / "trace_view.json").write_text(json.dumps(job.events()), encoding="utf-8")
    (Path(folder) / name / "truth.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def main() -> None:
    """Writes the named situations, or all."""
    parser = argparse.ArgumentParser(description="Writes simulated profiles of slow jobs and the truth about them.")
    parser.add_argument("-o", "--out", required=True, type=Path, help="folder to write into")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*", metavar="NAME", help="situations; all when none is given")
    options = parser.parse_args()
    unknown = set(options.names) - set(SITUATIONS)
    if unknown:
        parser.error(f"no such situation: {', '.join(sorted(unknown))}")
    for name in options.names or SITUATIONS:
        found = write(name, options.seed, options.out)
        gains = ", ".join(f"{c['file']}:{c['line']} {c['gain_ms_per_step']:.2f}" for c in found["causes"]) or "no cause"
        print(f"{name}: {found['step_ms_with']:.2f} -> {found['step_ms_without']:.2f} ms per step; {gains}")


if __name__ == "__main__":
    main()
