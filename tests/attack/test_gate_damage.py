"""The promise of a gate: no damage beyond what is allowed turns a fail into a pass."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gates import attack

from npu_tui.cli.main import main

BASE = Path("fixtures/dispatch_bound")
TRACE = "ASCEND_PROFILER_OUTPUT/trace_view.json"
Event = dict[str, Any]

MUTATIONS: dict[str, Callable[[Event], object]] = {
    "a time that is none": lambda event: event.update(ts="abc"),
    "no time": lambda event: event.pop("ts"),
    "a length that is none": lambda event: event.update(dur=[1]),
    "another phase": lambda event: event.update(ph=7),
    "a process that is none": lambda event: event.update(pid={}),
    "a process of nobody": lambda event: event.update(pid="abc"),
    "not there": dict.clear,
    "nothing but a name": lambda event: [event.pop(key) for key in ("ph", "ts", "dur")],
}


def slower(events: list[Event]) -> list[Event]:
    """All of the device half as long again: a gate fails on it."""
    device = {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] != "Python"}
    for event in events:
        if event["ph"] == "X" and event["pid"] in device and event["name"] != "Free":
            event["dur"] = float(event["dur"]) * 1.5
    return events


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slow") / "new_ascend_pt"
    shutil.copytree(BASE, folder)
    (folder / TRACE).write_text(json.dumps(slower(json.loads((BASE / TRACE).read_text()))))
    return folder


def gate(profile: Path, *words: str) -> int:
    return main(["check", str(profile), "--no-cache", *words])


AGAINST = ("--against", str(BASE), "--tolerance", "5%")


def test_the_slower_one_fails(slow: Path) -> None:
    assert gate(slow, *AGAINST) == 1


@pytest.mark.few(3)
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_no_damage_makes_it_pass(mutation: str, slow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = json.loads((slow / TRACE).read_text())
    chance = random.Random(f"{mutation} 0.1")
    for event in events:
        if event["ph"] == "X" and event["name"] in ("Computing", "Communication") and chance.random() < 0.1:
            MUTATIONS[mutation](event)
    file = tmp_path / "trace_view.json"
    file.write_text(json.dumps(list(filter(None, events))))
    assert gate(file, *AGAINST) == 1
    said = capsys.readouterr().out
    assert "NOT MEASURED  computing" in said
    assert str(file) in said


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "kind",
    [
        "late", "exposed", "findings", "baseline", "log", "excess", "peak", "snapshot findings", "ttft",
        "service findings", "job against", "roles wait", "mindspeed against",
    ],
)  # fmt: skip
def test_no_damage_makes_a_gate_of_any_kind_pass(kind: str) -> None:
    """One of each source and way to hold it; ``gates.py`` does more to these and to all others."""
    assert attack(kind, range(1), 1) == (1, [])


@pytest.mark.few(1)
@pytest.mark.parametrize(("kind", "number"), [("ttft", 5), ("tpot", 5), ("tpot", 9)])
def test_rows_that_were_never_written_make_no_gate_pass(kind: str, number: int) -> None:
    """The file ends with a whole row: only the other files know of requests that are gone."""
    assert attack(kind, range(number, number + 1), 37) == (1, [])


def test_a_cut_makes_neither_side_pass(slow: Path, tmp_path: Path) -> None:
    cut = tmp_path / "trace_view.json"
    whole = (slow / TRACE).read_bytes()
    for share in (0.3, 0.999):
        cut.write_bytes(whole[: int(len(whole) * share)])
        assert gate(cut, *AGAINST) == 1
        assert gate(BASE, "--against", str(cut), "--tolerance", "900%") == 1
    assert main(["compare", str(BASE), str(cut), "--no-cache", "--fail-on", "slower"]) == 1


def test_a_hole_that_a_text_reaches_over_is_damage(slow: Path, tmp_path: Path) -> None:
    whole, file = (slow / TRACE).read_bytes(), tmp_path / "trace_view.json"
    first, last = (whole.index(b'"name": "', len(whole) * part // 3) + 12 for part in (1, 2))
    file.write_bytes(whole[:first] + bytes(last - first) + whole[last:])
    assert gate(file, "--max-free", "99%") == 1
    assert gate(file, *AGAINST) == 1


def test_damage_may_be_allowed(slow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = json.loads((BASE / TRACE).read_text())
    next(event for event in events if event["ph"] == "X")["ts"] = "abc"
    file = tmp_path / "trace_view.json"
    file.write_text(json.dumps(events))
    limit = ("--max-free", "99%")
    assert gate(file, *limit) == 1
    assert "1 of 2,535 events could not be read" in capsys.readouterr().out
    assert gate(file, *limit, "--allow-damage", "0.1%") == 0
    assert gate(file, *limit, "--allow-damage", "0.01%") == 1
    with pytest.raises(SystemExit):
        gate(file, *limit, "--allow-damage", "much")


def test_a_rank_that_is_cut_off_or_gone_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "job"
    shutil.copytree("fixtures/two_ranks", job)
    trace = job / "rank1_ascend_pt" / TRACE
    whole = trace.read_bytes()
    for size in (0.7, 0.97):
        trace.write_bytes(whole[: int(len(whole) * size)])
        assert main(["check", str(job), "--max-rank-wait", "99%"]) == 1
        assert f"rank 1: the file is cut off: {trace}" in capsys.readouterr().out
    trace.write_text("broken")
    assert main(["check", str(job), "--max-rank-wait", "99%"]) == 1
    assert "NOT MEASURED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("inside", "why"), [("ASCEND_PROFILER_OUTPUT", "no profile is in it"), ("FRAMEWORK", "never parsed")]
)
def test_a_rank_without_a_profile_is_named(
    inside: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Path(shutil.copytree("fixtures/two_ranks", tmp_path / "job"))
    (job / "rank2_ascend_pt" / inside).mkdir(parents=True)
    assert main(["check", str(job), "--max-rank-wait", "99%", "--no-cache"]) == 1
    said = capsys.readouterr().out
    assert "NOT MEASURED" in said
    assert why in said
