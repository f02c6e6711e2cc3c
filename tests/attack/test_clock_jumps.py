"""A clock that jumps inside a trace is told, and no finding, no lost time and no gate rests on it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from clock_jumps import jump, jump_in

from npu_tui.analysis.evidence import losses_of
from npu_tui.cli.main import main
from npu_tui.profile.profile import Profile

if TYPE_CHECKING:
    from conftest import Sample

sys.path.append(str(Path(__file__).resolve().parents[1] / "load" / "database"))

from export import export
from measured import profile_at, profile_of

FIXTURES = Path("fixtures")
TRACE = "ASCEND_PROFILER_OUTPUT/trace_view.json"
HOUR = 3_600_000


def told(profile: Profile) -> float:
    """By how many ms the host's clock is ahead from the jump on, as all that is said of the profile agrees."""
    (said,) = profile.findings.verdict
    assert said.code.startswith("odd.clock_")
    assert said in profile.health.warnings
    assert not profile.findings.findings
    assert profile.dispatch == []
    assert all(replay is None for _, replay in profile.replays)
    assert {loss.kind for loss in losses_of("a", profile.health)} >= {"slices", "links"}
    by = said.args["by"]
    assert isinstance(by, int)
    return by / 1e6 if said.code == "odd.clock_ahead" else -by / 1e6


def jumped(folder: Path, name: str, side: str, by: int, place: float) -> Profile:
    file = folder / "trace_view.json"
    file.write_text(json.dumps(jump(json.loads((FIXTURES / name / TRACE).read_text()), side, by, place)))
    return profile_at(file)


@pytest.mark.parametrize(
    ("name", "side", "jumps"),
    [
        ("dispatch_bound", "host", (50, -2_000, HOUR)),
        ("dispatch_bound", "thread", (-50, 2_000, -HOUR)),
        ("healthy", "host", (-50, 2_000, -HOUR)),
        ("healthy", "thread", (50, -2_000, HOUR)),
    ],
)
def test_a_jump_of_the_host_is_told(name: str, side: str, jumps: tuple[int, ...], tmp_path: Path) -> None:
    for by, place in zip(jumps, (0.25, 0.5, 0.25), strict=True):
        assert told(jumped(tmp_path, name, side, by, place)) == pytest.approx(by, abs=0.2)


@pytest.mark.parametrize("by", [50, -50, 2_000, -2_000])
def test_a_jump_of_the_device_is_one_of_the_host_the_other_way(by: int, tmp_path: Path) -> None:
    assert told(jumped(tmp_path, "dispatch_bound", "device", by, 0.5)) == pytest.approx(-by, abs=0.2)


@pytest.mark.parametrize(("side", "by"), [("host", 50), ("host", -2_000), ("device", -50)])
def test_a_jump_in_a_database_is_told(side: str, by: int, tmp_path: Path) -> None:
    database = tmp_path / "ascend_pytorch_profiler_0.db"
    export(FIXTURES / "dispatch_bound", database)
    assert profile_at(database).clock_jump is None
    jump_in(database, side, by, 0.5)
    assert abs(told(profile_at(database))) == pytest.approx(abs(by), abs=0.2)


def test_no_real_profile_has_one(real: Sample) -> None:
    assert profile_of(real.trace).clock_jump is None


def test_a_gate_does_not_pass_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jumped(tmp_path, "healthy", "host", 2_000, 0.5)
    assert main(["check", str(tmp_path / "trace_view.json"), "--max-free", "99%", "--no-cache"]) == 1
    assert "NOT MEASURED" in capsys.readouterr().out


def test_a_job_tells_of_which_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Path(shutil.copytree(FIXTURES / "two_ranks", tmp_path / "job"))
    assert main(["ranks", str(job)]) == 0
    before = capsys.readouterr().out
    file = job / "rank1_ascend_pt" / TRACE
    file.write_text(json.dumps(jump(json.loads(file.read_text()), "host", 2_000, 0.5)))
    assert main(["ranks", str(job)]) == 0
    after = capsys.readouterr().out
    assert f"rank 1: {file}: A clock jumps" in " ".join(after.split())
    assert next(line for line in before.splitlines() if "is slow" in line).split(";")[0] in after
