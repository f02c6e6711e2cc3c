"""Which stage of the host is slow, in words, and what to change there."""

from __future__ import annotations

from npu_tui.analysis.overlap.stage import slow_stage
from npu_tui.rules.facts.blame import SYNC_BLOCKING, compile_calls, launch_blocking, queue_is_off
from npu_tui.rules.facts.facts import Facts
from npu_tui.rules.phrases import advise
from npu_tui.trace.message import Message, Said, message

_EVEN = 0.1
"""How near to a half the idle share of the dequeue thread is where both stages are slow."""


def blamed_stage(facts: Facts) -> str | None:
    """``python`` or ``cann``, ``both`` where neither is clearly slower, None where it cannot be told."""
    idle = facts.dequeue_idle
    if idle is not None and abs(idle - 0.5) < _EVEN:
        return "both"
    return slow_stage(idle)


def stage_name(facts: Facts) -> Message:
    """The slow stage of the host in words."""
    return message(f"finding.stage.{blamed_stage(facts) or 'host'}")


def stage_advice(facts: Facts) -> tuple[Message, ...]:
    """What to change on the slow stage of the host."""
    if launch_blocking(facts) > facts.limits[SYNC_BLOCKING]:
        return advise("launch_blocking", "fewer_operators")
    stage = blamed_stage(facts)
    serving = facts.rhythm is not None and facts.rhythm.unit == "token"
    if queue_is_off(facts):
        rest = advise("inference", "binding") if serving else advise("binding", "fewer_operators")
        return (message("finding.environment.set_queue"), *rest)
    if serving:
        return advise("inference", "task_queue", "binding")
    if stage == "cann":
        compiles = not facts.has("cann") or len(compile_calls(facts)) > 0
        return advise("cann_cache", "jit_compile" if compiles else "graph", "binding")
    if stage == "python":
        return advise("task_queue", "binding", "fewer_operators")
    return advise("binding", "task_queue", "fewer_operators")


def caveat(facts: Facts) -> Said:
    """That the profiler itself slows the host down, where its settings say that it does."""
    settings = facts.beside.settings
    inflating = [name for name in ("with_stack", "profile_memory", "_l2_cache") if settings.get(name)]
    if inflating:
        return message("finding.caveat.profiled", settings=[name.lstrip("_") for name in inflating])
    stacks = bool(facts.trace.slices.stack.max(initial=-1) >= 0)
    return message("finding.caveat.profiled", settings=["with_stack"]) if stacks else ""
