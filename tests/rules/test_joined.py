"""Findings of one place in the code are one cause with one gain; those of a large function stay apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from measured import profile_at
from msgspec.structs import replace
from test_cheaper import Training
from test_functions import Job

from npu_tui.analysis.replay import Change, TaskCut
from npu_tui.rules.facts import Facts
from npu_tui.rules.joined import joined
from npu_tui.rules.rule import Draft, FiredRule, Reach, Rule
from npu_tui.strings import words


def _facts(folder: Path, kernels: Sequence[tuple[str, float, str]]) -> Facts:
    """Three steps that launch ``kernels``: kind, length in us and stack of each."""
    job = Training()
    for number in range(1, 4):
        job.step(
            number, lambda job, number: [job.run(kind, time, stack=stack) for kind, time, stack in kernels] and None
        )
    job.found(folder)
    profile = next(folder.rglob("ASCEND_PROFILER_OUTPUT")).parent
    return profile_at(profile).facts[0]


def _found(facts: Facts, kind: str, reach: Reach = "cause") -> FiredRule:
    """A finding that removes all kernels of ``kind``."""
    names = [facts.trace.name_of(item) for item in facts.kernels.tolist()]
    items = facts.kernels[np.array([f"_{kind}_" in name for name in names])]
    rule = Rule(kind, cls="compute", inputs=(), check=lambda facts: None, sources=(), reach=reach)
    change = Change(tasks=(TaskCut(items),))
    return FiredRule(rule, Draft("high", f"title of {kind}", "detail", removes=facts.span_of(items), change=change))


def _gain_in(facts: Facts) -> Callable[[Draft], int]:
    replay = facts.replay
    assert replay is not None

    def gain_of(draft: Draft) -> int:
        assert draft.change is not None
        return max(replay.gain(facts.judged(draft.change)), 0)

    return gain_of


_MODEL = "model.py(10): forward"
_INSIDE = "expand.py(7): expand|" + _MODEL
_PRODUCT = ("MatMulV3", 900, _MODEL)
_MADE_UP = [_PRODUCT, ("Tile", 300, _INSIDE), ("Sort", 200, _INSIDE), _PRODUCT]
_LARGE = [_PRODUCT, ("Tile", 300, _MODEL), _PRODUCT, ("Sort", 200, _MODEL)]
_BESIDE = [_PRODUCT, ("Cast", 100, _MODEL), ("Gelu", 300, _MODEL), ("Cast", 100, _MODEL), _PRODUCT]
_APART = [("Cast", 100, _MODEL), _PRODUCT, ("Gelu", 300, _MODEL), _PRODUCT]


@pytest.mark.parametrize(
    ("kernels", "kinds", "said", "gain"),
    [
        (_MADE_UP, ("Sort", "Tile"), "title of Tile; all of expand.py:7 in expand(): 500.0 µs", 500),
        (_LARGE, ("Sort", "Tile"), "title of Tile", 300),
        (_BESIDE, ("Cast", "Gelu"), "title of Gelu; with the data moved beside it: 500.0 µs", 500),
        (_APART, ("Cast", "Gelu"), "title of Gelu", 300),
    ],
)
def test_findings_of_one_place_are_one_cause(
    kernels: Sequence[tuple[str, float, str]], kinds: tuple[str, str], said: str, gain: float, tmp_path: Path
) -> None:
    facts = _facts(tmp_path, kernels)
    gain_of = _gain_in(facts)
    candidates = [_found(facts, kind) for kind in kinds]
    first, second = joined(candidates, facts, gain_of)
    assert first is candidates[0]
    assert words(second.draft.title).startswith(said)
    assert gain_of(second.draft) / facts.count / 1000 == pytest.approx(gain, rel=0.03)


def test_a_coarser_view_of_the_same_kernels_is_no_part(tmp_path: Path) -> None:
    """What removes the kernels of the first finding and more has its own gain: the first one knows what must stay."""
    facts = _facts(tmp_path, _MADE_UP)
    tile, sort = _found(facts, "Tile"), _found(facts, "Sort", "place")
    assert tile.draft.change is not None
    assert sort.draft.change is not None
    both = replace(sort, draft=replace(sort.draft, change=tile.draft.change | sort.draft.change))
    assert joined([tile, both], facts, _gain_in(facts)) == [tile, both]


def test_two_works_of_one_frame_of_the_framework_are_one_cause(tmp_path: Path) -> None:
    """A graph is traced and then compiled: the frame around both is their place, that of the step is not."""
    job, free, stack = Job(), 0.0, "/app/train.py(5): forward;\r\n/app/train.py(9): train;"
    for number in range(4):
        begun = job.at
        for _ in range(20):
            free = job.run("aten::mm", "aclnnMm_MatMulV3_MatMulV3", free, 300, stack)
        job.at = called = free + 20
        for part, time in (("torch/_dynamo/convert_frame.py(581): transform", 2000), ("app/fx.py(4): compile", 3000)):
            since, job.at = job.at, job.at + time
            job.frame(part, since)
            job.at += 10
        job.frame("torch/_dynamo/convert_frame.py(662): _compile", called)
        job.frame("train.py(3): train", begun)
        job.at += 5
        job.trace.step(number, begun - 1, job.at - begun)
    first, *others = profile_at(job.trace.write(tmp_path)).findings.findings
    assert first.id == "HOST.WORK"
    assert "convert_frame.py:662 in _compile()" in words(first.title)
    assert first.gain_ns == pytest.approx(5_000_000, rel=0.05)
    assert all(row.part_of == "HOST.WORK" for row in others if row.id == "HOST.WORK")


def test_short_kernels_of_one_line_are_told_with_their_gain_alone(tmp_path: Path) -> None:
    """The first sentence and the finding have one figure, and the sentence has the remedy."""
    job, free = Job(), 0.0
    for number in range(4):
        begun = job.at
        for _ in range(100):
            free = job.run("aten::add", "aclnnAdd_Add_Add", free, 3, "/app/train.py(5): forward;")
        job.at += 5
        job.trace.step(number, begun - 1, job.at - begun)
    found = profile_at(job.trace.write(tmp_path)).findings
    first = found.findings[0]
    assert first.id == "OP.SMALL"
    assert first.gain_ns is not None
    said = words(found.verdict[0])
    assert "launched one by one" in said
    saved = f"{first.gain_ns / 1e3:.1f} µs" if first.gain_ns < 1e6 else f"{first.gain_ns / 1e6:.3f} ms"
    assert f"as one graph, they save {saved}" in said
