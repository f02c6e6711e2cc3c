"""What several rules say in the same way: places in the code, lists, sentences one after another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from npu_tui.analysis.code_lines import CodeLine
from npu_tui.trace.message import Message, Said, message
from npu_tui.trace.text import brief


def sentences(*parts: Said) -> Message:
    """Sentences one after another; empty ones are left out."""
    return message("list.sentences", parts=[each for each in parts if each])


def advise(*keys: str) -> tuple[Message, ...]:
    """Advice without numbers by the ends of its keys."""
    return tuple(message(f"finding.advice.{key}") for key in keys)


def line_of(code: CodeLine) -> Said:
    """A line of code: ``main.py:354 in train()``; a frame of the module itself has no function."""
    place = f"{_file(code.file)}:{code.line}"
    if not code.function or code.function.startswith("<"):
        return brief(place)
    return message("finding.place", place=brief(place), function=brief(code.function))


def lines_of(file: str, lines: Sequence[int]) -> Message:
    """Lines of one file: ``main.py:358–361``; those next to each other but one are drawn together."""
    parts: list[list[int]] = []
    for line in sorted(set(lines)):
        if parts and line - parts[-1][1] <= 2:
            parts[-1][1] = line
        else:
            parts.append([line, line])
    return message("finding.lines", file=brief(_file(file)), lines=[str(a) if a == b else f"{a}–{b}" for a, b in parts])


def _file(path: str) -> str:
    return PurePosixPath(path.replace("\\", "/")).name


def runs_of(numbers: Sequence[int]) -> list[str]:
    """Numbers with runs of three or more drawn together: ``0–4``, ``6``, ``7``."""
    parts: list[str] = []
    ordered = sorted(set(numbers))
    at = 0
    while at < len(ordered):
        last = at
        while last + 1 < len(ordered) and ordered[last + 1] == ordered[last] + 1:
            last += 1
        if last - at >= 2:
            parts.append(f"{ordered[at]}–{ordered[last]}")
        else:
            parts += [str(each) for each in ordered[at : last + 1]]
        at = last + 1
    return parts


def timed(name: str, time: float) -> Message:
    """A name of the trace with how long it took, ns."""
    return message("finding.timed", name=brief(name), time=time)


def counted(name: str, count: int) -> Message:
    """A name of the trace with how often it occurs."""
    return message("finding.counted", name=brief(name), count=count)
