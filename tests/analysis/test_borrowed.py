"""Code of replayed kernels: simulated replays with eager runs of their model, and captures of real engines."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cause_jobs import CALM
from generate import build
from measured import profile_at
from rich.console import Console, Group
from written import fields_of

import npu_tui
from npu_tui.analysis.borrowed import Origins, _Labels
from npu_tui.analysis.kernels import Coded
from npu_tui.cli.main import main
from npu_tui.load.errors import InputError
from npu_tui.mcp.session import OpenProfiles, ToolCall
from npu_tui.mcp.tools import Open, Query, open_tool, query_tool
from npu_tui.output.report import report
from npu_tui.profile.module_tables import borrow, code_of
from npu_tui.profile.profile import Profile
from npu_tui.query.frames import tables_of
from npu_tui.tui.tabs.details import borrowed_lines

DECODE = replace(
    CALM, decode=True, training=False, item_sync=True, step_end_sync=False, steps=5, losses=0, embedding=False, layers=4
)


def written(folder: Path, **changes: Any) -> Path:
    for name, content in build(replace(DECODE, **changes)).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Profile, Profile]:
    folder = tmp_path_factory.mktemp("pair")
    replay, eager = written(folder / "replay", graph=True, kernel_ns=190_000), written(folder / "eager")
    return profile_at(replay), profile_at(eager)


def test_every_kernel_of_a_replay_gets_the_operation_of_the_eager_run(pair: tuple[Profile, Profile]) -> None:
    replay, eager = pair
    found = borrow(replay, eager)
    assert len(found.item) == 5 * 4 * 5
    assert found.unique.all()
    assert found.fits.all()
    assert found.covered_there == 1.0
    step = [found.operation.at(k) for k in range(5)]
    fused = "npu::npu_fused_infer_attention_score"
    assert step == ["aten::linear", fused, "aten::layer_norm", "aten::linear", "aten::gelu"]
    assert found.module.at(9).endswith("GELU_1") or found.module.is_known
    said = report(replay)
    assert said.borrowed is not None
    assert said.borrowed.unique == said.borrowed.kernels == 100
    assert sum(row.count for row in said.borrowed.code) == 100
    assert sum(row.total_us for row in said.borrowed.code) == pytest.approx(said.borrowed.total_us)
    lines = [line for device in said.dispatches for line in device.code_lines]
    assert all(line.borrowed and line.file for line in lines)
    assert lines
    assert sum(line.lost_us for line in lines) == pytest.approx(sum(part.lost_us or 0 for part in said.dispatches))
    assert code_of(replay, int(found.item[0])) == found.line_of(0)
    frame = tables_of(replay).scan("kernels").lazy().collect()
    assert set(frame["borrowed"]) == {"unique"}
    assert set(frame["operation"][:5]) == set(step)


def test_details_say_what_is_borrowed(pair: tuple[Profile, Profile]) -> None:
    replay, eager = pair
    item = int(borrow(replay, eager).item[0])
    console = Console(file=io.StringIO(), width=200)
    console.print(Group(*borrowed_lines(replay, item)))
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
    assert "aten::linear · Block_0/" in said
    assert ":58 forward (unique)" in said
    assert borrowed_lines(replay, item - 1) == []


def test_another_model_lends_nothing_but_operations(pair: tuple[Profile, Profile], tmp_path: Path) -> None:
    replay, _ = pair
    found = borrow(replay, profile_at(written(tmp_path / "other", layers=2)))
    assert not found.fits.any()
    assert (found.line < 0).all()
    assert not found.module.is_known
    assert found.covered_there == 1.0
    assert found.covered_here == 0.5
    with pytest.raises(InputError, match="no_graph"):
        borrow(pair[1], replay)


def test_queries_comparisons_and_agents_have_borrowed_code(
    pair: tuple[Profile, Profile], capsys: pytest.CaptureFixture[str]
) -> None:
    replay, eager = (Path(profile.path) for profile in pair)
    sql = "select sum(calls) as calls from borrowed_code where line is not null"
    assert main(["query", str(replay), sql, "--eager", str(eager), "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ["calls", "100"]
    assert main(["compare", str(replay), str(replay), "--eager", str(eager), "--format", "json"]) == 0
    lines = fields_of(capsys.readouterr().out)["lines"]
    assert lines
    assert all(line["file"] for line in lines)
    session = OpenProfiles([replay.parent])
    open_tool(session, ToolCall(), Open(path=replay.name, eager=eager.name))
    assert query_tool(session, ToolCall(), Query(path="#1", sql=sql)).data["rows"] == [[100]]
    with pytest.raises(npu_tui.Error, match="nothing to borrow"):
        npu_tui.open(eager).borrow(npu_tui.open(replay))


REAL = {
    "vllm_decode_full": (421, 24),
    "vllm_prefilldecode_piecewise": (361, 24),
    "sglang_decode": (544, 36),
}


@pytest.mark.skipif("NPU_TUI_TRACES" not in os.environ, reason="NPU_TUI_TRACES is not set")
@pytest.mark.parametrize("engine", REAL)
def test_kernels_of_real_graphs_are_the_launches_of_their_capture(engine: str) -> None:
    folder = Path(os.environ["NPU_TUI_TRACES"]) / "inference" / engine
    replay, capture = (next(where.glob("*.json.gz")) for where in (folder, folder / "capture_traces"))
    profile = profile_at(replay)
    found = borrow(profile, profile_at(capture))
    kernels, layers = REAL[engine]
    assert len(found.item) == kernels == found.placed.sum() == found.unique.sum()
    assert found.covered_here == found.covered_there == 1.0
    assert (found.line >= 0).all()
    assert (found.operation.code >= 0).all()
    assert (found.module.code >= 0).all()
    rotary = np.array([found.operation.at(k).endswith("rotary_embedding") for k in range(kernels)])
    assert rotary.sum() == layers
    if engine == "sglang_decode":
        assert len({found.module.at(k) for k in np.flatnonzero(rotary).tolist()}) == layers


def test_launches_of_no_module_have_labels() -> None:
    """As where a capture has lost its frames of modules."""
    two = Coded.of([None, "aten::mm"])
    labels = _Labels.of(np.arange(2), Origins(two, two, Coded.of([None, None]), np.array([-1, -1]), []))
    assert labels.at(np.array([1])).tolist() == [[0], [0], [-1], [-1]]
