"""Which files at a path hold the events of one rank, and whose they are."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from npu_tui.ingest.errors import InputError

_OUTPUT = "ASCEND_PROFILER_OUTPUT"
_MSPROF_OUTPUT = "mindstudio_profiler_output"
_TRACE = re.compile(r"trace_view\.json(?:\.gz)?")
_MSPROF = re.compile(r"msprof_\d+\.json(?:\.gz)?")
_SLICE = re.compile(r"msprof_slice_(\d+)_(\d+)\.json(?:\.gz)?")
_KINETO = re.compile(r".*\.pt\.trace\.json(?:\.gz)?")
_INFO = re.compile(r"profiler_info_(\d{1,5})\.json")
_LISTED = 8
_LEVELS = 3
_MOST_FOLDERS = 1000
_RAW_TORCH = "FRAMEWORK"
_RAW_MSPROF = re.compile(r"PROF_\d+_.*")


Kind = Literal["trace_view_json", "msprof_json", "json", "pipe"]
"""What the files of a source are, as their names tell; ``json`` are events under any other name."""


@dataclass(frozen=True, slots=True)
class Source:
    """What discovery found at ``opened``, which is what the user gave.

    ``files`` hold one trace together (several only for sliced msprof exports), ``path`` is the one that stands for
    them; ``rank`` is None where nothing beside them tells it.
    """

    opened: Path
    path: Path
    files: tuple[Path, ...]
    rank: int | None
    kind: Kind

    @property
    def is_directory(self) -> bool:
        """Whether a directory was opened, not a file in it."""
        return self.opened != self.path

    @property
    def folder(self) -> Path | None:
        """Where companion files lie; None where there is no folder."""
        return self.files[0].parent if self.files else None


PIPED = Path("-")
"""Stands for the trace that comes through standard input."""

PIPE = Source(PIPED, PIPED, (), None, "pipe")
"""Nothing lies beside what comes through a pipe, and nothing tells what it is."""


def find_source(path: Path) -> Source:
    """The trace at ``path``: a file, or a directory of the profiler that holds one.

    A slice of an msprof export stands for all slices of that export beside it. Raises ``InputError`` if nothing is
    there, or a directory holds no or several traces, or only data that were never parsed.
    """
    try:
        if not path.exists():
            raise InputError(f"{path}: no such file or directory; give a trace_view.json or a profile directory")
        if not path.is_dir():
            return _source(path, path, _whole_export(path))
        found = _traces_in(path) or _traces_below(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; give a file or directory that can be read") from error
    if len(found) == 1:
        return _source(path, found[0][0], found[0])
    if found:
        names = _listed([trace[0] for trace in found])
        raise InputError(f"{path}: holds {len(found)} traces; give one of them: {names}")
    raise InputError(_nothing_in(path))


def _source(opened: Path, path: Path, files: tuple[Path, ...]) -> Source:
    return Source(opened, path, files, _rank_of(files[0]), _kind_of(path.name))


def _kind_of(name: str) -> Kind:
    """What a file is, by the name the profilers give it."""
    if name.startswith("msprof"):
        return "msprof_json"
    return "trace_view_json" if name.startswith("trace_view.") else "json"


def _traces_in(folder: Path) -> list[tuple[Path, ...]]:
    """The traces that lie in ``folder`` as the profilers lay them out; the most processed form wins."""
    for place in (folder / _OUTPUT, folder, folder / _MSPROF_OUTPUT):
        if not place.is_dir():
            continue
        files = sorted(file for file in place.iterdir() if file.is_file())
        for pattern in (_TRACE, _MSPROF):
            named = [file for file in files if pattern.fullmatch(file.name)]
            if named:
                return [(file,) for file in _newest(named)]
        exports = {match[2]: file for file in files if (match := _SLICE.fullmatch(file.name))}
        if exports:
            return [_whole_export(exports[max(exports)])]
        kineto = [file for file in files if _KINETO.fullmatch(file.name)]
        if kineto:
            return [(file,) for file in kineto]
    return [trace for child in _folders(folder, "PROF_*") for trace in _traces_in(child)]


def _traces_below(folder: Path) -> list[tuple[Path, ...]]:
    """The traces in the folders below ``folder``, some levels down; a profile is not searched for others.

    Raises ``InputError`` where there are too many folders to look through.
    """
    found: list[tuple[Path, ...]] = []
    level, looked = [folder], 0
    for _ in range(_LEVELS):
        deeper: list[Path] = []
        for child in (child for parent in level for child in _folders(parent) if not child.name.startswith(".")):
            looked += 1
            if looked > _MOST_FOLDERS:
                raise InputError(f"{folder}: more than {_MOST_FOLDERS} folders below it; give the one of the profile")
            try:
                traces = _traces_in(child)
            except OSError:  # not ours to read
                continue
            found += traces
            if not traces:
                deeper.append(child)
        level = deeper
    return found


def _folders(folder: Path, pattern: str = "*") -> list[Path]:
    return [child for child in sorted(folder.glob(pattern)) if child.is_dir()]


def _newest(files: list[Path]) -> list[Path]:
    """An unpacked file before its packed twin, and of several msprof exports the last one."""
    plain = [file for file in files if file.suffix != ".gz"] or files
    return plain[-1:] if _MSPROF.fullmatch(plain[0].name) else plain[:1]


def _whole_export(file: Path) -> tuple[Path, ...]:
    """All slices of the msprof export that ``file`` is a slice of, in their order; any other file alone."""
    match = _SLICE.fullmatch(file.name)
    if match is None:
        return (file,)
    slices: dict[int, Path] = {}
    for sibling in sorted(file.parent.iterdir(), reverse=True):  # an unpacked slice comes after its packed twin
        other = _SLICE.fullmatch(sibling.name)
        if other and other[2] == match[2] and sibling.is_file():
            slices[int(other[1])] = sibling
    return tuple(slices[number] for number in sorted(slices))


def _listed(files: list[Path]) -> str:
    """The profiles of ``files``, or the files themselves, to be copied to a command line."""
    shown = []
    for file in files[:_LISTED]:
        profile = file.parent.parent if file.parent.name in (_OUTPUT, _MSPROF_OUTPUT) else file.parent
        alone = sum(other.is_relative_to(profile) for other in files) == 1
        shown.append(shlex.quote(str(profile if alone else file)))
    rest = len(files) - len(shown)
    return "  ".join(shown) + (f"  and {rest} more" if rest else "")


def _nothing_in(path: Path) -> str:
    """One line on a directory without a trace, with the command that makes one out of raw data."""
    if any(_RAW_MSPROF.fullmatch(child.name) for child in path.iterdir()):
        if (path / _RAW_TORCH).is_dir():
            code = f"from torch_npu.profiler.profiler import analyse; analyse({str(path)!r})"
            how = f"python3 -c {shlex.quote(code)}"
        else:
            how = _export(path)
        return f"{path}: raw profiler data that were never parsed; run: {how}"
    if _RAW_MSPROF.fullmatch(path.name):
        return f"{path}: raw profiler data that were never parsed; run: {_export(path)}"
    if any(path.glob("*.db")) or any((path / _OUTPUT).glob("*.db")):
        return f"{path}: holds databases but no trace; export the profile as text (export_type) and give that"
    return f"{path}: no {_OUTPUT}/trace_view.json in this directory; give a trace_view.json or a profile directory"


def _export(path: Path) -> str:
    return f"msprof --export=on {shlex.quote(f'--output={path}')}"


def _rank_of(file: Path) -> int | None:
    """The rank named by the first ``profiler_info_<rank>.json`` two directories up, as torch_npu lays profiles out."""
    try:
        infos = sorted(file.resolve().parent.parent.iterdir())
    except OSError:
        return None
    return next((int(match[1]) for info in infos if (match := _INFO.fullmatch(info.name))), None)
