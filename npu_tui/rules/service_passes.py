"""Findings about what forward passes of a service cost: more from a moment or a size on, or whatever they compute."""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec.structs import replace

from npu_tui.analysis.limits import HALF, MORE_THAN_ONE, NEARLY_ALL
from npu_tui.analysis.service_blocks import MANY, contexts
from npu_tui.analysis.service_host import EAGER_PASS, GRAPH_PASS
from npu_tui.analysis.service_model import ServiceModel, with_engines
from npu_tui.analysis.service_steps import Cycle, Work
from npu_tui.analysis.service_timeline import TPOT, TTFT
from npu_tui.rules.rule import sentences
from npu_tui.rules.service_facts import COMPUTING, Cause, ServiceFacts, draft_of
from npu_tui.trace.message import message


def model(facts: ServiceFacts) -> Cause | None:
    """From some moment on, the same work takes longer."""
    slower, found = facts.slower, facts.found
    if slower is None:
        return _sizes(facts)
    warms = slower.factor < 1
    factor = 1 / slower.factor if warms else slower.factor
    kind = "model_warm" if warms else "model_drift" if slower.is_slow else "model"
    share = 1 - 1 / (factor if not slower.is_slow else (1 + factor) / 2)  # a drift: half of it on average
    slow = (found.steps.start >= slower.since) != warms
    of_slow = slow[np.maximum(facts.latencies.token if warms else facts.latencies.last, 0)]
    cost = np.where(of_slow, facts.cost(*COMPUTING) * share, 0).astype(np.int64)
    words = {
        "ratio": factor - 1, "share": share, "since": slower.since - int(found.steps.opened.min()),
        "steps": int(slow.sum()), "all": len(found.steps),
    }  # fmt: skip
    return draft_of(
        share, kind, f"{kind}_detail", words, cost, np.where(slow, found.steps.forward, 0),
        partial(_as_fast, slower.factor if warms else 1.0), "service_warm" if warms else "SERVICE.MODEL",
    )  # fmt: skip


def _sizes(facts: ServiceFacts) -> Cause | None:
    """Steps of larger batches take longer at once, as where no graph of their size is captured."""
    jump, steps = facts.jump, facts.found.steps
    if jump is None:
        return _filled(facts)
    slow, share = steps.size > jump.size, 1 - 1 / jump.factor
    passed = np.append(0, np.cumsum(slow))
    lat = facts.latencies
    last, first = np.maximum(lat.last, 0), np.maximum(lat.token, 0)
    of_slow = (passed[last + 1] - passed[first]) / np.maximum(last + 1 - first, 1)
    alone = steps.work == Work.decode
    modes, above = facts.modes[alone], slow[alone]
    eager, graphs = int((modes[above] == EAGER_PASS).sum()), int((modes[~above] == GRAPH_PASS).sum())
    words = {
        "ratio": jump.factor - 1, "size": jump.size, "steps": int(slow.sum()), "all": len(steps), "eager": eager,
        "graphs": graphs,
    }  # fmt: skip
    kind = "model_uncaptured" if jump.size == facts.captured else "model_sizes"
    return draft_of(
        share * float(slow.mean()), kind, f"{kind}_detail", words,
        (facts.cost(*COMPUTING) * share * of_slow).astype(np.int64), np.where(slow, steps.forward, 0),
        lambda model: with_engines(model, beyond=(MANY, 1.0, 1.0)), "service_sizes",
    )  # fmt: skip


def _filled(facts: ServiceFacts) -> Cause | None:
    """Steps that only decode take as long for one request as for many: filled up to a large size, or without graphs."""
    filled, steps = facts.filled, facts.found.steps
    if (several := _several_steps(facts)) is not None:
        return several
    if filled is None:
        return _floored(facts)
    alone = (steps.work == Work.decode) & (steps.size > filled.above)
    over = np.where(alone, np.maximum(filled.more - filled.each * steps.size, 0), 0).astype(np.int64)
    share = float(over.sum() / max(steps.forward[alone].sum(), 1))
    words = {
        "share": share, "time": int(np.median(steps.forward[alone])), "few": int(steps.size[alone].min()),
        "many": int(steps.size[alone].max()), "size": filled.size, "over": float(over[alone].mean()),
    }  # fmt: skip
    draft = draft_of(
        share, "model_filled", "model_filled_detail", words, (facts.cost(TPOT.forward) * share).astype(np.int64), over,
        lambda model: with_engines(model, filled=(0.0, 0.0, 0)), "service_filled",
    )  # fmt: skip
    told = message(f"finding.service.model_filled_{'told' if filled.sure else 'assumed'}", **words)
    return replace(draft, detail=sentences(draft.detail, told))


def _several_steps(facts: ServiceFacts) -> Cause | None:
    """Each schedule covers several decode steps: tokens come so many at a time, though nothing drafts any."""
    found, steps = facts.found, facts.found.steps
    decodes = found.pair_tokens[~found.pair_prompt & found.serves[steps.engine[found.pair_step]]]
    if len(decodes) < _FEWEST_DECODES or len(found.service.spec_decodes) or steps.cycle[:, Cycle.draft].any():
        return None
    each = int(np.median(decodes))
    given = facts.latencies.tokens[facts.tpot.rids].sum() / max(int(facts.latencies.turns[facts.tpot.rids].sum()), 1)
    if each < MORE_THAN_ONE or (decodes == each).mean() < NEARLY_ALL or given < HALF * each:
        return None
    alone = steps.work == Work.decode
    time = float(np.median(steps.forward[alone])) if alone.any() else float(np.median(steps.forward))
    words = {"each": each, "time": time, "share": 1 - 1 / each}
    return draft_of(
        1 - 1 / each, "several_steps", "several_steps_detail", words, facts.cost(TTFT.queue_step, TPOT.forward),
        np.where(alone, steps.forward, 0), None, "service_several_steps",
    )  # fmt: skip


_FEWEST_DECODES = 100  # tokens of a request in a step that show how many it is given at a time


def _floored(facts: ServiceFacts) -> Cause | None:
    """No pass takes less than some time, though what it computes costs far less: launching, or reading weights.

    It is launching where passes are known to run no graph. A graph shortens those that only decode.
    """
    floor, steps = facts.floor, facts.found.steps
    if floor is None:
        return _padded(facts)
    known, remedy = facts.uncaptured, _captured if facts.uncaptured else _unfloored
    if not facts.gains(remedy):
        return None
    alone = steps.work == Work.decode
    words = {
        "least": int(floor.least), "cost": int(floor.least * (1 - floor.over)), "share": floor.over,
        "few": int(steps.size[alone].min()), "many": int(steps.size[alone].max()), "count": known,
    }  # fmt: skip
    kind = "model_eager" if known else "model_floor"
    draft = draft_of(
        floor.over, kind, f"{kind}_detail", words, (facts.cost(TPOT.forward) * floor.over).astype(np.int64),
        np.where(alone, (steps.forward * floor.over).astype(np.int64), 0), remedy,
        "service_captured" if known else "service_eager",
    )  # fmt: skip
    then = facts.after(remedy)
    assert then is not None
    hint = "" if known else message("finding.service.model_floor_if", changes=facts.changes(then))
    return replace(draft, hint=hint, likely=not known)


def _padded(facts: ServiceFacts) -> Cause | None:
    """One long context makes a pass as long as if all its requests had it."""
    padded, steps = facts.padded, facts.found.steps
    if padded is None or not facts.gains(_unpadded):
        return None
    context = contexts(facts.found)[~facts.found.pair_prompt]
    words = {
        "share": padded.over, "usual": round(float(np.median(context))) if len(context) else None,
        "longest": round(float(context.max(initial=0))), "many": int(steps.size.max()),
    }  # fmt: skip
    return draft_of(
        padded.over, "model_padded", "model_padded_detail", words,
        (facts.cost(TPOT.forward) * padded.over).astype(np.int64),
        np.where(steps.work == Work.decode, steps.forward, 0), _unpadded, "service_padded",
    )  # fmt: skip


def _unpadded(model: ServiceModel) -> ServiceModel:
    return with_engines(model, padded=False)


def _unfloored(model: ServiceModel) -> ServiceModel:
    return with_engines(model, least=(0.0, 0.0))


def _captured(model: ServiceModel) -> ServiceModel:
    """``model`` with graphs of passes that only decode; those with prompts are launched as they are."""
    return replace(model, engines=tuple(replace(one, least=(0.0, one.least[1])) for one in model.engines))


def _as_fast(factor: float, model: ServiceModel) -> ServiceModel:
    """``model`` with forward passes that take ``factor`` of their cost all the time, where it changes now."""
    engines = (replace(one, late=(0, 0, factor) if one.late[2] != 1 else one.late) for one in model.engines)
    return replace(model, engines=tuple(engines))
