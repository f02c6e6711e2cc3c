"""Which files are summaries of ranks."""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".rank.parquet"
"""How the names of summaries end."""


def summaries_in(path: Path) -> list[Path]:
    """The summaries at ``path``: itself, or those in the folder, by name; none where there are none."""
    try:
        if path.is_file():
            return [path] if path.name.endswith(SUFFIX) else []
        return sorted(path.glob(f"*{SUFFIX}"))
    except OSError:
        return []
