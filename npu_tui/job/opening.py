"""A folder of profiles to a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from npu_tui.ingest.companions.files import Companions
from npu_tui.ingest.errors import InputError
from npu_tui.ingest.load import load
from npu_tui.ingest.source.find import Source, find_sources
from npu_tui.job.from_trace import calls_of, notifies_of, seen_of
from npu_tui.job.job import Job
from npu_tui.job.model import RankProfile
from npu_tui.job.reading import companion_rank, read_ranks
from npu_tui.profile.profile import Profile
from npu_tui.trace.message import message

BY_THEMSELVES = 8
"""Ranks up to which traces are read without being asked for."""

SMALL = 256 << 20
"""Bytes of all traces together up to which that holds."""

Progress = Callable[[int, int], None]
"""Told how many ranks of how many are read."""


def open_job(path: Path, traces: bool | None = None, progress: Progress | None = None) -> Job:
    """The job of all profiles at or below ``path``.

    Files beside the traces come first; the traces are read too if ``traces`` says so, or, where it is None, if they are
    few and small. Raises ``InputError`` if nothing is there, or nothing of it can be read.
    """
    sources = find_sources(path)
    if traces is None:
        traces = len(sources) <= BY_THEMSELVES and _bytes(sources) <= SMALL
    done = 0

    def read(source: Source, rank: int) -> RankProfile:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(sources))
        return _read(source, rank, traces)

    ranks, broken = read_ranks(sources, read, lambda source: source.rank)
    if not ranks:
        raise broken[0][1]
    said = [message("job.broken", path=str(source.opened), why=error.message) for source, error in broken]
    return Job(path, ranks, said)


def _bytes(sources: list[Source]) -> int:
    try:
        return sum(file.stat().st_size for source in sources for file in source.files)
    except OSError:
        return 0


def _read(source: Source, rank: int, traces: bool) -> RankProfile:
    profile = companion_rank(source, _companions(source), rank)
    if source.kind == "companions" or not (traces or not profile.calls):
        return profile
    measured = Profile(load(source), source)
    calls = calls_of(measured)
    if not calls:
        return profile
    notifies = notifies_of(measured, rank)
    return replace(profile, calls=tuple(calls), notifies=tuple(notifies), seen=tuple(seen_of(calls, notifies)))


def _companions(source: Source) -> Companions:
    if source.folder is None:
        raise InputError(message("input.nothing", path=str(source.path), folder=""))
    if source.kind == "database":
        from npu_tui.ingest.database.beside import DatabaseCompanions  # most profiles are text

        return DatabaseCompanions(source.folder, source.path)
    return Companions(source.folder)
