"""The answer to a query as text for people or as bytes for programs; and useful queries to begin with.

The text ``query.example.<id>`` says what each of these answers.
"""

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
        cells = [_cell_csv(value) for value in column.to_list()]
        head = shortened(drawable(printable(column.name)), _WIDEST)
        width = max([cell_count(head), *map(cell_count, cells)])
        right = column.dtype.is_numeric()
        texts.append([padded(text, width, right) for text in [head, *cells]])
    lines = [_GAP.join(row).rstrip() for row in zip(*texts, strict=True)]
    return "\n".join(lines) + "\n" if lines else ""


def _cell_csv(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1e15 else f"{value:g}"
    if isinstance(value, str):
        return shortened(drawable(printable(" ".join(value.split()))), _WIDEST)
    return shortened(drawable(printable(str(value))), _WIDEST)


EXAMPLES: dict[str, str] = {
    "waits": """\
SELECT name, class, lost / 1000 AS lost_us, file, line
FROM launches
WHERE starved
ORDER BY lost DESC
LIMIT 20""",
    "lines": """\
SELECT file, line, function, lost / 1e6 AS lost_ms, launches
FROM code_lines
ORDER BY lost DESC""",
    "operators": """\
SELECT type, core, count(*) AS calls, sum(duration) / 1e6 AS total_ms, median(duration) / 1000 AS median_us,
       quantile_cont(duration, 0.99) / 1000 AS p99_us
FROM kernels
GROUP BY type, core
ORDER BY total_ms DESC""",
    "shapes": """\
SELECT type, input_shapes, count(*) AS calls, sum(duration) / 1e6 AS total_ms, avg(gb_s) AS gb_s
FROM kernels
GROUP BY type, input_shapes
ORDER BY total_ms DESC NULLS LAST
LIMIT 20""",
    "idle": """\
SELECT start / 1e6 AS at_ms, duration / 1000 AS free_us, host_late / 1000 AS host_late_us, before_name, after_name
FROM free
ORDER BY duration DESC
LIMIT 20""",
    "stages": """\
SELECT op_name, count(*) AS launches, avg(enqueue_start - op_start) / 1000 AS op_us,
       avg(dequeue_start - enqueue_end) / 1000 AS queue_us, avg(source_time - dequeue_start) / 1000 AS launch_us,
       avg(latency) / 1000 AS wait_us, sum(lost) / 1000 AS lost_us
FROM launches
WHERE op_name IS NOT NULL
GROUP BY op_name
ORDER BY lost_us DESC
LIMIT 20""",
    "late": """\
SELECT c.name, c.duration / 1e6 AS ms, a.peer_rank, a.after / 1e6 AS after_ms
FROM collectives c JOIN arrivals a ON c.slice = a.slice
WHERE a.after = (SELECT max(b.after) FROM arrivals b)""",
    "calls": """\
SELECT level, name, calls, total / 1e6 AS total_ms, longest / 1000 AS longest_us
FROM apis
ORDER BY total DESC
LIMIT 20""",
    "steps": """\
SELECT step, duration / 1e6 AS ms, computing / 1e6 AS computing_ms, not_overlapped / 1e6 AS communication_ms,
       free / 1e6 AS free_ms, 100 * free / duration AS free_percent
FROM steps
ORDER BY step""",
    "requests": """\
SELECT rid, ttft / 1e6 AS ttft_ms, ttft_most, per_token / 1e6 AS tpot_ms, tpot_most, prompt, tokens
FROM latencies
WHERE complete
ORDER BY ttft DESC
LIMIT 20""",
    "tail": """\
SELECT metric, part, 100 * share AS all_percent, 100 * slowest_share AS slowest_percent, slowest / 1e6 AS slowest_ms
FROM latency_parts
ORDER BY metric, slowest DESC""",
    "streams": """\
SELECT layer, lane, count(*) AS slices, sum(duration) / 1e6 AS busy_ms, max(duration) / 1e6 AS longest_ms
FROM slices
WHERE kind = 'hardware' AND depth = 0
GROUP BY layer, lane
ORDER BY busy_ms DESC""",
    "named": """\
SELECT slice, name, start / 1e6 AS at_ms, duration / 1000 AS us
FROM slices
WHERE name LIKE '%MatMul%' AND kind = 'hardware'
ORDER BY duration DESC
LIMIT 20""",
    "links": """\
SELECT category, count(*) AS links, min(latency) / 1000 AS least_us, median(latency) / 1000 AS median_us,
       max(latency) / 1000 AS most_us
FROM links
GROUP BY category
ORDER BY links DESC""",
}
"""SQL by id, in the order of the gallery."""
