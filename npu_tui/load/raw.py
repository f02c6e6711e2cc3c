"""Raw data that no profiler has parsed yet, and the command that parses them.

torch_npu: https://www.hiascend.com/document/detail/en/mindstudio/700/TITools/Profiling/atlasprofiling_16_0034.html,
MindSpore: https://www.mindspore.cn/docs/en/master/api_python/mindspore/mindspore.profiler.profiler.analyse.html;
both take a profile or the folder of several. ``msprof --export`` takes a ``PROF_`` folder or the folder of several,
``msserviceprofiler parse`` (https://gitcode.com/Ascend/msserviceprofiler) the folder with a database of each process.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from npu_tui.load.format import OUTPUT, Survey
from npu_tui.load.formats.service import DATABASES
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import paths_in

_FRAMEWORK = "FRAMEWORK"
_OF_FRAMEWORKS = "_ascend_pt", "_ascend_ms"
_LEVELS = 4
"""Folders above a file in which its profile may be: ``*_ascend_pt/PROF_*/device_*/timeline``."""
_MSPROF = re.compile(r"PROF_\d+_.*")
_MOST_FOLDERS = 8  # folders in a command that is shown
PARSED = "parsed"
"""The folder in that of a service that its parser is asked to write to."""
_OF_SERVICES = "ms_service_*.db", "ascend_service_profiler_*.db"

Writer = Literal["torch_npu", "mindspore", "msprof", "msserviceprofiler"]
"""The profiler that wrote the raw data of a folder."""


def is_msprof(folder: Path) -> bool:
    """Whether ``folder`` is one of msprof, by its name."""
    return _MSPROF.fullmatch(folder.name) is not None


def writer_of(folder: Path, survey: Survey) -> Writer | None:
    """The profiler that wrote the raw data in ``folder``, or None. Raises ``OSError`` if it cannot be read."""
    if is_msprof(folder):
        return "msprof"
    holds_msprof = any(map(is_msprof, survey.folders(folder, "PROF_*")))
    if holds_msprof and folder.name.endswith("_ascend_ms"):
        return "mindspore"
    if (folder / _FRAMEWORK).is_dir() and (holds_msprof or folder.name.endswith("_ascend_pt")):
        return "torch_npu"
    if holds_msprof:
        return "torch_npu" if folder.name.endswith("_ascend_pt") else "msprof"
    return "msserviceprofiler" if raw_services(folder, survey) else None


def unfinished(file: Path, survey: Survey) -> Path | None:
    """The profile around ``file``, a table or a trace of CANN alone, that its framework's profiler has not finished.

    Its analysis exports CANN's part into ``PROF_`` first and joins it with what the framework recorded; it may be under
    way or broken off. None where the profile is whole, or no framework recorded anything.
    """
    for place in file.absolute().parents[:_LEVELS]:
        if place.name == OUTPUT:
            return None
        if place.name.endswith(_OF_FRAMEWORKS):
            with suppress(OSError):
                if not survey.folders(place, _FRAMEWORK):
                    return None
                names = survey.names(place / OUTPUT) if survey.folders(place, OUTPUT) else []
                return None if any(name.endswith((".db", "trace_view.json")) for name in names) else place
    return None


def without_device(file: Path, survey: Survey) -> Literal["unread", "none"] | None:
    """What the raw data around ``file``, a trace without any time of a device, say of the device.

    ``unread``: it was recorded, ``none``: it was not; None where no raw data lie there.
    """
    for place in file.absolute().parents[:_LEVELS]:
        with suppress(OSError):
            parts = [place] if is_msprof(place) else survey.folders(place, "PROF_*")
            if parts:
                return "unread" if any(survey.folders(part, "device_*") for part in parts) else "none"
    return None


def raw_services(folder: Path, survey: Survey) -> list[str]:
    """The databases in ``folder`` that msServiceProfiler collected of a process each, which are not read here."""
    names = sorted(file.name for pattern in _OF_SERVICES for file in survey.glob(folder, pattern))
    return [name for name in names if name not in DATABASES]


def is_raw(folder: Path, survey: Survey) -> bool:
    """Whether ``folder``, or one in it, holds raw data; not where it cannot be read."""
    try:
        return any(writer_of(place, survey) is not None for place in (folder, *survey.folders(folder)))
    except OSError:
        return False


def refusal(path: Path, profiles: Sequence[tuple[Path, Writer]]) -> Message:
    """What is said of ``path``, which is one of ``profiles`` or holds them, with the command that parses them."""
    places: dict[Writer, dict[Path, list[Path]]] = {}
    count = 0
    for profile, writer in profiles:
        holds_several = writer == "msprof" and not is_msprof(profile)
        count += sum(map(is_msprof, paths_in(profile))) if holds_several else 1
        places.setdefault(writer, {}).setdefault(profile if holds_several else profile.parent, []).append(profile)
    # The profiles of one folder are parsed together.
    given = {
        writer: [inside[0] if len(inside) == 1 else parent for parent, inside in parents.items()]
        for writer, parents in places.items()
    }
    calls = [call for writer, folders in given.items() for call in commands_of(writer, folders[:_MOST_FOLDERS])]
    command = shell_of(calls)
    rest = sum(max(len(folders) - _MOST_FOLDERS, 0) for folders in given.values())
    if rest:
        return message("input.raw_below_more", path=str(path), count=count, command=command, rest=rest)
    if any(profile == path for profile, _ in profiles):
        return message("input.raw", path=str(path), command=command)
    return message("input.raw_below", path=str(path), count=count, command=command)


def commands_of(
    writer: Writer, folders: Sequence[Path], python: str = "python3", processes: int | None = None
) -> list[list[str]]:
    """The commands that parse ``folders``; torch_npu and MindSpore take ``processes`` at once in ``python``."""
    if writer == "msprof":
        return [["msprof", "--export=on", f"--output={folder}"] for folder in folders]
    if writer == "msserviceprofiler":
        return [
            ["msserviceprofiler", "parse", f"--input-path={folder}", f"--output-path={folder / PARSED}"]
            for folder in folders
        ]
    names = [str(folder) for folder in folders]
    more = "" if processes is None else f", max_process_number={processes}"
    call = f"analyse({names[0]!r}{more})" if len(names) == 1 else f"[analyse(path{more}) for path in {names!r}]"
    return [[python, "-c", f"from {writer}.profiler.profiler import analyse; {call}"]]


def shell_of(commands: Sequence[Sequence[str]]) -> str:
    """``commands`` as a line for a shell."""
    return " && ".join(map(shlex.join, commands))
