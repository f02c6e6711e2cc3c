"""A profile held against another one by ``check --against``: verdicts, parts of the step, exit codes."""

from pathlib import Path

import pytest
from written import fields_of

from npu_tui.cli.main import main

_FIXTURES = Path(__file__).parents[2] / "fixtures"
_BASE, _NEW = _FIXTURES / "healthy", _FIXTURES / "dispatch_bound"


def checked(capsys, path, *words):
    code = main(["check", str(path), "--no-cache", "--format", "json", *map(str, words)])
    return code, {each["id"]: each for each in fields_of(capsys.readouterr().out)["checks"]}


def test_the_same_profile_passes(capsys):
    code, checks = checked(capsys, _BASE, "--against", _BASE, "--tolerance", "host_late=0%")
    assert code == 0
    assert {name: each["status"] for name, each in checks.items()} == dict.fromkeys(
        ("step", "computing", "host_late"), "pass"
    )
    assert all(each["kind"] == "compared" and each["over_us"] <= 0 for each in checks.values())


def test_slower_computing_fails(capsys):
    code, checks = checked(capsys, _BASE, "--against", _NEW)
    assert code == 1
    assert checks["computing"]["status"] == "fail"
    assert checks["computing"]["change_ratio"] > 1
    assert checks["step"]["status"] == "fail", "two steps a side are few, and twice as long"


def test_unsure_is_no_pass_unless_it_may_be(capsys):
    ranks = _FIXTURES / "two_ranks"
    new, against = ranks / "rank0_ascend_pt", ("--against", ranks / "rank1_ascend_pt")
    assert checked(capsys, new, *against)[0] == 1
    assert checked(capsys, new, *against, "--fail-on", "slower")[0] == 0
    assert checked(capsys, new, *against, "--fail-on", "slower,unsure")[0] == 1
    assert checked(capsys, new, *against, "--allow-unmeasured")[0] == 0
    assert checked(capsys, _NEW, "--against", _BASE)[0] == 0, "much faster is no failure"


def test_a_part_is_checked_where_it_has_a_tolerance(capsys):
    code, checks = checked(capsys, _NEW, "--against", _BASE, "--fail-on", "slower", "--tolerance", "prep=10%")
    assert code == 1
    assert checks["prep"]["status"] == "fail"
    assert checks["prep"]["tolerance"] == 0.1
    loose = checked(capsys, _NEW, "--against", _BASE, "--fail-on", "slower", "--tolerance", "prep=900%")
    assert loose[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--fail-on", "slower"),
        ("--against", _BASE, "--fail-on", "worse"),
        ("--against", _BASE, "--fail-on", "high,low"),
        ("--against", _BASE, "--step", "21"),
        ("--against", _BASE, "--tolerance", "waiting=3%"),
        ("--baseline", "x", "--tolerance", "host_late=3%"),
    ],
)
def test_wrong_usage(words):
    with pytest.raises(SystemExit) as stopped:
        main(["check", str(_NEW), *map(str, words)])
    assert stopped.value.code == 2


def test_an_unreadable_base(capsys):
    assert main(["check", str(_NEW), "--against", str(_FIXTURES / "missing")]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_the_page_has_both_timelines(capsys):
    assert main(["compare", "--no-cache", str(_BASE), str(_NEW), "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert page.count("<svg") == 1
    assert ">B" in page
    assert ">N" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "DIFF.SYNC.ADDED" in page
