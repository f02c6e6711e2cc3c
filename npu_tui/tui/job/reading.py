"""The job of the overview as it is read: what is cheap first, then the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from npu_tui.ingest.source.find import find_sources
from npu_tui.jobs.opening import Progress, open_job, reads_traces, summaries_in
from npu_tui.tui.job.overview import Examined

GoesOn = Callable[[], bool]


def examined_jobs(
    path: Path, traces: bool | None, progress: Progress, goes_on: GoesOn
) -> Iterator[tuple[Examined, bool]]:
    """The job at ``path``, once or twice: by the files beside its traces, then with the traces where they are read.

    With each, whether nothing more comes. ``traces`` is as in ``open_job``. Raises ``InputError``.
    """
    if summaries_in(path):
        yield Examined(open_job(path, progress=progress)), True
        return
    sources = find_sources(path)
    job = open_job(path, False, progress, beside_only=True)
    bare = any(profile.kind != "companions" and not profile.calls for profile in job.ranks)
    wanted = reads_traces(sources) if traces is None else traces
    more = bare or (wanted and any(source.files for source in sources))
    yield Examined(job), not more
    if more and goes_on():
        yield Examined(open_job(path, traces)), True
