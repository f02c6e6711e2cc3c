"""Causes that no rule knows are named by line and gain; ``python tests/unforeseen.py`` tries all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import unforeseen_jobs
from measured import profile_at
from unforeseen import judge
from unforeseen_jobs import Cause

from npu_tui.rules.model import Finding
from npu_tui.strings import words

NAMED = (
    "lock_of_logging_thread",
    "json_of_metrics",
    "thread_pool_result",
    "lambda_in_scheduler",
    "compiled_extension",
    "regex_on_tokens",
    "tokenizer_in_loop",
    "yaml_reload",
)
HIDDEN = ("stat_on_nfs", "zlib_compression")
"""The host is far enough ahead of the device."""


@pytest.mark.few(1)
@pytest.mark.parametrize("name", NAMED)
def test_a_cause_is_named_by_line_and_gain(name: str) -> None:
    causes, _ = judge(name, 3)
    assert causes
    for cause in causes:
        assert cause.gain > 0.05 * cause.step
        assert cause.owner, cause
        assert cause.finding, cause


def test_many_short_kernels_of_one_line_are_priced_with_their_launches() -> None:
    """A loop over parameters: without it neither its launches nor its kernels are left, not the launches alone."""
    (average,), _ = judge("average_of_weights", 1)
    assert average.finding, average


@pytest.mark.few(1)
@pytest.mark.parametrize("name", HIDDEN)
def test_what_the_device_hides_gains_nothing(name: str) -> None:
    causes, _ = judge(name, 3)
    assert all(cause.gain < 0.03 * cause.step for cause in causes)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["healthy_device_bound", "healthy_far_ahead", "healthy_no_frames"])
def test_a_healthy_job_is_quiet(name: str) -> None:
    assert judge(name, 3) == ([], [])


def told_of(cause: Cause, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **base: object) -> Finding:
    """The finding about host work that leads in a job with this cause."""
    monkeypatch.setitem(unforeseen_jobs.SITUATIONS, "told", unforeseen_jobs.job(unforeseen_jobs.HOST, cause, **base))
    unforeseen_jobs.write("told", 1, tmp_path)
    lead = profile_at(tmp_path / "told" / "with" / "rank0_ascend_pt").findings.findings[0]
    assert lead.id == "HOST.WORK"
    return lead


def test_work_is_told_with_what_leads_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = "recipe/model.py(60>64): reset / peft/tuners/hooks.py(30>38): restore / peft/tuners/walk.py(9>12): visit"
    cause = Cause("batch", walk, 12, calls=120, inner="peft/tuners/walk.py(20>21): children")
    lead = told_of(cause, tmp_path, monkeypatch)
    assert (lead.code_lines[0].file[-9:], lead.code_lines[0].function) == ("/model.py", "reset")
    detail = words(lead.detail)
    assert "The line reaches it through peft.tuners.walk.visit, peft.tuners.hooks.restore." in detail
    count, name = re.search(r"([\d,]+) frames begin in it per step, [\d,]+ of (\S+)\.", detail).groups()
    assert (int(count), name) == (pytest.approx(122, abs=3), "peft.tuners.walk.children")


@pytest.mark.parametrize(
    "compiler",
    [
        "torch/_dynamo/convert_frame.py(410>466): _compile / torch/_inductor/compile_fx.py(520>640): compile_fx",
        "triton/compiler/compiler.py(226>310): compile",
    ],
)
def test_compiling_again_is_told_as_such(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Cause("forward", f"recipe/model.py(12>19): run / {compiler}", 45, when=lambda step: step in (2, 4))
    lead = told_of(again, tmp_path, monkeypatch, steps=6)
    assert lead.steps == (12, 14)
    assert "It compiles" in words(lead.detail)
    assert [each.code for each in lead.advice] == ["finding.advice.bucket_shapes"]


@pytest.mark.parametrize(("name", "line"), [("average_of_weights", "ema.py:31"), ("norm_by_parameter", "clip.py:22")])
def test_a_line_that_launches_most_of_what_is_late_is_in_the_verdict(name: str, line: str, tmp_path: Path) -> None:
    unforeseen_jobs.write(name, 2, tmp_path)
    found = profile_at(tmp_path / name / "with" / "rank0_ascend_pt").findings
    assert line in words(found.verdict[0])
    assert any("came too late" in told and f"at {line} in " in told for told in map(words, found.verdict))
    (gains,) = (each.gain_ns for each in found.findings if each.id == "DISPATCH.VERTICAL")
    assert gains


def test_launches_that_are_late_everywhere_have_no_line(tmp_path: Path) -> None:
    unforeseen_jobs.write("deepcopy_of_state", 1, tmp_path)
    found = profile_at(tmp_path / "deepcopy_of_state" / "with" / "rank0_ascend_pt").findings
    verdict = words(found.verdict[0])
    assert "came too late" in verdict
    assert "most at model.py" not in verdict
