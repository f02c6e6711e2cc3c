from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest
from made_up import finding
from msgspec.structs import fields

from npu_tui.gate.answer import GateAnswer, answer_document, checked
from npu_tui.gate.checks import GateCheck, finding_checks
from npu_tui.output.report_schema import NotChecked, OverlapPart
from npu_tui.output.text import text as text_of
from npu_tui.profile.finding_tables import FINDINGS
from npu_tui.subjects import subject

ROWS = [
    finding("DISPATCH.FREE", "high", gain_us=2500.0),
    finding("OP.SMALL", "medium"),
    finding("OPT.FUSED", "low"),
    finding("UTIL", "info"),
]


def with_findings(rows, not_checked=(), total_us=1.0):
    """What the checks of findings read of a report."""
    overlap = dict.fromkeys((each.name for each in fields(OverlapPart) if each.required), None)
    found = SimpleNamespace(overlap=msgspec.convert(overlap | {"total_us": total_us}, OverlapPart))
    found.findings = msgspec.convert(rows, list[FINDINGS.row])
    found.not_checked = msgspec.convert(list(not_checked), list[NotChecked])
    return found


def failing(fail_on, only=(), ignore=(), unknown=()):
    missing = [{"id": each, "reason": "no file"} for each in unknown]
    report = with_findings(ROWS, missing)
    return [
        check.id
        for check in finding_checks(report, subject("profile"), fail_on, only, ignore)
        if check.status != "pass"
    ]


@pytest.mark.parametrize(
    ("fail_on", "ids"),
    [
        (None, []),
        ("high", ["DISPATCH.FREE"]),
        ("medium", ["DISPATCH.FREE", "OP.SMALL"]),
        ("low", ["DISPATCH.FREE", "OP.SMALL", "OPT.FUSED"]),
    ],
)
def test_severities(fail_on, ids):
    assert failing(fail_on) == ids


def test_only_and_ignore():
    assert failing("low", only=["OP.SMALL", "UTIL"]) == ["OP.SMALL"]
    assert failing("low", ignore=["DISPATCH.FREE"]) == ["OP.SMALL", "OPT.FUSED"]


def test_a_rule_that_was_asked_for_and_could_not_be_applied_is_no_pass():
    assert failing("high", unknown=["MEM.PRESSURE"]) == ["DISPATCH.FREE"]
    assert failing("high", only=["MEM.PRESSURE"], unknown=["MEM.PRESSURE"]) == ["MEM.PRESSURE"]


def test_a_finding_that_was_asked_for_and_is_absent_passes():
    report = with_findings(ROWS)
    (check,) = finding_checks(report, subject("profile"), "high", ["FREQ"], ())
    assert (check.id, check.status, check.text) == ("FREQ", "pass", "not found")


def test_without_a_device_no_finding_passes():
    report = with_findings([], [{"id": "device", "reason": "no layer of a device"}], None)
    (check,) = finding_checks(report, subject("profile"), "high", (), ())
    assert (check.status, check.text) == ("not_measured", "no layer of a device")
    assert finding_checks(report, subject("profile"), None, (), ()) == []


def test_the_answer_names_what_failed_first_and_by_how_much():
    checks = [
        GateCheck("limit", "lost", "pass", 900.0, 1000.0),
        GateCheck("limit", "free", "fail", 2000.0, 1000.0, 0.2, 0.1),
        GateCheck("baseline", "step_p99", "fail", 106.0, 105.0, base_us=100.0, tolerance=0.05),
        GateCheck("limit", "host_late", "not_measured", text="no links"),
        *finding_checks(with_findings(ROWS), subject("profile"), "high", (), ()),
    ]
    answer = GateAnswer("trace.json", checks, ["rank 1"])
    lines = text_of(answer_document(answer)).splitlines()
    assert lines[0] == "FAILED, 4 of 8 checks, 1 not measured: trace.json"
    assert lines[2] == "FAIL          free: 20.0% (2.000 ms), allowed 10.0% (1.000 ms): 1.000 ms too long"
    assert lines[3] == (
        "FAIL          step, 99th percentile: 106.0 µs, baseline 100.0 µs: +6.0%, allowed +5.0% (105.0 µs): "
        "1.000 µs too long"
    )
    assert lines[4].split(maxsplit=1) == ["FAIL", "DISPATCH.FREE (high): title of DISPATCH.FREE; saves up to 2.500 ms"]
    assert "NOT MEASURED" in lines[5]
    assert "no links" in lines[5]
    assert [line.split()[0] for line in lines[6:10]] == ["ok"] * 4
    assert lines[-1] == "note: rank 1"
    found = checked(answer)
    assert (found.passed, len(found.checks), found.notes) == (False, 8, ["rank 1"])
    assert found.checks[2].change_ratio == pytest.approx(0.06)
    assert [each.fails for each in found.checks] == [False, True, True, True, True, False, False, False]


def test_what_is_not_measured_may_be_allowed():
    checks = [GateCheck("limit", "free", "not_measured", text="no device")]
    assert not GateAnswer("x", checks, []).passed
    assert GateAnswer("x", checks, [], lenient=True).passed
    assert "NOT MEASURED" in text_of(answer_document(GateAnswer("x", checks, [], lenient=True)))


def test_hostile_titles_stay_on_their_line():
    rows = [finding("OP.SMALL", "high", title="a\nb\x1b[2J\u202ec")]
    checks = finding_checks(with_findings(rows), subject("profile"), "high", (), ())
    text = text_of(answer_document(GateAnswer("\x1b]0;x\x07", checks, [])))
    assert len(text.splitlines()) == 3
    assert all(line.isprintable() for line in text.splitlines())
