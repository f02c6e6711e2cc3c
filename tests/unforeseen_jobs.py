"""Simulated training jobs on an Ascend NPU whose slowness no rule book lists, with the true gain of each cause.

The simulator knows only how such a job runs. A main host thread runs Python frames and operators. Operators enqueue
into the task queue of torch_npu, the dequeue thread launches them through CANN in order, and the streams of the device
run their tasks in order. The host waits where it synchronises or waits for another thread, a launch where a stream is
full. Backward runs on the autograd thread while the main thread waits; collectives end once all ranks came.

A job is run with its causes and without them with otherwise identical draws, so the difference in the pace at which
host and device complete steps is the gain. Two steps before the recorded ones bring the job to its steady state.

    python tests/unforeseen_jobs.py -o OUT [--seed N] [NAME ...]

Times inside the simulator are integer nanoseconds; parameters say their unit (`_us`, `ms`). A frame is written
`path(start>now): function`: the function starts at line `start` and executes line `now`. As in real profiles, a Python
slice is named by `start` and a call stack holds `now`. `!print` and `!send of socket` are built in.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

COMPUTE, COPY, COMM = 2, 3, 4  # device streams
STREAM_DEPTH = 1024  # tasks that a stream can hold
NONE = 4294967295  # the profiler's "no such id"
WARMUP = 2  # steps that run before the recording
SORT = {"Python": 0, "CANN": 7, "Ascend Hardware": 13, "HCCL": 15, "Overlap Analysis": 23}
OVERLAP = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
LOCK = "threading.py(288>320): wait / !acquire of _thread.lock"
LIBRARY = "/usr/local/lib/python3.10"
# fmt: off
SITES = {  # the lines of train_epoch at which the parts of a step are called
    "data": 101, "fetch": 102, "batch": 104, "forward": 105, "loss": 106, "backward": 108, "clip": 109,
    "optimizer": 110, "sched": 112, "log": 115, "pace": 117, "step": 118}
LAYER = (  # module, source of its forward, operator, kernel time in units of `Base.kernel_us`, kernels of its backward
    ("LayerNorm", "torch/nn/modules/normalization.py(195>196)", "aten::native_layer_norm", 0.25, 1),
    ("Linear", "torch/nn/modules/linear.py(113>114)", "aten::addmm", 1.0, 2),
    ("Attention", "recipe/attention.py(58>77)", "npu::npu_fusion_attention", 1.6, 1),
    ("Linear", "torch/nn/modules/linear.py(113>114)", "aten::addmm", 1.3, 2),
    ("GELU", "torch/nn/modules/activation.py(681>682)", "aten::gelu", 0.3, 1),
    ("Linear", "torch/nn/modules/linear.py(113>114)", "aten::addmm", 1.3, 2),
)
# fmt: on
DATALOADER = "torch/utils/data/dataloader.py(624>633): __next__ / queue.py(154>171): get"
State = dict[str, Any]  # what a cause keeps between steps
End = tuple[str, int, int]  # layer, thread and time (ns) of an end of an arrow


class Frame(NamedTuple):
    """A Python frame; built-in functions and modules have only a name."""

    path: str
    line: int  # where the function starts
    name: str
    at: int  # the line that it executes

    @classmethod
    def parse(cls, text: str) -> Frame:
        """Reads `path(start>now): function`."""
        if text[0] == "!":
            kind = "method {} object at 0xfffcd9a5ae00" if " of " in text else "function {}"
            text = f"<built-in {kind.format(text[1:])}>"
        found = re.fullmatch(r"(.+?)\((\d+)(?:>(\d+))?\): (.+)", text)
        return cls(found[1], int(found[2]), found[4], int(found[3] or found[2])) if found else cls("", 0, text, 0)

    @property
    def is_user(self) -> bool:
        """Whether the code is the job's own: `train.py` and the folder `recipe`."""
        return self.path.startswith(("train.py", "recipe/"))

    @property
    def full_path(self) -> str:
        """Where the module lies: in the job's folder, the standard library, or site-packages."""
        if self.is_user or self.path[:1] in ("", "<"):
            return f"/workspace/job/{self.path}" if self.is_user else self.path
        standard = "/" not in self.path or self.path.startswith(("json/", "logging/", "concurrent/", "http/"))
        return f"{LIBRARY}/{self.path}" if standard else f"{LIBRARY}/site-packages/{self.path}"


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
    stack: str = "full"  # recorded: `full` Python frames and call stacks, `ops` call stacks only, or `none`
    level: int = 1  # profiler level 0 or 1
    overlap: bool = True  # whether the Overlap Analysis layer is written
    absolute: bool = False  # whether names of library frames keep their whole path


def spend(job: Job, cause: Cause, state: State) -> None:
    """Computes or blocks for `ms` in all, in `calls` calls of the `inner` frames or of the operator `op`."""
    for _ in range(cause.calls):
        with job.frames(cause.inner), job.cpu_op(cause.op) if cause.op else nullcontext():
            job.work(1000 * cause.ms * state["scale"] / cause.calls, 0.3)


@dataclass(frozen=True)
class Cause:
    """Something slow at a place of the step; `frames` lead from the calling line to the slow call, outermost first."""

    site: str
    frames: str
    ms: float = 0.0  # median, scaled once per seed
    body: Callable[[Job, Cause, State], None] = spend
    when: Callable[[int], bool] = lambda step: True  # by index of the recorded step, negative before the recording
    calls: int = 1
    inner: str = ""  # the frames below which each call runs
    op: str = ""  # an operator that runs in each call
    reads: bool = False  # whether the result of each operator is read

    def place(self, stack: str) -> dict[str, Any]:
        """File, function and line of the user's code as far as a trace records them; `lines` are all fair answers."""
        user = [frame for frame in map(Frame.parse, self.frames.split(" / ")) if frame.is_user]
        path, line, name, at = user[-1] if user else Frame("train.py", 96, "train_epoch", SITES[self.site])
        has_ops = bool(self.op) or self.body is read_back
        if self.site == "hook" or stack == "none" or (stack == "ops" and not has_ops):
            return {"file": None, "line": None, "function": None, "lines": []}
        lines = sorted({line, at} | (set() if user else {SITES["step"]}))
        return {"file": path, "line": at if has_ops or not user else line, "function": name, "lines": lines}


class Slice(NamedTuple):
    """A slice of the trace; times in ns."""

    layer: str
    tid: int
    begin: int
    end: int
    name: str
    cat: str
    args: dict[str, Any]


class Job:
    """One run of a situation, with the causes in `off` removed."""

    def __init__(self, name: str, seed: int, off: frozenset[int] = frozenset()) -> None:
        self.base, self.causes = SITUATIONS[name]
        self.off, key = off, zlib.crc32(name.encode())
        self.rng = np.random.default_rng([seed, key, 0])  # the job's own draws; peers and causes have others
        self.peer_rng = np.random.default_rng([seed, key, 1])
        rngs = [np.random.default_rng([seed, key, 2 + index]) for index in range(len(self.causes))]
        self.states: list[State] = [{"rng": rng, "scale": math.exp(0.2 * rng.standard_normal())} for rng in rngs]
        self.host_pace, self.device_pace = np.exp(0.1 * self.rng.standard_normal(2)).tolist()
        self.main = self.tid = 200_000 + key % 700_000
        self.autograd, self.dequeuer = self.main + 8571, self.main + 3198
        self.now = 1_750_000_000_000_000_000 + 1000 * (key % 10_000_000)
        self.started = self.step_began = self.now  # recording, this step
        self.queue_free = self.previous_done = self.batch_made = self.peer_came = self.now
        self.batches_taken = deque([self.now] * 2, 2)
        self.stream_free = dict.fromkeys((COMPUTE, COPY, COMM), self.now)
        self.stream_starts = {stream: deque([0] * STREAM_DEPTH, STREAM_DEPTH) for stream in self.stream_free}
        self.used_starts: set[int] = set()
        self.task_ids = dict.fromkeys(self.stream_free, 11000)
        self.correlation, self.connection, self.python_id, self.sequence, self.collectives = 8000, 900, 0, 1300, 0
        self.stack: list[Frame] = []
        self.frame_ids = [0]
        self.slices: list[Slice] = []
        self.flows: list[tuple[str, str, int | str, End, End]] = []  # category, name, id, both ends

    def draw(self, median_us: float, sigma: float = 0.15) -> int:
        """A lognormal host time in ns, on the 10 ns grid of the host's counter."""
        return max(1, round(100 * median_us * math.exp(sigma * self.rng.standard_normal()))) * 10

    def work(self, median_us: float, sigma: float = 0.15) -> None:
        """The current thread computes or is blocked, at the host's pace."""
        self.now += self.draw(median_us * self.host_pace, sigma)

    def add(self, layer: str, tid: int, begin: int, end: int, name: str, cat: str, args: dict[str, Any]) -> None:
        self.slices.append(Slice(layer, tid, begin, end, name, cat, args))

    def cann(self, tid: int, begin: int, end: int, call: str, mode: str = "ACL_RTS", item: str = "0") -> int:
        """Records a call of CANN; returns its connection id."""
        self.connection += 1
        level, name = ("node", "0") if call == "Node@launch" else ("acl", call.split("@")[1])
        args = {"Thread Id": tid, "Mode": mode, "level": level, "id": name, "item_id": item}
        self.add("CANN", tid, begin, end, call, "", {**args, "connection_id": self.connection})
        return self.connection

    @contextmanager
    def cpu_op(self, name: str, sequence: int = -1, forward: int = 0) -> Iterator[int]:
        """Records what runs inside as an operator of the current thread; gives its start in ns."""
        begin = self.now
        args: dict[str, Any] = {"Sequence number": sequence, "Fwd thread id": forward}
        if self.base.stack != "none" and self.tid == self.main:
            args["Call stack"] = ";\r\n".join(self.call_stack())
        self.work(0.4)
        yield begin
        self.work(0.3)
        self.add("Python", self.tid, begin, self.now, name, "cpu_op", args)

    def call_stack(self) -> Iterator[str]:
        """The executing lines, innermost first; a module counts as the frame that calls its forward."""
        for frame in reversed(self.stack):
            if frame.path:
                yield f"{frame.full_path}({frame.at}): {frame.name}"
            elif frame.name.startswith("nn.Module"):
                yield f"{LIBRARY}/site-packages/torch/nn/modules/module.py(1520): _call_impl"

    @contextmanager
    def frames(self, text: str) -> Iterator[None]:
        """Runs what is inside below the given frames."""
        head, _, rest = text.partition(" / ")
        if not head:
            yield
            return
        frame, begin, self.python_id = Frame.parse(head), self.now, self.python_id + 1
        args = {"Python id": self.python_id, "Python parent id": self.frame_ids[-1]}
        args |= {"Python module id": 0} if head.startswith("nn.Module") else {}
        self.stack.append(frame)
        self.frame_ids.append(self.python_id)
        self.now += 300
        with self.frames(rest):
            yield
        self.now += 200
        self.stack.pop()
        self.frame_ids.pop()
        if self.base.stack == "full" and self.tid == self.main:
            path = frame.full_path if self.base.absolute and not frame.is_user else frame.path
            name = f"{path}({frame.line}): {frame.name}" if path else frame.name
            self.add("Python", self.tid, begin, self.now, name, "python_function", args)

    def enqueue(self, entry: str, run: Callable[[int], int]) -> None:
        """Enqueues a launch; `run` does it on the dequeue thread from the given time on and returns when it ended."""
        self.correlation += 1
        begin, args = self.now, {"correlation_id": self.correlation}
        self.work(2.5)
        self.add("Python", self.tid, begin, self.now, "Enqueue", "enqueue", args)
        start = max(self.now + self.draw(5), self.queue_free)
        end = run(start + self.draw(2)) + self.draw(1)
        self.add("Python", self.dequeuer, start, end, f"Dequeue@{entry}", "dequeue", args)
        ends = (("Python", self.tid, begin), ("Python", self.dequeuer, start))
        self.flows.append(("async_task_queue", "enqueue_to_dequeue", self.correlation, *ends))
        self.queue_free = end + self.draw(0.8)

    def task(self, stream: int, name: str, length: float, ready: int, kind: str, connection: int) -> Slice:
        """Runs a task of `length` ns on a stream once the host has handed it over."""
        start = max(ready, self.stream_free[stream] + self.draw(0.9, 0.3))
        while start in self.used_starts:
            start += 1
        self.used_starts.add(start)
        self.stream_free[stream] = start + round(length)
        self.stream_starts[stream].append(start)
        self.task_ids[stream] += 1
        args = {"Model Id": NONE, "Task Type": kind, "Physic Stream Id": stream, "Task Id": self.task_ids[stream]}
        args |= {"Batch Id": 0, "Subtask Id": NONE, "connection_id": connection}
        self.add("Ascend Hardware", stream, start, self.stream_free[stream], name, "", args)
        return self.slices[-1]

    def link(self, device_id: int, launched: int, origin: int, task: Slice) -> None:
        """The two arrows that end at a device task: from its launch, and from the operator that began at `origin`."""
        target = (task.layer, task.tid, task.begin)
        source = ("CANN", self.dequeuer, launched)
        self.flows.append(("HostToDevice", f"HostToDevice{device_id}", str(device_id), source, target))
        self.flows.append(("async_npu", "torch_to_npu", task.begin, ("Python", self.tid, origin), target))

    def op(self, name: str, median_us: float, sequence: int = -1) -> None:
        """An operator with one kernel: prepared here, enqueued, and launched on the dequeue thread."""
        kind = name.split("::")[1].title().replace("_", "")
        entry, kernel = f"aclnn{kind}", f"aclnn{kind}_{kind}AiCore_{kind}"
        with self.cpu_op(name, sequence):
            self.work(self.base.host_us * 0.35)
            with self.cpu_op("empty_tensor"):
                self.work(self.base.host_us * 0.1)
            with self.cpu_op(entry) as origin:
                begin = self.now
                self.work(self.base.host_us * 0.25)
                self.cann(self.tid, begin, self.now, f"AscendCL@{entry}GetWorkspaceSize", "ACL_NN")
                self.work(self.base.host_us * 0.1)

                def run(now: int) -> int:
                    # The launch returns once the stream has room for the task.
                    submit = max(now + 400 + self.draw(2.5), self.stream_starts[COMPUTE][0])
                    done = submit + self.draw(2.0)
                    node = self.cann(self.dequeuer, now + 400, done, "Node@launch", "launch", kernel)
                    length = 1000 * self.device_pace * median_us * math.exp(0.08 * self.rng.standard_normal())
                    task = self.task(COMPUTE, kernel, length, submit + self.draw(6), "AI_CORE", node)
                    self.link((COMPUTE << 64) + (task.args["Task Id"] << 48) + NONE, submit, origin, task)
                    self.cann(self.dequeuer, now, done + 500, f"AscendCL@{entry}", "ACL_NN")
                    return done + 500

                self.enqueue(entry, run)
            self.work(self.base.host_us * 0.15)

    def copy(self, direction: str, median_us: float, stream: int, blocking: bool) -> None:
        """A copy between host and device that takes `median_us` on the device."""
        with self.cpu_op("aten::to"), self.cpu_op("aten::_to_copy"), self.cpu_op("aten::copy_"):
            self.work(self.base.host_us * 0.4)
            with self.cpu_op(f"acl_memcpy_{direction}") as origin:

                def run(now: int) -> int:
                    end = now + self.draw(12)
                    connection = self.cann(self.dequeuer, now, end, "AscendCL@aclrtMemcpyAsync")
                    length, ready = self.draw(median_us), now + self.draw(9)
                    task = self.task(stream, "MEMCPY_ASYNC", length, ready, "PCIE_DMA_SQE", connection)
                    self.link(connection, now, origin, task)
                    return end

                self.enqueue(f"acl_memcpy_{direction}", run)
            if blocking:
                self.wait_for(self.stream_free[stream], "aclrtSynchronizeStreamWithTimeout")

    def order(self, before: int, after: int) -> None:
        """Lets a stream wait on the device for all that another one holds by now."""
        record = ("record_event", "AscendCL@aclrtRecordEvent", before, "EVENT_RECORD")
        for entry, call, stream, name in (record, ("wait_event", "AscendCL@aclrtStreamWaitEvent", after, "EVENT_WAIT")):

            def run(now: int, call: str = call, stream: int = stream, name: str = name) -> int:
                end = now + self.draw(4)
                ready = max(end, self.stream_free[before])
                self.task(stream, name, 20, ready, f"{name}_SQE", self.cann(self.dequeuer, now, end, call))
                return end

            self.enqueue(entry, run)

    def all_reduce(self, share: float) -> None:
        """A gradient bucket; the peers come `share` of a step after the last one, then the data move."""
        self.order(COMPUTE, COMM)
        lags = share * 1e6 * self.base.peer_ms * np.exp(0.05 * self.peer_rng.standard_normal(self.base.peers))
        peers = self.peer_came + round(max(lags))
        with self.cpu_op("c10d::allreduce_"), self.cpu_op("HcclAllreduce") as origin:
            self.work(self.base.host_us * 0.5)

            def run(now: int) -> int:
                end, call = now + self.draw(180), "hcom_allReduce_"
                connection = self.cann(self.dequeuer, now, end, f"AscendCL@{call}", "HOST_HCCL", call)
                node = self.cann(self.dequeuer, now, end, "Node@launch", "launch", call)
                ready = max(now + self.draw(150), self.stream_free[COMM] + 2000)
                wait = self.task(COMM, "Notify Wait", max(200, peers - ready), ready, "Notify Wait", node)
                move = self.task(COMM, "SDMA", self.draw(150), ready, "SDMA", node)
                self.peer_came, self.collectives = move.end, self.collectives + 1
                args = {"connection_id": node, "model id": NONE, "data_type": "FP32", "alg_type": "MESH-RING"}
                self.add("HCCL", 0, wait.begin, move.end, f"hcom_allReduce__586_{self.collectives}_1", "", args)
                self.link((connection << 32) + NONE, now, origin, self.slices[-1])
                return end

            self.enqueue("HcclAllreduce", run)

    def wait_for(self, moment: int, call: str) -> None:
        """Blocks the current thread inside a call until all is launched and the device has come to a moment."""
        begin = self.now
        self.now = max(self.now, self.queue_free, moment) + self.draw(11)
        self.cann(self.tid, begin, self.now, f"AscendCL@{call}")

    def item(self) -> None:
        """Reads one number of the compute stream."""
        with self.frames("!item of Tensor"), self.cpu_op("aten::item"):
            self.work(self.base.host_us * 0.1)
            with self.cpu_op("aten::_local_scalar_dense"):
                self.wait_for(self.stream_free[COMPUTE], "aclrtSynchronizeStreamWithTimeout")
                begin = self.now
                self.work(25)
                self.cann(self.tid, begin, self.now, "AscendCL@aclrtMemcpy")

    def site(self, site: str, step: int) -> None:
        """Runs the causes of a place of the step, each with its own draws."""
        for index, cause in enumerate(self.causes):
            if cause.site == site and index not in self.off and cause.when(step):
                own, self.rng = self.rng, self.states[index]["rng"]
                with self.frames(cause.frames):
                    self.work(3)
                    cause.body(self, cause, self.states[index])
                self.rng = own

    def go_to(self, site: str, step: int) -> None:
        """The training loop reaches a line."""
        self.stack[-1] = self.stack[-1]._replace(at=SITES[site])
        self.work(6)
        self.site(site, step)

    def forward(self, step: int) -> list[tuple[int, int, int]]:
        """Runs the model; returns (sequence number, start, index in `LAYER`) for backward."""
        done: list[tuple[int, int, int]] = []
        with self.frames("nn.Module: Transformer_0 / recipe/model.py(131>140): forward"):
            for layer in range(self.base.layers):
                if layer == self.base.layers // 2:
                    self.site("layer", step)
                with self.frames(f"nn.Module: Block_{layer} / recipe/model.py(88>95): forward"):
                    for index, (module, source, name, weight, _) in enumerate(LAYER):
                        with self.frames(f"nn.Module: {module}_{len(done)} / {source}: forward"):
                            self.sequence += 1
                            done.append((self.sequence, self.now, index))
                            self.op(name, weight * self.base.kernel_us, self.sequence)
        return done

    def backward(self, done: list[tuple[int, int, int]], step: int) -> None:
        """Runs backward on the autograd thread while the main thread waits."""
        with self.frames("torch/_tensor.py(428>522): backward / !run_backward of torch._C._EngineBase"):
            self.work(40)
            self.tid = self.autograd
            for count, (sequence, begin, index) in enumerate(reversed(done)):
                _, _, name, weight, kernels = LAYER[index]
                node = f"{name.split('::')[1].title().replace('_', '')}Backward0"
                with self.cpu_op(f"autograd::engine::evaluate_function: {node}"):
                    ends = (("Python", self.main, begin), ("Python", self.tid, self.now))
                    with self.cpu_op(node, sequence, 1):
                        self.flows.append(("fwdbwd", "fwdbwd", sequence, *ends))
                        for _ in range(kernels):
                            self.op(
                                f"{name}_backward" if kernels == 1 else "aten::mm", weight * self.base.kernel_us * 1.1
                            )
                if count == len(done) // 3:
                    with self.cpu_op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"):
                        self.site("hook", step)
                if self.base.peers and count in (len(done) // 2, len(done) - 1):
                    self.all_reduce(0.8 if count == len(done) // 2 else 0.1)
            self.work(30)
            self.tid = self.main

    def step(self, step: int) -> None:
        """One iteration of `train_epoch`; `step` counts from the first recorded one."""
        base, self.step_began = self.base, self.now
        with self.cpu_op(f"ProfilerStep#{step + 10}"):
            self.go_to("data", step)
            self.go_to("fetch", step)
            self.batch_made = max(self.batch_made, self.batches_taken[0]) + self.draw(base.loader_us)
            with self.cpu_op("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"), self.frames(DATALOADER):
                self.now = max(self.now + self.draw(60), self.batch_made)
            self.batches_taken.append(self.now)
            self.copy("host_to_device", 120, COPY if base.copy_stream else COMPUTE, blocking=False)
            if base.copy_stream:
                self.order(COPY, COMPUTE)
            self.go_to("batch", step)
            self.go_to("forward", step)
            done = self.forward(step)
            self.go_to("loss", step)
            with self.frames("nn.Module: CrossEntropyLoss_0 / torch/nn/modules/loss.py(1178>1179): forward"):
                self.op("aten::nll_loss_forward", 12.0)
            self.go_to("backward", step)
            self.backward(done, step)
            self.go_to("clip", step)
            if base.peers:
                self.order(COMM, COMPUTE)
            self.go_to("optimizer", step)
            with self.cpu_op("Optimizer.step#AdamW.step"), self.frames("torch/optim/adamw.py(161>187): step"):
                for name in ("mul_", "addcmul_", "sqrt", "addcdiv_"):
                    self.op(f"aten::_foreach_{name}", base.layers * base.kernel_us * 0.2)
            step_before, self.previous_done = self.previous_done, self.stream_free[COMPUTE]
            self.go_to("sched", step)
            if base.wait == "loss":
                self.item()
            self.go_to("log", step)
            self.go_to("pace", step)
            if base.wait == "previous":
                with self.frames("torch_npu/npu/streams.py(201>213): synchronize / !synchronize of Event"):
                    self.wait_for(step_before, "aclrtSynchronizeEvent")
            self.go_to("step", step)
        self.now += 2000

    def run(self) -> float:
        """Runs the job; returns the milliseconds per recorded step at which host and device complete steps."""
        begin = self.now
        with self.frames("train.py(164): <module> / train.py(141): main / train.py(118): train_epoch"):
            for step in range(-WARMUP, self.base.steps):
                if step == 0:
                    begin, self.started = max(self.now, *self.stream_free.values()), self.now
                self.step(step)
        return (max(self.now, *self.stream_free.values()) - begin) / self.base.steps / 1e6

    def events(self) -> list[dict[str, Any]]:
        """The recorded events as in torch_npu's `trace_view.json`; only the loop's own frames began earlier."""
        pids = {layer: self.main << 10 | sort << 5 if sort else self.main for layer, sort in SORT.items()}
        kept = [s for s in self.slices if s.begin >= self.started or (s.end > self.started and s.name[:5] == "train")]
        kept += self.overlap(kept) if self.base.overlap else []
        framework, python, links, device = (list[dict[str, Any]]() for _ in range(4))
        for s in kept:
            ts = max(s.begin, self.started)
            time = {"ts": f"{ts // 1000}.{ts % 1000:03d}", "dur": (s.end - ts) / 1000}  # µs
            span = {"pid": pids[s.layer], "tid": s.tid, **time}
            if s.layer == "Python":
                event = {"ph": "X", "name": s.name, **span, "cat": s.cat, "args": s.args}
                (python if s.cat == "python_function" else framework).append(event)
            elif s.layer != "CANN" or self.base.level:
                device.append({"name": s.name, **span, **({"args": s.args} if s.args else {}), "ph": "X"})
        for cat, name, id_, *ends in self.flows:
            for ph, (layer, tid, ts) in zip("sf", ends, strict=True):
                event = {"ph": ph, "bp": "e", "name": name, "id": id_, "pid": pids[layer], "tid": tid}
                event["ts"] = f"{ts // 1000}.{ts % 1000:03d}"
                if ends[0][2] >= self.started and cat == "HostToDevice":
                    device.append({k: v for k, v in event.items() if k != "bp" or ph == "f"} | {"cat": cat})
                elif ends[0][2] >= self.started:
                    (links if cat == "async_npu" else framework).append({**event, "cat": cat})
        device.sort(key=lambda event: str(event["ts"]))
        lanes = sorted({(s.layer, s.tid) for s in kept})
        named = list({(e["pid"], e["tid"], e["name"]): e for e in self.metadata(lanes, pids)}.values())
        first = [event for event in named if event["pid"] == self.main]
        return framework + first + python + [event for event in named if event not in first] + device + links

    def metadata(self, lanes: list[tuple[str, int]], pids: dict[str, int]) -> Iterator[dict[str, Any]]:
        """Names, labels and order of processes and threads; at level 0 the layer of CANN stays without a name."""
        for layer, tid in lanes:
            name = f"{'Stream' if layer == 'Ascend Hardware' else 'Thread'} {tid}"
            name = {"Overlap Analysis": OVERLAP[tid % 4], "HCCL": "Group 0 Communication"}.get(layer, name)
            label = "CPU" if layer in ("Python", "CANN") else "NPU"
            process = {"name": layer, "labels": label, "sort_index": SORT[layer]}
            if (layer, self.base.level) == ("CANN", 0):
                del process["name"]
            for kind, row in (("process", process), ("thread", {"name": name, "sort_index": tid})):
                event = {"pid": pids[layer], "tid": tid if kind == "thread" else 0, "ph": "M"}
                yield from ({"name": f"{kind}_{key}", **event, "args": {key: row[key]}} for key in row)

    def overlap(self, kept: list[Slice]) -> list[Slice]:
        """The layer that sums up computing, communication and idle time of the device."""
        tasks = [s for s in kept if s.layer in ("Ascend Hardware", "HCCL")]
        edges = np.unique([(s.begin, s.end) for s in tasks])
        busy = np.zeros((2, len(edges)), bool)  # computing, communication between an edge and the next
        for s in tasks:
            if s.layer == "HCCL" or s.args["Task Type"] == "AI_CORE":
                busy[int(s.layer == "HCCL"), slice(*np.searchsorted(edges, (s.begin, s.end)))] = True
        found = []
        for lane, on in enumerate((busy[0], busy[1], busy[1] & ~busy[0], ~busy.any(axis=0))):
            changes = edges[np.flatnonzero(np.diff(np.concatenate(([False], on[:-1], [False]))))].tolist()
            spans = zip(changes[::2], changes[1::2], strict=True)
            found += [Slice("Overlap Analysis", lane, begin, end, OVERLAP[lane], "", {}) for begin, end in spans]
        return found


def held_lock(job: Job, cause: Cause, state: State) -> None:
    """Takes a lock that a writer thread holds for `ms` after each call, and gives that writer something to write."""
    with job.frames(cause.inner):
        job.now = max(job.now + 1000, state.get("released", 0))
    state["released"] = job.now + job.draw(1000 * cause.ms * state["scale"])


def awaited(job: Job, cause: Cause, state: State) -> None:
    """Awaits the result of a thread that works for `ms` from the start of the step on."""
    with job.frames(cause.inner):
        job.now = max(job.now + 5000, job.step_began + job.draw(1000 * cause.ms * state["scale"]))


def produced(job: Job, cause: Cause, state: State) -> None:
    """Takes from a queue of two places whose producer needs `ms` per piece."""
    taken = state.setdefault("taken", deque([job.now] * 2, 2))
    state["made"] = max(state.get("made", 0), taken[0]) + job.draw(1000 * cause.ms * state["scale"])
    with job.frames(cause.inner):
        job.now = max(job.now + 4000, state["made"])
    taken.append(job.now)


def operators(job: Job, cause: Cause, state: State) -> None:
    """Runs `calls` operators with short kernels, and reads their results where the cause does."""
    for _ in range(cause.calls):
        with job.frames(cause.inner):
            job.op(cause.op, 4.0)
            if cause.reads:
                job.item()


def read_back(job: Job, cause: Cause, state: State) -> None:
    """Copies a tensor to the host and works on it there for `ms`."""
    with job.frames("!cpu of Tensor"):
        job.copy("device_to_host", 90, COMPUTE, blocking=True)
    spend(job, cause, state)


def job(base: Base, *causes: Cause, **changes: Any) -> tuple[Base, tuple[Cause, ...]]:
    """A situation: a base with changes, and what is wrong."""
    return replace(base, **changes), causes


ODD, THIRD = (lambda step: step % 2 == 1), (lambda step: step % 3 == 1)
HOST = Base()  # the host is slower than the device: each host millisecond counts
DEVICE = Base(kernel_us=260.0)  # the device is slower, short causes gain nothing; the host waits for the step before
SYNCED = Base(kernel_us=150.0, wait="loss")  # the loss is read in each step, then host and device start anew
AHEAD = Base(kernel_us=240.0, wait="none", steps=6)  # nothing holds the host back

# fmt: off
SITUATIONS: dict[str, tuple[Base, tuple[Cause, ...]]] = {
    "lock_of_logging_thread": job(HOST, Cause("log", "recipe/logbook.py(37>44): record / logging/__init__.py(922): "
        "acquire", 17, held_lock, inner="!acquire of _thread.RLock"), steps=6),
    "print_to_slow_terminal": job(SYNCED, Cause("log", "recipe/report.py(12>19): show / !print", 5)),
    "json_of_metrics": job(HOST, Cause("log", "recipe/metrics.py(61>70): dump / json/__init__.py(183>234): dumps", 4,
        calls=12, inner="json/encoder.py(413>431): _iterencode"),
        Cause("data", "recipe/dataset.py(112>120): reorder / random.py(376>394): shuffle", 2.5), level=0, steps=6),
    "socket_of_metrics": job(HOST, Cause("log", "recipe/telemetry.py(88>97): push / !sendall of socket", 9, when=ODD)),
    "thread_pool_result": job(SYNCED, Cause("batch", "recipe/augment.py(71>83): views / concurrent/futures/_base.py"
        "(428>453): result", 12, awaited, inner=LOCK), kernel_us=60.0),
    "lambda_in_scheduler": job(HOST, Cause("sched", "torch/optim/lr_scheduler.py(146>161): step / torch/optim/"
        "lr_scheduler.py(268>278): get_lr / recipe/schedule.py(29): <lambda>", 3.5, calls=40, inner="!sum"), layers=3),
    "compiled_extension": job(HOST, Cause("layer", "recipe/model.py(60>64): pack", 5, op="ragged::pack"), stack="ops"),
    "stat_on_nfs": job(DEVICE, Cause(
        "log", "recipe/checkpoint.py(21>27): marked / genericpath.py(16>19): exists / !stat", 4), steps=6),
    "regex_on_tokens": job(HOST, Cause("data", "recipe/tokens.py(54>60): split", 6, calls=60,
        inner="!sub of re.Pattern"), layers=6, overlap=False),
    "numpy_postprocessing": job(DEVICE, Cause("loss", "recipe/postprocess.py(33>41): decode", 5, read_back,
        inner="numpy/lib/function_base.py(3886>3902): percentile")),
    "deepcopy_of_state": job(HOST, Cause("log", "recipe/shadow.py(18>23): keep / copy.py(128>146): deepcopy", 0,
        operators, THIRD, 90, "torch/_tensor.py(84>125): __deepcopy__", "aten::clone"),
        peers=3, peer_ms=3.5, steps=6),
    "pickle_in_gradient_hook": job(HOST, Cause("hook", "recipe/feeder.py(66>72): send / !dumps", 4), stack="none"),
    "hash_of_batch": job(HOST, Cause("batch", "recipe/registry.py(40>48): seal / !update of _hashlib.HASH", 6),
        Cause("sched", "recipe/guard.py(77>81): finite", 1.5, read_back, inner="!all"), kernel_us=70.0, steps=6),
    "subprocess_of_status": job(SYNCED, Cause("log", "recipe/watchdog.py(15>22): status / subprocess.py(421>425): "
        "check_output / subprocess.py(1165>1209): communicate / selectors.py(402>416): select / !poll of select.poll",
        45, when=lambda step: step in (2, 6)), steps=8),
    "sleep_as_backoff": job(HOST, Cause("data", "!sleep", 5), host_us=90.0),
    "queue_of_slow_producer": job(HOST, Cause("data", "recipe/feeder.py(25>31): next_batch / queue.py(154>171): get",
        16, produced, inner=LOCK), steps=7),
    "tqdm_refresh": job(SYNCED, Cause("log", "recipe/progress.py(14>18): advance / tqdm/std.py(1198>1242): update / "
        "tqdm/std.py(1325>1347): refresh / !write of _io.TextIOWrapper", 3.5), absolute=True),
    "allclose_in_assert": job(DEVICE, Cause("layer", "recipe/guard.py(31>36): check", 0, operators,
        op="aten::allclose", reads=True), kernel_us=90.0, host_us=80.0, stack="none"),
    "pandas_append": job(AHEAD, Cause(
        "log", "recipe/history.py(30>36): add_row / pandas/core/reshape/concat.py(157>395): concat", 3, calls=15,
        inner="pandas/core/internals/managers.py(1823>1830): _consolidate"), level=0),
    "sqlite_of_metrics": job(HOST, Cause("log", "recipe/ledger.py(20>28): insert / !commit of sqlite3.Connection", 7),
        stack="none", copy_stream=True),
    "yaml_reload": job(HOST, Cause("data", "recipe/config.py(44>49): reload / yaml/__init__.py(117>125): safe_load",
        12, when=ODD, calls=30, inner="yaml/composer.py(63>84): compose_node"), Cause("log", "recipe/probe.py(9>16): "
        "alive / http/client.py(1331>1374): getresponse / !recv_into of socket", 2), steps=6),
    "zlib_compression": job(DEVICE, Cause("clip", "recipe/snapshot.py(52>58): pack / !compress", 5), copy_stream=True),
    "norm_by_parameter": job(DEVICE, Cause("clip", "recipe/clip.py(18>22): grad_norm", 0, operators, calls=40,
        op="aten::linalg_vector_norm", reads=True), kernel_us=90.0, stack="ops"),
    "tokenizer_in_loop": job(HOST, Cause("data", "recipe/prompts.py(70>79): encode / transformers/tokenization.py"
        "(279>284): __call__", 8, calls=8, inner="!encode_batch of tokenizers.Tokenizer"), absolute=True),
    "image_decode": job(HOST, Cause("data", "torch/utils/data/_utils/fetch.py(46>51): fetch / "
        "recipe/dataset.py(61>66): __getitem__ / PIL/Image.py(900>946): convert", 9, calls=16,
        inner="PIL/ImageFile.py(155>269): load / !decode of ImagingDecoder"),
        Cause("batch", "recipe/dataset.py(140>147): by_length / !sorted", 2), peers=2, peer_ms=5.0),
    "average_of_weights": job(HOST, Cause("sched", "recipe/ema.py(25>31): update", 0, operators, calls=90,
        op="aten::lerp_"), stack="ops"),
    "figure_each_third_step": job(SYNCED, Cause("log", "recipe/figures.py(48>63): draw / matplotlib/figure.py"
        "(3243>3390): savefig", 60, when=THIRD, calls=20, inner="matplotlib/artist.py(53>72): draw_wrapper"), steps=6),
    "timer_signal": job(DEVICE, Cause("layer", "recipe/watchdog.py(40>47): on_alarm / !fsync", 6, when=ODD), steps=7),
    "import_in_first_step": job(SYNCED, Cause("loss", "recipe/plugins.py(11>13): metric / <frozen importlib._bootstrap>"
        "(1022>1027): _find_and_load", 70, when=lambda step: step == 0, calls=25,
        inner="<frozen importlib._bootstrap_external>(877>883): exec_module"), steps=4),
    "name_lookup": job(HOST, Cause("log", "recipe/probe.py(31>35): resolve / socket.py(946>955): getaddrinfo / "
        "!getaddrinfo", 6), stack="ops", peers=3, peer_ms=20.0),  # the other ranks are slower anyway
    "healthy_device_bound": job(DEVICE),
    "healthy_far_ahead": job(AHEAD, layers=7, steps=8),
    "healthy_collectives": job(DEVICE, peers=3, peer_ms=16.0),
    "healthy_loader": job(DEVICE, loader_us=9000.0, level=0),
    "healthy_no_frames": job(AHEAD, layers=3, stack="none", overlap=False),
    "healthy_three_streams": job(DEVICE, copy_stream=True, peers=2, peer_ms=15.0, absolute=True),
}
# fmt: on


def truth(name: str, seed: int) -> dict[str, Any]:
    """What is wrong and what it costs.

    `gain_ms_per_step` is the mean over the recorded steps when that cause alone is removed. `file`, `line` and
    `function` name the user's code, null where the trace does not record it; `lines` are all fair answers.
    """
    base, causes = SITUATIONS[name]
    full, without = Job(name, seed).run(), Job(name, seed, frozenset(range(len(causes)))).run()
    found = [cause.place(base.stack) for cause in causes]
    for index, cause in enumerate(found):
        cause["gain_ms_per_step"] = round(full - Job(name, seed, frozenset({index})).run(), 4)
    paces = {"step_ms_with": round(full, 4), "step_ms_without": round(without, 4)}
    return {"name": name, "seed": seed, "steps": base.steps, "stack": base.stack, "causes": found, **paces}


def write(name: str, seed: int, folder: Path | str) -> dict[str, Any]:
    """Writes both profiles and the truth of a situation below `folder`; returns the truth."""
    for kind, removed in (("with", 0), ("without", len(SITUATIONS[name][1]))):
        job = Job(name, seed, frozenset(range(removed)))
        job.run()
        place = Path(folder) / name / kind / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        place.mkdir(parents=True, exist_ok=True)
        (place / "trace_view.json").write_text(json.dumps(job.events()), encoding="utf-8")
    found = truth(name, seed)
    (Path(folder) / name / "truth.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def main() -> None:
    """Writes the named situations, or all."""
    parser = argparse.ArgumentParser(description="Writes simulated profiles of slow jobs and the truth about them.")
    parser.add_argument("-o", "--out", required=True, type=Path, help="folder to write into")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*", metavar="NAME", help="situations; all when none is given")
    options = parser.parse_args()
    for name in options.names or SITUATIONS:
        print(json.dumps(write(name, options.seed, options.out)))


if __name__ == "__main__":
    main()
