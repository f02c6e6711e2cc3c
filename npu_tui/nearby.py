"""The profiles below a folder: which there are, and what each one says in a line."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from npu_tui.jobs.kept import is_kept
from npu_tui.load import copy as cache
from npu_tui.load.companions import companions_of
from npu_tui.load.errors import InputError, Watcher, walled
from npu_tui.load.find import Source, home_of, listed, sources_below, sources_in
from npu_tui.load.format import LEVELS, MOST_FOLDERS, Survey
from npu_tui.load.formats.ftrace import FTRACE
from npu_tui.load.formats.memory import MEMORY
from npu_tui.load.load import Opening
from npu_tui.load.raw import Writer
from npu_tui.load.roles import RolePlaces
from npu_tui.strings import say, words
from npu_tui.trace.once import Cancelled
from npu_tui.trace.side_file import paths_in
from npu_tui.trace.text import printable

_NAMED = re.compile(r"(?P<worker>.*?)(?:_(?P<time>\d{14,17}))?_ascend_(?:pt|ms)")
_MSPROF = re.compile(r"PROF_\d+_(?P<time>\d{14,17})_.*")


class Nearby(Struct, frozen=True):
    """A profile, or a job that several make up.

    ``path`` opens it. ``name`` is where it lies below the folder, its profile's name shortened to the worker. ``time``
    is when it was recorded, in seconds since 1970: by its name, which is the time of day where it was recorded, else
    when its file was written. ``bytes`` are those of its traces, or of its tables where there is none. ``writer`` has
    written raw data, which nothing has analysed; several of these have the pattern of their names for a ``path``.

    ``alone`` says why it is not opened with others. In a list it has a ``style``, ``raw`` is said of raw data, and its
    verdict has a ``turn``.
    """

    is_job: ClassVar[bool] = False
    style: ClassVar[str] = ""
    alone: ClassVar[str] = ""
    raw: ClassVar[str] = "picker.raw"
    turn: ClassVar[int] = 0

    path: Path
    name: str
    rank: int | None
    time: float
    bytes: int
    level: int | None = None
    source: Source | None = None
    ranks: tuple[Nearby, ...] = ()
    writer: Writer | None = None

    @property
    def to_read(self) -> int:
        """The bytes that are read for its verdict where there is no parsed copy."""
        return self.bytes

    def rank_text(self) -> str:
        """Its rank; of a job how many there are."""
        return "" if self.rank is None else str(self.rank)

    def verdict(self, cached: bool, go_on: Callable[[], bool]) -> Verdict:
        """What it says first. Raises ``InputError``, ``Cancelled`` once ``go_on`` says so."""
        from npu_tui.profile.parts import WHOLE_TRACE
        from npu_tui.profile.profile import Profile

        opening = Opening(self.path, cached)
        if not (cached and opening.has_copy):
            opening = Opening(self.path, False)  # no copy was asked for
        trace = opening.trace(Watcher(lambda *_: go_on()))
        findings = Profile(trace, opening.source).part(WHOLE_TRACE).findings
        leading = next(
            (finding for finding in findings.findings if finding.step_after_ns is not None and finding.part_of is None),
            None,
        )
        text = words(findings.verdict[0]) if findings.verdict else ""
        return Verdict(self.path, text, leading is not None and leading.severity == "high")


class NearbyJob(Nearby, frozen=True):
    """A job of ``ranks``, or what is kept of one, without them."""

    is_job, style, alone, raw, turn = True, "bold", "picker.job_alone", "picker.raw_job", 1

    @property
    def to_read(self) -> int:
        """Nothing: its ranks are read one by one."""
        return 0

    def rank_text(self) -> str:
        """How many ranks there are."""
        return say("picker.ranks", count=len(self.ranks)) if self.ranks else ""

    def verdict(self, cached: bool, go_on: Callable[[], bool]) -> Verdict:
        """What its report says first."""
        from npu_tui.jobs.opening import open_job
        from npu_tui.output.job_report import job_report

        def stop(*_: object) -> None:
            if not go_on():
                raise Cancelled

        report = job_report(open_job(self.path, progress=stop), path=False)
        return Verdict(self.path, report.verdict[0], bool(report.findings) and report.findings[0].severity == "high")


def nearby(folder: Path) -> list[Nearby]:
    """The profiles below ``folder``, the newest first, each job before its ranks."""
    return newest_first(profile_of(source, folder) for source in sources_below(folder))


def jobs_in(listed: Iterable[Nearby]) -> int:
    """How many of ``listed`` are jobs."""
    return sum(entry.is_job for entry in listed)


_SNAPSHOTS = (".pkl", ".pickle", ".csv", ".db")
"""How files end that may be memory snapshots."""


def others_below(folder: Path, sources: Iterable[Source]) -> Iterator[Nearby]:
    """What opens below ``folder`` by itself and is no profile, as the ``sources`` are: snapshots, ftrace, kept jobs."""
    survey, taken = Survey(), {home_of(source) for source in sources}
    for looked, (place, children) in enumerate(survey.walk(folder, LEVELS)):
        if looked >= MOST_FOLDERS:
            return
        with suppress(OSError, InputError):
            alone = FTRACE.recognise(place, survey)
            if place in taken or alone is not None or is_kept(place, survey):
                children.clear()
            if place in taken:
                continue
            if alone is not None:
                yield profile_of(alone, folder)
            elif not children and is_kept(place, survey):
                size, written = _measured_in(file for each, _ in survey.walk(place, 1) for file in survey.files(each))
                yield NearbyJob(place, printable(_path_from(place, folder, place.name)), None, written, size)
            else:
                files = (file for file in survey.files(place) if file.suffix in _SNAPSHOTS and file not in taken)
                found = (MEMORY.recognise(file, survey) for file in files)
                yield from (profile_of(source, folder) for source in found if source is not None)


_MOST_BESIDE = 200
"""Folders beside a service that are looked into."""
_MOST_RANKS = 8
"""Ranks that are opened beside it; a user may name others."""


def with_profile_beside(openings: Sequence[Opening]) -> list[Opening]:
    """``openings``, and where they are one inference service, the first ranks of the NPU profile that lies with it.

    They are looked for in the folder of the service and below, then in the folder around it.
    """
    try:
        if len(openings) != 1 or openings[0].piped is not None or openings[0].source.kind != "service":
            return [*openings]
    except InputError:  # it is said where it is opened
        return [*openings]
    folder, survey = openings[0].source.path, openings[0].survey
    found = [source for source in sources_below(folder, survey=survey) if _is_of_device(source)]
    if not found:
        around = folder.absolute().parent
        places = [around, *itertools.islice(survey.folders(around), _MOST_BESIDE)]
        found = [source for place in places for source in sources_in(place, survey) if _is_of_device(source)]
    found.sort(key=lambda source: (source.rank or 0, source.path))
    together = (source for source in found if home_of(source).parent == home_of(found[0]).parent)
    ranks = list({source.rank: home_of(source) for source in reversed([*together])}.values())[::-1][:_MOST_RANKS]
    return [*openings, *(Opening(home, openings[0].cached, optional=True, survey=survey) for home in ranks)]


def _is_of_device(source: Source) -> bool:
    """Whether it has the trace of a device, or of its host."""
    return source.format.is_profile and not source.format.is_folder


def holds_several(folder: Path, survey: Survey | None = None) -> bool:
    """Whether what lies below ``folder`` is more than one job or profile, so that one of them has to be chosen.

    That is so where a rank lies in two folders (two jobs, or a job and a single run), where all profiles are of one
    rank (runs one after the other), or where profiles with and without a known rank lie side by side. A run of a single
    card has no rank: neither its profiler_info.json nor its file under a name of its own has one, nor does the folder
    of a trace_view.json. Roles of one job have the same ranks, and are no two jobs.
    """
    by_rank: dict[int | None, list[Source]] = defaultdict(list)
    services = 0
    survey = survey or Survey()
    if is_kept(folder, survey):  # of one job
        return False
    for source in sources_below(folder, survey=survey):
        services += not source.format.is_profile
        if source.format.is_profile:  # a service beside a job is no rank of it
            by_rank[source.rank].append(source)
    if services > 1:
        return True
    if any(len(sources) > 1 for sources in by_rank.values()) and _is_of_roles(by_rank, survey):
        return False
    if not by_rank:
        return False
    if len(by_rank) == 1:
        rank, sources = by_rank.popitem()
        return len(sources) > 1 and (rank is not None or all(map(_is_single_card, sources)))
    return None in by_rank or any(
        len({home_of(source).parent for source in sources}) > 1 for sources in by_rank.values() if len(sources) > 1
    )


def _is_of_roles(by_rank: dict[int | None, list[Source]], survey: Survey) -> bool:
    """Whether profiles of the same rank are of different roles, or of one role in different steps."""
    places = RolePlaces(survey)
    for rank, sources in by_rank.items():
        homes: dict[tuple[str, str], set[Path]] = defaultdict(set)
        for source in sources:
            place = places.with_metadata((source.folder or source.path).absolute())
            if not place.role and (rank is None or len(sources) > 1):
                return False
            homes[place.role, place.step].add(home_of(source).parent)
        if any(len(folders) > 1 for folders in homes.values()):
            return False
    return True


def refuse_several(folder: Path, survey: Survey | None = None) -> None:
    """Raise ``InputError``, which names what to choose from, where ``folder`` holds more than one job or profile."""
    if folder.is_dir() and holds_several(folder, survey):
        entries = nearby(folder)
        in_jobs = {rank.path for entry in entries for rank in entry.ranks}
        places = [entry.path for entry in entries if entry.path not in in_jobs]
        raise InputError(listed("input.jobs", folder, places, len(places)))


_RANK_NAME = re.compile(
    r"(?:.*[^a-z])?(?:rank|device|npu|card|worker|node|r|d)[_-]?\d+|\d+|.*_ascend_(?:pt|ms)", re.IGNORECASE
)
"""The name of a folder of a rank, not of a run: ``rank0``, ``job_card-3``, ``07``, and what profilers call theirs."""


def _is_single_card(source: Source) -> bool:
    if source.kind == "json" and source.rank is None:
        return True
    if source.kind == "trace_view_json" and source.rank is None and not _RANK_NAME.fullmatch(home_of(source).name):
        return True
    return source.folder is not None and (source.folder.parent / "profiler_info.json").is_file()


def profile_of(source: Source, folder: Path) -> Nearby:
    """The profile ``source``, described without reading its trace."""
    path = home_of(source)
    name = (_NAMED.fullmatch(path.name) or _MSPROF.fullmatch(path.name)) if path.is_dir() else None
    size, written = _measured_in(source.files or (file for file in paths_in(source.path) if file.suffix in _DATA))
    worker = name["worker"] if name is not None and name.re is _NAMED and name["worker"] else path.name
    stamp = name["time"] if name is not None else None
    return Nearby(
        path,
        printable(_path_from(path, folder, worker)),
        source.rank,
        _stamped(stamp) or written,
        size,
        None if source.folder is None else companions_of(source).profiler_level,
        source,
    )


def raw_nearby(path: Path, writer: Writer, folder: Path, bytes: int, changed: float, rank: int | None) -> Nearby:
    """The raw profile of ``writer`` at ``path``: ``bytes`` of raw data, last ``changed`` at that time, of ``rank``."""
    name = _NAMED.fullmatch(path.name)
    worker = (name["worker"] if name is not None else "") or path.name
    time = _stamped(name["time"] if name is not None else None) or changed
    return Nearby(path, printable(_path_from(path, folder, worker)), rank, time, bytes, writer=writer)


def _path_from(path: Path, folder: Path, worker: str) -> str:
    """Where ``path`` lies below ``folder``, its last part called ``worker``."""
    try:
        parts = path.relative_to(folder).parts
    except ValueError:
        parts = path.parts
    return "/".join([*parts[:-1], worker]) if parts else worker or "."


_DATA = (".csv", ".json", ".db")


def _measured_in(files: Iterable[Path]) -> tuple[int, float]:
    size, written = 0, 0.0
    try:
        for file in files:
            status = file.stat()
            size, written = size + status.st_size, max(written, status.st_mtime)
    except OSError:  # the files that could be measured count
        pass
    return size, written


def _stamped(digits: str | None) -> float | None:
    """The time that 14 to 17 ``digits`` name; None where they name none."""
    if digits is None:
        return None
    try:
        return datetime.strptime(digits[:14], "%Y%m%d%H%M%S").timestamp() + float(f"0.{digits[14:] or 0}")
    except (ValueError, OverflowError):
        return None


def newest_first(profiles: Iterable[Nearby]) -> list[Nearby]:
    """``profiles`` with the newest first; those of one folder that are different ranks follow their job, by rank.

    Folders of roles and of their steps are one job, whose ranks are those of each role and step.
    """
    folders: dict[Path, list[Nearby]] = defaultdict(list)
    places, role_of = RolePlaces(), {}
    for profile in profiles:
        source = profile.source
        place = places.of((profile.path if source is None else source.folder or source.path).absolute())
        role_of[profile.path] = place
        folders[place.above(profile.path.parent)].append(profile)
    blocks: list[tuple[float, list[Nearby]]] = []
    for folder, inside in folders.items():
        known = {(role_of[profile.path].order, rank) for profile in inside if (rank := _rank_of(profile)) is not None}
        # A role whose folder names no step may hold several profiles of a rank.
        if len(inside) > 1 and (len(known) == len(inside) or all(role_of[profile.path].role for profile in inside)):
            ranks = sorted(inside, key=lambda one: (role_of[one.path].order, one.rank or 0))
            blocks.append((max(profile.time for profile in ranks), [_job(folder, ranks), *ranks]))
        else:
            blocks += [(profile.time, [profile]) for profile in inside]
    return [
        profile for _, block in sorted(blocks, key=lambda block: (-block[0], block[1][0].name)) for profile in block
    ]


def _rank_of(profile: Nearby) -> int | str | None:
    """The rank of ``profile``; for a framework's raw data the process, where the rank was not written."""
    if profile.rank is None and profile.writer is not None and _NAMED.fullmatch(profile.path.name):
        return profile.name
    return profile.rank


def _job(folder: Path, ranks: list[Nearby]) -> Nearby:
    levels = {profile.level for profile in ranks}
    deeper = len(ranks[0].path.parent.parts) - len(folder.parts)
    where = "/".join(ranks[0].name.split("/")[: -1 - deeper])
    writer = ranks[0].writer
    names = ["*"] * deeper + ["*_ascend_ms" if writer == "mindspore" else "*_ascend_pt"]
    return NearbyJob(
        folder if writer is None else folder.joinpath(*names),
        f"{where or '.'}/",
        None,
        max(profile.time for profile in ranks),
        sum(profile.bytes for profile in ranks),
        levels.pop() if len(levels) == 1 else None,
        ranks=tuple(ranks),
        writer=writer,
    )


def matching(listed: Iterable[Nearby], wanted: str, verdicts: dict[Path, str] | None = None) -> Iterator[Nearby]:
    """Those whose name, rank or verdict holds ``wanted``, capital letters or not; a job with any such rank."""
    low, texts = wanted.casefold(), verdicts or {}

    def holds(profile: Nearby) -> bool:
        rank = "" if profile.rank is None else f"rank{profile.rank}"
        text = f"{profile.name}\n{profile.path.name}\n{rank}\n{texts.get(profile.path, '')}"
        return low in text.casefold() or any(map(holds, profile.ranks))

    return (profile for profile in listed if holds(profile))


LARGEST = 512 << 20
"""Bytes of a trace without a parsed copy up to which it is read only to know what it says."""

MOST = 2 << 30
"""Bytes of all of them together."""


class Verdict(Struct, frozen=True):
    """What the profile or job at ``path`` says first; ``grave`` where it is a large share of the run.

    ``failed`` where it cannot be read, and ``text`` says why.
    """

    path: Path
    text: str
    grave: bool = False
    failed: bool = False


def verdicts(listed: Iterable[Nearby], cached: bool, go_on: Callable[[], bool]) -> Iterator[Verdict]:
    """What each of ``listed`` says: first those with parsed copies, then the smaller before the larger.

    Ends as soon as ``go_on`` says so. Profiles too large to read for one line are left out.
    """
    read = 0
    for has_copy, profile in sorted(
        _weighed(listed, cached), key=lambda pair: (not pair[0], pair[1].turn, pair[1].bytes)
    ):
        if not go_on():
            return
        if not has_copy:
            if profile.to_read > LARGEST or read + profile.to_read > MOST:
                continue
            read += profile.to_read
        try:
            with walled(profile.path):
                verdict = profile.verdict(cached, go_on)
            yield verdict
        except Cancelled:
            return
        except InputError as error:
            yield Verdict(profile.path, words(error.message), failed=True)


def _weighed(listed: Iterable[Nearby], cached: bool) -> Iterator[tuple[bool, Nearby]]:
    """Each with whether it has a parsed copy."""
    for profile in listed:
        key = cache.key_of(profile.source) if cached and profile.source is not None and profile.source.files else None
        yield key is not None and cache.has(key), profile
