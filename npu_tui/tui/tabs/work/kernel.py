"""What kernel_details.csv says of one kernel, for the Details tab."""

from __future__ import annotations

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from npu_tui.analysis.kernels import KernelTable
from npu_tui.strings import say
from npu_tui.trace.text import duration_text, printable, share_text, size_text, speed_text
from npu_tui.tui.tabs.table.spread import bar

_BAR = 8
_RATIO = "_ratio"
_PERCENT = "cube_utilization_percent"


def kernel_facts(table: KernelTable, item: int) -> list[RenderableType]:
    """Type, core, tensors, wait, busy pipes and bandwidth of the kernel that is slice ``item``; none if it is none."""
    found = np.flatnonzero(table.item == item)
    if not len(found):
        return []
    at = int(found[0])
    facts = [
        ("type", table.type.at(at)),
        ("core", table.core.at(at)),
        ("block", _whole(table.block_dim[at])),
        ("wait", duration_text(int(table.wait[at]))),
        ("hits", None if np.isnan(table.hit_rate[at]) else share_text(float(table.hit_rate[at]))),
        ("bytes", None if np.isnan(table.bytes[at]) else size_text(float(table.bytes[at]))),
        ("speed", None if np.isnan(table.speed[at]) else speed_text(float(table.speed[at]))),
    ]
    parts: list[RenderableType] = [_line(facts)]
    for way, shapes, dtypes, formats in (
        ("in", table.shapes, "input_types", "input_formats"),
        ("out", table.outputs, "output_types", "output_formats"),
    ):
        tensors = _tensors(shapes.at(at), *(_detail(table, column, at) for column in (dtypes, formats)))
        if tensors:
            line = Text.assemble((say(f"kernel.{way}") + " ", "dim"), overflow="fold")
            line.append(printable(tensors))
            parts.append(line)
    pipes = _pipes(table, at)
    if pipes.plain:
        parts.append(pipes)
    return parts


def _line(facts: list[tuple[str, str | None]]) -> Text:
    line = Text()
    for name, value in facts:
        if value is not None:
            line.append(f"{say(f'kernel.{name}')} ", style="dim")
            line.append(f"{printable(value)}   ")
    return line


def _whole(value: float) -> str | None:
    return f"{value:,.0f}" if value > 0 else None


def _detail(table: KernelTable, column: str, at: int) -> str | None:
    coded = table.details.get(column)
    return None if coded is None else coded.at(at)


def _tensors(shapes: str | None, dtypes: str | None, formats: str | None) -> str:
    """Every tensor as ``32,3,224,224 FLOAT NCHW``."""
    if shapes is None:
        return ""
    columns = [text.split(";") if text is not None else [] for text in (shapes, dtypes, formats)]
    count = len(columns[0])
    columns = [column if len(column) == count else [""] * count for column in columns]
    tensors = (" ".join(part.strip() for part in parts if part.strip()) for parts in zip(*columns, strict=True))
    return say("list.tensors").join(tensors)


def _pipes(table: KernelTable, at: int) -> Text:
    """A bar for every pipe of the core that was busy, by the columns of its PMU."""
    line = Text(overflow="fold")
    for column, coded in table.details.items():
        text = coded.at(at) if column.endswith(_RATIO) or column == _PERCENT else None
        try:
            share = float(text or "") / (100.0 if column == _PERCENT else 1.0)
        except ValueError:
            continue
        if share <= 0.0 or not np.isfinite(share):
            continue
        line.append(f"{printable(column.removesuffix(_RATIO).removesuffix('_percent'))} ", style="dim")
        line.append(f"{bar(share, _BAR):{_BAR}}", style="on grey23")
        line.append(f" {share_text(share)}   ")
    return line
