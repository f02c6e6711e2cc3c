"""Several profiles in one table: labels, batch sizes, throughput, verdicts against the first."""

import json
from pathlib import Path

import pytest

from npu_tui.cli import main
from npu_tui.compare.sweep import batch_of

_FIXTURES = Path(__file__).parents[2] / "fixtures"
_PATHS = [str(_FIXTURES / name) for name in ("healthy", "dispatch_bound", "level0")]


@pytest.mark.parametrize(
    ("label", "batch"),
    [("bs=32", 32), ("batch 64", 64), ("batch_size: 8", 8), ("fp16 bs16", 16), ("128", 128), ("run 7", None),
     ("obs=3", None), ("", None), ("0", None)],
)  # fmt: skip
def test_the_batch_size_in_a_label(label, batch):
    assert batch_of(label) == batch


def swept(capsys, *words):
    code = main(["compare", "--no-cache", *_PATHS, "--format", "json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_throughput_is_batch_by_latency(capsys):
    code, found = swept(capsys, "--label", "bs=32", "--label", "bs=64")
    first, second, third = found["profiles"]
    assert (code, found["kind"]) == (0, "sweep")
    assert (first["label"], second["batch"], third["batch"]) == ("bs=32", 64, None)
    assert third["label"].endswith("level0")
    assert first["samples_per_s"] == pytest.approx(32 * 1e6 / first["median_us"], rel=1e-6)
    assert third["samples_per_s"] is None
    assert first["verdict"] is None
    assert second["delta_us"] == pytest.approx(
        sum(second["step_us"]) / len(second["step_us"]) - sum(first["step_us"]) / len(first["step_us"]), abs=0.001
    )
    for row in found["profiles"]:
        parts = [row[name] for name in ("computing_us", "exposed_us", "idle_us", "outside_us")]
        assert sum(parts) == pytest.approx(sum(row["step_us"]) / row["steps"], abs=0.01)


def test_a_verdict_of_any_profile_fails(capsys):
    assert swept(capsys, "--fail-on", "unsure")[0] == 1
    assert swept(capsys, "--fail-on", "slower")[0] == 0


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_forms(capsys, form):
    assert main(["compare", "--no-cache", *_PATHS[:2], "--label", "bs=4", "--label", "<b>", "--format", form]) == 0
    out = capsys.readouterr().out
    assert "bs=4" in out
    assert form != "html" or "<b>" not in out


def test_more_labels_than_profiles():
    with pytest.raises(SystemExit) as stopped:
        main(["compare", *_PATHS[:2], "--label", "a", "--label", "b", "--label", "c"])
    assert stopped.value.code == 2
