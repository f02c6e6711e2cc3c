"""Numbers of a finding as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from npu_tui.analysis.launches.code_lines import CodeLine
from npu_tui.strings import say
from npu_tui.trace.text import brief


def span_text(ns: float) -> str:
    """A length: ``93.5 ms``, below a millisecond ``62 µs``, from ten seconds on ``12.3 s``; nothing is ``0 ms``."""
    if not ns:
        return "0 ms"
    if abs(ns) >= 10_000_000_000:
        return f"{ns / 1e9:.1f} s"
    if abs(ns) >= 950_000:
        return f"{ns / 1e6:.1f} ms"
    return f"{ns / 1e3:.0f} µs" if abs(ns) >= 950 else f"{ns:.0f} ns"


def between_text(start: float, end: float) -> str:
    """A stretch of the trace: ``30.1 and 57.9 ms``."""
    return say("finding.between", start=f"{start / 1e6:.1f}", end=f"{end / 1e6:.1f}")


def share_text(share: float) -> str:
    """A share: ``68 %``, below a tenth ``6.5 %``."""
    return f"{share * 100:.0f} %" if share >= 0.0995 else f"{share * 100:.1f} %"


def line_text(code: CodeLine) -> str:
    """A line of code: ``main.py:354 in train()``; a frame of the module itself has no function."""
    place = f"{PurePosixPath(code.file.replace(chr(92), '/')).name}:{code.line}"
    named = code.function and not code.function.startswith("<")
    return brief(say("finding.place", place=place, function=code.function) if named else place)


def lines_text(file: str, lines: Sequence[int]) -> str:
    """Lines of one file: ``main.py:358–361``; those next to each other but one are drawn together."""
    parts: list[list[int]] = []
    for line in sorted(set(lines)):
        if parts and line - parts[-1][1] <= 2:
            parts[-1][1] = line
        else:
            parts.append([line, line])
    name = line_text(CodeLine(file, 0, "")).removesuffix(":0")
    return f"{name}:" + list_text([str(a) if a == b else f"{a}–{b}" for a, b in parts])


def list_text(words: Sequence[object]) -> str:
    """``0, 1 and 2``."""
    if len(words) < 2:
        return "".join(map(str, words))
    return say("list.and", first=", ".join(map(str, words[:-1])), last=words[-1])


def runs_text(numbers: Sequence[int]) -> str:
    """Numbers with runs of three or more drawn together: ``0-4, 6 and 7``."""
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
    return list_text(parts)
