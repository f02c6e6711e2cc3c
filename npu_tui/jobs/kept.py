"""Which paths hold a job without its profiles, or a log; asked at every start, so nothing heavy is imported."""

from __future__ import annotations

from pathlib import Path

from npu_tui.load.find import sources_below
from npu_tui.load.format import Survey
from npu_tui.load.formats.cluster import cluster_below, cluster_folder
from npu_tui.load.formats.experts import expert_files_in

SUFFIX, _OLDER = ".rank.npu", ".rank.parquet"
"""How the names of summaries end, and those of versions whose summaries are refused in one line."""

RUN = ".run.json"
"""How the names of the files of a log end."""


def summaries_in(path: Path, survey: Survey | None = None) -> list[Path]:
    """The summaries at ``path``: itself, or those in the folder, by name; empty without any."""
    try:
        if path.is_file():
            return [path] if path.name.endswith((SUFFIX, _OLDER)) else []
        return [file for file in (survey or Survey()).files(path) if file.name.endswith((SUFFIX, _OLDER))]
    except OSError:
        return []


def is_kept(path: Path, survey: Survey | None = None) -> bool:
    """Whether ``path`` holds a job without its profiles: summaries, the output of a cluster analysis, expert files.

    Beside profiles the latter two have less than those, and do not count.
    """
    survey = survey or Survey()
    return bool(summaries_in(path, survey)) or cluster_of(path, survey) is not None or is_of_experts(path, survey)


def is_log(path: Path, survey: Survey | None = None) -> bool:
    """Whether ``path`` is the folder of a log, and no profile is there."""
    survey = survey or Survey()
    try:
        runs = any(file.name.endswith(RUN) for file in (survey.files(path) if path.is_dir() else ()))
    except OSError:
        return False
    return runs and not _has_profiles(path, survey)


def is_of_experts(path: Path, survey: Survey) -> bool:
    """Whether dumps of expert loads or placements lie at ``path``, and no profile."""
    return bool(expert_files_in(path, survey)) and (path.is_file() or not _has_profiles(path, survey))


def cluster_of(path: Path, survey: Survey) -> Path | None:
    """The folder that a cluster analysis wrote at ``path``, beside no profile."""
    folder = cluster_folder(path, survey)
    if folder == path or path.is_file():
        return folder
    return None if _has_profiles(path, survey) else folder or cluster_below(path, survey)


def _has_profiles(folder: Path, survey: Survey) -> bool:
    return next(sources_below(folder, survey=survey), None) is not None
