"""The blocks of the KV cache of an inference service: how many tokens each holds, and how many a request takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec import Struct

from npu_tui.trace.arrays import F64, I64
from npu_tui.trace.service import UNKNOWN

if TYPE_CHECKING:
    from npu_tui.analysis.service_latency import Latencies, Timeline

Tokens = TypeVar("Tokens", I64, F64, float)

_ASSUMED = 128
"""Tokens of a block where the tables do not tell."""
_MARGIN = 0.02
"""The share of the blocks that may stay free when a request is admitted; vLLM keeps 1 %."""
_ALIKE = 1.0
"""Blocks that requests hold beyond their context, by the least and the most tenth of the steps, are as many."""


class Room(Struct, frozen=True):
    """Blocks hold ``block`` tokens; a request holds ``spare`` more than it needs; when one is admitted ``margin``
    (engines,) stay free.
    """

    block: int
    spare: int
    margin: tuple[int, ...]

    def blocks(self, tokens: Tokens) -> Tokens:
        """How many a request with a context of ``tokens`` holds."""
        return -(-tokens // self.block) + self.spare


def room_of(found: Timeline) -> Room:
    """What the steps of ``found`` tell."""
    block, steps, total = _block(found), found.steps, found.service.batches.total_blocks
    most = int(total.max()) if len(total) else 0
    free, begun = np.where(steps.free == UNKNOWN, most, steps.free), found.pair_step[found.entries]
    least = [int(free[begun[steps.engine[begun] == number]].min(initial=most)) for number in range(len(found.engines))]
    margin = tuple(count if count <= _MARGIN * most else 0 for count in least)
    of_contexts = np.bincount(found.pair_step, -(-contexts(found) // block), len(steps))
    whole = (steps.size > 0) & (steps.size == found.seated) & (steps.prompts == 0) & (steps.free != UNKNOWN)
    beyond = (most - free - of_contexts)[whole] / steps.size[whole]
    low, high = np.quantile(beyond, (0.1, 0.9)) if len(beyond) and most > 0 else (0.0, 0.0)
    return Room(block, max(round(low), 0) if high - low < _ALIKE else 0, margin)


def _block(found: Timeline) -> int:
    """The tokens of a block, a power of two."""
    steps, most = found.steps, 0.0
    for number in np.unique(steps.engine).tolist():  # a decode engine allocates for prompts that it does not compute
        part = steps.of(number)
        allocated = steps.allocated[part]
        most = max(most, float((steps.prompts + steps.decoded)[part].sum() / max(allocated[allocated > 0].sum(), 1)))
    known = bool((steps.allocated > 0).any())
    return 1 << int(np.ceil(np.log2(max(most, 1)))) if known else _ASSUMED


def contexts(found: Timeline) -> F64:
    """The tokens that each pair has in the cache, those of its step included."""
    # A draft that is not accepted leaves nothing in the context.
    stays = np.where(found.pair_prompt, found.pair_tokens, growth_of(found.latencies)[found.pair_rid])
    total = np.append(0, np.cumsum(stays))
    begin = np.maximum.accumulate(np.where(found.pair_admitted, np.arange(len(stays)), 0))
    context: F64 = total[:-1] - total[begin] + found.pair_tokens
    if len(found.service.transfers):  # a decode engine holds a context that it did not compute
        engine = found.steps.engine
        here, first = engine[found.pair_step], engine[found.latencies.first[found.pair_rid]]
        context += np.where(found.serves[here] & (first != here), found.latencies.prompt[found.pair_rid], 0)
    return context


def growth_of(lat: Latencies) -> F64:
    """How many tokens each request got in a step after the first; 1 without drafts."""
    turns = np.maximum(lat.turns, 0)
    growth: F64 = np.where(turns > 0, np.maximum(lat.tokens - 1, turns) / np.maximum(turns, 1), 1.0)
    return growth
