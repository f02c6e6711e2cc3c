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
        _for_sheets(frame).write_csv(out)
    elif form == "parquet":
        frame.write_parquet(out)
    else:
        frame.write_ipc(out)
    return out.getvalue()


_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_FORMULA, _NUMBER = r"^\s*[=+\-@]", r"^\s*[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?\s*$"
"""How a text begins that a spreadsheet would reckon with, and one that is only a number."""


def _for_sheets(frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` for a terminal and a spreadsheet: texts without control characters, and none that is a formula."""
    import polars as pl

    texts = [name for name, kind in frame.schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    safe = frame.with_columns(_safe(frame[name].cast(pl.String)).alias(name) for name in texts)
    names: dict[str, str] = {}
    for before, name in zip(safe.columns, _safe(pl.Series(safe.columns, dtype=pl.String)).to_list(), strict=True):
        names[before] = name if name not in names.values() else f"{name}_{len(names) + 1}"
    return safe.rename(names)


def _safe(texts: pl.Series) -> pl.Series:
    """``texts`` with control characters as ``printable`` writes them, and ``'`` before what is a formula."""
    odd = texts.str.contains(_CONTROL).fill_null(False)
    if odd.any():
        texts = texts.scatter(odd.arg_true(), [printable(text) for text in texts.filter(odd)])
    formulas = (texts.str.contains(_FORMULA) & ~texts.str.contains(_NUMBER)).fill_null(False)
    return ("'" + texts).zip_with(formulas, texts) if formulas.any() else texts


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
