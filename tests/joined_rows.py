"""How many rows of the tables beside a trace find their slices.

``python tests/joined_rows.py FOLDER...`` prints a table for every profile with a timeline below the folders.
"""

from __future__ import annotations

import sys
from pathlib import Path

from npu_tui.load.errors import InputError
from npu_tui.load.find import find_source
from npu_tui.load.load import load
from npu_tui.profile.profile import Profile


def joined(path: Path) -> list[tuple[str, int, int]]:
    """(join, rows joined, rows) of the profile at ``path``."""
    source = find_source(path)
    trace = load(source)
    profile = Profile(trace, source)
    tables = profile.tables
    rows, cache = tables.kernel_rows, tables.cache_rows
    kernels, caches = tables.table("kernel_details").frame, tables.table("l2_cache").frame
    hosted = kernels["core"].fill_null("").is_in(["HCCL", "COMMUNICATION"])
    hosted |= kernels["name"].fill_null("").str.starts_with("hcom_")
    found = [
        ("compute slices with a row of kernel_details", int((rows >= 0).sum()), len(rows)),
        ("kernels of kernel_details on compute slices", len(set(rows[rows >= 0].tolist())), int((~hosted).sum())),
        ("rows of communication.json", int((tables.collective_slices >= 0).sum()), len(tables.collective_slices)),
        ("rows of operator_memory", int((tables.allocating_slices >= 0).sum()), len(tables.allocating_slices)),
        ("rows of l2_cache on compute slices", len(set(cache[cache >= 0].tolist())), len(caches)),
    ]
    return [each for each in found if each[2]]


def main(folders: list[str]) -> None:
    """Print a row per profile and join."""
    for folder in folders:
        for output in sorted(Path(folder).rglob("ASCEND_PROFILER_OUTPUT")):
            try:
                for join, rows, of in joined(output.parent):
                    print(f"| {output.parent.relative_to(folder)} | {join} | {rows:,} | {of:,} |")
            except InputError as error:
                print(f"| {output.parent.relative_to(folder)} | {error.message.code} | | |")


if __name__ == "__main__":
    main(sys.argv[1:])
