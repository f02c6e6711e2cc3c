from __future__ import annotations

import re
from pathlib import Path

import pytest
from measured import answers, profile_of

from npu_tui.load.load import load
from npu_tui.trace.text import duration_text
from npu_tui.tui.head import device_line, measure, nearest_step, step_line

WIDTH = 160


WORDS = ("prep", "compute", "exposed comm", "free")


@pytest.mark.parametrize("name", ["dispatch_bound", "healthy", "communication_bound", "level0"])
def test_the_lines_say_what_the_report_says(name: str) -> None:
    trace = load(Path("fixtures") / name)
    times, told_of = measure(profile_of(trace)), answers(trace)
    for number, row in enumerate(told_of["steps"]):
        line = step_line(trace, times, number, 0, WIDTH)
        assert line is not None
        assert line.cell_len <= WIDTH
        parts = [row["preparing_us"], row["computing_us"], row["communication_not_overlapped_us"], row["free_us"]]
        busy = sum(parts[1:])
        for share in re.findall(r"([\d.]+)%", line.plain):
            rounding = 0.051 if "." in share else 0.51
            assert any(abs(100 * part / busy - float(share)) < rounding for part in parts[1:])
        for word, part in zip(WORDS, parts, strict=True):
            if part > 0:  # what has no room in the bar is named behind it
                told = duration_text(part * 1000) if word == "prep" else f"{part / busy:.1%}"
                assert f"{word} {told}" in line.plain
        narrow = step_line(trace, times, number, 0, 118)
        assert narrow is not None
        bar = narrow.plain.partition(" ms ")[2].rpartition("device")[2]
        assert len(re.findall(r"[\d.]+%", bar)) == len(re.findall("|".join(f"{word} [\\d.]+%" for word in WORDS), bar))
        device = device_line(times, number, 0)
        assert device is not None
        assert f"compute {told_of['overlap']['computing_ratio']:.1%}" in device.plain


def test_every_step_is_the_nearest_to_its_own_times() -> None:
    trace = load(Path("fixtures") / "dispatch_bound")
    times = measure(profile_of(trace))
    for number, step in enumerate(times.steps):
        middle = int(trace.slices.start[step.item] + trace.slices.end[step.item]) // 2
        assert nearest_step(trace, times, middle) == number
    assert nearest_step(trace, times, -(10**9)) == 0
    assert nearest_step(trace, times, 10**12) == len(times.steps) - 1


def test_what_is_unknown_has_no_line() -> None:
    trace = load(Path("fixtures/chrome_generic/lines.json"))
    times = measure(profile_of(trace))
    assert step_line(trace, times, 0, 0, WIDTH) is None
    assert device_line(times, 0, 0) is None
