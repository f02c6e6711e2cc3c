"""Device time that has a cheaper form: what, where, and what a step gains, in steps written kernel by kernel."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.analysis.device import Window
from npu_tui.profile.parts import Selection
from npu_tui.profile.profile import Profile
from npu_tui.rules.inputs import common, length_of
from npu_tui.rules.late_ranks import waits_for_late_ranks
from npu_tui.rules.model import SEVERITIES, Finding
from npu_tui.strings import words

_BACKWARD = 4002
"""The thread of passes backward."""


class Training:
    """Steps of one rank: operations that launch kernels, which follow each other on one stream; times in us."""

    def __init__(self) -> None:
        self.trace, self.rows = ByHand(), list[dict[str, object]]()
        self.at, self.free, self.links, self.begun = 0.0, 0.0, 0, 0.0
        self.settings: dict[str, str] = {}
        self.ranks, self.moved = [0], dict[str, object]()

    def run(
        self, kind: str, length: float, shapes: str = "512,512;512,512", out: str = "512,512", dtype: str = "FLOAT16",
        *, op: str = "aten::mm", stack: str = "model.py(10): forward", trained: str = "", made: str = "",
        blocks: int = 20, mac: float | None = None,
    ) -> None:  # fmt: skip
        """An operation ``op`` at ``stack`` that launches a kernel; ``trained`` names its link to the pass backward.

        What it writes is ``made`` of another type than ``dtype``; the cube computes for ``mac`` of its time.
        """
        begin = max(self.free, self.at + 10)
        backward = trained.startswith("<")
        tid = _BACKWARD if backward else 4001
        args = {} if backward else {"Call stack": "\r\n".join(f"/app/{frame};" for frame in stack.split("|"))}
        self.trace.add(4001, tid, op, self.at, 8, cat="cpu_op", args=args)
        name = f"aclnn{kind}_{kind}_{kind}"
        self.trace.launch(name, self.at + 2, begin, length)
        if backward:
            for event in self.trace.events[-4:]:
                event["tid"] = tid if event["tid"] == 4001 else event["tid"]
        for phase, time, pid, lane in (("s", self.at, 4001, tid), ("f", begin, 3, 2)):
            link = {"cat": "async_npu", "name": "async_npu", "id": str(len(self.rows)), "bp": "e", "ph": phase}
            self.trace.events.append(link | {"pid": pid, "tid": lane, "ts": self.trace._ts(time)})
        if trained:
            link = {"cat": "fwdbwd", "name": "fwdbwd", "id": trained.strip("<"), "bp": "e", "pid": 4001, "tid": tid}
            self.trace.events.append(link | {"ph": "f" if backward else "s", "ts": self.trace._ts(self.at + 1)})
        vector = not any(word in kind for word in ("MatMul", "Attention", "Conv"))
        cells = {"Name": name, "Type": kind, "Accelerator Core": "AI_VECTOR_CORE" if vector else "AI_CORE"}
        cells |= {
            "Start Time(us)": self.trace._ts(begin),
            "Duration(us)": length,
            "Wait Time(us)": 0,
            "Block Dim": blocks,
        }
        cells |= {"aic_mac_ratio": "N/A" if mac is None else mac, "aic_mte2_ratio": "N/A" if mac is None else 0.5}
        for side, given in (("Input", shapes), ("Output", out)):
            parts = len(given.split(";"))
            types = [made or dtype if side == "Output" else dtype] * parts
            cells |= {f"{side} Shapes": f'"{given}"', f"{side} Data Types": ";".join(types)}
            cells[f"{side} Formats"] = ";".join(["ND"] * parts)
        self.rows.append(cells)
        self.at, self.free = self.at + 10, begin + length

    def collective(
        self, name: str, length: float, dtype: str = "FP32", count: int = 1 << 24, moving: float | None = None,
        link: float | None = None,
    ) -> None:  # fmt: skip
        """A collective that everything after it waits for; communication.json says how long it is ``moving`` data.

        Tasks of planes move data to each other rank at ``link`` GB/s.
        """
        name = f"{name}__021_{len(self.trace.events)}_1"
        if moving is not None:
            told = {"Start Timestamp(us)": float(self.trace._ts(self.free)), "Elapse Time(ms)": length / 1000}
            moved = {"Transit Size(MB)": 0.004, "Transit Time(ms)": moving / 1000}
            self.moved[name + "@7"] = {
                "Communication Time Info": told, "Communication Bandwidth Info": {"SDMA": moved}
            }  # fmt: skip
        self.trace.group(name, self.free, length)
        self.trace.events[-1]["args"] = {"data_type": dtype, "count": count, "alg_type": "MESH"}
        for peer in range(1, len(self.ranks)) if link is not None else ():
            told = {"src rank": 0, "dst rank": peer, "transport type": "SDMA", "link type": "HCCS"}
            self.trace.task(
                "Memcpy", self.free + 2, length - 4, peer, **told, **{"size(Byte)": round(link * length * 1e3)}
            )
        self.free += length

    def step(self, number: int, work: Callable[[Training, int], None]) -> None:
        """A step of the host, which runs ahead of the device."""
        self.at += 5
        begin = self.at
        work(self, number)
        self.trace.step(number, begin, self.at - begin)

    def found(self, folder: Path, least: str = "medium") -> list[Finding]:
        """The findings that count, the dearest first; with ``least`` also those that do not."""
        profile = self.trace.write(folder)
        with (profile / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(self.rows[0]))
            writer.writeheader()
            writer.writerows(self.rows)
        if self.moved:
            steps = {"step1": {"p2p": {}, "collective": self.moved}}
            (profile / "ASCEND_PROFILER_OUTPUT" / "communication.json").write_text(json.dumps(steps))
        metadata = {"ENV_VARIABLES": self.settings, "parallel_group_info": {"7": {"global_ranks": self.ranks}}}
        (profile / "profiler_metadata.json").write_text(json.dumps(metadata))
        below = SEVERITIES[SEVERITIES.index(least) + 1 :]
        return [row for row in profile_at(profile).findings.findings if row.severity not in below]


def passes(job: Training, number: int, forward: Callable[[Training, str], None] | None = None) -> None:
    """Four layers forward and backward, with ``forward`` of what each may compute besides."""
    for layer in range(4):
        job.run("MatMulV3", 400, trained=f"{number}{layer}1")
        if forward is not None:
            forward(job, f"{number}{layer}2")
    for layer in reversed(range(4)):
        if forward is not None:
            forward(job, f"<{number}{layer}2")
        for _ in range(2):
            job.run("MatMulV3", 400, op="MmBackward0", trained=f"<{number}{layer}1")


def activation(job: Training, link: str) -> None:
    """A gated activation in three kernels, and three of its pass backward."""
    if link.startswith("<"):
        for kind, op in (("Mul", "MulBackward0"), ("SwishGrad", "SiluBackward0"), ("ConcatD", "SplitBackward0")):
            job.run(kind, 60, "512,512", op=op, trained=link + op[0])
        return
    for kind, op in (("SplitD", "aten::split"), ("Swish", "aten::silu"), ("Mul", "aten::mul")):
        named = {"aten::split": "S", "aten::silu": "s", "aten::mul": "M"}[op]
        job.run(kind, 60, "512,512", op=op, trained=f"{link}{named}")


def layered(*ops: tuple[str, str, int, int]) -> Callable[[Training, str], None]:
    """Operations by name, kernel, its time in the pass forward and in the pass backward."""

    def run(job: Training, link: str) -> None:
        for number, (op, kind, forward, backward) in enumerate(ops):
            trained = f"{link}{number}"
            if not link.startswith("<"):
                job.run(kind, forward, "512,512;512,512", op=f"aten::{op}", trained=trained)
            elif backward:
                job.run(
                    f"{kind}Grad" if kind[0] == "S" else kind, backward, "512,512", op=f"{op}Backward", trained=trained
                )

    return run


_NORM = (("pow", "Pows", 60, 60), ("mean", "ReduceMeanD", 50, 50), ("add", "Adds", 5, 0), ("rsqrt", "Rsqrt", 5, 5))
NORM = layered(*_NORM, ("mul", "Mul", 60, 60), ("mul", "Mul", 60, 70))
SCORES = layered(("bmm", "BatchMatMulV2", 200, 400), ("mul", "Muls", 90, 80), ("softmax", "SoftmaxV2", 100, 110),
                 ("bmm", "BatchMatMulV2", 200, 400))  # fmt: skip


def casts(job: Training, link: str) -> None:
    """The weight of the next layer in 32 bits, which its product multiplies in 16; after the last one comes none."""
    if not link.startswith("<"):
        job.run("Cast", 100, "512,512", dtype="FLOAT", op="aten::to", stack="amp.py(5): cast|model.py(10): forward")


def back(job: Training, link: str) -> None:
    """A tensor to 32 bits and back, and once more to 32 bits, which the next layer wants."""
    for dtype, made in (("FLOAT16", "FLOAT"), ("FLOAT", "FLOAT16"), ("FLOAT16", "FLOAT")):
        job.run("Cast", 100, "512,512", dtype=dtype, made=made, op="aten::to", stack="model.py(12): upcast")
    job.run("Add", 90, "512,512;512,512", dtype="FLOAT", op="aten::add", stack="model.py(12): upcast")


_WIDE = (("to", 200), ("pow", 400), ("mean", 200), ("rsqrt", 5), ("mul", 400), ("to", 200), ("mul", 100))
"""A norm in 32 bits of a tensor in 16: operations and how long they take, by the bytes that they move."""


def widened(job: Training, link: str) -> None:
    """``_WIDE`` in both passes: 36 MB in 1,500 µs; one kernel moves the 4 MB of the tensor in 16 bits, in 167 µs."""
    for number, (op, length) in enumerate(_WIDE):
        into, out = {0: ("FLOAT16", "FLOAT"), 5: ("FLOAT", "FLOAT16"), 6: ("FLOAT16", "")}.get(number, ("FLOAT", ""))
        kind = {"to": "Cast", "pow": "Pows", "mean": "ReduceMeanD", "rsqrt": "Rsqrt", "mul": "Mul"}[op]
        shape = "1024,1" if op == "rsqrt" else "1024,1024"
        rows = "1024,1" if op in ("mean", "rsqrt") else "1024,1024"
        op = f"{op}Backward" if link.startswith("<") else f"aten::{op}"
        job.run(kind, length, shape, rows, into, op=op, trained=f"{link}{number}", made=out)


def flat(job: Training, number: int) -> None:
    """Gradients together and apart again, in a function of its own."""
    passes(job, number)
    for kind in ("ConcatD", "TensorMove", "SplitVD"):
        job.run(kind, 200, "262144", op="aten::cat", stack="flat.py(591): flatten|train.py(3): step")
    job.run("ForeachNorm", 20, "262144", op="aten::norm", stack="train.py(4): step")


def twice(job: Training, number: int, asking: str = "metrics.py(49): perplexity") -> None:
    """A second pass forward that nothing is trained by, for a metric."""
    for _ in range(4):
        job.run("MatMulV3", 400, stack=f"model.py(10): forward|{asking}|train.py(2): step")
    passes(job, number)


def twice_by_library(job: Training, number: int) -> None:
    twice(job, number, "/opt/python3.9/site-packages/verl/workers/actor/dp_actor.py(121): compute_log_prob")


def experts(job: Training, number: int) -> None:
    """One product among those of the model whose link to the pass backward is not recorded."""
    job.run("GroupedMatmul", 300, "512,512;8,512,512", trained=f"{number}81")
    job.run("MatMulV3", 400, "512,256;256,512", trained=f"{number}82")
    job.run("GroupedMatmul", 300, "512,512;8,512,512", stack="moe.py(7): experts")
    passes(job, number)


def begun(job: Training, number: int) -> None:
    """A pass whose embedding and first layer have no link to the pass backward."""
    job.run("GatherV2", 20, "4096,512;512", op="aten::embedding", stack="model.py(10): forward|train.py(2): step")
    job.run("MatMulV3", 400, stack="model.py(10): forward|train.py(2): step")
    passes(job, number)


def unfused(job: Training, number: int) -> None:
    """An optimizer whose eight kernels read and write the parameters again and again."""
    passes(job, number)
    begin = job.at
    times = {"Mul": 100, "Lerp": 150, "Addcmul": 150, "Sqrt": 100, "Div": 100, "Add": 100, "Addcdiv": 150}
    for kind, time in [*times.items(), ("Mul", 100)]:
        job.run(f"Foreach{kind}", time, "1048576", "1048576", "FLOAT", op="aten::_foreach", stack="train.py(5): step")
    job.trace.host("Optimizer.step#AdamW.step", begin - 1, job.at - begin + 1)


def attention(job: Training, number: int) -> None:
    """Attention whose pass backward takes four times as long as its pass forward."""
    job.run("FlashAttentionScore", 500, "2,8,512,64;2,8,512,64;2,8,512,64", op="npu::attention", trained=f"{number}91")
    passes(job, number)
    shapes = "2,8,512,64;2,8,512,64;2,8,512,64;2,8,512,64"
    job.run("FlashAttentionScoreGrad", 2000, shapes, op="AttentionBackward0", trained=f"<{number}91")


def wide(job: Training, number: int) -> None:
    """A sum of gradients in 32 bits that nothing hides."""
    passes(job, number)
    job.collective("hcom_allReduce_", 2000)


def gathered(job: Training, number: int) -> None:
    """Weights of each layer gathered twice in either pass."""
    for layer in range(4):
        for _ in range(2):
            job.collective("hcom_allGather_", 200, "BFP16")
        job.run("MatMulV3", 400, trained=f"{number}{layer}1")
    for layer in reversed(range(4)):
        for _ in range(2):
            job.collective("hcom_allGather_", 200, "BFP16")
        for _ in range(2):
            job.run("MatMulV3", 400, op="MmBackward0", trained=f"<{number}{layer}1")
        job.collective("hcom_reduceScatter_", 200, "BFP16")


def dropout(job: Training, link: str) -> None:
    """A mask that is made and applied, and applied again in the pass backward."""
    if not link.startswith("<"):
        job.run("StatelessDropOutGenMask", 80, "512,512", op="aten::native_dropout", trained=f"{link}D")
    job.run("DropOutDoMaskV3", 40, "512,512", op="aten::native_dropout", trained="")


def cloned(job: Training, number: int) -> None:
    """An average of the weights in a function that first clones each of them, after the host waited for the device."""
    passes(job, number)
    begin, many = job.at, {"shapes": "65536", "out": "65536", "dtype": "FLOAT"}
    job.run("ApplyAdamWV2", 100, op="aten::adamw", stack="train.py(5): step", **many)
    job.trace.host("Optimizer.step#AdamW.step", begin - 1, job.at - begin + 1)
    job.trace.call("AscendCL@aclrtSynchronizeStreamWithTimeout", job.at, job.free + 5 - job.at)
    job.at = begin = job.free + 6
    for _ in range(20):
        job.at += 90
        job.run("TensorMove", 5, op="aten::clone", stack="ema.py(20): update|train.py(6): step", **many)
    for _ in range(6):
        stack = "ema.py(30): mix|ema.py(25): update|train.py(6): step"
        job.run("ForeachLerpScalar", 60, op="aten::_foreach_lerp_", stack=stack, **many)
    job.trace.host("app/ema.py(12): update", begin, job.at - begin, cat="python_function")


def flattened(job: Training, number: int) -> None:
    """Gradients that are joined in one buffer and copied back one by one, on lines that were not recorded."""
    passes(job, number)
    job.run("ConcatD", 200, "65536;65536", "131072", op="aten::cat", stack="")
    for _ in range(4):
        job.run("TensorMove", 50, "65536", "65536", op="aten::copy_", stack="")


def scattered(job: Training, number: int) -> None:
    """An operator that writes at a tenth of the bandwidth that others reach, and hardly computes."""
    passes(job, number)
    for _ in range(8):
        job.run("Add", 10, "1024,1024", "1024,1024", "FLOAT", op="aten::add")
    job.run("ScatterUpdate", 400, "1024,1024", "1024,1024", "FLOAT", op="aten::scatter", stack="embed.py(7): merge")


def indexed(job: Training, number: int) -> None:
    """The gradient of an embedding, whose rows one core adds one after another so that results repeat."""
    passes(job, number)
    for _ in range(8):
        job.run("Add", 10, "1024,1024", "1024,1024", "FLOAT", op="aten::add")
    rows = "1024,1024;2048,1024;2048"
    job.run("IndexPutV2", 400, rows, "1024,1024", op="aten::index_put_", stack="embed.py(7): forward", blocks=1)


def looped(job: Training, number: int) -> None:
    """Eight experts one after another beside each layer, whose products leave the cube idle for half of their time."""

    def experts_of(job: Training, link: str) -> None:
        back = {"op": "MmBackward0"} if link.startswith("<") else {"stack": "experts.py(30): run"}
        for _ in range(8):
            job.run("MatMulV2", 60, "128,512;512,1024", "128,1024", trained=link, mac=0.4, **back)
            job.run("SwiGlu", 5, "128,1024", "128,512", op="npu::npu_swiglu", stack="experts.py(31): run")
            job.run("MatMulV2", 40, "128,512;512,512", "128,512", trained=link, mac=0.4, **back)
        job.run("RmsNorm", 20, "512,512;512", "512,512", op="npu::npu_rms_norm")

    passes(job, number, experts_of)


def many(mac: float) -> Callable[[Training, int], None]:
    """Steps of eight passes, whose products keep the cube at work for a part of their time."""

    def work(job: Training, number: int) -> None:
        for part in range(8):
            for layer in range(4):
                job.run("MatMulV2", 100, "64,512;512,512", "64,512", trained=f"{number}{part}{layer}3", mac=mac)
                job.run("RmsNorm", 20, "64,512;512", "64,512", op="npu::npu_rms_norm")
            for layer in reversed(range(4)):
                job.run("MatMulV2", 100, op="MmBackward0", trained=f"<{number}{part}{layer}3", mac=mac)

    return work


def averaged(job: Training, number: int) -> None:
    """Weights that the optimizer updates in one kernel, and their average, one after another in two kernels each."""
    passes(job, number)
    begin = job.at
    job.run("ApplyAdamWV2", 100, "65536", "65536", "FLOAT", op="aten::adamw", stack="train.py(5): step")
    job.trace.host("Optimizer.step#AdamW.step", begin - 1, job.at - begin + 1)
    for _ in range(6):
        for kind in ("Muls", "Axpy"):
            job.run(kind, 50, "4096", "4096", "FLOAT", op="aten::mul_", stack="ema.py(9): update|train.py(6): step")


def logits(job: Training, number: int) -> None:
    """Logits of a product in 16 bits that the loss reads as 32-bit ones, after a copy."""
    passes(job, number)
    job.run("MatMulV3", 400, "512,512;512,32000", "512,32000", trained=f"{number}71")
    for kind, dtype in (("Cast", "FLOAT16"), ("TensorMove", "FLOAT"), ("CrossEntropyLoss", "FLOAT")):
        job.run(kind, 200, "8,64,32000" if kind == "Cast" else "512,32000", "512,32000", dtype, op="aten::loss")
    for kind in ("CrossEntropyLossGrad", "Cast"):
        job.run(kind, 200, "512,32000", "512,32000", "FLOAT", op="LossBackward0", trained=f"<{number}71")


def written_out(job: Training, number: int) -> None:
    """A loss in steps of 32 bits: a cast, log_softmax, one_hot, a product with it and a sum, and their way back."""
    passes(job, number)
    job.run("MatMulV3", 400, "512,512;512,32000", "512,32000", trained=f"{number}71")
    job.run("Cast", 100, "512,32000", "512,32000", op="aten::loss", made="FLOAT")
    for kind, inputs, out in (
        ("LogSoftmaxV2", "512,32000", "512,32000"), ("OneHot", "512", "512,32000"),
        ("Mul", "512,32000;512,32000", "512,32000"), ("ReduceSum", "512,32000", "512"),
    ):  # fmt: skip
        job.run(kind, 100, inputs, out, "FLOAT", op="aten::loss")
    for kind, inputs in (("BroadcastTo", "512"), ("Mul", "512,32000;512,32000"), ("LogSoftmaxGrad", "512,32000")):
        job.run(kind, 100, inputs, "512,32000", "FLOAT", op="LossBackward0", trained=f"<{number}71")


def embedded(job: Training, number: int) -> None:
    """The gradient of an embedding of 32,000 rows, reduced when 512 tokens of each of two ranks touch some of them."""
    job.ranks = [0, 1]
    passes(job, number)
    job.run("EmbeddingDenseGradV2", 40, "512,512;512", "32000,512", op="EmbeddingBackward0")
    job.collective("hcom_allReduce_", 300, "FP16", 4 * 512 * 512)  # of other weights, which it has to wait for
    job.collective("hcom_allReduce_", 1000, "FP16", 32000 * 512)


def one_bucket(job: Training, number: int) -> None:
    """All gradients in one sum after the pass, half of which are those of an embedding: they are ready last."""
    job.ranks = [0, 1]
    passes(job, number)
    job.run("EmbeddingDenseGradV2", 40, "512,512;512", "65536,512", op="EmbeddingBackward0", trained=f"<{number}81")
    job.collective("hcom_allReduce_", 2000, "FP16", 2 * 65536 * 512)


def statistics(job: Training, number: int) -> None:
    """Sums of a few numbers behind each layer: starting them takes nearly all of their time. Forward of a count too."""

    def summed(job: Training, link: str) -> None:
        forward = not link.startswith("<")
        named = "aten::batch_norm" if forward else "SyncBatchNormBackward"
        job.run("BNTrainingReduce", 20, "512,512", op=named, trained=link)
        job.collective("hcom_allReduce_", 60, "FP32", 1000 + forward, moving=1)

    passes(job, number, summed)


def summed_apart(job: Training, number: int) -> None:
    """Such sums behind kernels of no norm."""

    def summed(job: Training, link: str) -> None:
        named = "MulBackward0" if link.startswith("<") else "aten::mul"
        job.run("Mul", 20, "512,512", op=named, trained=link)
        job.collective("hcom_allReduce_", 60, "FP32", 1000, moving=1)

    passes(job, number, summed)


def normed(job: Training, number: int) -> None:
    """The norm of each gradient, summed over the ranks by itself in the pass backward; it moves in no time."""

    def summed(job: Training, link: str) -> None:
        for _ in range(4 * link.startswith("<")):
            job.run("LpNormV2", 20, "512,512", "1", op="NormBackward0", trained=link)
            job.collective("hcom_allReduce_", 60, "FP32", 1, moving=0)

    passes(job, number, summed)


def split_head(whole: bool) -> Callable[[Training, int], None]:
    """A tensor-parallel group of two that sums behind each product, and whose loss reads the ``whole`` vocabulary."""

    def work(job: Training, number: int) -> None:
        job.ranks = [0, 1]
        for layer in range(4):
            job.run("MatMulV3", 400, trained=f"{number}{layer}1")
            job.collective("hcom_allReduce_", 100, "FP16", 512 * 512)
        job.run("MatMulV3", 400, "512,512;512,16000", "512,16000", trained=f"{number}71")
        if whole:
            job.collective("hcom_allGather_", 600, "FP16", 512 * 16000)
            job.run("ConcatD", 100, "512,16000;512,16000", "512,32000", op="aten::cat")
        side = "512,32000" if whole else "512,16000"
        for kind, op, link in (("CrossEntropyLoss", "aten::loss", ""), ("CrossEntropyLossGrad", "LossBackward0", "<")):
            job.run(kind, 200 if whole else 100, side, side, op=op, trained=link and f"<{number}71")
        if whole:
            job.run("StridedSlice", 100, side, "512,16000", op="CatBackward0", trained=f"<{number}71")
        for layer in reversed(range(4)):
            for _ in range(2):
                job.run("MatMulV3", 400, op="MmBackward0", trained=f"<{number}{layer}1")

    return work


def sharded(job: Training, number: int) -> None:
    """The weights of each layer, gathered in many small pieces before both passes of it."""
    job.ranks = [0, 1]

    def gathered(job: Training, link: str) -> None:
        for _ in range(10):
            job.collective("hcom_allGather_", 60, "FP16", 1000, moving=1)

    passes(job, number, gathered)


def linked(job: Training, speed: float, ranks: int = 4) -> None:
    """Sums of gradients of ``ranks`` over links of that ``speed``, GB/s."""
    job.ranks = [*range(ranks)]
    passes(job, 0)
    for _ in range(2):
        job.collective("hcom_allReduce_", 2000, "FP16", link=speed)


def accumulated(job: Training, number: int) -> None:
    """Two passes, in each of which the gradients of two layers at a time are reduced."""
    job.ranks = [0, 1]
    for part in "12":
        for layer in range(4):
            job.run("MatMulV3", 400, trained=f"{number}{part}{layer}")
        for layer in reversed(range(4)):
            for op in ("MmBackward0", "aten::mm"):
                job.run("MatMulV3", 400, op=op, trained=f"<{number}{part}{layer}")
            if layer % 2 == 0:
                job.collective("hcom_allReduce_", 500, "FP16", link=16)


def convolved(job: Training, number: int) -> None:
    """Convolutions in 32 bits, and nothing in 16."""
    for op, kind in (("aten::conv2d", "Conv2D"), ("ConvolutionBackward0", "Conv2DBackpropFilter")):
        job.run(
            kind, 800, "8,64,16,16;64,64,3,3", "8,64,16,16", "FLOAT", op=op, trained=f"{'<' * ('Back' in op)}{number}61"
        )


def each(besides: Callable[[Training, str], None]) -> Callable[[Training, int], None]:
    return lambda job, number: passes(job, number, besides)


@pytest.mark.parametrize(
    ("work", "id", "gain", "said"),
    [
        (each(activation), "OP.AFFINITY_API", 4 * 4 * 60, "torch_npu.npu_swiglu in place of split → silu → mul"),
        (each(NORM), "OP.AFFINITY_API", 4 * (240 - 60 + 245 - 70), "torch_npu.npu_rms_norm"),
        (each(SCORES), "OP.AFFINITY_API", 4 * (190 + 190), "torch_npu.npu_fusion_attention"),
        (each(widened), "OP.AFFINITY_API", 8 * (sum(length for _, length in _WIDE) - 167), "torch_npu.npu_rms_norm"),
        (each(back), "OP.FORMAT", 8 * 200, "Conversions and copies (Cast)"),
        (each(casts), "OP.FORMAT", 3 * 100, "Conversions and copies (Cast)"),
        (each(dropout), "OP.AFFINITY_KERNEL", 4 * 160, "no dropout"),
        (flat, "OP.FORMAT", 600, "most at flat.py:591 in flatten()"),
        (twice, "OP.NOGRAD", 1600, "once more without a gradient"),
        (twice, "OP.NOGRAD", 1600, "most at metrics.py:49 in perplexity()"),
        (twice_by_library, "OP.NOGRAD", 1600, "most at dp_actor.py:121 in compute_log_prob()"),
        (unfused, "OPT.FUSED", 950 - 7 / 4 * 150, "one pass over the parameters"),
        (attention, "KERNEL.DETERMINISTIC", 750, "Deterministic computing is on"),
        (wide, "COMM.NEEDLESS", 1000, "32-bit numbers"),
        (gathered, "COMM.NEEDLESS", 8 * 200, "gathered twice"),
        (scattered, "MEM.VECTOR", 390, "ScatterUpdate"),
        (looped, "KERNEL.PRODUCTS", 8 * 8 * 100 * 0.5, "Products of one expert after another"),
        (many(0.4), "KERNEL.PRODUCTS", 8 * 8 * 100 * 0.5, "a step makes 8 passes"),
        (indexed, "KERNEL.CORES", 380, "IndexPutV2 runs on 1 core"),
        (flattened, "OP.MOVES", 400, "Moving and converting data (ConcatD and TensorMove) takes"),
        (cloned, "OP.NOGRAD", 20 * 100 + 6 * 60, "After the optimizer ema.py:12 in update() updates tensors"),
        (averaged, "OP.NOGRAD", 600, "After the optimizer Axpy and Muls update tensors"),
        (logits, "OP.FORMAT", 800, "The loss computes in 32 bits: Cast, CrossEntropyLoss and"),
        (written_out, "OP.FORMAT", 6 * 100 + 2 * 50, "The loss computes in 32 bits: "),
        (embedded, "COMM.NEEDLESS", 1000 * (1 - 2 * 512 / 64000), "gradient of an embedding"),
        (one_bucket, "COMM.EXPOSED", 1000, "All gradients are reduced in 1 collective a step"),
        (statistics, "COMM.NEEDLESS", 8 * 60, "SyncBatchNorm sums its statistics over the ranks 8 times"),
        (summed_apart, "COMM.NEEDLESS", 8 * 60, "8 small sums over ranks"),
        (normed, "COMM.NEEDLESS", 16 * 60, "16 small sums over ranks a step hold up the kernels"),
        (
            split_head(True),
            "COMM.NEEDLESS",
            600 + 2 * 100 + 2 * 200 / 2,
            "The loss reads logits that are gathered from",
        ),
        (sharded, "COMM.SMALL", 79 * 59, "80 gathers of weights a step are too small: each takes 59.00 µs"),
        (accumulated, "COMM.NEEDLESS", 2 * 500, "reduced in every backward pass: 2 reductions"),
        (convolved, "DTYPE", 1200, "Conv2D and Conv2DBackpropFilter in 32-bit floating point"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_has_a_cheaper_form_is_told_with_its_gain(
    work: Callable[[Training, int], None], id: str, gain: float, said: str, tmp_path: Path
) -> None:
    job = Training()
    if work is attention:
        job.settings = {"HCCL_DETERMINISTIC": "true"}
    for number in range(1, 4):
        job.step(number, work)
    told = next(row for row in job.found(tmp_path) if row.id == id)
    assert said in words(told.title)
    assert (told.gain_ns or 0) / 1000 == pytest.approx(gain, rel=0.1)
    assert told.by_design == (work is embedded)  # no fault: a large vocabulary


@pytest.mark.parametrize(
    "work",
    [passes, attention, experts, begun, each(lambda job, link: None), many(0.8)],
    ids=["passes", "attention", "experts", "begun", "none", "many"],
)
def test_what_is_as_it_should_be_stays_untold(work: Callable[[Training, int], None], tmp_path: Path) -> None:
    job = Training()
    for number in range(1, 4):
        job.step(number, work)
    assert not job.found(tmp_path)


def test_a_loss_of_the_own_part_of_the_vocabulary_needs_no_gather(tmp_path: Path) -> None:
    job = Training()
    for number in range(1, 4):
        job.step(number, split_head(False))
    assert "COMM.NEEDLESS" not in {row.id for row in job.found(tmp_path)}


@pytest.mark.parametrize("buffer", ["", "16", "400"])
def test_links_that_are_all_slow_are_told_with_the_buffer_that_makes_them_so(buffer: str, tmp_path: Path) -> None:
    job, usual = Training(), Training()
    for each_job, speed in ((job, 4.5), (usual, 16.0)):
        each_job.settings = {"HCCL_BUFFSIZE": buffer}
        for number in range(1, 4):
            each_job.step(number, lambda written, _, speed=speed: linked(written, speed))
    told = next(row for row in job.found(tmp_path / "slow") if row.id == "COMM.SPEED")
    assert ("HCCL_BUFFSIZE=16" in words(told.title)) == (buffer == "16")
    assert "4.51 GB/s where 18.00 GB/s is usual" in words(told.title)
    assert (told.gain_ns or 0) / 1000 == pytest.approx(2 * 2000 * (1 - 4.5 / 18), rel=0.02)
    assert "COMM.SPEED" not in {row.id for row in usual.found(tmp_path / "usual")}


def test_of_one_link_alone_nobody_says_that_all_are_slow(tmp_path: Path) -> None:
    job = Training()
    for number in range(1, 4):
        job.step(number, lambda written, _: linked(written, 4.5, ranks=2))
    assert "COMM.SPEED" not in {row.id for row in job.found(tmp_path)}


def reducing(folder: Path, *lengths: tuple[float, float]) -> Profile:
    """Steps of a product and two equal sums over ranks of so many us, one after another, without tasks of planes."""
    job = Training()

    def work(job: Training, number: int) -> None:
        job.run("MatMulV3", 400, dtype="FLOAT")
        for length in lengths[number]:
            job.collective("hcom_allReduce_", length)

    for number in range(len(lengths)):
        job.step(number, work)
    job.found(folder)
    (trace,) = folder.rglob("trace_view.json")
    return profile_at(trace.parent.parent)


def test_a_range_without_kernels_has_findings(tmp_path) -> None:
    """Within a long collective nothing is computed: no rule divides by what is."""
    whole = reducing(tmp_path, (9_000, 500), (9_000, 500))
    start, end = whole.facts[0].span_of(whole.collectives.item[:1])
    part = whole.part(Selection(Window(int(start[0]) + 1_000_000, int(end[0]) - 1_000_000)))
    assert part.facts[0].has("kernel_details")
    assert not part.facts[0].sums.computing
    assert "COMM.EXPOSED" in [row.id for row in part.findings.findings]


def test_a_range_waits_as_long_as_the_whole_does_there(tmp_path) -> None:
    """Equal collectives of other steps tell how long one waited, whatever of them lies in the range."""
    whole = reducing(tmp_path, (2_000, 2_000), (30_000, 2_000), (2_000, 2_000))
    long = whole.collectives.item[whole.collectives.elapsed > 20_000_000]
    (start,), (end,) = whole.facts[0].span_of(long)
    window = np.array([int(start) + 10_000_000]), np.array([int(end) + 1_000_000])
    part = whole.part(Selection(Window(int(window[0][0]), int(window[1][0]))))
    waited = length_of(common(waits_for_late_ranks(whole.facts[0]), window))
    assert waited == pytest.approx(18_000_000, rel=0.01)
    assert length_of(waits_for_late_ranks(part.facts[0])) == waited
    first = part.findings.findings[0]
    assert (first.id, first.gain_ns) == ("COMM.EXPOSED", waited)  # not what the transfers take as well
