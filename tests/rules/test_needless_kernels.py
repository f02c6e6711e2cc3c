"""Kernels that what reads their tensor does without: sorts, pads, repeated K and V, weights cast to and fro."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from test_cheaper import Training, passes

from npu_tui.strings import words

Work = Callable[[Training, int], None]


def ranked(kept: int, others: bool = False) -> Work:
    """``kept`` of 32,000 elements of each row are used once these are sorted, or all of them, as ``others`` are."""

    def work(job: Training, number: int) -> None:
        passes(job, number, lambda job, link: job.run("Add", 30, "4096,1024;4096,1024", "4096,1024", op="aten::add"))
        job.run("Sort", 2000, "4096,32000", "4096,32000;4096,32000", "FLOAT", op="aten::sort")
        if others:
            job.run("Mul", 600, "4096,32000", "4096,32000", "FLOAT", op="aten::mul")
        job.run("Slice", 1000, "4096,32000", f"4096,{kept}", "FLOAT", op="aten::slice")

    return work


def padded(reader: str) -> Work:
    """``reader`` reads what is padded."""

    def layer(job: Training, link: str) -> None:
        small, large = "64,64,56,56", "64,64,58,58"
        if link.startswith("<"):
            job.run("StridedSlice", 100, large, small, op="ConstantPadNdBackward0", trained=link)
        else:
            job.run("PadV3", 100, small, large, op="aten::constant_pad_nd", trained=link)
            job.run(reader, 200, f"{large};64,64,3,3", small, op="aten::run")

    return lambda job, number: passes(job, number, layer)


def repeated(heads: int) -> Work:
    """A fused attention with ``heads`` heads of Q, and so of K, which has two."""

    def layer(job: Training, link: str) -> None:
        own, whole, read = "2,512,2,128", "2,512,16,128", f"2,512,{128 * heads}"
        if link.startswith("<"):
            job.run(
                "FlashAttentionScoreGrad", 300, f"{read};{read};{read}", read, op="AttentionBackward0", trained=link
            )
            job.run("ReduceSum", 60, whole, own, op="RepeatBackward0", trained=link)
        else:
            job.run("Tile", 100, own, whole, op="aten::repeat_interleave", trained=link)
            job.run("Transpose", 50, whole, whole, op="aten::contiguous")
            job.run("FlashAttentionScore", 200, f"{read};{read};{read}", read, op="npu::npu_fusion_attention")

    return lambda job, number: passes(job, number, layer)


def cast(job: Training, number: int) -> None:
    """Weights in 32 bits that products multiply in 16, and their gradients."""

    def layer(job: Training, link: str) -> None:
        if link.startswith("<"):
            job.run("Cast", 100, "512,512", op="ToCopyBackward0", made="FLOAT", trained=link)
        else:
            job.run("Cast", 100, "512,512", dtype="FLOAT", made="FLOAT16", op="aten::to", trained=link)

    passes(job, number, layer)


def summed(after: str) -> Work:
    """Each gradient is converted to 32 bits, and ``after`` it a kernel adds it to a sum."""

    def layer(job: Training, link: str) -> None:
        if link.startswith("<"):
            job.run("Cast", 100, "262144", "262144", op="torch::autograd::AccumulateGrad", made="FLOAT", trained=link)
            job.run(after, 200, "262144;262144", "262144", dtype="FLOAT", op="AddBackward0", trained=link + "1")
        else:
            job.run("RmsNorm", 5, op="npu::npu_rms_norm", trained=link)
            job.run("Adds", 5, op="aten::add", trained=link + "1")

    return lambda job, number: passes(job, number, layer)


def attended(mask: str) -> Work:
    """A fused attention that reads a ``mask``."""

    def layer(job: Training, link: str) -> None:
        if not link.startswith("<"):
            read = ";".join(["2,4096,1024"] * 3 + [mask])
            kinds = ";".join(["FLOAT16"] * 3 + ["BOOL"])
            job.run("FlashAttentionScore", 300, read, "2,4096,1024", kinds, op="npu::npu_fusion_attention")

    return lambda job, number: passes(job, number, layer)


def patches(kernel: int) -> Work:
    """Patches of 2 × 2 elements embedded by a convolution that moves 2 at a time, with its gradient, both slow."""

    def work(job: Training, number: int) -> None:
        passes(job, number)
        read, weight, made = "16,4,32,32", f"512,4,{kernel},{kernel}", "16,512,16,16"
        place = {"stack": "vit.py(34): forward"}
        job.run("Conv2D", 4000, f"{read};{weight}", made, op="aten::conv2d", trained=f"{number}91", **place)
        name = "ConvolutionBackward0"
        job.run("Conv2DBackpropFilter", 4000, f"{read};{made}", weight, op=name, trained=f"<{number}91")
        for _ in range(8):
            job.run("Add", 10, "1024,1024", "1024,1024", "FLOAT", op="aten::add")

    return work


def adapted(added: str, width: int = 16) -> Work:
    """Inference through layers beside which a low-rank adapter runs, whose result a kernel of type ``added`` takes."""

    def work(job: Training, number: int) -> None:
        for _ in range(4):
            job.run("MatMulV3", 400, op="aten::linear")
            place = {"dtype": "FLOAT", "stack": "lora.py(31): forward"}
            job.run("Cast", 20, "512,512", made="FLOAT", op="aten::to", stack="lora.py(31): forward")
            job.run("MatMulV3", 30, f"512,512;512,{width}", f"512,{width}", **place)
            job.run("MatMulV3", 30, f"512,{width};{width},512", "512,512", **place)
            job.run("Muls", 40, "512,512", op="aten::mul", **place)
            job.run(added, 60, "512,512;512,512", op="aten::add", **place)

    return work


def sparse(rows: int, tied: bool = False) -> Work:
    """An embedding of that many ``rows`` whose gradient is dense, and an optimizer that updates all of them."""

    def work(job: Training, number: int) -> None:
        table = f"{rows},64"
        place = "table.py(159): lookup"
        job.run("GatherV2", 20, f"{table};512", "512,64", op="aten::embedding", trained=f"{number}91", stack=place)
        passes(job, number)
        if tied:
            job.run("MatMulV3", 400, f"512,64;64,{rows}", f"512,{rows}")
        job.run("EmbeddingDenseGradV2", 200, "512,64;512", table, op="EmbeddingBackward0", trained=f"<{number}91")
        begin = job.at
        job.run("ApplyAdamWV2", 1000, ";".join([table] * 4), table, "FLOAT", op="npu::_npu_fused_adamw")
        job.trace.add(4001, 4001, "Optimizer.step#AdamW.step", begin - 2, 10, cat="user_annotation", args={})

    return work


def prompted(taken: int, read: bool = False) -> Work:
    """Logits of 4,096 tokens, ``taken`` of which go on once they are converted; or all of which are ``read`` too."""

    def work(job: Training, number: int) -> None:
        for _ in range(10):
            job.run("Add", 30, "4096,1024;4096,1024", "4096,1024", op="aten::add")
        job.run("MatMulV3", 4000, "4096,1024;1024,32000", "4096,32000", stack="model.py(40): forward")
        job.run("Cast", 1000, "4096,32000", "4096,32000", made="FLOAT", op="aten::float", stack="head.py(7): logits")
        if read:
            job.run("ReduceSum", 100, "4096,32000", "4096", "FLOAT", op="aten::sum")
        job.run("Slice", 10, f"{taken},32000", f"{taken},32000", "FLOAT", op="aten::slice", stack="head.py(8): logits")

    return work


def selected(rows: int, late: bool = False) -> Work:
    """A pass over 4,096 rows, ``rows`` of which are taken for the head; a ``late`` layer works on all once more."""

    def work(job: Training, number: int) -> None:
        whole = ("4096,512;512,512", "4096,512")
        for layer in range(4):
            job.run("MatMulV3", 400, *whole, trained=f"{number}{layer}1")
        job.run("GatherV2", 10, f"4096,512;{rows}", f"{rows},512", op="aten::index_select", trained=f"{number}81")
        job.run("MatMulV3", 200, f"{rows},512;512,8000", f"{rows},8000", trained=f"{number}91")
        if late:
            job.run("MatMulV3", 400, *whole, trained=f"{number}71")
            job.run("MatMulV3", 400, *whole, op="MmBackward0", trained=f"<{number}71")
        job.run("MatMulV3", 400, f"{rows},8000;8000,512", f"{rows},512", op="MmBackward0", trained=f"<{number}91")
        for layer in reversed(range(4)):
            for read, made in (whole, ("512,4096;4096,512", "512,512")):
                job.run("MatMulV3", 400, read, made, op="MmBackward0", trained=f"<{number}{layer}1")

    return work


def trained_beside(updated: str, exchanged: int = 0) -> Work:
    """Layers whose optimizer updates tensors of the sides ``updated``, once ranks have summed ``exchanged`` numbers."""

    def work(job: Training, number: int) -> None:
        for layer in range(4):
            job.run("MatMulV3", 400, "2048,512;512,1024", "2048,1024", trained=f"{number}{layer}1")
        for layer in reversed(range(4)):
            place = {"op": "MmBackward0", "trained": f"<{number}{layer}1"}
            job.run("MatMulV3", 400, "2048,1024;1024,512", "2048,512", **place)
            job.run("MatMulV3", 300, "1024,2048;2048,512", "1024,512", **place)
        if exchanged:
            job.collective("hcom_allReduce", 100, count=exchanged)
        begin = job.at
        job.run("ApplyAdamWV2", 50, ";".join([updated] * 4), updated, "FLOAT", op="npu::_npu_fused_adamw")
        job.trace.add(4001, 4001, "Optimizer.step#AdamW.step", begin - 2, 10, cat="user_annotation", args={})

    return work


_SPEED = 3 * 4096 * 1024 * 2 / 30
"""As fast as ``Add`` reads and writes, bytes/us."""
_READ = 4096 * 32_000 * 4 / _SPEED
"""How long it takes to read what is sorted, us."""


@pytest.mark.parametrize(
    ("work", "id", "gain", "said"),
    [
        (ranked(5), "OP.SORT", 3000 - _READ, "Rows are sorted as a whole"),
        (padded("Conv2D"), "OP.PAD", 4 * 200, "pad what a convolution reads"),
        (repeated(16), "OP.REPEAT", 4 * 210, "K and V are repeated for each head of Q"),
        (cast, "OP.FORMAT", 4 * 200, "Conversions and copies (Cast)"),
        (
            summed("Add"),
            "OP.ACCUMULATE",
            4 * 200,
            "Gradients are converted to 32 bits and added by kernels of their own",
        ),
        (patches(2), "KERNEL.PACE", 2 * 3900, "compute a matrix product as a convolution, most at vit.py:34"),
        (patches(3), "KERNEL.PACE", 2 * 3780, "more than ten times what the shapes need"),
        (
            adapted("Add"),
            "OP.ADAPTER",
            4 * 180,
            "beside the products of the layers, most at lora.py:31",
        ),
        (
            sparse(64_000),
            "OP.EMBEDDING",
            1200 * (1 - 512 / 64_000),
            "dense, most at table.py:159 in lookup()",
        ),
        (
            trained_beside("8,1024"),
            "OP.FROZEN",
            4 * 300,
            "gradients of weights that the optimizer does not update (MatMulV3), most at model.py:10",
        ),
        (
            prompted(4),
            "OP.ROWS",
            5000 * (1 - 4 / 4096) - 1024 * 32_000 * 2 / _SPEED + 4000 * 4 / 4096,
            "Only a few of the 4,096 rows that MatMulV3 and Cast compute are read, most at head.py:8 in logits()",
        ),
        (summed("Mul"), "OP.MOVES", 4 * 100, "Moving and converting data (Cast)"),
    ],
)
def test_what_its_reader_does_without_is_told_with_its_gain(
    work: Work, id: str, gain: float, said: str, tmp_path: Path
) -> None:
    job = Training()
    for number in range(1, 4):
        job.step(number, work)
    lead = job.found(tmp_path)[0]
    assert lead.id == id
    assert said in words(lead.title)
    assert (lead.gain_ns or 0) / 1000 == pytest.approx(gain, rel=0.05)


@pytest.mark.parametrize(
    "work",
    [
        *(ranked(20_000), ranked(5, others=True), padded("Add"), repeated(4)),
        *(adapted("Concat"), adapted("Add", 512), sparse(8_000), sparse(64_000, tied=True)),
        *(prompted(4, read=True), prompted(3000), selected(2048, late=True)),
        *(trained_beside("1024,512"), trained_beside("2097152"), trained_beside("8,1024", 1 << 22)),
    ],
)
def test_what_is_read_as_it_is_stays_untold(work: Work, tmp_path: Path) -> None:
    job = Training()
    for number in range(1, 4):
        job.step(number, work)
    told = {row.id for row in job.found(tmp_path)}
    assert not {"OP.SORT", "OP.PAD", "OP.REPEAT", "OP.ADAPTER", "OP.EMBEDDING", "OP.FROZEN", "OP.ROWS"} & told


@pytest.mark.parametrize(("mask", "told"), [("1,1,4096,4096", True), ("2048,2048", False), ("2,1,1,4096", False)])
def test_half_of_a_dense_mask_is_told_as_a_choice(mask: str, told: bool, tmp_path: Path) -> None:
    job = Training()
    for number in range(1, 4):
        job.step(number, attended(mask))
    found = [row for row in job.found(tmp_path, "low") if row.id == "OP.MASK"]
    assert bool(found) == told
    for row in found:
        assert row.severity == "low"  # what the mask holds is not known
        assert "if it is causal" in words(row.title)
        assert (row.gain_ns or 0) / 1000 == pytest.approx(4 * 150, rel=0.05)


def test_rows_that_are_left_out_before_the_last_product_are_told_as_a_choice(tmp_path: Path) -> None:
    job = Training()
    for number in range(1, 4):
        job.step(number, selected(3072))
    (found,) = (row for row in job.found(tmp_path, "low") if row.id == "OP.ROWS")
    assert found.severity == "low"  # what the other rows hold is not known
    assert "4,096 rows, of which 3,072 go to the last product" in words(found.title)
    assert (found.gain_ns or 0) / 1000 == pytest.approx(12 * 400 / 4, rel=0.05)
