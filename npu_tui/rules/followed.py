"""Advice that the profile shows to be followed already, which no finding gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu_tui.analysis.launches import graph_launches
from npu_tui.analysis.limits import HALF
from npu_tui.rules.blame import waited_copies
from npu_tui.rules.facts import Facts
from npu_tui.trace.message import Message
from npu_tui.trace.text import whole_number

_KEY = "finding.advice."


def still_to_do(facts: Facts, advice: tuple[Message, ...]) -> tuple[Message, ...]:
    """``advice`` without what is done already."""
    return tuple(each for each in advice if not _FOLLOWED.get(each.code.removeprefix(_KEY), _never)(facts))


def in_graphs(facts: Facts) -> bool:
    """Whether most kernels are replayed by the launches of captured graphs."""
    pairs = facts.part.pairs
    if pairs is None:
        return False
    replayed = np.count_nonzero(pairs.graph >= 0) + np.count_nonzero(graph_launches(facts.trace, pairs.link))
    return bool(replayed > HALF * (len(pairs.link) + len(pairs.unlinked)))


def _set_to(name: str, holds: Callable[[str], bool]) -> Callable[[Facts], bool]:
    """Whether the environment has the variable ``name`` with a value that ``holds``; unknown is no."""
    return lambda facts: holds((facts.inputs.setup.environment or {}).get(name, "").strip().lower())


def _is_multi_tensor(facts: Facts) -> bool:
    """Whether kernels for many tensors run: of an optimizer, or others."""
    return bool(facts.names_where(lambda name: "foreach" in name.lower() or "multi_tensor" in name).any())


def _never(facts: Facts) -> bool:
    return False


# What tells that advice is followed: by the end of its key.
_FOLLOWED: dict[str, Callable[[Facts], bool]] = {
    "task_queue": _set_to("TASK_QUEUE_ENABLE", "2".__eq__),
    "binding": _set_to("CPU_AFFINITY_CONF", lambda value: value[:1] in ("1", "2")),
    "cann_cache": _set_to("ACLNN_CACHE_LIMIT", lambda value: (whole_number(value) or 0) >= 10_000),
    "expandable": _set_to("PYTORCH_NPU_ALLOC_CONF", lambda value: "expandable_segments:true" in value),
    "gpu_expandable": _set_to("PYTORCH_CUDA_ALLOC_CONF", lambda value: "expandable_segments:true" in value),
    "graph": in_graphs,
    "gpu_graph": in_graphs,
    "foreach": _is_multi_tensor,
    "non_blocking": lambda facts: not len(waited_copies(facts)),
}
