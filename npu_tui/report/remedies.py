"""What could be changed in a run, each with what that would gain: the answer of ``npu-tui whatif`` to no question."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from npu_tui.analysis.replay import Replay
from npu_tui.analysis.what_if import UnknownChangeError, asked
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import us
from npu_tui.report.whatif import Row, replay_of
from npu_tui.rules.facts.facts import Facts

_LINES, _KERNELS, _RANKS = 4, 3, 3


def remedies(profile: Profile) -> tuple[Row, ...]:
    """Changes of the first device of ``profile`` that can be replayed, the one that shortens its step most first.

    Lines of code that lose time, the waits of the host, late ranks, and kernels that take long. Raises
    ``NoReplayError``, and ``InputError`` if the file has changed.
    """
    device, replay = replay_of(profile)
    facts = next(each for each in profile.facts if each.part.device == device)
    found, count = [], replay.steps
    for text in _texts(facts, replay):
        try:
            each = asked(replay.model, text, profile.types_of)
        except UnknownChangeError:
            continue
        gain = replay.gain(each.change) / count
        after = us(replay.replayed / count - gain)
        if gain > 0:
            found.append(Row(text=text, matches=each.matches, alone_us=us(gain), gain_us=us(gain), step_us=after))
    return tuple(sorted(found, key=lambda row: -row.alone_us))


def _texts(facts: Facts, replay: Replay) -> Iterator[str]:
    for loss in facts.lines[:_LINES]:
        if loss.code is not None:
            yield f"line {PurePosixPath(loss.code.file.replace(chr(92), '/')).name}:{loss.code.line} x0"
    yield "no .item()"
    yield "no sync"
    late = sorted(rank for rank in replay.late if rank >= 0)
    yield from (f"rank {rank} in time" for rank in late[:_RANKS])
    if len(late) != 1:
        yield "ranks in time"
    yield from (f"kernel {name} x0.5" for name in list(facts.time_by_type)[:_KERNELS])
