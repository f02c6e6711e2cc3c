"""What a user asks to be changed, as text, and what the simulator says of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from beside import profile_with_files
from generate import build, write
from jobs import measured
from measured import profile_at
from situations import Situation
from troubled import TROUBLED
from written import fields_of

from npu_tui.analysis.questions import UnknownChangeError, parse_question
from npu_tui.analysis.ranges import range_sums
from npu_tui.cli.main import main
from npu_tui.output.report import report
from npu_tui.output.whatif import whatif, whatif_document

if TYPE_CHECKING:
    from conftest import Sample


def answer(situation: Situation, *texts: str):
    return whatif(measured(replace(situation, paired=True)), texts)


@pytest.mark.parametrize(
    ("trouble", "text", "remedy"),
    [
        ("slow_python", "line model.py:64 x0", None),
        ("straggler", "rank 2 in time", {"trouble": replace(TROUBLED["straggler"].trouble, late_peer=None)}),
        ("metrics", "no .item()", {"trouble": replace(TROUBLED["metrics"].trouble, metric_reads=0)}),
    ],
)
def test_a_change_in_words(trouble: str, text: str, remedy: dict | None) -> None:
    before = replace(TROUBLED[trouble], seed=6)
    found = answer(before, text)
    assert found.error <= 0.02
    (row,) = found.changes
    assert row.matches > 0
    assert row.alone_us == row.gain_us == found.gain_us == pytest.approx(found.step_us - found.step_after_us, abs=0.01)
    if remedy is not None:
        after = answer(replace(before, **remedy), "kernel Gelu x1")
        assert found.gain_us == pytest.approx(found.step_us - after.step_us, rel=0.1, abs=0.03 * found.step_us)
    assert found.gain_us > 0.1 * found.step_us


def test_changes_apply_in_order() -> None:
    found = answer(replace(TROUBLED["straggler"], seed=6), "rank 2 in time", "kernel MatMulV2 x0.5", "rank 1 in time")
    assert [row.text for row in found.changes] == ["rank 2 in time", "kernel MatMulV2 x0.5", "rank 1 in time"]
    after = found.step_us
    for row in found.changes:
        after -= row.gain_us
        assert row.step_us == pytest.approx(after, abs=0.01)
    assert found.changes[2].gain_us == 0
    assert "shorter" in whatif_document(found).title
    assert any(ghost.recorded != ghost.predicted for ghost in found.timeline)


def test_what_is_no_change() -> None:
    profile = measured(replace(TROUBLED["healthy"], seed=6))
    ((_, replay),) = profile.replays
    assert replay is not None
    for text in ("", "faster", "line model.py x0", "rank two in time", "kernel MatMulV2", "kernel MatMulV2 x-1", "no"):
        with pytest.raises(UnknownChangeError) as refused:
            parse_question(replay.model, text, profile.types_of)
        assert refused.value.message.code == "whatif.unknown"
    for text in ("line nowhere.py:1 x0", "rank 77 in time", "kernel NoSuchKernel x0", "no .nothing()", "op aten::x x0"):
        with pytest.raises(UnknownChangeError) as refused:
            parse_question(replay.model, text, profile.types_of)
        assert refused.value.message.code == "whatif.nothing"


def test_the_command(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write(build(replace(TROUBLED["straggler"], seed=6)), tmp_path)
    capfdbinary.readouterr()
    assert main(["whatif", str(tmp_path), "rank 2 in time", "--no-cache"]) == 0
    text = capfdbinary.readouterr().out.decode()
    assert "shorter" in text
    assert "predicted" in text
    assert main(["whatif", str(tmp_path), "rank 2 in time", "--format", "json", "--no-cache"]) == 0
    found = fields_of(capfdbinary.readouterr().out)
    assert (found["kind"], found["changes"][0]["text"]) == ("whatif", "rank 2 in time")
    with pytest.raises(SystemExit) as refused:
        main(["whatif", str(tmp_path), "magic", "--no-cache"])
    assert refused.value.code == 2
    assert b"magic is not a change" in capfdbinary.readouterr().err


def test_a_run_without_launches(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kernels = [
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 30 * k, "dur": 9} for k in range(9)
    ]
    (tmp_path / "gpu_only.json").write_text(json.dumps({"traceEvents": kernels}))
    assert main(["whatif", str(tmp_path), "no sync", "--no-cache"]) == 3
    assert "cannot be replayed" in capfd.readouterr().err


def test_real_profiles(level1: Sample) -> None:
    from measured import profile_of

    found = whatif(profile_of(level1.trace), ["rank 5 in time", "line main.py:354 x0", "no .item()"])
    assert found.changes[0].gain_us > 80_000
    assert found.changes[1].alone_us < 1_000
    assert found.changes[1].gain_us > 5_000


def test_kernels_have_the_types_of_their_rows(tmp_path: Path) -> None:
    folder = profile_with_files(Path(__file__).resolve().parents[3] / "fixtures" / "healthy", tmp_path / "profile")
    rows = folder / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    rows.write_text(rows.read_text().replace(",MatMulV2,", ",FusedMatMul,"))
    profile = profile_at(folder)
    found = whatif(profile, ["kernel FusedMatMul x0.5"])
    types, code = profile.types_of(np.flatnonzero(profile.compute))
    assert found.changes[0].matches == np.count_nonzero(code == types.index("FusedMatMul")) > 0
    with pytest.raises(UnknownChangeError):
        whatif(profile, ["kernel MatMulV2Nothing x0.5"])
    sums = range_sums(profile.trace, 0, profile.trace.end, None, "type", profile.compute, profile.types_of)
    assert next(row.count for row in sums if row.label == "FusedMatMul") == found.changes[0].matches
    assert "MatMulV2" not in {row.label for row in sums}


@pytest.mark.parametrize("trouble", ["metrics", "straggler", "loader"])
def test_every_finding_gains_what_its_remedy_does(trouble: str) -> None:
    profile = measured(TROUBLED[trouble])
    findings = report(profile).findings
    asked = [row for row in findings if row.whatif is not None]
    assert [row.whatif for row in asked] == [f"fix {row.id}" for row in asked]
    assert {row.id for row in findings if row.gain_us} <= {row.id for row in asked} | {"PROFILER.OVERHEAD"}
    alone = [whatif(profile, [row.whatif]).changes[0].alone_us for row in asked]
    assert alone == pytest.approx([row.gain_alone_us for row in asked], abs=0.0011)
    ladder = [row for row in asked if row.part_of is None and row.step_after_us is not None]
    answer = whatif(profile, [row.whatif for row in ladder])
    assert [row.gain_us for row in answer.changes] == pytest.approx([row.gain_us for row in ladder], abs=0.0011)
    assert [row.step_us for row in answer.changes] == pytest.approx([row.step_after_us for row in ladder], abs=0.0011)
    with pytest.raises(UnknownChangeError):
        whatif(profile, ["fix UTIL"])


@pytest.mark.parametrize("stalled", [{}, {"steps": 5, "stalled_step": 0, "stall_ns": 80_000_000}])
def test_a_late_rank_gains_what_its_finding_says(stalled: dict) -> None:
    profile = measured(replace(TROUBLED["straggler"], seed=6, paired=True, **stalled))
    (facts,) = profile.facts
    assert bool(facts.warm_up) == bool(stalled)
    finding = next(row for row in report(profile).findings if row.id == "COMM.STRAGGLER")
    found = whatif(profile, ["rank 2 in time"])
    assert (found.per, found.count) == (finding.per, finding.count)
    assert found.gain_us == pytest.approx(finding.gain_us, rel=0.01)
    assert found.step_us == pytest.approx(facts.step_ns / 1000, rel=0.02)
