"""The answer to a query as text for people, or as bytes for programs."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from npu_tui.trace.message import Message, message
from npu_tui.trace.text import brief, cell_count, drawable, escaped, padded, printable, shortened

if TYPE_CHECKING:
    import polars as pl

FORMATS = ("table", "csv", "json", "ndjson", "parquet", "arrow")
"""How an answer can be written; the last two are binary."""

ENDINGS = {".csv": "csv", ".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet",
           ".arrow": "arrow", ".ipc": "arrow", ".feather": "arrow"}  # fmt: skip
"""The format that the ending of a file names."""

_WIDEST = 60
_GAP = "  "


def unwritable(frame: pl.DataFrame, form: str) -> Message | None:
    """The first column of ``frame`` that ``form`` has no way to write, and what to do; None without one."""
    for name, kind in frame.schema.items():
        nested = kind.is_nested() or kind.base_type().__name__ in ("Duration", "Binary", "Object")
        opaque = "Binary" in str(kind) or "Object" in str(kind)
        if (form == "csv" and nested) or (form in ("json", "ndjson") and opaque) or "Object" in str(kind):
            return message("query.no_way", name=brief(printable(name), 60), kind=brief(str(kind), 40), form=form)
    return None


def written(frame: pl.DataFrame, form: str) -> bytes:
    """``frame`` in ``form``, one of ``FORMATS``, texts as UTF-8; ``unwritable`` says what cannot be."""
    if form == "table":
        return table_text(frame).encode()
    out = BytesIO()
    if form == "json":
        return escaped(f"{frame.write_json()}\n").encode()
    if form == "ndjson":
        return escaped(frame.write_ndjson()).encode()
    if form == "csv":
        frame.write_csv(out)
    elif form == "parquet":
        frame.write_parquet(out)
    else:
        frame.write_ipc(out)
    return out.getvalue()


def table_text(frame: pl.DataFrame) -> str:
    """``frame`` in aligned columns, numbers to the right, long texts cut short; null is empty."""
    texts = []
    for column in frame.get_columns():
        cells = [_cell(value) for value in column.to_list()]
        head = shortened(drawable(printable(column.name)), _WIDEST)
        width = max([cell_count(head), *map(cell_count, cells)])
        right = column.dtype.is_numeric()
        texts.append([padded(text, width, right) for text in [head, *cells]])
    lines = [_GAP.join(row).rstrip() for row in zip(*texts, strict=True)]
    return "\n".join(lines) + "\n" if lines else ""


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1e15 else f"{value:g}"
    if isinstance(value, str):
        return shortened(drawable(printable(" ".join(value.split()))), _WIDEST)
    return shortened(drawable(printable(str(value))), _WIDEST)
