"""Memory calls of a full device, and of a program that gives its memory back."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.strings import words


@pytest.mark.parametrize(("apart", "full"), [(2, True), (400, False)])
def test_blocks_given_back_right_before_others_are_taken_tell_that_memory_is_full(
    tmp_path: Path, apart: float, full: bool
) -> None:
    trace, at = ByHand(), 0.0
    for step in range(3):
        begun = at
        for k in range(12):
            if k % 6 == 2:
                for call in ("aclrtFree", "aclrtFree", "aclrtMallocAlign32"):
                    at += apart if call == "aclrtMallocAlign32" else 2
                    trace.call(f"AscendCL@{call}", at, 700)
                    at += 700
            trace.host("aten::mm", at, 20)
            trace.launch("aclnnMatmul_MatMulV2AiCore_MatMulV2", at + 6, at + 16, 300)
            at += 310
        trace.step(step, begun, at - begun)
    found = next(row for row in profile_at(trace.write(tmp_path)).findings.findings if row.id == "MEM.ALLOC")
    assert ("memory is full" in words(found.title)) == full
    assert ("6 times blocks are given back" in words(found.detail)) == full
    assert ("empty_cache" in " ".join(map(words, found.advice))) != full
