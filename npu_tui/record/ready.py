"""Whether the job that watches a folder can be recorded now, without asking it to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from npu_tui.record.file_recording import job_of
from npu_tui.record.outputs import last_size
from npu_tui.record.progress import RecordError
from npu_tui.record.recording import PROFILES
from npu_tui.record.switch import Switch, user_name
from npu_tui.trace.message import Message, message


class Readiness(Struct, frozen=True):
    """What was looked at, by ``name``, what was ``found``, and what to do; None where all is well."""

    name: str
    found: Message
    advice: Message | None = None


def looked_at(folder: Path) -> Iterator[Readiness]:
    """What a recording of the job that watches ``folder`` would find."""
    try:
        job = job_of(folder)
        switch = Switch(folder)
    except RecordError as error:
        yield Readiness("switch", message("record.ready.no"), error.message)
        return
    owner = user_name(switch.path.stat().st_uid)
    yield Readiness("switch", message("record.ready.switch", path=str(switch.path), of=switch.framework, owner=owner))
    if job is not None:
        ranks = sorted(job.ranks)
        yield Readiness("ranks", message("record.ready.ranks", count=len(ranks), ranks=ranks[:16]))
    room = shutil.disk_usage(folder).free
    size = last_size(folder / PROFILES)
    if size is None:
        yield Readiness("room", message("record.ready.room", free=room))
    else:
        yield Readiness("room", message("record.ready.room_of", free=room, step=size.of(1, 1)))
