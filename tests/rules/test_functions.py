"""What a function does is one cause: its work on the host, its copies, its waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.rules.model import Finding
from npu_tui.strings import words

_STACK = "/app/offload.py(20): step;\r\n/app/train.py(9): train;"


class Job:
    """Steps whose host waits for their kernels before ``step`` of offload.py works; times in us."""

    def __init__(self) -> None:
        self.trace, self.at, self.links = ByHand(), 0.0, 0

    def frame(self, name: str, begin: float) -> None:
        """A frame of Python that ends now."""
        self.trace.host(name, begin, self.at - begin, cat="python_function")

    def run(self, op: str, kind: str, begin: float, length: float, stack: str, task: str = "AI_CORE") -> float:
        """An operation that launches a task of the device at its end; when that ends."""
        self.links += 1
        self.trace.host(op, self.at, 8, args={"Call stack": stack})
        begin = max(begin, self.at + 12)
        self.trace.launch(kind, self.at + 2, begin, length, **{"Task Type": task})
        for phase, time, pid, lane in (("s", self.at, 4001, 4001), ("f", begin, 3, 2)):
            link = {"cat": "async_npu", "name": "async_npu", "id": str(self.links), "bp": "e", "ph": phase}
            self.trace.events.append(link | {"pid": pid, "tid": lane, "ts": self.trace._ts(time)})
        self.at += 10
        return begin + length

    def copy(self, free: float, length: float, waits: bool) -> float:
        """A copy on the stream, for which the host may wait; when it ends."""
        begin = self.at
        free = self.run("aten::copy_", "MEMCPY_ASYNC", free, length, _STACK, "PCIE_DMA_SQE")
        if waits:
            self.trace.call("AscendCL@aclrtSynchronizeStreamWithTimeout", self.at, free + 5 - self.at)
            self.at = free + 6
        self.frame("<built-in method copy_ of Tensor object>", begin)
        return free

    def step(self, number: int, free: float) -> float:
        """Kernels, and an optimizer on the CPU in two parts with copies on both sides; when the device is done."""
        begin = self.at
        for _ in range(20):
            free = self.run("aten::mm", "aclnnMm_MatMulV3_MatMulV3", free, 500, "/app/train.py(5): forward;")
        called = self.at
        for _ in range(2):
            free = self.copy(free, 1500, waits=True)
            since, self.at = self.at, self.at + 2000
            self.frame("app/offload.py(40): update", since)
            free = self.copy(free, 1000, waits=False)
        self.frame("app/offload.py(12): step", called)
        self.frame("app/train.py(9): train", begin)
        self.at += 5
        self.trace.step(number, begin - 1, self.at - begin)
        return free

    def timed(self, number: int, free: float) -> float:
        """Kernels in three parts, after each of which a timer waits for the device and then writes what it took."""
        begin = self.at
        for _ in range(3):
            for _ in range(8):
                free = self.run("aten::mm", "aclnnMm_MatMulV3_MatMulV3", free, 500, "/app/train.py(5): forward;")
            called = self.at
            self.trace.call("AscendCL@aclrtSynchronizeDevice", self.at, free + 5 - self.at)
            self.at = free + 900
            self.frame("app/timers.py(12): stop", called)
        self.frame("app/train.py(9): train", begin)
        self.at += 5
        self.trace.step(number, begin - 1, self.at - begin)
        return free

    def gathered(self, number: int, free: float) -> float:
        """Kernels in six parts, after each of which a library's function waits for what it reads on the device."""
        begin = self.at
        for _ in range(6):
            for _ in range(8):
                free = self.run("aten::mm", "aclnnMm_MatMulV3_MatMulV3", free, 40, "/app/train.py(5): forward;")
            called = self.at
            self.trace.host(
                "aten::item", self.at + 2, free + 7 - self.at, args={"Call stack": "/app/report.py(9): get;"}
            )
            self.trace.call("AscendCL@aclrtSynchronizeStreamWithTimeout", self.at + 3, free + 5 - self.at)
            self.at = free + 60
            self.frame("torch/distributed/distributed_c10d.py(2217): all_gather_object", called + 1)
            self.frame("app/report.py(4): get", called)
        self.frame("app/train.py(9): train", begin)
        self.at += 5
        self.trace.step(number, begin - 1, self.at - begin)
        return free

    def read_back(self, number: int, free: float, copy: float = 300, then: float = 100) -> float:
        """Kernels in four parts, after each of which the host waits for a copy and works on; no frame was recorded."""
        begin = self.at
        for _ in range(4):
            for _ in range(8):
                free = self.run("aten::mm", "aclnnMm_MatMulV3_MatMulV3", free, 200, "")
            free = self.run("aten::copy_", "MEMCPY_ASYNC", free, copy, "", "PCIE_DMA_SQE")
            self.trace.call("AscendCL@aclrtSynchronizeStreamWithTimeout", self.at, free + 5 - self.at)
            self.at = free + then
        self.trace.step(number, begin - 1, self.at - begin)
        return free

    def listed(self, number: int, free: float) -> float:
        """Kernels in four parts, after each of which a list is made of what is read back, by a built-in."""
        begin = self.at
        for _ in range(4):
            for _ in range(8):
                free = self.run("aten::mm", "aclnnMm_MatMulV3_MatMulV3", free, 200, "/app/train.py(5): forward;")
            called = self.at
            self.at += 2
            free = self.run("aten::to", "MEMCPY_ASYNC", free, 3, _STACK, "PCIE_DMA_SQE")
            self.trace.call("AscendCL@aclrtSynchronizeStreamWithTimeout", self.at, free + 5 - self.at)
            self.at = free + 900
            self.frame(f"<built-in method tolist of Tensor object at 0xfff{self.links:x}>", called + 1)
            self.frame("app/offload.py(12): step", called)
        self.frame("app/train.py(9): train", begin)
        self.trace.step(number, begin - 1, self.at - begin)
        return free

    def moved(self, number: int, free: float) -> float:
        """Kernels, and a batch of which a built-in makes a copy that it sends and waits for."""
        begin = self.at
        for _ in range(20):
            free = self.run("aten::mm", "aclnnMm_MatMulV3_MatMulV3", free, 500, "/app/train.py(5): forward;")
        called, self.at = self.at, free + 2000
        free = self.run("aten::copy_", "MEMCPY_ASYNC", free, 3000, _STACK, "PCIE_DMA_SQE")
        self.trace.call("AscendCL@aclrtSynchronizeStreamWithTimeout", self.at, free + 5 - self.at)
        self.at = free + 6
        self.trace.host("aten::to", called + 6, self.at - called - 6, args={"Call stack": _STACK})
        self.at += 4
        self.frame("<built-in method to of Tensor object at 0xff>", called + 1)
        self.frame("app/offload.py(12): step", called)
        self.frame("app/train.py(9): train", begin)
        self.trace.step(number, begin - 1, self.at - begin)
        return free

    def fallen_back(self, number: int, free: float) -> float:
        """Kernels in four parts, between which an operation copies its input to the host and computes there."""
        begin = self.at
        for _ in range(4):
            for _ in range(8):
                free = self.run("aten::mm", "aclnnMm_MatMulV3_MatMulV3", free, 200, _STACK)
            called = self.at
            self.at += 2
            free = self.run("aten::_to_copy", "MEMCPY_ASYNC", free, 10, _STACK, "PCIE_DMA_SQE")
            self.trace.call("AscendCL@aclrtSynchronizeStreamWithTimeout", self.at, free + 5 - self.at)
            self.at = free + 6
            self.trace.host("aten::searchsorted", self.at, 800, args={"Call stack": _STACK})
            self.at += 801
            free = self.run("aten::_to_copy", "MEMCPY_ASYNC", free, 10, _STACK, "PCIE_DMA_SQE")
            self.trace.host("aten::searchsorted", called + 1, self.at - called - 2, args={"Call stack": _STACK})
            self.frame("app/offload.py(12): step", called)
        self.frame("app/train.py(9): train", begin)
        self.trace.step(number, begin - 1, self.at - begin)
        return free

    def fetched(self, number: int, free: float, call: str = "<built-in function fork>") -> float:
        """Kernels, after whose end a function of the program makes the iterator of its loader anew, in one ``call``."""
        begin = self.at
        for _ in range(20):
            free = self.run("aten::mm", "aclnnMm_MatMulV3_MatMulV3", free, 200, "/app/train.py(5): forward;")
        called = self.at
        self.at = free + 3000
        self.frame(call, called + 2)
        self.frame("torch/utils/data/dataloader.py(995): __init__", called + 1)
        self.frame("app/batches.py(150): draw", called)
        self.frame("app/train.py(9): train", begin)
        self.at += 5
        self.trace.step(number, begin - 1, self.at - begin)
        return free

    def waited(self, number: int, free: float) -> float:
        """As ``fetched``, but for a worker of the loader."""
        return self.fetched(number, free, "<method 'acquire' of '_thread.lock' objects>")


def found(folder: Path, step: Callable[[Job, int, float], float] = Job.step) -> list[Finding]:
    """The findings that count of four steps."""
    job, free = Job(), 0.0
    for number in range(4):
        free = step(job, number, free)
    path = job.trace.write(folder)
    return [row for row in profile_at(path).findings.findings if row.severity not in ("info", "low")]


def test_an_optimizer_on_the_cpu_is_one_cause_with_its_copies(tmp_path: Path) -> None:
    lead, *others = found(tmp_path)
    assert lead.id == "HOST.WORK"
    assert words(lead.title).startswith("offload.py:12 in step() holds up the NPU")
    assert (lead.gain_ns or 0) / 1000 == pytest.approx(2 * (1500 + 2000 + 1000), rel=0.05)
    assert all(row.part_of == "HOST.WORK" for row in others if (row.gain_ns or 0) > 0.05 * lead.gain_ns)


def test_work_behind_a_wait_is_told_with_the_wait(tmp_path: Path) -> None:
    lead = found(tmp_path, Job.timed)[0]
    assert words(lead.title).startswith(
        "timers.py:12 in stop() waits for the NPU in aclrtSynchronizeDevice and works on"
    )
    assert "12 times in aclrtSynchronizeDevice" in words(lead.detail)
    assert words(lead.advice[0]).startswith("Measure times with events")


@pytest.mark.parametrize(("back", "first"), [(True, "SYNC.HOST"), (False, "DATA.COPY")])
def test_what_is_waited_for_and_read_back_is_gone_with_the_wait(
    back: bool, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of unknown direction may bring a batch."""
    monkeypatch.setattr("npu_tui.rules.waits.goes_back", lambda facts: back)
    lead = found(tmp_path, Job.read_back)[0]
    assert lead.id == first
    if back:
        assert (lead.gain_ns or 0) / 1000 == pytest.approx(4 * (300 + 100), rel=0.1)


def test_what_a_program_does_with_what_it_has_read_is_a_pause_where_that_is_more_than_launching(tmp_path: Path) -> None:
    lead = found(tmp_path, lambda job, number, free: job.read_back(number, free, 3, 2500))[0]
    assert lead.id == "HOST.PAUSE"
    assert (lead.gain_ns or 0) / 1000 == pytest.approx(4 * 2500, rel=0.05)


def test_an_operation_that_computes_on_the_host_is_named(tmp_path: Path) -> None:
    lead = found(tmp_path, Job.fallen_back)[0]
    assert lead.id == "HOST.WORK"
    assert words(lead.title).startswith("aten::searchsorted at offload.py:")
    assert (lead.gain_ns or 0) / 1000 == pytest.approx(4 * 800, rel=0.1)


def test_what_a_built_in_does_with_what_it_has_read_is_named(tmp_path: Path) -> None:
    """No record tells what it does, but that it has not returned does."""
    lead = found(tmp_path, Job.listed)[0]
    assert lead.id == "HOST.WORK"
    assert words(lead.title).startswith("offload.py:12 in step() waits for the NPU")
    assert "Most of its work is in tolist" in words(lead.detail)
    assert (lead.gain_ns or 0) / 1000 == pytest.approx(4 * 900, rel=0.1)


def test_what_hardly_works_beside_its_copies_is_no_work(tmp_path: Path) -> None:
    assert "HOST.WORK" not in [row.id for row in found(tmp_path, Job.moved)]


@pytest.mark.parametrize(("step", "itself"), [(Job.fetched, True), (Job.waited, False)])
def test_what_a_process_does_itself_for_a_batch_is_named(
    step: Callable[[Job, int, float], float], itself: bool, tmp_path: Path
) -> None:
    loader = next(row for row in found(tmp_path, step) if row.id == "DATA.LOADER")
    assert ("mostly in fork at batches.py:150 in draw()" in words(loader.title)) == itself
    assert ("persistent_workers" in words(loader.advice[0])) == itself
    assert (loader.gain_ns or 0) / 1000 == pytest.approx(3000, rel=0.1)


def test_a_wait_in_a_function_of_a_library_is_told_by_that_function(tmp_path: Path) -> None:
    lead = found(tmp_path, Job.gathered)[0]
    assert lead.id == "SYNC.HOST"
    assert "waiting in torch.distributed.distributed_c10d.all_gather_object at report.py:9 in get()" in words(
        lead.title
    )


def test_what_a_library_does_for_a_line_is_one_finding_with_its_copies(tmp_path: Path) -> None:
    """An optimizer on the CPU that the line of the program reaches through an installed library; its model is apart."""
    library = "/opt/lib/python3.10/site-packages/deepspeed"
    inside = f"{library}/cpu_adam.py(98): step;\r\n{library}/zero.py(7): optimize;\r\n/app/train.py(9): train;"
    apart = f"{library}/engine.py(4): forward;\r\n/app/train.py(9): train;"
    job, free = Job(), 0.0
    for number in range(4):
        begun = job.at
        for _ in range(20):
            free = job.run("aten::mm", "aclnnMm_MatMulV3_MatMulV3", free, 500, apart)
        job.at += 2
        called = job.at
        for _ in range(2):
            began = job.at
            free = job.run("aten::copy_", "MEMCPY_ASYNC", free, 1500, inside, "PCIE_DMA_SQE")
            job.trace.call("AscendCL@aclrtSynchronizeStreamWithTimeout", job.at, free + 5 - job.at)
            job.at = free + 6
            job.frame("<built-in method copy_ of Tensor object>", began)
            since, job.at = job.at, job.at + 2000
            job.frame("<built-in method adam_update of PyCapsule object>", since)
            free = job.run("aten::copy_", "MEMCPY_ASYNC", free, 1000, inside, "PCIE_DMA_SQE")
        job.frame("deepspeed/cpu_adam.py(90): step", called)
        job.at += 1
        job.frame("deepspeed/zero.py(5): optimize", called - 1)
        job.frame("train.py(3): train", begun)
        job.at += 5
        job.trace.step(number, begun - 1, job.at - begun)
    first = profile_at(job.trace.write(tmp_path)).findings.findings[0]
    assert first.id == "HOST.WORK"
    assert words(first.title).startswith("cpu_adam.py:90 in step(), called from train.py:3 in train() holds up the NPU")
    assert first.gain_ns == pytest.approx(2 * (2000 + 1500 + 1000) * 1000, rel=0.1)
