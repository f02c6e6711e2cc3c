"""What each of several profiles says, in one line, without being asked for: cheap ones first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from npu_tui.ingest.copy import cache
from npu_tui.ingest.errors import Cancelled, InputError
from npu_tui.ingest.opening import Opening
from npu_tui.nearby.profiles import Nearby
from npu_tui.strings import words

LARGEST = 512 << 20
"""Bytes of a trace without a parsed copy up to which it is read only to know what it says."""

MOST = 2 << 30
"""Bytes of all of them together."""


class Told(Struct, frozen=True):
    """What the profile or job at ``path`` says first; ``grave`` where it is a large share of the run.

    ``failed`` where it cannot be read, and ``text`` says why.
    """

    path: Path
    text: str
    grave: bool = False
    failed: bool = False


def verdicts(listed: Iterable[Nearby], cached: bool, go_on: Callable[[], bool]) -> Iterator[Told]:
    """What each of ``listed`` says: first those with parsed copies, then the smaller before the larger.

    Ends as soon as ``go_on`` says so. What is too large to be read for one line is left out.
    """
    read = 0
    for has_copy, each in sorted(
        _weighed(listed, cached), key=lambda pair: (not pair[0], pair[1].is_job, pair[1].bytes)
    ):
        if not go_on():
            return
        if not has_copy and not each.is_job:
            if each.bytes > LARGEST or read + each.bytes > MOST:
                continue
            read += each.bytes
        try:
            yield _job_verdict(each, go_on) if each.is_job else _verdict(each, cached, go_on)
        except Cancelled:
            return
        except InputError as error:
            yield Told(each.path, words(error.message), failed=True)
        except (OSError, MemoryError) as error:
            yield Told(each.path, str(error) or type(error).__name__, failed=True)


def _weighed(listed: Iterable[Nearby], cached: bool) -> Iterator[tuple[bool, Nearby]]:
    """Each with whether it has a parsed copy."""
    for each in listed:
        key = cache.key_of(each.source) if cached and each.source is not None and each.source.files else None
        yield key is not None and cache.has(key), each


def _verdict(each: Nearby, cached: bool, go_on: Callable[[], bool]) -> Told:
    from npu_tui.profile.profile import Profile

    opening = Opening(each.path, cached)
    if not (cached and opening.has_copy):
        opening = Opening(each.path, False)  # nobody asked for a copy
    trace = opening.trace(lambda *_: go_on())
    found = Profile(trace, opening.source).findings
    leading = next((one for one in found.findings if one.step_after_ns is not None and one.part_of is None), None)
    text = words(found.verdict[0]) if found.verdict else ""
    return Told(each.path, text, leading is not None and leading.severity == "high")


def _job_verdict(each: Nearby, go_on: Callable[[], bool]) -> Told:
    from npu_tui.jobs.opening import open_job
    from npu_tui.report.job.build import job_report

    def stop(*_: object) -> None:
        if not go_on():
            raise Cancelled

    found = job_report(open_job(each.path, progress=stop))
    return Told(each.path, found.verdict, bool(found.findings) and found.findings[0].severity == "high")
