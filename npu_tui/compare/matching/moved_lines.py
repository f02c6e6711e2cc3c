"""Where a code line of an earlier revision stands in the files of this checkout, by ``git diff``."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from npu_tui.analysis.launches.code_lines import CodeLine

_SECONDS = 30
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


def renumbering(revision: str, folder: Path | None = None) -> tuple[Callable[[CodeLine], int | None] | None, str]:
    """What tells the present number of a line of ``revision`` in the checkout around ``folder`` (here if None).

    It gives None for a line that is gone. (None, reason) if git cannot tell.
    """
    command = ["git", "diff", "-U0", "--no-color", "--no-ext-diff", "--no-renames", "--end-of-options", revision]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    if done.returncode:
        return None, (done.stderr.decode(errors="replace").strip().splitlines() or ["git diff"])[0]
    files = _shifts(done.stdout.decode(errors="replace"))

    def renumber(code: CodeLine) -> int | None:
        own = [name for name in files if f"/{code.file}".endswith(f"/{name}")]
        name = max(own, key=len, default=None)
        return code.line if name is None else _present(files[name], code.line)

    return renumber, ""


_Hunk = tuple[int, int, int]
"""Last unchanged line before, count of lines taken out, count put in."""


def _shifts(diff: str) -> dict[str, list[_Hunk]]:
    files: dict[str, list[_Hunk]] = {}
    hunks: list[_Hunk] = []
    for line in diff.splitlines():
        if line.startswith("--- "):
            name = line[4:].strip().strip('"')
            hunks = files.setdefault(name.partition("/")[2], []) if name != "/dev/null" else []
        elif match := _HUNK.match(line):
            start, out, put = int(match[1]), int(match[2] or 1), int(match[4] or 1)
            hunks.append((start if out == 0 else start - 1, out, put))
    return files


def _present(hunks: list[_Hunk], line: int) -> int | None:
    at = bisect_right([before for before, _, _ in hunks], line - 1)
    shift = sum(put - out for _, out, put in hunks[:at])
    if at and line <= hunks[at - 1][0] + hunks[at - 1][1]:
        return None
    return line + shift
