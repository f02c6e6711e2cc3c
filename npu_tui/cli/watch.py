"""``npu-tui watch``: new profiles below a folder, one verdict each, for a training loop in the pane beside it."""

from __future__ import annotations

import argparse
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from npu_tui.cli.options import opened_profile, thresholds_of
from npu_tui.cli.parser import Parser
from npu_tui.cli.streams import DONE, StatusLine, write
from npu_tui.strings import say, words
from npu_tui.trace.text import drawable, printable, whole_number

if TYPE_CHECKING:
    from npu_tui.analysis.limits import Thresholds
    from npu_tui.load.find import Source
    from npu_tui.profile.profile import Profile

Look = tuple[tuple[str, int, int], ...]
"""Name, size and time of change of every file of a profile: what is written changes it."""

_PATIENCE = 10
"""So many times as long a profile that does not end as it should is waited for."""


class Watched(Struct):
    """A profile that is not reported yet: how it looked, and since when."""

    look: Look
    since: float


class Watch(Struct):
    """What has become of the profiles below ``folder``; one is complete when it has not changed for ``settle`` s."""

    folder: Path
    settle: float
    known: set[Path] = set()
    waiting: dict[Path, Watched] = {}

    def complete(self, now: float) -> list[Source]:
        """The profiles that have become complete by ``now``, in seconds of any clock; each once, by change."""
        found = {source.path: source for source in _sources(self.folder)}
        for path in self.waiting.keys() - found.keys():
            del self.waiting[path]
        done: list[tuple[int, Source]] = []
        for path, source in found.items():
            if path in self.known:
                continue
            look = look_of(source)
            seen = self.waiting.get(path)
            if (seen is None or seen.look != look) and not _is_done(source):
                self.waiting[path] = Watched(look, now)
                continue
            waited = 0.0 if seen is None else now - seen.since
            settled = waited >= self.settle and (ends_well(source) or waited >= _PATIENCE * self.settle)
            if look and (settled or _is_done(source)):
                self.known.add(path)
                self.waiting.pop(path, None)
                done.append((_changed(look), source))
        return [source for _, source in sorted(done, key=lambda entry: (entry[0], str(entry[1].path)))]


def _sources(folder: Path) -> list[Source]:
    from npu_tui.load.errors import InputError
    from npu_tui.load.find import find_sources
    from npu_tui.load.raw import unfinished

    try:
        found = find_sources(folder)
    except InputError:  # nothing yet
        return []
    # CANN's part of a profile that is being analysed is there before the profile.
    return [source for source in found if not source.files or unfinished(source.files[0], source.survey) is None]


def look_of(source: Source) -> Look:
    """How the files of ``source`` look, those beside the trace with them; empty where they are gone."""
    found = []
    try:
        folder = source.folder or source.path.parent
        for file in sorted({*source.files, *(path for path in folder.iterdir() if path.is_file())}):
            told = file.stat()
            found.append((file.name, told.st_size, told.st_mtime_ns))
    except OSError:
        return ()
    return tuple(found)


def _changed(look: Look) -> int:
    """When the newest of the files was changed, ns; 0 where they are gone."""
    return max((change for *_, change in look), default=0)


def ends_well(source: Source) -> bool:
    """Whether the files of ``source`` end as whole ones do, by their last bytes."""
    from npu_tui.record.outputs import is_whole

    return all(file.suffix == ".gz" or is_whole(file) for file in source.files)


def _is_done(source: Source) -> bool:
    """Whether the analysis of ``source`` has said that it ended; those before 2026 do not."""
    from npu_tui.record.outputs import ANALYSED

    return source.folder is not None and (source.folder / ANALYSED).is_file()


def watch_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui watch``."""
    parser.add_argument("path", nargs="?", default=".", metavar="DIR", help=say("watch.path"))
    parser.add_argument("--settle", default="3", metavar="SECONDS", help=say("watch.settle"))
    parser.add_argument("--count", metavar="N", help=say("watch.count"))
    parser.add_argument("--all", action="store_true", help=say("watch.all"))
    parser.add_argument("--config", metavar="FILE", help=say("cli.config"))


def run_watch(parser: Parser, options: argparse.Namespace) -> int:
    """Watch as ``options`` say until Ctrl+C, or until so many profiles are reported; returns the exit code.

    Raises ``InputError`` where there is no folder, ``SettingsError``, ``OSError`` of stdout.
    """
    settle = whole_number(options.settle)
    count = None if options.count is None else whole_number(options.count)
    if settle is None or settle < 1:
        parser.error(say("watch.bad_number", option="--settle"))
    if options.count is not None and (count is None or count < 1):
        parser.error(say("watch.bad_number", option="--count"))
    _refuse_no_folder(Path(options.path))
    return _watch(options, float(settle), count)


def _refuse_no_folder(path: Path) -> None:
    from npu_tui.load.errors import InputError
    from npu_tui.trace.message import message

    if not path.is_dir():
        raise InputError(message("watch.no_folder", path=str(path)))


def _watch(options: argparse.Namespace, settle: float, count: int | None) -> int:
    watch = Watch(Path(options.path), settle)
    teller = _Teller(watch.folder, thresholds_of(options.config))
    status = StatusLine()
    if not options.all:
        for source in sorted(_sources(watch.folder), key=lambda source: _changed(look_of(source))):
            watch.known.add(source.path)
            teller.seen(source)
    keys = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    begun = say("watch.begun", path=options.path, count=len(watch.known))
    print(say("watch.enter", begun=begun) if keys else begun, file=sys.stderr, flush=True)
    told = 0
    while count is None or told < count:
        for source in watch.complete(time.monotonic()):
            line = teller.line(source)
            status.show("")
            write(line + "\n")
            if sys.stderr.isatty():
                print("\a", end="", file=sys.stderr, flush=True)
            told += 1
        if count is None or told < count:
            status.show(_written_now(watch))
            _wait(min(settle / 3, 1.0), teller if keys else None, status)
    return DONE


def _wait(seconds: float, teller: _Teller | None, status: StatusLine) -> None:
    """Wait; Enter opens the newest profile meanwhile."""
    if teller is None:
        time.sleep(seconds)
    elif select.select([sys.stdin], [], [], seconds)[0]:
        sys.stdin.readline()
        status.show("")
        if teller.newest is None:
            print(say("watch.none"), file=sys.stderr, flush=True)
        else:
            subprocess.run([sys.executable, "-m", "npu_tui", str(teller.newest)], check=False)


def _written_now(watch: Watch) -> str:
    """The newest of the profiles that are not reported yet, and how large it is so far; empty without any."""
    if not watch.waiting:
        return ""
    path, seen = max(watch.waiting.items(), key=lambda entry: _changed(entry[1].look))
    size = sum(size for _, size, _ in seen.look) / 1e6
    return say("watch.writing", name=printable(str(_path_below(watch.folder, path.parent))), size=f"{size:.1f}")


class _Teller:
    """Says what a profile is like, and how it differs from the one before it of its rank."""

    def __init__(self, folder: Path, thresholds: Thresholds) -> None:
        self._folder = folder
        self._thresholds = thresholds
        self._before: dict[tuple[str, int | None], Path] = {}
        self.newest: Path | None = None

    def seen(self, source: Source) -> None:
        """``source`` is the newest of its role and rank."""
        self._before[_role_and_rank(source)] = self.newest = source.path

    def line(self, source: Source) -> str:
        """The line about ``source``."""
        from npu_tui.load.errors import InputError, walled

        before = self._before.get(_role_and_rank(source))
        clock, name = (
            time.strftime("%H:%M:%S"),
            drawable(printable(str(_path_below(self._folder, _profile_path(source))))),
        )
        try:
            with walled(source.path):
                profile = opened_profile(str(source.path), True, self._thresholds)
                said = next((words(line) for line in profile.findings.verdict), say("watch.no_verdict"))
                change = "" if before is None else self._change(before, profile)
        except InputError as error:
            return f"{clock}  {name}  {printable(words(error.message))}"
        self.seen(source)
        rank = "" if source.rank is None else "  " + say("watch.rank", rank=source.rank)
        return "  ".join(part for part in (clock, name + rank, change, said) if part)

    def _change(self, before: Path, profile: Profile) -> str:
        """What became of the step since the profile at ``before``."""
        from npu_tui.compare.comparison import ProfileComparison
        from npu_tui.compare.measured import MeasuredSide
        from npu_tui.load.errors import InputError, walled
        from npu_tui.output.compare_report import compared

        try:
            with walled(before):
                base = opened_profile(str(before), True, self._thresholds)
                found = compared(ProfileComparison(MeasuredSide(base), MeasuredSide(profile))).step
        except InputError:  # it is gone meanwhile
            return ""
        if found.delta_us is None or found.verdict == "incomparable":
            return say("watch.incomparable")
        return say(f"watch.{found.verdict}", change=found.delta_us * 1000)


def _role_and_rank(source: Source) -> tuple[str, int | None]:
    """The role, where there is one, and the rank of the profile ``source``."""
    from npu_tui.load.roles import RolePlaces

    return RolePlaces().with_metadata(source.folder or source.path.parent).role, source.rank


def _path_below(folder: Path, path: Path) -> Path:
    """``path`` as seen from ``folder``, where it lies below."""
    for end in ("ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output"):
        if path.name == end:
            path = path.parent
    return path.relative_to(folder) if path != folder and path.is_relative_to(folder) else path


def _profile_path(source: Source) -> Path:
    """What a user calls the profile: its directory, for a trace alone its file."""
    folder = source.folder or source.path
    return folder.parent if folder.name in ("ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output") else source.path
