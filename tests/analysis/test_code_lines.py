"""Lost time by code line: real call stacks, and those of the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from by_hand import ByHand
from samples import parts_of

from npu_tui.analysis.code_lines import CodeLine, library_line, losing_launches, user_line
from npu_tui.analysis.device import Window
from npu_tui.analysis.drains import launches_in
from npu_tui.load.load import load

if TYPE_CHECKING:
    from conftest import Sample
    from samples import Simulated

LEVEL1_RANK0 = [(354, 14184.9, 17), (355, 2023.6, 5), (467, 1782.0, 4), (536, 1617.7, 4)]


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        ("", None),
        ("no frame at all", None),
        ("<string>(1): <module>", None),
        ("/home/u/lib/site-packages/x.py(3): f;\r\n/home/u/train.py(7): step", ("/home/u/train.py", 7, "step")),
        ("/usr/lib/python3.11/queue.py(3): get;\n/a b/train (1).py(8): run", ("/a b/train (1).py", 8, "run")),
        ("/src/torch/nn/functional.py(9): linear;\n/src/torch_npu/x.py(1): y", None),
        ("/opt/dist-packages/a.py(1): b;\n/src/torchvision/ops.py(2): nms", ("/src/torchvision/ops.py", 2, "nms")),
        ("train.py(12): <module>", ("train.py", 12, "<module>")),
    ],
)  # fmt: skip
def test_innermost_user_frame(stack: str, expected: tuple[str, int, str] | None) -> None:
    assert user_line(stack) == (CodeLine(*expected) if expected else None)


def test_lines_of_the_real_profiles(real: Sample) -> None:
    parts = parts_of(real.trace)
    found = [row for row, _ in losing_launches(real.trace, parts.launches)]
    assert sum(row.lost for row in found) == pytest.approx(parts.launches.lost.sum())
    assert sum(row.launches for row in found) == (parts.launches.lost > 0).sum()
    assert all(row.lost > 0 for row in found)
    if real.name == "single_card":
        assert [(row.code, row.launches) for row in found] == [(None, 151)]
    else:
        assert len(found) == 10
        assert all(row.code is not None and row.code.file.endswith("/main.py") for row in found)
    if real.name == "level1/rank0":
        lines = [(row.code.line, row.lost / 1000, row.launches) for row in found[:4] if row.code]
        assert lines == [(line, pytest.approx(lost, abs=0.1), count) for line, lost, count in LEVEL1_RANK0]


def test_lines_of_the_simulation(variation: Simulated) -> None:
    parts = parts_of(variation.trace)
    found = {
        (row.code.file, row.code.line, row.code.function) if row.code else (None, None, None): row
        for row, _ in losing_launches(variation.trace, parts.launches)
    }
    rows = {(row["file"], row["line"], row["function"]): row for row in variation.truth["code_lines"]}
    assert found.keys() == rows.keys()
    for key, own in found.items():
        assert own.lost == pytest.approx(rows[key]["lost_ns"], abs=0.5)
        assert own.launches == rows[key]["launches"]


def test_lines_of_a_range(real: Sample) -> None:
    parts = parts_of(real.trace)
    own = launches_in(real.trace, parts.launches, Window(0, real.trace.end // 3))
    assert sum(row.lost for row, _ in losing_launches(real.trace, own)) == pytest.approx(own.lost.sum())


_LIBRARY = "/opt/lib/python3.10/site-packages"


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        # Both lines of one function hold most together; the framework below it is no place.
        (["rope.py(9): index;/torch/x.py(1): y", "rope.py(9): index", "rope.py(7): index", "a.py(3): b"], "rope.py"),
        # No function of the library below the one that all share holds most: half of the time is outside it.
        (["rope.py(9): index", "a.py(3): b"], "model.py"),
        (["rope.py(9): index", None, None], None),
    ],
)
def test_where_a_library_has_most_of_a_line(inner: list[str | None], expected: str | None, tmp_path: Path) -> None:
    frames = []
    for own in inner:
        below = [] if own is None else [f"{_LIBRARY}/torch/nn/module.py(2): call", f"{_LIBRARY}/model.py(5): forward"]
        inmost = [] if own is None else [f"{_LIBRARY}/{each.lstrip('/')}" for each in own.split(";")][::-1]
        frames.append(";\r\n".join([*inmost, *below, "/app/train.py(4): step", "/app/train.py(1): main"]))
    hand = ByHand()
    for at, stack in enumerate(frames):
        hand.host("aten::item", 10 * at, 5, args={"Call stack": stack})
    trace = load(hand.write(tmp_path))
    stack = trace.slices.stack[trace.slices.stack >= 0].astype(np.int64)
    place = library_line(trace, CodeLine("/app/train.py", 4, "step"), stack, np.ones(len(stack)))
    assert (place and place.file.rpartition("/")[2]) == expected
    if expected == "rope.py":
        assert place is not None
        assert place.line == 9
