"""The output of a cluster analysis: steps, collectives, links and groups of all ranks of a job, without a timeline.

msprof-analyze writes ``cluster_analysis_output``; what is in the files, ``load.cluster`` says, which reads them. It is
a job and no trace, and counts only where no profile lies at or below the folder.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from npu_tui.load.format import LEVELS, MOST_FOLDERS, Survey

CLUSTER_FILES = (
    "cluster_analysis.db", "cluster_step_trace_time.csv", "cluster_communication.json",
    "cluster_communication_matrix.json",
)  # fmt: skip
"""Files of which any one makes the output of a cluster analysis."""

_FOLDER = "cluster_analysis_output"


def cluster_folder(path: Path, survey: Survey) -> Path | None:
    """The output of a cluster analysis at ``path``: the folder itself, the one in it, or that of one of its files."""
    try:
        if path.is_file():
            return path.parent if path.name in CLUSTER_FILES else None
        places = [path, *survey.folders(path, _FOLDER)]
        return next((place for place in places if any(f.name in CLUSTER_FILES for f in survey.files(place))), None)
    except OSError:
        return None


def cluster_below(folder: Path, survey: Survey) -> Path | None:
    """The only output of a cluster analysis some levels below ``folder``; None where there are others, or none."""
    found: list[Path] = []
    for place, children in islice(survey.walk(folder, LEVELS), MOST_FOLDERS):
        if cluster_folder(place, survey) == place:
            found.append(place)
            children.clear()
    return found[0] if len(found) == 1 else None
