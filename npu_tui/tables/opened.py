"""A path to its tables: those of one profile, or of all ranks of a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from npu_tui.tables.tables import ProfileTables

if TYPE_CHECKING:
    from npu_tui.analysis.thresholds import Thresholds
    from npu_tui.ingest.source.find import Form
    from npu_tui.jobs.job import Job
    from npu_tui.profile.profile import Profile


def opened_tables(
    path: str | Path, thresholds: Thresholds, cached: bool = True, form: Form | None = None
) -> ProfileTables:
    """The tables of what lies at ``path``, nothing read yet that no query needs.

    A folder that holds several ranks has the tables of all of them, and ``ranks``. Raises ``InputError`` if there is
    nothing, or where one profile cannot be read.
    """
    from npu_tui.ingest.errors import SeveralError
    from npu_tui.ingest.opening import opening_of
    from npu_tui.profile.profile import Profile

    opening = opening_of(path, cached, form)
    try:
        source = opening.source
    except SeveralError:
        return job_tables(Path(path), thresholds, cached)
    profile = Profile(opening.trace(), source, thresholds)
    return ProfileTables(lambda: [profile])


def job_tables(path: Path, thresholds: Thresholds, cached: bool = True) -> ProfileTables:
    """The tables of all ranks in the folder ``path``, read when a query needs them."""
    return ProfileTables(_ranks(path, thresholds, cached), _job(path))


def _ranks(path: Path, thresholds: Thresholds, cached: bool) -> Callable[[], list[Profile]]:
    def profiles() -> list[Profile]:
        from npu_tui.ingest.opening import opening_of
        from npu_tui.ingest.source.find import find_sources
        from npu_tui.profile.profile import Profile

        openings = [opening_of(source.path, cached) for source in find_sources(path)]
        found = [Profile(opening.trace(), opening.source, thresholds) for opening in openings]
        return sorted(found, key=lambda each: (each.trace.rank is None, each.trace.rank or 0, each.path))

    return profiles


def _job(path: Path) -> Callable[[], Job]:
    def job() -> Job:
        from npu_tui.jobs.opening import open_job

        return open_job(path)

    return job
