"""Findings about settings, what the profiler itself costs, and advice that the profile shows to be followed already.

Sources: the environment rules of msprof-analyze's advisor, and the gap that a profiler with l2_cache leaves after every
kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu_tui.analysis.launches import graph_launches
from npu_tui.analysis.limits import HALF
from npu_tui.rules import pages
from npu_tui.rules.blame import (
    LINKS_FEWEST,
    PROFILER_GAP_HIGH_US,
    PROFILER_GAP_LOW_US,
    fixed_pauses,
    queue_is_off,
    waited_copies,
)
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import common, largest, length_of
from npu_tui.rules.links import is_small_buffer
from npu_tui.rules.model import Severity
from npu_tui.rules.rule import (
    SEVERITY_HIGH,
    SEVERITY_MEDIUM,
    Draft,
    Rule,
    Skipped,
    sentences,
    severity_of,
    stretches,
)
from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief, whole_number

_BLOCKING = "ASCEND_LAUNCH_BLOCKING"


def _is_below(text: str, least: int) -> bool:
    number = whole_number(text)
    return number is None or number < least


COSTLY: dict[str, Callable[[str], bool]] = {
    "ASCEND_GLOBAL_LOG_LEVEL": lambda value: value not in ("", "3"),
    "HCCL_RDMA_TC": lambda value: value != "",
    "HCCL_RDMA_SL": lambda value: value != "",
    "ACLNN_CACHE_LIMIT": lambda value: _is_below(value, 10_000),
    "HOST_CACHE_CAPACITY": lambda value: _is_below(value, 1),
    "PYTORCH_NPU_ALLOC_CONF": lambda value: "expandable_segments:true" not in value.lower(),
    "ASCEND_LAUNCH_BLOCKING": lambda value: value == "1",
    "HCCL_ALGO": lambda value: value != "",
    "HCCL_BUFFSIZE": is_small_buffer,
}
"""Variables that profiler_metadata.json records, each with a test for values that cost time."""


def environment(facts: Facts) -> Draft | Skipped | None:
    """Variables of the environment that cost time."""
    recorded = facts.inputs.setup.environment or {}
    costly = [name for name, odd in COSTLY.items() if name in recorded and odd(recorded[name])]
    queue = facts.is_of_torch and queue_is_off(facts)
    if not costly and not queue:
        return None if facts.has("metadata") else Skipped(message("finding.needs.metadata"))
    values = [f"{name}={brief(recorded[name], 40)}" if recorded[name] else name for name in costly]
    parts = [message("finding.environment.detail", names=values)] if values else []
    if queue:
        parts.append(message("finding.environment.queue"))
    return Draft(
        "medium" if recorded.get(_BLOCKING) == "1" else "low",
        message(
            "finding.environment.title",
            first=(costly or ["TASK_QUEUE_ENABLE"])[0],
            more=message("finding.affinity.more", count=len(costly) - 1) if len(costly) > 1 else "",
        ),
        sentences(*parts),
        (),
        (
            *(message(f"finding.environment.{name}") for name in costly),
            *([message("finding.advice.set_queue")] if queue and recorded.get(_BLOCKING) != "1" else []),
            *([message("finding.advice.not_recorded")] if recorded else []),
        ),
        confidence="medium",
    )


def profiler(facts: Facts) -> Draft | None:
    """Kernels that were launched in time and yet start a fixed pause after the one before."""
    pauses = fixed_pauses(facts)
    if pauses is None:
        return None
    # Beside a collective or another stream the next kernel may as well wait: the device loses nothing.
    limits, removes = facts.limits, common(pauses.span, facts.free)
    low, high = limits[PROFILER_GAP_LOW_US] * 1000, limits[PROFILER_GAP_HIGH_US] * 1000
    share = facts.share(length_of(removes))
    settings = [name for name in ("_l2_cache", "with_stack", "profile_memory") if facts.inputs.setup.settings.get(name)]
    severity: Severity = "medium" if severity_of(facts.limits, share) == "high" else "info"
    return Draft(
        severity,
        message("finding.profiler.title", count=pauses.count, gap=pauses.median),
        message(
            "finding.profiler.detail",
            count=pauses.count,
            all=pauses.all,
            low=low,
            high=high,
            time=length_of(pauses.span),
            computing=facts.sums.computing,
            settings=message("finding.profiler.settings", names=[name.lstrip("_") for name in settings])
            if settings
            else "",
        ),
        stretches(largest(pauses.span), message("finding.profiler.name"), "finding.profiler.place"),
        removes=removes,
        confidence="medium",
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "ENV/STARTUP",
        cls="config",
        inputs=("overlap",),
        check=environment,
        advice=("not_recorded", "launch_blocking"),
        pages=(pages.VARIABLES, pages.TASK_QUEUE, pages.BLOCKING, pages.ALLOCATOR),
        change="""\
-export ASCEND_LAUNCH_BLOCKING=1
+unset ASCEND_LAUNCH_BLOCKING
+export TASK_QUEUE_ENABLE=1
+export ACLNN_CACHE_LIMIT=100000
""",
        sources=("msprof-analyze advisor: environment variables", "MindStudio Insight walk-through 1-54, 1-55"),
        words=("pipeline", "binding"),
    ),
    Rule(
        "PROFILER.OVERHEAD",
        cls="config",
        inputs=("device", "overlap", "links"),
        check=profiler,
        thresholds=(PROFILER_GAP_LOW_US, PROFILER_GAP_HIGH_US, SEVERITY_MEDIUM, LINKS_FEWEST, SEVERITY_HIGH),
        advice=("profile_again", "not_your_model"),
        pages=(pages.PROFILER,),
        sources=("measured on profiles with l2_cache", "Ascend PyTorch Profiler: l2_cache"),
        of_profiler=True,
        words=("device_side", "recording"),
    ),
)


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


# The setting by which advice is followed: by the end of its key.
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
