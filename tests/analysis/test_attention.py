"""FLOP of fused attention by the shapes of its kernels."""

from __future__ import annotations

import math

import pytest

from npu_tui.analysis.kernels import attention_flops

_FORWARD = "4096,1,2048;4096,1,1024;4096,1,1024;;;;{mask};;;;", "1,16,4096,8;1,16,4096,8;;4096,1,2048"
_BACKWARD = (
    "4096,1,2048;4096,1,1024;4096,1,1024;4096,1,2048;{mask};1,16,4096,8;1,16,4096,8;;4096,1,2048;;",
    "4096,1,2048;4096,1,1024;4096,1,1024;;",
)
_DENSE = 3_848_290_697_216 / 28
"""One of 28 calls of a real job with these shapes, all scores counted."""


@pytest.mark.parametrize(
    ("kind", "shapes", "mask", "flop"),
    [
        ("FlashAttentionScore", _FORWARD, "", _DENSE),
        ("FlashAttentionScore", _FORWARD, "2048,2048", _DENSE / 2),
        ("FlashAttentionScoreGrad", _BACKWARD, "", 9_620_726_743_040 / 28),
        ("FlashAttentionScoreGrad", _BACKWARD, "2048,2048", 9_620_726_743_040 / 56),
        ("FlashAttentionScore", _FORWARD, "1,1,4096,4096", math.nan),
        ("PagedAttention", _FORWARD, "", math.nan),
    ],
)
def test_flop(kind: str, shapes: tuple[str, str], mask: str, flop: float) -> None:
    assert attention_flops(kind, shapes[0].format(mask=mask), shapes[1]) == pytest.approx(flop, nan_ok=True)


def test_other_layouts() -> None:
    """BNSD with heads of 128, values of 64; ragged lengths are not told by shapes."""
    inputs = "2,4,512,128;2,4,1024,128;2,4,1024,64"
    flop = 2 * 2 * 4 * (128 + 64) * 512 * 1024
    assert attention_flops("FlashAttentionScore", inputs, "2,4,512,8;2,4,512,8;;2,4,512,64") == flop
    assert math.isnan(
        attention_flops("FlashAttentionScore", "900,4,128;900,4,128;900,4,128", "900,4,8;900,4,8;;900,4,128")
    )
    assert math.isnan(attention_flops("FlashAttentionScore", None, None))
