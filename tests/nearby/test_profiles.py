"""Profiles below a folder: their names, their order, the jobs they make up, and what each says."""

import os
import shutil
import sys
from datetime import datetime
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service_causes import write_service
from snapshot import write_snapshot

from npu_tui.cli.explore import is_listed
from npu_tui.cli.main import main
from npu_tui.load.find import sources_below
from npu_tui.load.load import opening_of
from npu_tui.nearby import holds_several, matching, nearby, newest_first, others_below, verdicts
from npu_tui.strings import words

_FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two ranks of one run, older than one of MindSpore, which names its time; a single trace; an unparsed one."""
    shutil.copytree(_FIXTURES / "two_ranks", tmp_path / "run")
    shutil.copytree(_FIXTURES / "mindspore", tmp_path / "out" / "deep")
    shutil.copytree(_FIXTURES / "healthy" / "ASCEND_PROFILER_OUTPUT", tmp_path / "bare")
    (tmp_path / "raw" / "PROF_000001_20250701120000000_X").mkdir(parents=True)
    for file in tmp_path.rglob("*.json"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    os.utime(tmp_path / "bare" / "trace_view.json", (1_600_000_000, 1_600_000_000))
    return tmp_path


def test_the_newest_stands_first_and_ranks_follow_their_job(folder):
    found = nearby(folder)
    assert [each.name for each in found] == [
        "out/deep/localhost_284117",
        "run/",
        "run/rank0",
        "run/rank1",
        "bare",
    ]
    assert [each.rank for each in found] == [0, None, 0, 1, 0 if found[-1].rank == 0 else None]
    assert found[0].time == datetime(2025, 7, 1, 12).timestamp()
    job = found[1]
    assert job.path == folder / "run"
    assert [rank.rank for rank in job.ranks] == [0, 1]
    assert job.bytes == sum(file.stat().st_size for file in (folder / "run").rglob("trace_view.json"))
    assert job.level == 1


def test_two_runs_of_a_rank_are_no_job(folder):
    shutil.copytree(folder / "run" / "rank0_ascend_pt", folder / "run" / "again_1_20260101000000000_ascend_pt")
    found = [each for each in nearby(folder) if each.path.parent == folder / "run"]
    assert not any(each.is_job for each in nearby(folder))
    assert [each.name for each in found] == ["run/again_1", "run/rank0", "run/rank1"]


def test_a_job_and_other_profiles_are_a_choice(folder, capsys):
    assert holds_several(folder)  # rank 0 of MindSpore lies beside the job
    for command in ("report", "ranks"):
        assert main([command, str(folder)]) == 3
        said = capsys.readouterr().err
        assert "holds 3 jobs and profiles" in said
        assert str(folder / "run") in said
        assert "rank0_ascend_pt" not in said
    assert main([str(folder)]) == 0
    assert "2 ranks" in capsys.readouterr().out
    assert not holds_several(folder / "run")
    assert not holds_several(folder / "bare")


def test_profiles_of_one_rank_alone_are_a_choice(folder):
    shutil.rmtree(folder / "run" / "rank1_ascend_pt")
    shutil.rmtree(folder / "bare")
    assert holds_several(folder)


def test_ranks_in_folders_of_their_hosts_are_one_job(folder, tmp_path):
    for rank in (0, 1):
        host = tmp_path / "hosts" / f"host{rank}"
        shutil.copytree(folder / "run" / f"rank{rank}_ascend_pt", host / f"rank{rank}_ascend_pt")
    assert not holds_several(tmp_path / "hosts")


def test_profiles_are_found_five_levels_down(folder, tmp_path):
    deep = tmp_path / "deep" / "b" / "c" / "d" / "e"
    shutil.copytree(folder / "run" / "rank0_ascend_pt", deep / "rank0_ascend_pt")
    assert [entry.rank for entry in nearby(tmp_path / "deep")] == [0]
    assert main(["report", str(tmp_path / "deep")]) == 0


def test_single_cards_are_a_choice(tmp_path, capsys):
    for name in ("morning", "evening"):
        shutil.copytree(_FIXTURES / "healthy", tmp_path / name)
        (tmp_path / name / "profiler_info_0.json").rename(tmp_path / name / "profiler_info.json")
    assert holds_several(tmp_path)
    for command in ("ranks", "report"):
        assert main([command, str(tmp_path)]) == 3
        assert "holds 2 jobs and profiles" in capsys.readouterr().err


def test_a_folder_that_may_not_be_read_hides_no_other(folder):
    (folder / "run" / "link").symlink_to(folder / "nowhere")
    (folder / "empty").mkdir(mode=0)
    assert len(nearby(folder)) == 5


def test_each_says_what_its_report_says(folder):
    from npu_tui.load.load import Opening
    from npu_tui.profile.profile import Profile

    (folder / "bare" / "trace_view.json").write_text("no trace")
    listed = nearby(folder)
    told = {each.path: each for each in verdicts(listed, False, lambda: True)}
    assert told.keys() == {each.path for each in listed}
    one = folder / "run" / "rank1_ascend_pt"
    opening = Opening(one, False)
    assert told[one].text == words(Profile(opening.trace(), opening.source).findings.verdict[0])
    assert told[folder / "bare"].failed
    assert "trace_view.json" in told[folder / "bare"].text


def test_nothing_more_is_read_once_it_is_stopped(folder):
    left = iter([True, True, False])
    told = list(verdicts(nearby(folder), False, lambda: next(left, False)))
    assert len(told) < 2


def test_a_filter_keeps_the_job_of_a_rank(folder):
    found = nearby(folder)
    assert [each.name for each in matching(found, "RANK1")] == ["run/", "run/rank1"]
    assert [each.name for each in matching(found, "late", {folder / "bare": "Late again"})] == ["bare"]


def test_an_order_of_nothing():
    assert newest_first([]) == []


def test_traces_under_names_of_their_own_are_opened_or_a_choice(folder, tmp_path, capsys):
    place = tmp_path / "own names"
    place.mkdir()
    (place / "notes.json").write_text('{"alpha": [1, 2]}')
    (place / "profiler_info_0.json").write_text("{}")
    (place / "run.tar.gz").write_bytes(b"")
    assert main(["report", str(place)]) == 3
    said = capsys.readouterr().err
    assert "2 files may hold one" in said
    assert "profiler_info" not in said
    for name, count in (("bert_run.json", 0), ("gpt_run.json", 2)):
        shutil.copy(folder / "bare" / "trace_view.json", place / name)
        assert main(["report", str(place)]) == (3 if count else 0)
        assert not count or f"holds {count} jobs and profiles" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_what_opens_by_itself_is_listed_beside_profiles(tmp_path):
    write_snapshot(tmp_path / "heap.pkl", "leak")
    (tmp_path / "loads").mkdir()
    (tmp_path / "loads" / "decode_0.csv").write_text("60,40\n10,10\n")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "sales.csv").write_text("a,b\n1,2\n")
    sources = list(sources_below(tmp_path))
    assert len(sources) == 4
    others = {each.name: each for each in others_below(tmp_path, sources)}
    assert set(others) == {"heap.pkl", "loads"}
    assert others["loads"].is_job
    assert others["loads"].bytes == len("60,40\n10,10\n")
    assert not others["heap.pkl"].is_job
    said = {told.path.name: told for told in verdicts(others.values(), False, lambda: True)}
    assert not any(told.failed for told in said.values())


def test_a_service_among_runs_is_a_choice(tmp_path):
    """Beside one profile of its time it opens by itself, among runs of one rank the user chooses."""
    write_service(tmp_path / "out", "healthy", requests=4)
    shutil.copytree(_FIXTURES / "level0", tmp_path / "one_ascend_pt")
    assert not is_listed(opening_of(tmp_path, False), False)
    shutil.copytree(_FIXTURES / "level0", tmp_path / "later" / "one_ascend_pt")
    assert is_listed(opening_of(tmp_path, False), False)


@pytest.mark.parametrize(
    ("names", "several"),
    [(("before", "after"), True), (("bs4", "bs8"), True), (("rank0", "rank1"), False), (("job_card-1", "7"), False)],
)
def test_bare_traces_are_a_job_where_their_folders_number_ranks(tmp_path, names, several):
    trace = _FIXTURES / "level0" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    for name in names:
        (tmp_path / name).mkdir()
        shutil.copy(trace, tmp_path / name)
    assert holds_several(tmp_path) == several
