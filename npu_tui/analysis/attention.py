"""Floating-point operations of fused attention, by the shapes of its kernels.

Forward: two products of 2 · B · N · d · scores each; backward: five, so 2.5 times as many. Scores are Sq · Sk, or half
of them with the compressed causal mask of 2048 x 2048. Source: aclnnFlashAttentionScore (CANN), sparse modes 2 and 3.
"""

from __future__ import annotations

import math
import re

_FLASH = re.compile(r"FlashAttentionScore(?P<grad>Grad)?(?:V\d)?")
_COMPRESSED = [2048, 2048]
_LANES = 8
"""The last side of the statistics of softmax, [B, N, Sq, 8]."""
_BACKWARD = 2.5  # five products where forward has two


def attention_flops(kind: str, inputs: str | None, outputs: str | None) -> float:
    """FLOP of a kernel of type ``kind``, not-a-number where its shapes do not tell them.

    Not told are ragged lengths (TND), masks other than the compressed one, and that one where queries and keys have
    different lengths.
    """
    match = _FLASH.fullmatch(kind)
    if match is None:
        return math.nan
    entered, left = (_shapes(text) for text in (inputs, outputs))
    backward = match["grad"] is not None
    statistics = next((shape for shape in (entered if backward else left) if _is_statistics(shape)), None)
    given = entered[3:4] if backward else [shape for shape in reversed(left) if shape and not _is_statistics(shape)]
    out = given[0] if given else None
    if statistics is None or not out or len(entered) < 3:
        return math.nan
    batch, _, queries, _ = statistics
    query, key, value = entered[:3]
    lengths = {key[axis] for axis, side in enumerate(query) if side == queries and axis < len(key)}
    rows = batch * queries
    sizes = math.prod(query), math.prod(out)
    if len(lengths) != 1 or not query or len(query) != len(key) or len(value) != len(key) or not rows:
        return math.nan
    (keys,) = lengths
    # Results of the forward pass have the shapes of what they belong to; a mask or a bias is left.
    others = [shape for shape in entered[3:] if shape and not _is_statistics(shape) and shape not in (query, out)]
    scores = float(queries * keys)
    if others == [_COMPRESSED] and queries == keys != _COMPRESSED[0]:
        scores /= 2
    elif others:
        return math.nan
    forward = 2.0 * batch * (sizes[0] + sizes[1]) / rows * scores
    return _BACKWARD * forward if backward else forward


def _is_statistics(shape: list[int]) -> bool:
    return len(shape) == 4 and shape[3] == _LANES


def _shapes(text: str | None) -> list[list[int]]:
    """The sides of every shape of ``4096,1,2048;;2048,2048``; empty ones are inputs that are not there."""
    shapes = [[side.strip() for side in shape.split(",") if side.strip()] for shape in (text or "").split(";")]
    return [[int(side) for side in shape] if all(map(str.isdecimal, shape)) else [] for shape in shapes]
