"""What ``msprof op`` leaves of one operator that it measured: tables of the operator and its pipes, without a timeline.

Described at https://www.hiascend.com/document/detail/en/mindstudio/830/ODtools/Operatordevelopmenttools/atlasopdev_16_0082.html
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import open_regular

_BASIC, _PIPES = "OpBasicInfo.csv", "PipeUtilization.csv"
_FILES = frozenset({
    _BASIC, _PIPES, "Memory.csv", "MemoryL0.csv", "MemoryUB.csv", "L2Cache.csv", "ArithmeticUtilization.csv",
    "ResourceConflictRatio.csv", "visualize_data.bin",
})  # fmt: skip
_RATIO = re.compile(r"(ai[cv])_(\w+)_ratio")
_MOST_BYTES, _MOST_PIPES = 1 << 22, 4


def one_operator(path: Path) -> Message | None:
    """What the output of ``msprof op`` at ``path``, a folder or a file in it, tells of its operator; None elsewhere."""
    folder = path if path.is_dir() else path.parent
    if path.name not in _FILES and not path.is_dir():
        return None
    basic = _rows(folder / _BASIC)
    if not basic or "Task Duration(us)" not in basic[0]:
        return None
    row = {column.strip(): text.strip() for column, text in basic[0].items()}
    if (time := _number(row["Task Duration(us)"])) is None:
        return None
    words: dict[str, object] = {"name": row.get("Op Name", ""), "blocks": row.get("Block Dim", "")}
    words |= {"time": time * 1000, "path": str(folder)}
    shares: dict[str, list[float]] = {}
    for pipes in _rows(folder / _PIPES):
        for column, text in pipes.items():
            match, ratio = _RATIO.fullmatch(column.strip()), _number(text)
            if match is not None and ratio is not None:
                shares.setdefault(f"{match[1]} {match[2]}", []).append(ratio)
    means = sorted(((sum(values) / len(values), name) for name, values in shares.items()), reverse=True)
    parts = [message("finding.shared", name=name, share=mean) for mean, name in means[:_MOST_PIPES]]
    words["pipes"] = message("input.one_operator_pipes", pipes=parts) if parts else ""
    return message("input.one_operator", **words)


def _rows(file: Path) -> list[dict[str, str]]:
    try:
        if file.stat().st_size > _MOST_BYTES:
            return []
        with io.TextIOWrapper(io.BufferedReader(open_regular(file)), "utf-8-sig", "replace", newline="") as lines:
            rows = [*csv.DictReader(lines)]
    except (OSError, csv.Error):
        return []
    return [{key: value for key, value in row.items() if key and isinstance(value, str)} for row in rows]


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
