"""``npu-tui watch``: a profile is told once, when it is whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from npu_tui.analysis.limits import Thresholds
from npu_tui.cli.main import main
from npu_tui.cli.watch import Watch, _Teller

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def put(folder: Path, name: str, fixture: str = "dispatch_bound", rank: int | None = 0) -> Path:
    """A profile as the profiler leaves it, its trace last."""
    profile = folder / f"{name}_ascend_pt"
    shutil.copytree(FIXTURES / fixture, profile, ignore=shutil.ignore_patterns("truth.json", "profiler_info_*"))
    if rank is not None:
        (profile / f"profiler_info_{rank}.json").write_text("{}", encoding="utf-8")
    return profile


def trace_of(profile: Path) -> Path:
    return profile / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"


def test_a_profile_is_complete_when_it_no_longer_changes(tmp_path: Path) -> None:
    watch = Watch(tmp_path, 3)
    assert watch.complete(0) == []
    file = trace_of(put(tmp_path, "a"))
    assert watch.complete(1) == []
    assert watch.complete(3.9) == []
    with file.open("ab") as out:
        out.write(b" \n")
    assert watch.complete(4) == []
    assert watch.complete(6.9) == []
    assert [source.path for source in watch.complete(7)] == [file]
    assert watch.complete(99) == []
    second = trace_of(put(tmp_path, "b"))
    watch.complete(100)
    assert [source.path for source in watch.complete(104)] == [second]


@pytest.mark.parametrize("years", [-50, 50])
def test_the_clock_of_the_machine_may_jump(years: int, tmp_path: Path) -> None:
    """Files of the future or the past are waited for as others are."""
    watch, file = Watch(tmp_path, 3), trace_of(put(tmp_path, "a"))
    now = file.stat().st_mtime_ns
    os.utime(file, ns=(now, now + years * 31_557_600 * 10**9))
    assert watch.complete(1) == watch.complete(3.9) == []
    os.utime(file, ns=(now, now))
    assert watch.complete(4) == watch.complete(6.9) == []
    assert [source.path for source in watch.complete(7)] == [file]


def test_a_trace_that_is_cut_off_is_waited_for_longer(tmp_path: Path) -> None:
    watch = Watch(tmp_path, 3)
    file = trace_of(put(tmp_path, "a"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])
    watch.complete(0)
    assert watch.complete(20) == []
    file.write_bytes(whole)
    watch.complete(21)
    assert [source.path for source in watch.complete(24)] == [file]
    file = trace_of(put(tmp_path, "b"))
    file.write_bytes(whole[:-9])
    watch.complete(30)
    assert watch.complete(50) == []
    assert [source.path for source in watch.complete(60)] == [file]


def test_what_goes_away_is_forgotten(tmp_path: Path) -> None:
    watch = Watch(tmp_path, 3)
    shutil.rmtree(put(tmp_path, "a"))
    profile = put(tmp_path, "b")
    watch.complete(0)
    shutil.rmtree(profile)
    assert watch.complete(9) == []
    assert not watch.waiting


def test_every_profile_has_its_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first, second = put(tmp_path, "a", "healthy"), put(tmp_path, "b", "dispatch_bound")
    third = put(tmp_path, "c", "dispatch_bound", rank=3)
    trace_of(third).write_text("no trace]", encoding="utf-8")
    for number, profile in enumerate((first, second, third)):
        for file in trace_of(profile).parent.iterdir():
            os.utime(file, (1000 + number, 1000 + number))
    assert main(["watch", str(tmp_path), "--all", "--count", "3", "--settle", "1"]) == 0
    out, told = capfd.readouterr()
    lines = out.splitlines()
    assert [tmp_path / line.split()[1] for line in lines] == [first, second, third]
    assert "rank 0" in lines[0]
    assert not any(word in lines[0] for word in ("SLOWER", "FASTER", "same", "unsure", "comparable"))
    assert any(word in lines[1] for word in ("FASTER", "not comparable"))
    assert "DISPATCH" in lines[1]
    assert "trace_view.json" in lines[2]
    assert told == f"watching {tmp_path} (0 profiles already there)\n"


@pytest.mark.parametrize("words", [["--settle", "0"], ["--count", "x"]])
def test_wrong_usage_is_refused(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["watch", str(tmp_path), *words])
    assert caught.value.code == 2


def test_there_has_to_be_a_folder(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "/nowhere"]) == 3
    assert capfd.readouterr().err == "npu-tui: /nowhere: no such folder\n"


def test_a_profile_of_a_role_follows_those_of_its_role(tmp_path: Path) -> None:
    teller = _Teller(tmp_path, Thresholds())
    watch = Watch(tmp_path, 0)
    for role in ("actor_update", "rollout_generate"):
        put(tmp_path / role, "a")
    watch.complete(0)
    lines = [teller.line(source) for source in watch.complete(1)]
    assert [line.split()[1:4] for line in lines] == [
        [f"{role}/a_ascend_pt", "rank", "0"] for role in ("actor_update", "rollout_generate")
    ]
    assert not any("same" in line or "+" in line for line in lines)  # neither follows the other
    put(tmp_path / "actor_update", "b")
    watch.complete(2)
    assert "the same" in teller.line(watch.complete(3)[0])


def test_a_profile_whose_analysis_says_that_it_ended_is_complete_at_once(tmp_path: Path) -> None:
    watch, file = Watch(tmp_path, 3), trace_of(put(tmp_path, "a"))
    assert watch.complete(1) == []
    (file.parent / "analyse.done").touch()
    assert [source.path for source in watch.complete(1.1)] == [file]
    assert watch.complete(99) == []


def test_the_part_of_cann_is_no_profile_of_its_own(tmp_path: Path) -> None:
    """It is there while the profile is analysed, for minutes."""
    profile = tmp_path / "host_1_2026_ascend_pt"
    (profile / "FRAMEWORK").mkdir(parents=True)
    shutil.copytree(FIXTURES / "msprof_two_devices", profile / "PROF_000001_2026_A")
    watch = Watch(tmp_path, 3)
    assert watch.complete(1) == []
    assert watch.complete(99) == []
    shutil.copytree(FIXTURES / "dispatch_bound" / "ASCEND_PROFILER_OUTPUT", profile / "ASCEND_PROFILER_OUTPUT")
    watch.complete(100)
    assert [source.path for source in watch.complete(104)] == [trace_of(profile)]
