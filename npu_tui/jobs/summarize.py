"""Every rank to its summary: one after the other, in several processes, or by a Dask cluster.

A summary is called after what it was made of, so another run does only the rest.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from npu_tui import __version__
from npu_tui.jobs.kept import SUFFIX
from npu_tui.jobs.opening import UNKNOWN, read_rank
from npu_tui.jobs.summary import FORMAT, write_broken, write_summary
from npu_tui.load.errors import InputError, walled
from npu_tui.load.find import Source, content_of, find_sources
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import paths_in

_BESIDE = ("communication.json", "communication_matrix.json", "step_trace_time.csv", "analysis.db")
_ABOVE = ("profiler_metadata.json",)
_INFO = "profiler_info"
_LOOK_SECONDS = 30.0
"""How often the workers of a cluster are counted."""
_RETRIES = 3  # of a rank whose worker died; dask counts them

State = Literal["new", "there", "broken"]


class RankOutcome(Struct, frozen=True):
    """What became of one rank; ``why`` it is broken, ``bytes`` of its summary."""

    opened: str
    state: State
    bytes: int = 0
    why: Message | None = None


def sources_of(paths: Sequence[Path], shard: tuple[int, int] = (0, 1)) -> list[Source]:
    """The profiles at or below ``paths``; with n shards those of shard i, counted from 0. Raises ``InputError``."""
    sources = {source.opened: source for path in paths for source in find_sources(path)}
    return [sources[opened] for opened in sorted(sources)][shard[0] :: shard[1]]


def summarize_rank(source: Source, folder: Path, traces: bool) -> RankOutcome:
    """Write the summary of ``source`` into ``folder`` unless it is there. Raises ``OSError``."""
    place = hashlib.blake2b(str(source.opened).encode(errors="surrogateescape"), digest_size=4).hexdigest()
    rank = UNKNOWN if source.rank is None else source.rank
    start = f"{rank if rank != UNKNOWN else 'x'}-{place}-"
    path = folder / f"{start}{content_key(source, traces)}{SUFFIX}"
    broken = folder / f"{start}broken{SUFFIX}"
    if path.exists():
        return RankOutcome(str(source.opened), "there", path.stat().st_size)
    outcome = RankOutcome(str(source.opened), "new")
    try:
        with walled(source.opened):
            rank_profile = read_rank(source, traces)
        write_summary(rank_profile, path)
        written = path
    except InputError as error:
        write_broken(rank, source.opened, source.kind, error, broken)
        outcome, written = RankOutcome(str(source.opened), "broken", why=error.message), broken
    for older in folder.glob(f"{start}*"):  # of another state of the profile, or left by a process that was ended
        if older != written:
            with contextlib.suppress(FileNotFoundError):
                older.unlink()
    return RankOutcome(outcome.opened, outcome.state, written.stat().st_size, outcome.why)


def content_key(source: Source, traces: bool) -> str:
    """A name for what a summary of ``source`` is made of; files that cannot be read count as missing."""
    digest = hashlib.blake2b(f"{FORMAT} {__version__} {traces}".encode(), digest_size=12)
    files = list(source.files)
    if source.folder is not None:
        above = source.folder.parent
        infos: list[Path] = []
        with contextlib.suppress(OSError):
            infos = [file for file in paths_in(above) if file.name.startswith(_INFO)]
        files += [source.folder / name for name in _BESIDE] + [above / name for name in _ABOVE] + infos
    for file in files:
        with contextlib.suppress(OSError):
            digest.update(f"{file.name} ".encode() + content_of(file))
    return digest.hexdigest()


def summarize_in_process(sources: Sequence[Source], folder: Path, traces: bool) -> Iterator[RankOutcome]:
    """One rank after the other. Raises ``OSError``."""
    for source in sources:
        yield summarize_rank(source, folder, traces)


def summarize_in_processes(sources: Sequence[Source], folder: Path, traces: bool, jobs: int) -> Iterator[RankOutcome]:
    """In ``jobs`` processes, in the order in which they finish. Raises ``OSError``."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    # A process that is forked shares locks of threads that it does not have.
    context = multiprocessing.get_context("spawn")
    left = {source.opened: source for source in sources}
    workers = min(jobs, max(len(sources), 1))
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        running = {pool.submit(summarize_rank, source, folder, traces): source for source in sources}
        for done in as_completed(running):
            try:
                outcome = done.result()
            except BrokenProcessPool:  # a worker was ended, and with it all that wait for one
                continue
            del left[running[done].opened]
            yield outcome
    for source in left.values():
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            try:
                yield pool.submit(summarize_rank, source, folder, traces).result()
            except BrokenProcessPool:
                yield RankOutcome(
                    str(source.opened), "broken", why=message("job.worker_ended", path=str(source.opened))
                )


def summarize_by_dask(sources: Sequence[Source], folder: Path, traces: bool, address: str) -> Iterator[RankOutcome]:
    """By the workers of the Dask scheduler at ``address``, or of the scheduler file that it names.

    They must see the same files under the same names. What a worker that ends had not finished, another one does; where
    none is left, its rank is broken.
    Raises ``ImportError`` without ``npu-tui[cluster]``, ``OSError``.
    """
    distributed: Any = import_module("distributed")  # installed by some only
    where: dict[str, Any] = {"scheduler_file": address} if Path(address).is_file() else {"address": address}
    with distributed.Client(**where) as client:
        tasks = client.map(
            summarize_rank, sources, folder=folder.resolve(), traces=traces, pure=False, retries=_RETRIES
        )
        left = dict(zip(tasks, sources, strict=True))
        while left:
            try:
                for done in distributed.as_completed([*left], timeout=_LOOK_SECONDS):
                    source = left.pop(done)
                    try:
                        yield done.result()
                    except distributed.scheduler.KilledWorker:
                        yield _unfinished(source)
            except TimeoutError:  # none is left to do it, or each takes long
                if not client.scheduler_info()["workers"]:
                    break
        yield from map(_unfinished, left.values())


def _unfinished(source: Source) -> RankOutcome:
    """The outcome of a rank whose worker processes died."""
    return RankOutcome(str(source.opened), "broken", why=message("job.no_worker", path=str(source.opened)))
