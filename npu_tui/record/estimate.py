"""How long an analysis will take, and how much disk, as far as anything tells; each estimate says what it rests on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from npu_tui.load.raw import Writer
from npu_tui.trace.message import Message, message
from npu_tui.trace.side_file import read_regular
from npu_tui.whole_file import write_file

_ROOM = 2
"""An analysis needs the room of the raw data once more for CANN's tables and once more for the trace."""
_LONG_FROM = 1 << 30
"""Bytes of raw data from which torch_npu itself warns that its analysis may take more than 30 minutes."""
_LIKE = 16
"""How many times larger or smaller than raw data those of the run that tells may be: any start takes seconds."""
_MOST_BYTES = 64 << 10


class Estimate(Struct, frozen=True):
    """``room``: bytes on the disk that an analysis needs; ``said``: time and room, and what tells them."""

    room: int
    said: Message


class AnalysisRun(Struct, frozen=True):
    """An analysis that came to its end: ``bytes`` of raw data, ``seconds``, the most bytes of ``room`` beside them."""

    bytes: int
    seconds: float
    room: int


def estimated(writer: Writer, bytes: int) -> Estimate:
    """What the analysis of ``bytes`` of raw data of ``writer`` needs: by proportion to the last one of like size."""
    last = _known().get(writer)
    if last is not None and last.bytes > 0 and 1 / _LIKE <= bytes / last.bytes <= _LIKE:
        times = bytes / last.bytes
        room = round(last.room * times)
        said = message("record.estimate.last", length=last.seconds * times * 1e9, room=room, size=last.bytes,
                       took=last.seconds * 1e9)  # fmt: skip
        return Estimate(room, said)
    is_long = writer == "torch_npu" and bytes >= _LONG_FROM
    room = _ROOM * bytes
    return Estimate(room, message("record.estimate.long" if is_long else "record.estimate.unknown", room=room))


def remember(writer: Writer, bytes: int, seconds: float, room: int) -> None:
    """Keep how the last analysis of ``writer`` went; without a cache the next one is not estimated by it."""
    known = _known() | {writer: AnalysisRun(bytes, seconds, room)}
    with suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        write_file(_file(), msgspec.json.encode(known))


def _known() -> dict[str, AnalysisRun]:
    with suppress(OSError, msgspec.MsgspecError, UnicodeError):
        known = msgspec.json.decode(read_regular(_file(), _MOST_BYTES), type=dict[str, AnalysisRun])
        return {writer: run for writer, run in known.items() if run.bytes > 0 and run.seconds >= 0 and run.room >= 0}
    return {}


def _file() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("npu-tui") / "analyses.json"
