"""The real profiles: the findings as they should read, and the rules that have nothing to say there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from jobs import by_id
from measured import findings_of, profile_at, profile_of

from npu_tui.analysis.device import EVERYTHING, Window
from npu_tui.crop import crop
from npu_tui.profile.parts import Selection, parse_range, select_step
from npu_tui.strings import words

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Sample

SILENT = {"OP.SHARE", "OP.DOMINANT", "DATA.COPY", "MEM.ALLOC", "FREQ", "PY.GC", "MEM.PRESSURE"}
#: Gains of the late rank and of the starving range, ms; lengths of the step before and after both. The own backward
#: kernels end after the peers would have come, and a device in time leaves pauses between its kernels.
LADDER = {"level1/rank0": (91.5, 20.4, 156.0, 64.5, 44.0), "level1/rank1": (85.5, 21.3, 153.9, 68.3, 47.0)}


def ms(ns: int | None) -> float:
    assert ns is not None
    return round(ns / 1e6, 1)


def test_no_false_alarm(real: Sample) -> None:
    found = by_id(findings_of(real.trace))
    assert not SILENT & set(found)
    assert {"UTIL", "VERDICT", "STEP.START", "DISPATCH.VERTICAL"} <= set(found)
    assert "DATA.LOADER" not in found or found["DATA.LOADER"].part_of == "STEP.START"


def test_the_late_rank_leads(level1: Sample) -> None:
    gain, lost, whole, after, then = LADDER[level1.name]
    found = findings_of(level1.trace)
    first, second = found.findings[:2]
    assert (first.id, first.cls, first.severity, ms(first.gain_ns)) == ("COMM.STRAGGLER", "communication", "high", gain)
    assert (second.id, second.cls, second.severity, ms(second.gain_ns)) == (
        "DISPATCH.VERTICAL",
        "dispatch",
        "high",
        lost,
    )
    assert (ms(first.step_after_ns), ms(second.step_after_ns)) == (after, then)
    told = [re.findall(r"\(([\d.]+) ms → ([\d.]+) ms\)", words(row.detail)) for row in (first, second)]
    # The lengths before and after each, once: of what remains nothing else is told in other words.
    assert [[tuple(round(float(length), 1) for length in pair) for pair in row] for row in told] == [
        [(whole, after)],
        [(after, then)],
    ]
    assert words(first.title).startswith("Rank 5 is late")
    assert "ranks 0–4, 6 and 7 were there" in words(first.detail)
    assert "After the last arrival the transfers take 4." in words(first.detail)
    assert re.search(r"_1 \(\+8\d\d\.\d µs\) and _3 \(\+2[12]\.\d+ ms\)", words(first.detail))
    assert "There is no profile of rank 5 here" in words(first.detail)
    assert words(found.verdict[0]).startswith("COMMUNICATION, not this rank")
    assert words(found.verdict[1]).startswith("then DISPATCH")


def test_the_starving_range(level1: Sample) -> None:
    if level1.name != "level1/rank0":
        pytest.skip(reason="the figures are those of rank 0")
    found = by_id(findings_of(level1.trace))
    vertical = found["DISPATCH.VERTICAL"]
    assert words(vertical.title) == (
        "Python launches too late: the NPU loses 23.26 ms per step from t=30.06 ms to 57.85 ms"
    )
    assert "35 of 83 launches" in words(vertical.detail)
    assert "idle for 83." in words(vertical.detail)
    assert "main.py:354 in train() 14." in words(vertical.detail)
    assert "with_stack" in words(vertical.detail)
    assert [code.line for code in vertical.code_lines] == [354, 355, 467]
    assert not any("precompiled" in words(each) for each in vertical.advice)  # OP.COMPILE gains nothing
    assert any("peak memory may rise" in words(each) for each in vertical.advice)
    place = vertical.evidence[0]
    assert (ms(place.start), ms(place.end)) == (30.1, 57.9)
    straggler = found["COMM.STRAGGLER"].evidence[0]
    assert (ms(straggler.start), ms(straggler.end)) == (63.3, 136.4)
    assert "r5 +78.78 ms" in words(straggler.note)
    assert level1.trace.lanes[straggler.lane].name == "Group 0 Communication"
    assert level1.trace.name_of(straggler.slice) == straggler.name == "hcom_allReduce__586_0_1"
    start = found["STEP.START"]
    assert words(start.title).startswith("17.9")
    assert "main.py:350 in train() 6.667 ms" in words(start.detail)
    assert "dataloader 3.3" in words(start.detail)
    assert "blocked for 6.1" in words(start.detail)
    compile_ = found["OP.COMPILE"]
    assert words(compile_.title).startswith("Compiling operators (Conv2D, Conv2DBackpropFilter, Conv2DBackpropInput,")
    assert "at main.py:354 in train() takes the host 14." in words(compile_.title)
    # What is compiled meanwhile Python takes longer for: nothing is gained without it.
    assert (compile_.gain_ns, compile_.part_of, compile_.severity) == (0, None, "low")
    assert found["SYNC.HOST"].part_of == "DISPATCH.VERTICAL"
    assert ms(found["SYNC.HOST"].gain_ns) == 6.4
    assert "main.py:350 in train()" in words(found["SYNC.HOST"].title)
    profiler = found["PROFILER.OVERHEAD"]
    assert 4.5 <= ms(profiler.gain_ns) <= 4.6  # the others of 12.5 ms lie beside collectives
    assert profiler.step_after_ns is None
    assert found["DTYPE"].hidden
    assert found["MEM.BW"].hidden
    assert found["COMM.EXPOSED"].part_of == "COMM.STRAGGLER"
    assert "COMM.LONGOP" not in found  # waits are no transfers


def test_level0_cannot_tell_who_is_late(real: Sample) -> None:
    if not real.name.startswith("level0"):
        pytest.skip(reason="Level0 only")
    found = findings_of(real.trace)
    assert found.findings[0].id == "COMM.EXPOSED"
    assert found.findings[0].confidence == "low"
    assert "Level1" in words(dict(found.not_checked)["COMM.STRAGGLER"])


def test_single_card_is_bound_by_cann(real: Sample) -> None:
    if real.name != "single_card":
        pytest.skip(reason="single_card only")
    found = findings_of(real.trace)
    first = found.findings[0]
    assert (first.id, first.severity) == ("OP.COMPILE", "high")
    assert ms(first.gain_ns) == 4.4
    assert "jit_compile=False" in words(first.advice[0])
    late = by_id(found)["DISPATCH.VERTICAL"]
    assert words(late.title) == "CANN launches too late: the NPU loses 8.043 ms per step from t=2.615 ms to 13.72 ms"
    assert "the host was in aclopCompileAndExecute 5.577 ms in 11 calls" in words(late.detail)
    assert "CANN stage" in words(by_id(found)["DISPATCH.STAGE"].title)
    assert by_id(found)["OP.COMPILE"].severity == "high"
    assert "COMM.EXPOSED" not in by_id(found)


def test_the_only_step_is_the_whole(level1: Sample) -> None:
    step = select_step(profile_of(level1.trace).steps, 50)
    assert step is not None
    whole, only = findings_of(level1.trace), findings_of(level1.trace, step)
    assert [(each.id, each.gain_ns) for each in whole.findings][:6] == [
        (each.id, each.gain_ns) for each in only.findings
    ][:6]


def test_a_range(level1: Sample) -> None:
    window = parse_range("30ms..58ms")
    assert window is not None
    assert window.window != EVERYTHING
    found = findings_of(level1.trace, window)
    assert found.findings[0].id == "DISPATCH.VERTICAL"
    assert "COMM.STRAGGLER" not in by_id(found)
    gains = [each.gain_ns or 0 for each in found.findings if each.part_of is None and each.step_after_ns is not None]
    assert sum(gains) <= 28_000_000


def test_a_crop_does_not_say_that_other_work_covers_what_it_left_out(level1: Sample, tmp_path: Path) -> None:
    whole = profile_of(level1.trace)
    wait = by_id(whole.findings)["COMM.STRAGGLER"].evidence[0]
    crop(whole.part(Selection(Window(wait.start - 1_300_000, wait.end + 600_000))), tmp_path / "crop.json")
    cropped = profile_at(tmp_path / "crop.json")
    first = cropped.part(cropped.usual).findings.findings[0]
    assert (first.id, first.gain_ns) == ("COMM.STRAGGLER", None)
    assert "was not recorded" in words(first.detail)
    assert "ther work covers" not in words(first.detail)
