"""What ``msprof op`` measured of one operator: ``OPPROF_*`` folders, which have tables of pipes and no timeline.

Described at https://gitcode.com/Ascend/msopprof, ``docs/en/user_guide/msopprof_performance_data.md``. Where a timeline
of its instructions lies there too, that is what is read.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from npu_tui.load.errors import InputError
from npu_tui.load.format import Format, Source, Survey
from npu_tui.trace.message import message
from npu_tui.trace.side_file import open_regular

BASIC = "OpBasicInfo.csv"
DURATION = "Task Duration(us)"
_PIPES, _CONFLICTS = "PipeUtilization.csv", "ResourceConflictRatio.csv"
FILES = frozenset({
    BASIC, _PIPES, _CONFLICTS, "Memory.csv", "MemoryL0.csv", "MemoryUB.csv", "L2Cache.csv", "ArithmeticUtilization.csv",
    "visualize_data.bin",
})  # fmt: skip
_RATIO = re.compile(r"(ai[cv])_(\w+?)_ratio")
_MOST_BYTES = 1 << 22
"""A row is a core, and no chip has more than some hundreds of them."""


class Pipe(Struct, frozen=True):
    """A pipe of a core: ``busy`` ns, its ``share`` of the cycles of the core, ``waits`` ns, None where not measured."""

    name: str
    busy: int
    share: float
    waits: int | None


class Core(Struct, frozen=True):
    """A core that ran ``span`` ns, such as ``0.vector1`` of block 0, with its ``pipes``."""

    name: str
    span: int
    pipes: tuple[Pipe, ...]


class Operator(Struct, frozen=True):
    """The operator ``name`` on ``blocks`` blocks, as written; its task took ``time`` ns."""

    name: str
    time: int
    blocks: str


def measured_operator(folder: Path) -> Operator | None:
    """The operator whose tables are in ``folder``; None without a time of it."""
    row = next(_table_rows(folder / BASIC), {})
    time = _number_or_none(row.get(DURATION))
    return None if time is None else Operator(row.get("Op Name", ""), round(time * 1000), row.get("Block Dim", ""))


def measured_cores(folder: Path) -> list[Core]:
    """The cores of the operator whose tables are in ``folder``, in the order of the file."""
    conflicts = {_operator_key(row): row for row in _table_rows(folder / _CONFLICTS)}
    cores = []
    for row in _table_rows(folder / _PIPES):
        for kind in ("aic", "aiv"):
            time = _number_or_none(row.get(f"{kind}_time(us)"))
            pipes = tuple(_pipes(row, conflicts.get(_operator_key(row), {}), kind, time)) if time else ()
            if time and pipes:
                cores.append(Core(".".join(filter(None, _operator_key(row))) or kind, round(time * 1000), pipes))
    return cores


def _pipes(row: dict[str, str], conflicts: dict[str, str], kind: str, time: float) -> Iterator[Pipe]:
    for column, text in row.items():
        match, share = _RATIO.fullmatch(column), _number_or_none(text)
        if match is None or match[1] != kind or share is None:
            continue
        busy = _number_or_none(row.get(f"{kind}_{match[2]}_time(us)"))
        waits = _number_or_none(conflicts.get(f"{kind}_{match[2]}_wait_ratio"))
        worked = share * time if busy is None else busy
        yield Pipe(match[2], round(worked * 1000), share, None if waits is None else round(waits * time * 1000))


def _operator_key(row: dict[str, str]) -> tuple[str, str]:
    return row.get("block_id", ""), row.get("sub_block_id", "")


def _table_rows(file: Path) -> Iterator[dict[str, str]]:
    """The rows of a table as texts; none of one that cannot be read."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            return
        with io.TextIOWrapper(io.BufferedReader(open_regular(file)), "utf-8-sig", "replace", newline="") as lines:
            for row in csv.DictReader(lines):
                yield {key.strip(): text.strip() for key, text in row.items() if key and isinstance(text, str)}
    except (OSError, csv.Error):
        return


def _number_or_none(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float(1 << 53) else None


_NAMED = 5  # folders in a message


def _recognise(path: Path, survey: Survey) -> Source | None:
    """The folder ``path``, or the only one in it; a table of one stands for all of it."""

    def is_measured(folder: Path) -> bool:
        return DURATION.encode() in survey.head(folder / BASIC)

    if not path.is_dir():
        alone = path.name in FILES and is_measured(path.parent)
        return Source(path, path.parent, (), None, OPPROF, survey=survey) if alone else None
    found = [folder for folder in (path, *survey.folders(path, "OPPROF_*")) if is_measured(folder)]
    if len(found) > 1:
        names = "  ".join(str(folder) for folder in found[:_NAMED])
        raise InputError(message("input.operators", path=str(path), count=len(found), names=names))
    if not found or survey.glob(found[0], "trace.json"):
        return None
    return Source(path, found[0], (), None, OPPROF, survey=survey)


OPPROF = Format("opprof", _recognise, "text_trace.read_tables", is_folder=True)
