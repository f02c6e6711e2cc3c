"""The critical path of a device in the window that is judged, with its owners; or why it is not told."""

from __future__ import annotations

import re
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.analysis.device import EVERYTHING
from npu_tui.analysis.lateness import UNKNOWN, place_of
from npu_tui.analysis.owners import Owner, Owners, owners
from npu_tui.analysis.path import critical_path
from npu_tui.analysis.replay import CLOSE_ENOUGH
from npu_tui.rules.facts import Facts, once_per_device
from npu_tui.rules.judged import within
from npu_tui.rules.rule import line_of
from npu_tui.trace.frames import FRAME
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.text import brief


class ToldPath(Struct, frozen=True):
    """The path of a ``device`` with its ``owners``; without them the ``reason`` says why none is told.

    A gain of an owner divided by ``count`` is that of one ``unit`` (step, token, …; run). ``floor`` is the device's
    clock minus the host's, on which the path is told, ns.
    """

    device: int | None
    unit: str
    count: int
    floor: int = 0
    owners: Owners | None = None
    reason: Message | None = None

    def gain_of(self, owner: Owner) -> float | None:
        """By how much a unit is shorter without ``owner``, ns; None for what one cannot do without."""
        return None if owner.gain is None else owner.gain / self.count


_BUILT_IN = re.compile(r"<built-in (?:function|method) (?P<name>[^> ]+)(?: of .*)?>")


_FOLDER = re.compile(r".*/(?:site-packages|dist-packages|python3\.\d+)/|^/.*/")
"""Where a module lies; what is left is its name."""


def short_call(name: str) -> str:
    """``tolist`` of ``<built-in method tolist of …>``, ``torch.serialization.save`` of a frame; others as they are."""
    if (match := _BUILT_IN.fullmatch(name)) is not None:
        return brief(match["name"], 60)
    if (match := FRAME.fullmatch(name)) is not None:
        module = _FOLDER.sub("", match["file"]).removesuffix(".py").replace("/", ".")
        return brief(f"{module}.{match['function']}", 60)
    return brief(name.removeprefix("AscendCL@"), 60)


def owner_text(trace: Trace, owner: Owner) -> Message:
    """What ``owner`` is, in a few words with its line: ``tolist at model.py:31 in relative_bias()``."""
    if owner.kind == "late_rank":
        lane, place = place_of(owner.peer)
        if place == UNKNOWN:
            return message("path.owner.rank_unknown")
        if lane < 0:
            return message("path.owner.rank", rank=place)
        return message("path.owner.rank_of", rank=place, group=brief(trace.lanes[lane].name))
    if owner.doing == "device" and owner.kind in ("latency", "device_gap", "unexplained"):
        ending = "_nowhere" * (owner.kind == "unexplained" and not owner.name)
        return message(f"path.owner.{owner.kind}{ending}", name=brief(owner.name))
    word = "silent" if owner.doing == "work" and not owner.name else owner.doing
    words = {"name": short_call(owner.name), "thread": owner.thread}
    if owner.where is None:
        return message(f"path.owner.{word}_nowhere", **words)
    line = line_of(owner.where)
    if owner.name.endswith(f"({owner.where.line}): {owner.where.function}") and owner.doing == "work":
        return message("path.owner.work_nowhere", name=line)  # the frame itself
    return message(f"path.owner.{word}", line=line, **words)


@once_per_device
def path_owners(facts: Facts) -> Owners | None:
    """The owners of the path of what ``facts`` judge, also where the replay is not trusted; None without launches.

    Gains count only where ``facts.replay`` is there. May raise ``InputError`` as the model of the run does.
    """
    replay = facts.inputs.replay_of(facts.part)
    if replay is None:
        return None
    path, floor = critical_path(replay), replay.model.floor
    if facts.window != EVERYTHING:
        start = facts.window.start if facts.inputs.step is None else facts.since
        path = path.within(start - floor, facts.window.end - floor)
    if facts.whole_steps:
        return owners(replay, facts.inputs.types_of, path, partial(within, facts))
    # A range may lie in a collective that began before it: what is cut out is whole, what counts is within the range.
    found = owners(replay, facts.inputs.types_of, path, lambda change: change)
    limited = (
        owner if owner.gain is None else replace(owner, gain=min(owner.gain, owner.on_path)) for owner in found.owners
    )
    return replace(found, owners=tuple(limited))


def launching_gains(facts: Facts) -> list[int]:
    """What the run gains without the launching of each thread and function on the critical path, ns."""
    told = path_owners(facts)
    return [] if told is None else [owner.gain or 0 for owner in told.owners if owner.doing == "launch"]


def told_path(facts: Facts) -> ToldPath:
    """The path of what ``facts`` judge, where the replay is to be trusted; may raise as ``path_owners``."""
    tell = partial(ToldPath, facts.part.device, facts.unit_name, facts.count)
    replay = facts.inputs.replay_of(facts.part)
    if replay is None:
        return tell(reason=message("path.no_launches"))
    if facts.replay is None:
        if replay.error > CLOSE_ENOUGH:
            return tell(reason=message("path.not_close", error=replay.error, most=CLOSE_ENOUGH))
        return tell(reason=message("path.not_linked", share=replay.model.linked))
    return tell(floor=replay.model.floor, owners=path_owners(facts))
