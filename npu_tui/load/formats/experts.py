"""How many tokens experts got, and where they are placed: files that engines of experts (MoE) write.

``(prefill|decode)_<rank>.csv`` and ``*_global_deployment.json`` as MindStudio Insight reads them
(ExpertHotspotManager), the expert map of vllm-ascend (eplb), and dumps of the group lists of products. What is in
them, ``load.expert_files`` and ``load.group_lists`` say, which read them. They are no trace, and count only beside no
profile.
"""

from __future__ import annotations

import re
from pathlib import Path

from npu_tui.load.survey import Survey

DUMP = re.compile(r"(prefill|decode)_(\d{1,6})\.csv")
_PLACEMENT = re.compile(r".*global_deployment\.json|expert_?map.*\.json", re.IGNORECASE)
_MOST_FILES = 20_000

GROUP_LIST = re.compile(r"NPU\.npu_grouped_matmul\.(\d{1,9})\.forward\.kwargs\.group_list\.pt")
TENSORS = "dump_tensor_data"
_ABOVE = ("step_*/*/rank*[0-9]/", "rank*[0-9]/", "")
_STEP = "*/rank*[0-9]/"
"""Where dumps lie below a folder of several steps, of one role or rank, and below one step: no more is searched."""


def expert_files_in(path: Path, survey: Survey | None = None) -> list[Path]:
    """The files at ``path``: itself, or those in the folder and in folders below it whose names have ``expert``."""
    survey = survey or Survey()
    try:
        if path.is_file():
            return [path] if _is_one(path) or _has_layers(path, survey) else []
        folders = [path, *survey.folders(path, "*expert*")]
        # A folder of such a name is told as one that cannot be read.
        every = (folder / name for folder in folders for name in survey.names(folder))
        found = [file for file in every if _is_one(file)][:_MOST_FILES]
        return found + _group_lists_in(path, survey)
    except OSError:
        return []


def _is_one(file: Path) -> bool:
    return DUMP.fullmatch(file.name) is not None or _PLACEMENT.fullmatch(file.name) is not None


def _has_layers(file: Path, survey: Survey) -> bool:
    """Whether a JSON file of any name begins as a placement does."""
    return file.suffix == ".json" and b'"layer_list"' in survey.head(file, 1024)


def _group_lists_in(path: Path, survey: Survey) -> list[Path]:
    """The group lists of forward products in the dump at ``path``, or in its steps, roles or ranks."""
    for above in (_STEP,) if path.name.startswith("step_") else _ABOVE:
        found = [file for file in survey.glob(path, f"{above}{TENSORS}/*") if GROUP_LIST.fullmatch(file.name)]
        if found:
            return found[:_MOST_FILES]
    return []
