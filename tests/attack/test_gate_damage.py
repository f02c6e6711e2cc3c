"""The promise of a gate: no damage beyond what is allowed turns a fail into a pass."""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npu_tui.cli.main import main
from tests.gate.test_memory import snapshot

sys.path.append("fixtures")

from service_causes import write_service

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


@pytest.mark.parametrize("share", [0.1, 0.9])
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_no_damage_makes_it_pass(
    mutation: str, share: float, slow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = json.loads((slow / TRACE).read_text())
    chance = random.Random(f"{mutation} {share}")
    for event in events:
        if event["ph"] == "X" and event["name"] in ("Computing", "Communication") and chance.random() < share:
            MUTATIONS[mutation](event)
    file = tmp_path / "trace_view.json"
    file.write_text(json.dumps(list(filter(None, events))))
    assert gate(file, *AGAINST) == 1
    said = capsys.readouterr().out
    assert "NOT MEASURED  computing" in said
    assert str(file) in said


def of_log(folder: Path) -> list[str]:
    """A profile and a log of faster runs."""
    for name, day in (("base", 1), ("again", 2), ("third", 3), ("fourth", 4)):
        words = ["--label", name, "--when", f"2026-01-0{day}", "--log", str(folder / "log")]
        main(["log", "add", str(BASE), *words])
        run = next((folder / "log").glob(f"*-{name}-*"))
        run.write_text(
            re.sub(r'("\w+_us":)([0-9.]+)', lambda found: f"{found[1]}{float(found[2]) / 2}", run.read_text())
        )
        run.write_text(run.read_text().replace('"id":"', f'"id":"{day}'))
    return [str(profile(folder)), "--against", "log:last-5", "--log", str(folder / "log")]


def profile(folder: Path, name: str = "dispatch_bound") -> Path:
    """A copy of a fixture."""
    return Path(shutil.copytree(Path("fixtures") / name, folder / f"{name}_ascend_pt"))


def baselined(folder: Path) -> list[str]:
    """A profile and a baseline of the half."""
    path, file = profile(folder), folder / "baseline.json"
    main(["check", str(path), "--write-baseline", str(file)])
    content = json.loads(file.read_text())
    content["measures_us"] = {name: value and value / 2 for name, value in content["measures_us"].items()}
    file.write_text(json.dumps(content))
    return [str(path), "--baseline", str(file)]


def service(folder: Path) -> list[str]:
    (folder / "service").mkdir()
    write_service(folder / "service", "kv", 1, 20)
    return [str(folder / "service"), "--max-ttft", "p50:1us"]


GATES: dict[str, Callable[[Path], list[str]]] = {
    "free": lambda folder: [str(profile(folder)), "--max-free", "1%"],
    "findings": lambda folder: [str(profile(folder)), "--fail-on", "high"],
    "exposed": lambda folder: [str(profile(folder, "communication_bound")), "--max-exposed-communication", "1%"],
    "baseline": baselined,
    "log": of_log,
    "wait": lambda folder: [str(profile(folder, "two_ranks")), "--max-rank-wait", "1%"],
    "peak": lambda folder: [snapshot(folder), "--max-peak", "1KB"],
    "fragmentation": lambda folder: [snapshot(folder), "--max-fragmentation", "1%"],
    "service": service,
}
"""Gates that fail, each with what it reads first, of which the largest file is damaged."""
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "zeroes": lambda data: data[: len(data) // 3] + bytes(len(data) // 3) + data[len(data) * 2 // 3 :],
    "no times": lambda data: re.sub(rb"\d+\.\d+", b"x", data),
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("kind", GATES)
def test_no_damage_makes_a_gate_of_any_kind_pass(kind: str, tmp_path: Path) -> None:
    words = GATES[kind](tmp_path)
    assert main(["check", *words, "--no-cache"]) == 1
    given = Path(words[0])
    files = [given] if given.is_file() else [file for file in given.rglob("*") if file.suffix in (".csv", ".json")]
    largest = max(files, key=lambda file: file.stat().st_size)
    whole = largest.read_bytes()
    for name, damage in DAMAGES.items():
        largest.write_bytes(damage(whole))
        if largest.read_bytes() != whole:
            assert main(["check", *words, "--no-cache"]) in (1, 3), name


def test_a_cut_makes_neither_side_pass(slow: Path, tmp_path: Path) -> None:
    cut = tmp_path / "trace_view.json"
    whole = (slow / TRACE).read_bytes()
    for share in (0.3, 0.999):
        cut.write_bytes(whole[: int(len(whole) * share)])
        assert gate(cut, *AGAINST) == 1
        assert gate(BASE, "--against", str(cut), "--tolerance", "900%") == 1
    assert main(["compare", str(BASE), str(cut), "--no-cache", "--fail-on", "slower"]) == 1


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
