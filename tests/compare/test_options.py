"""Which ranks are compared, names that were changed, and what a finding means, from the command line."""

import re
from pathlib import Path

import pytest
from pairs import BASE, compared, profile, replace
from written import fields_of

from npu_tui.cli.main import main
from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.differences import DIFFERENCES
from npu_tui.compare.measured import MeasuredSide
from npu_tui.output.explain import findings_document
from npu_tui.output.text import text

_FIXTURES = Path(__file__).parents[2] / "fixtures"
_JOB = str(_FIXTURES / "two_ranks")


def told(capsys, *words):
    assert main(["compare", "--no-cache", "--format", "json", *words]) == 0
    return fields_of(capsys.readouterr().out)


@pytest.mark.parametrize(("text", "ranks"), [("1", (1, 1)), ("0:1", (0, 1)), ("1:0", (1, 0))])
def test_ranks_of_two_jobs(capsys, text, ranks):
    found = told(capsys, _JOB, _JOB, "--rank", text)
    assert tuple(found[side]["source"]["rank"] for side in ("base", "new")) == ranks
    assert found["comparability"]["verdict"] == ("comparable" if ranks[0] == ranks[1] else "same_job")
    assert found["comparability"]["ops_matched"] == 1.0


def test_a_job_and_a_rank_are_told_how(capsys):
    assert main(["compare", _JOB, f"{_JOB}/rank0_ascend_pt", "--no-cache"]) == 3
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "--rank 0:1" in told


def test_tables_without_a_trace_are_said(capsys, tmp_path):
    folder = tmp_path / "rank_0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    folder.mkdir(parents=True)
    head = "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,Preparing"
    (folder / "step_trace_time.csv").write_text(f"{head}\n50,8.0,1.0,0,1.0,2.0,11.0,0,1.0\n")
    found = told(capsys, str(folder.parent), str(folder.parent))
    assert found["step"]["verdict"] == "incomparable"
    assert [note["id"] for note in found["comparability"]["notes"]] == ["no_trace"]


@pytest.mark.parametrize("words", [("--rank", "7"), ("--rank", "x"), ("--map", "aten::add"), ("--map", "=b")])
def test_wrong_usage(capsys, words):
    with pytest.raises(SystemExit) as stopped:
        main(["compare", _JOB, _JOB, *words])
    assert stopped.value.code == 2
    assert "npu-tui compare: error:" in capsys.readouterr().err


def test_names_that_were_changed_are_told():
    job = replace(BASE, seed=3)

    def renamed(text):
        return re.sub(r"aten::linear", "my::dense", text)

    base, new = profile(job), profile(job, renamed)
    assert compared(base, new).operations_matched < 1.0
    found = ProfileComparison(MeasuredSide(base), MeasuredSide(new), renamed={"aten::linear": "my::dense"})
    assert found.operations_matched == 1.0
    assert found.step.delta == 0


def test_a_type_of_kernel_that_was_renamed():
    job = replace(BASE, seed=3)
    base, new = profile(job), profile(job, lambda text: text.replace("MatMulV2", "MatMulV9"))
    apart = {row.identity.type: row.change for row in compared(base, new).groups}
    assert apart.get("MatMulV2") != "same"
    found = ProfileComparison(MeasuredSide(base), MeasuredSide(new), renamed={"MatMulV2": "MatMulV9"})
    assert {row.change for row in found.groups} == {"same"}


@pytest.mark.parametrize("key", [kind.id for kind in DIFFERENCES])
def test_every_finding_is_explained(capsys, key):
    assert main(["explain", key.lower()]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{key} · ")
    assert "What to do:" in out
    assert f"  {key} " in text(findings_document(), 100)


def test_one_path_is_told_what_is_missing_and_what_to_type(capsys):
    for words, told in (
        ([], "npu-tui compare BASE NEW"),
        ([_JOB], f"npu-tui compare {_JOB} {_JOB} --rank 0:1"),
        ([f"{_JOB}/rank0_ascend_pt"], f"npu-tui compare {_JOB}/rank0_ascend_pt NEW"),
    ):
        assert main(["compare", *words]) == 2
        said = capsys.readouterr().err
        assert told in said
        assert said.count("\n") == 1
    assert main(["compare", "/no/such/profile"]) == 3


def test_between_ranks_of_one_job_nothing_is_new_or_solved(capsys):
    found = told(capsys, _JOB, _JOB, "--rank", "0:1")
    assert {each["change"] for each in found["profile_findings"]} == {"only_base", "only_new"}
    rank = {"only_base": found["base"], "only_new": found["new"]}
    for each in found["profile_findings"]:
        assert main(["report", rank[each["change"]]["source"]["path"], "--format", "json", "--no-cache"]) == 0
        assert each["id"] in [own["id"] for own in fields_of(capsys.readouterr().out)["findings"]]
