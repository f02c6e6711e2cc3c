"""Which paths hold a job without its profiles; asked at every start, so nothing heavy is imported."""

from __future__ import annotations

from pathlib import Path

from npu_tui.load.find import cluster_below, sources_below
from npu_tui.load.layouts import cluster_folder

SUFFIX, _OLDER = ".rank.npu", ".rank.parquet"
"""How the names of summaries end, and those of versions whose summaries are refused in one line."""


def summaries_in(path: Path) -> list[Path]:
    """The summaries at ``path``: itself, or those in the folder, by name; none where there are none."""
    try:
        if path.is_file():
            return [path] if path.name.endswith((SUFFIX, _OLDER)) else []
        found = (summary for suffix in (SUFFIX, _OLDER) for summary in path.glob(f"*{suffix}"))
        return sorted(summary for summary in found if summary.is_file())
    except OSError:
        return []


def is_kept(path: Path) -> bool:
    """Whether ``path`` holds a job without its profiles: summaries, the output of a cluster analysis, expert files.

    Beside profiles the latter two tell less than they do, and do not count.
    """
    return bool(summaries_in(path)) or cluster_of(path) is not None or is_of_experts(path)


def is_of_experts(path: Path) -> bool:
    """Whether dumps of expert loads or placements lie at ``path``, and no profile."""
    from npu_tui.load.expert_files import expert_files_in  # they read arrays, which few inputs need

    return bool(expert_files_in(path)) and (path.is_file() or next(sources_below(path), None) is None)


def cluster_of(path: Path) -> Path | None:
    """The folder that a cluster analysis wrote at ``path``, beside no profile."""
    folder = cluster_folder(path)
    if folder == path or path.is_file():
        return folder
    return None if next(sources_below(path), None) is not None else folder or cluster_below(path)
