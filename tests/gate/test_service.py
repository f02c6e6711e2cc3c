"""``check`` of an inference service: limits on TTFT and TPOT, its findings; what is damaged is not measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from written import fields_of

from npu_tui.analysis import limits
from npu_tui.cli.main import main
from tests.gate.conftest import PROFILE

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service_causes import write_service


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("service")
    write_service(path, "kv", 1, 60)
    return path


def checked(
    capsys: pytest.CaptureFixture[str], *words: object
) -> tuple[int, dict[str, tuple[str, float | None]], list[str]]:
    code = main(["check", *map(str, words), "--format", "json"])
    found = fields_of(capsys.readouterr().out)
    return code, {row["id"]: (row["status"], row["value_us"]) for row in found["checks"]}, found["notes"]


def test_limits_on_the_latencies(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = json.loads((folder / "truth.json").read_text())["latencies_ns"]["ttft"]
    code, checks, notes = checked(capsys, folder, "--max-ttft", "p50:1ms", "--max-ttft", "max:999s", "--max-tpot", "1s")
    assert code == 1
    assert checks["ttft:p50"] == ("fail", pytest.approx(float(np.median(truth)) / 1000, abs=0.3))
    assert checks["ttft:max"] == ("pass", pytest.approx(max(truth) / 1000, abs=0.3))
    assert checks["tpot:p99"][0] == "pass"
    assert notes == ["With fewer than 100 requests, P99 is set by the slowest one or two."]


@pytest.mark.parametrize("count", [2, limits.FEWEST_OF_P99 - 1])
def test_a_p99_of_few_lies_between_the_two_slowest(count: int) -> None:
    assert 7 < np.percentile([1.0] * (count - 2) + [7.0, 9.0], 99) < 9


def test_findings_of_services_and_of_profiles(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, checks, _ = checked(capsys, folder, "--fail-on", "high", "--only", "SERVICE.KV,SERVICE.RANK,DISPATCH.FREE")
    assert code == 1
    assert {id_: status for id_, (status, _) in checks.items()} == {
        "SERVICE.KV": "fail",
        "SERVICE.RANK": "pass",
        "DISPATCH.FREE": "not_measured",
    }


def test_a_profile_has_no_time_to_first_token(capsys: pytest.CaptureFixture[str]) -> None:
    code, checks, _ = checked(capsys, PROFILE, "--max-ttft", "999s")
    assert (code, checks["ttft:p99"]) == (1, ("not_measured", None))


def test_a_damaged_folder_is_not_measured(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("request.csv", "batch.csv"):
        text = (folder / name).read_bytes()
        (tmp_path / name).write_bytes(text if name == "request.csv" else text[: len(text) // 2])
    code, checks, _ = checked(capsys, tmp_path, "--max-ttft", "999s", "--fail-on", "low", "--ignore", "SERVICE.KV")
    assert code == 1
    assert checks["ttft:p99"] == ("not_measured", None)
    assert checks["findings"][0] == "not_measured"


@pytest.mark.parametrize("odd", ["-5", "x"])
def test_slow_requests_whose_latency_cannot_be_make_no_gate_pass(
    folder: Path, odd: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "batch.csv").write_bytes((folder / "batch.csv").read_bytes())
    title, *rows = (line.split(",") for line in (folder / "request.csv").read_text().splitlines())
    at = title.index("first_token_latency(ms)")
    rows.sort(key=lambda row: float(row[at]))
    most = (float(rows[-9][at]) + float(rows[-10][at])) / 2
    for row in rows[-9:]:
        row[at] = odd
    (tmp_path / "request.csv").write_text("\n".join(map(",".join, [title, *rows])) + "\n")
    code, checks, _ = checked(capsys, tmp_path, "--max-ttft", f"{most}ms")
    assert (code, checks["ttft:p99"]) == (1, ("not_measured", None))


@pytest.mark.parametrize("emptied", ["request.csv", "batch.csv"])
def test_without_a_table_no_finding_is_looked_for(
    folder: Path, emptied: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("request.csv", "batch.csv"):
        (tmp_path / name).write_bytes(b"\n" if name == emptied else (folder / name).read_bytes())
    code, checks, _ = checked(capsys, tmp_path, "--fail-on", "high")
    assert (code, checks) == (1, {"findings": ("not_measured", None)})


@pytest.mark.parametrize("option", ["--against", "--write-baseline"])
def test_a_service_has_no_baseline(
    folder: Path, option: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(
            [
                "check",
                str(folder),
                "--fail-on",
                "high",
                option,
                str(folder if option == "--against" else tmp_path / "b"),
            ]
        )
    assert stopped.value.code == 2
    assert "compare BASE NEW --fail-on slower" in capsys.readouterr().err
