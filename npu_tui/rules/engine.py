"""Findings about the steps of an inference engine."""

from __future__ import annotations

import numpy as np

from npu_tui.analysis.engine_steps import EngineStep
from npu_tui.analysis.thresholds import Threshold
from npu_tui.rules import pages
from npu_tui.rules.facts import Facts
from npu_tui.rules.inputs import both, length_of
from npu_tui.rules.model import Evidence
from npu_tui.rules.rule import SEVERITY_HIGH, SEVERITY_MEDIUM, Draft, Rule, runs_of, sentences, severity_of
from npu_tui.trace.message import message
from npu_tui.trace.text import brief

EAGER_SHARE = Threshold("eager_share", 0.01)
_MOST_SHOWN = 10


def eager(facts: Facts) -> Draft | None:
    """Steps that launch every kernel by itself although graphs replay others of their kind."""
    low, high = facts.window.start, facts.window.end
    steps = [step for step in facts.inputs.engine().steps if step.window is not None and step.captured is not None]
    replayed_kinds = {step.kind for step in steps if step.captured != "eager"}
    alike = [step for step in steps if step.kind in replayed_kinds]
    alone = [step for step in alike if step.captured == "eager" and low <= _begin(step) < high]
    if not alone:
        return None
    windows = np.array([(step.window.start, step.window.end) for step in alone if step.window is not None], np.int64)
    removes = both(facts.lost, (windows[:, 0], windows[:, 1]))
    share = facts.share(length_of(removes))
    if share < facts.limits[EAGER_SHARE]:
        return None
    sizes = [size for step in alone if (size := _size(step)) is not None]
    captured = [size for step in alike if step.captured != "eager" and (size := _size(step)) is not None]
    above = bool(sizes) and bool(captured) and min(sizes) > max(captured)
    longest = sorted(sorted(alone, key=lambda step: -(step.span or 0))[:_MOST_SHOWN], key=_begin)
    words = {"count": len(alone), "all": len(alike), "time": length_of(removes)}
    return Draft(
        severity_of(facts, share),
        message("finding.eager.title", **words),
        sentences(
            message("finding.eager.detail", **words),
            message("finding.eager.sizes", sizes=runs_of(sizes)) if sizes else "",
            message("finding.eager.above", most=max(captured)) if above else "",
        ),
        tuple(
            Evidence(
                _begin(step),
                _begin(step) + (step.span or 0),
                None,
                brief(step.name or "", 60),
                message("finding.eager.place", kernels=step.kernels),
                step.item if step.item >= 0 else None,
            )
            for step in longest
        ),
        removes=removes,
        verdict=message("finding.eager.verdict", **words),
    )


def _begin(step: EngineStep) -> int:
    assert step.window is not None
    return step.window.start


def _size(step: EngineStep) -> int | None:
    """What graphs are captured for: the requests of a batch."""
    return step.call.requests if step.call.requests is not None else step.call.tokens


RULES: tuple[Rule, ...] = (
    Rule(
        "ENGINE.EAGER",
        cls="dispatch",
        inputs=("device", "overlap", "links"),
        check=eager,
        thresholds=(EAGER_SHARE, SEVERITY_MEDIUM, SEVERITY_HIGH),
        advice=("capture_sizes",),
        gpu=("capture_sizes",),
        pages=(pages.GRAPHS,),
        change="""\
-vllm serve MODEL
+vllm serve MODEL --compilation-config '{"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64]}'
""",
        sources=("vllm-ascend: batches above the largest captured size run eagerly",),
        reach="cause",
    ),
)
