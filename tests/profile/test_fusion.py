"""What is fused and what is not, and how long steps take: what a report of one profile says of them in each form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from measured import profile_at

from npu_tui.cli.main import main
from npu_tui.output.report import report
from npu_tui.output.report_document import report_document
from npu_tui.output.statement import written_document
from npu_tui.profile.module_tables import FUSION
from npu_tui.query.frames import tables_of
from npu_tui.query.query import query

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def test_fused_operators_come_before_runs_that_could_be_fused() -> None:
    profile = profile_at(FIXTURES / "healthy")
    rows = FUSION.records(profile)
    by_type = {row.type: (row.count, row.total_us) for row in report(profile).operators}
    fused = {row.pattern: (row.count, row.total_us) for row in rows if row.fusion == "fused"}
    assert fused == {name: by_type[name] for name in ("FlashAttentionScoreGrad", "FlashAttentionScore")}
    assert [(row.pattern, row.use) for row in rows if row.fusion == "not_fused"] == [("gelu", "torch_npu.fast_gelu")]
    assert [row.fusion for row in rows] == ["fused", "fused", "not_fused"]
    frame = query(tables_of(profile), "select pattern, total from fusion order by total desc limit 1")
    assert frame.rows() == [("FlashAttentionScoreGrad", round(1000 * fused["FlashAttentionScoreGrad"][1]))]


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_every_form_has_percentiles_and_steps_per_second(form: str) -> None:
    found = report(profile_at(FIXTURES / "healthy"))
    lengths = [step.duration_us for step in found.steps]
    times = found.step_times
    assert times is not None
    assert (times.count, times.warm_up) == (3, 0)
    told = [times.p50_us, times.p90_us, times.p99_us]
    assert told == pytest.approx(np.percentile(lengths, (50, 90, 99)).tolist(), abs=0.001)
    assert times.steps_per_s == pytest.approx(1e6 / np.mean(lengths), abs=0.001)
    text = written_document(report_document(found), form)
    assert "p50 23.21 ms, p90 23.55 ms, p99 23.62 ms; 43.169 steps/s" in text
    assert "Fused, and not fused" in text


def test_a_profile_of_two_steps_says_that_it_is_too_few() -> None:
    found = report(profile_at(FIXTURES / "level0"))
    assert found.source.step_count == 2
    assert "steps.few" in [row.id for row in found.not_checked]
    assert "steps.few" not in [row.id for row in report(profile_at(FIXTURES / "healthy")).not_checked]


@pytest.mark.parametrize(
    ("unprofiled", "told"),
    [
        (
            "22.9ms",
            [
                "the profiler costs 264.9 µs of a step, 1.1%",
                "the device works 22.67 ms of a step: 99.0% of one without",
            ],
        ),
        ("30 ms", ["the profiler costs nothing that shows", "75.6% of one without the profiler"]),
        ("18ms", ["22.3%", "longer than one without the profiler"]),
    ],
)
def test_what_the_profiler_costs(unprofiled: str, told: list[str], tmp_path: Path) -> None:
    out = tmp_path / "report.txt"
    assert main(["report", str(FIXTURES / "healthy"), "--unprofiled", unprofiled, "-o", str(out)]) == 0
    text = " ".join(out.read_text().split())
    assert [part for part in told if part not in text] == []
    plain = report(profile_at(FIXTURES / "healthy")).step_times
    assert plain is not None
    assert (plain.unprofiled_us, plain.profiler_us, plain.device_us) == (None, None, None)


@pytest.mark.parametrize("text", ["fast", "0ms", "-3ms"])
def test_what_is_no_time_of_a_step_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["report", str(FIXTURES / "healthy"), f"--unprofiled={text}"])
    assert refused.value.code == 2
    assert f"--unprofiled {text}: no time such as 182ms" in capsys.readouterr().err
