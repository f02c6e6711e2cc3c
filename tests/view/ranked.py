"""The two ranks of the fixtures in one scene, and an explorer of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from measured import profile_of

from npu_tui.load.load import load
from npu_tui.profile.scene import make_scene
from npu_tui.trace.model import Trace
from npu_tui.view.explorer import Explorer
from npu_tui.view.scene import FindingMark, Scene

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
WIDTH, HEIGHT, GUTTER, TOP = 120, 60, 24, 4


@cache
def ranks() -> tuple[Trace, Trace]:
    first, second = (load(FIXTURES / "two_ranks" / f"rank{rank}_ascend_pt") for rank in (0, 1))
    return first, second


def scene_of(*traces: Trace, offsets: list[int] | None = None) -> Scene:
    scene = make_scene([profile_of(trace) for trace in traces])
    if offsets is not None:
        scene.set_offsets(offsets)
    scene.findings = [[FindingMark(trace.end // 4, trace.end // 2, "1", "high")] for trace in traces]
    return scene


def explored(scene: Scene) -> Explorer:
    explorer = Explorer(scene, WIDTH - GUTTER, HEIGHT - TOP)
    explorer.resize(WIDTH - GUTTER, HEIGHT - TOP, True)
    return explorer
