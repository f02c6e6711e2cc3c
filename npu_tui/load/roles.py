"""Which role of a reinforcement learning job a profile is of, and of which step, by its folders.

verl writes ``<save_path>[/<step>][/<role>]/<host>_<pid>_<time>_ascend_pt`` and, for the replicas of its agent loop,
``agent_loop_rollout_replica_<n>`` in place of the role, newer versions ``rollout-replica<n>_<...>_ascend_pt``; ``e2e``
and MindSpeed-RL's ``profiler_data`` hold all stages of a process, separated by ranges of mstx. Sources: verl
``utils/profiler/mstx_profile.py``, MindSpeed-RL ``docs/features/profiler.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from npu_tui.load.format import Survey
from npu_tui.trace.side_file import read_regular

_REPLICA = re.compile(r"(?P<base>.+?)[-_]?replica[-_]?(?P<number>\d{1,6})", re.IGNORECASE)
_ROLE = re.compile(
    r"e2e|(?:agent_loop_)?rollout[-_]?replica[-_]?\d{1,6}|agent_loop_rollout"
    r"|(?:actor|critic|ref|reference|rollout|reward|rm|teacher)_(?:update|generate|compute_\w+)"
    r"|(?:compute_(?:values|rm_score|log_prob|ref_log_prob)|generate_sequences|update_(?:actor|critic|weights))",
    re.IGNORECASE,
)
_ALSO = re.compile(r"actor|critic|ref|reference|rollout|reward|rm|env(?:_\w+)?|generate|trainer", re.IGNORECASE)
"""Words that name roles where another role lies beside them; alone they are names of any folder."""
_FLAT = re.compile(r"(?P<role>(?:agent_loop_)?rollout[-_]?replica[-_]?\d{1,6})_.+_ascend_pt", re.IGNORECASE)
_STEP = re.compile(r"(?:(?:global_)?(?:step|iteration|iter)[-_]?)?(?P<step>\d{1,9})", re.IGNORECASE)
_PROFILE = re.compile(r".*_ascend_(?:pt|ms)|PROF_.*", re.IGNORECASE)
_PROCESS = re.compile(r"(?P<process>.+_\d{1,8})_\d{14,17}_ascend_(?:pt|ms)")
_OF_RANK = re.compile(r"rank\d{1,9}_start\d{1,9}_stop\d{1,9}")
"""The folder that MindSpore's dynamic profiler makes for each rank."""
_PARTS = ("ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output")
_LEVELS = 3
"""Levels of folders that are looked through for roles."""


class RolePlace(Struct, frozen=True):
    """The ``role`` of a profile ("" without one), the ``step`` it was recorded in, the ``process`` it is of."""

    role: str = ""
    step: str = ""
    process: str = ""

    def above(self, folder: Path) -> Path:
        """The folder of the job, where ``folder`` holds the profiles of this role or step."""
        folder = folder.parent if _OF_RANK.fullmatch(folder.name) else folder
        folder = folder.parent if self.role and folder.name == self.role else folder
        step = _STEP.fullmatch(folder.name) if self.step else None
        return folder.parent if step is not None and step["step"] == self.step else folder

    def host(self, rank: int) -> str:
        """The host of the process of ``rank``; "" where no process is named, or the rank in its place."""
        name, _, number = self.process.rpartition("_")
        return "" if number == str(rank) else name

    @property
    def order(self) -> tuple[int, str]:
        """What orders the folders of a job: steps by their numbers, then roles."""
        return int(self.step or 0), self.role


def replica_of(role: str) -> tuple[str, int | None]:
    """The role that ``role`` is a replica of, and the number of the replica; itself and None for any other."""
    match = _REPLICA.fullmatch(role)
    return (role, None) if match is None else (match["base"].rstrip("-_"), int(match["number"]))


def role_names(names: Iterable[str]) -> set[str]:
    """Which ``names`` of folders beside each other are roles."""
    names = [name for name in names if not name.startswith(".") and not _PROFILE.fullmatch(name)]
    sure = {name for name in names if _ROLE.fullmatch(name)}
    likely = {name for name in names if _ALSO.fullmatch(name)}
    if len(sure | likely) < 2:
        return sure
    return {name for name in names if not _STEP.fullmatch(name)}


def holds_roles(folder: Path, survey: Survey | None = None) -> bool:
    """Whether folders of roles, or of replicas, lie in ``folder`` or some levels down."""
    for _, children in (survey or Survey()).walk(folder, _LEVELS):
        names = [child.name for child in children]
        if role_names(names) or any(map(_FLAT.fullmatch, names)):
            return True
        children[:] = [child for child in children if not _is_closed(child.name)]
    return False


def _is_closed(name: str) -> bool:
    """Whether no roles lie in a folder of that name."""
    return name in _PARTS or _PROFILE.fullmatch(name) is not None


class RolePlaces:
    """Role, step and process of profiles by the names of their folders; the names in every folder are read once."""

    def __init__(self, survey: Survey | None = None) -> None:
        self._survey = survey or Survey()
        self._roles: dict[Path, set[str]] = {}

    def of(self, folder: Path) -> RolePlace:
        """Role, step and process of the profile whose files lie in ``folder``, empty where no name gives them."""
        role = step = process = ""
        looked = 0
        for place in (folder, *folder.parents):
            # Within a profile the names of folders give role and process; above it a role is a folder among others.
            if place.name in _PARTS or _PROFILE.fullmatch(place.name):
                flat, named = _FLAT.fullmatch(place.name), _PROCESS.fullmatch(place.name)
                role = role if flat is None else flat["role"]
                process = process if named is None else named["process"]
                continue
            if not role and place.name in self._beside(place.parent):
                role = place.name
            elif (number := _STEP.fullmatch(place.name)) is not None:
                step = number["step"]
                break
            looked += 1
            if looked == _LEVELS:
                break
        return RolePlace(role, step, process)

    def with_metadata(self, folder: Path) -> RolePlace:
        """Like ``of``, with what the metadata of the profile say."""
        place, above = self.of(folder), folder.parent if folder.name in _PARTS else folder
        return RolePlace(role_of(place, _role_in(above / "profiler_metadata.json")), place.step, place.process)

    def _beside(self, folder: Path) -> set[str]:
        if folder not in self._roles:
            self._roles[folder] = role_names(child.name for child in self._survey.folders(folder))
        return self._roles[folder]


class _RoleWords(Struct):
    role: str | None = None


def _role_in(metadata: Path) -> str:
    """The role that the file ``metadata`` names, "" where it does not, or cannot be read."""
    with suppress(OSError, ValueError, RecursionError):
        return msgspec.json.decode(read_regular(metadata), type=_RoleWords).role or ""
    return ""


def role_in_metadata(metadata: object) -> str:
    """The role that ``profiler_metadata.json`` names, "" where it names none."""
    role = metadata.get("role") if isinstance(metadata, dict) else None
    return role if isinstance(role, str) else ""


def role_of(place: RolePlace, told: str) -> str:
    """The role of a profile at ``place`` whose metadata ``told`` one; the ranks of each replica count from 0."""
    return place.role if not told or replica_of(place.role)[1] is not None else told


def empty_below(folder: Path, used: Iterable[Path], survey: Survey) -> list[str]:
    """The folders of roles and profiles, at most ``_LEVELS`` below ``folder``, that hold none of the files ``used``."""
    holding = {above for file in used for above in file.absolute().parents}
    empty = []
    for _, children in survey.walk(folder.absolute(), _LEVELS):
        unused = [child for child in children if child not in holding]
        empty += [str(child) for child in unused if _ROLE.fullmatch(child.name) or _PROFILE.fullmatch(child.name)]
        children[:] = [child for child in children if str(child) not in empty and not _is_closed(child.name)]
    return empty
