"""A memory snapshot of PyTorch, or a dump of MemScope: what the allocator did, and who held memory.

It is recognised by its first bytes (``load.formats.memory``, which says where the format is described) and read into a
``MemorySnapshot`` (``load.snapshot``) and a trace of its blocks (``load.snapshot``).
"""

from __future__ import annotations

from pathlib import PurePath

from npu_tui.analysis.snapshot import pieces
from npu_tui.profile.profile import Profile
from npu_tui.rules.model import SubjectVerdict
from npu_tui.rules.snapshot import SNAPSHOT_RULES
from npu_tui.strings import say
from npu_tui.subjects.declaration import Fact, Measured, Subject, Without
from npu_tui.trace.message import Message, message
from npu_tui.trace.model import Trace
from npu_tui.trace.snapshot import BEFORE, DeviceMemory, MemorySnapshot
from npu_tui.trace.text import size_text


def _snapshot(trace: Trace) -> MemorySnapshot:
    """The snapshot of a trace made of one."""
    assert trace.snapshot is not None
    return trace.snapshot


def _about(trace: Trace, judged: SubjectVerdict | None) -> str:
    del judged
    held = _snapshot(trace).devices
    events = sum(len(device.events) for device in held)
    return say("snapshot.about", events=events, devices=len({device.device for device in held}))


def _summary(profile: Profile) -> list[Fact]:
    """Devices and file of a snapshot."""
    snapshot = _snapshot(profile.trace)
    devices = [
        Fact(
            "machine",
            held.label,
            say("memory.peak_allocated", size=held.peak[1], time=say("snapshot.at", event=held.peak[0])),
            say("summary.held", events=len(held.events), segments=len(held.segments)),
        )
        for held in snapshot.devices
    ]
    return [*devices, Fact("file", PurePath(snapshot.path).name, size_text(snapshot.size))]


def _peak(profile: Profile) -> Measured:
    """The most bytes requested at a time in the history, on the device where that is most."""
    devices = _snapshot(profile.trace).devices
    if not devices:
        return Measured(unknown=message("snapshot.nothing"))
    device = max(devices, key=lambda device: device.peak[1])
    event, size = device.peak
    where = message("gate.memory.device", device=device.label)
    if event != BEFORE:
        where = message("gate.memory.event", device=device.label, event=event)
    # What is allocated in the end is the least that the peak can have been.
    whole = all(len(device.events) for device in devices)
    before = any(len(device.events) and device.before for device in devices)
    return Measured(
        size,
        where,
        may_be_more="" if whole else message("gate.memory.no_history"),
        note=message("gate.memory.before") if before else "",
    )


def _fragmentation(profile: Profile) -> Measured:
    """The bytes in inactive blocks at the end, on the device where they are the largest share of what is reserved."""
    devices = _snapshot(profile.trace).devices
    if any(not device.has_segments for device in devices):
        return Measured(unknown=message("snapshot.without.segments"))

    def share(device: DeviceMemory) -> float:
        return pieces(device).inactive / int(device.segments.size.sum())

    device = max((device for device in devices if device.segments.size.any()), key=share, default=None)
    if device is None:
        return Measured(unknown=message("gate.memory.no_segments"))
    where = message("gate.memory.device", device=device.label)
    return Measured(pieces(device).inactive, where, whole=int(device.segments.size.sum()))


_NO_BYTES = ("odd.memory_frame",)
"""What could not be used of a snapshot and changes no figure in bytes."""


def _loss(profile: Profile, allowed: float) -> Message | None:
    snapshot = _snapshot(profile.trace)
    lost = {said: count for said, count in snapshot.odd.items() if count and said.code not in _NO_BYTES}
    rows = sum(len(device.events) + len(device.segments) + len(device.blocks) for device in snapshot.devices)
    missing = sum(lost.values())
    if missing <= allowed * (rows + missing):
        return None
    return message("gate.memory.lost", count=missing, what=max(lost, key=lambda said: lost[said]))


SUBJECT = Subject(
    id="memory",
    about=_about,
    summary=_summary,
    is_profiled=False,
    hint=("holders", "tab_lines"),
    tabs={"lines": "holders", "links": "events", "operators": "", "communication": "", "memory": ""},
    no_kernels="lines.snapshot",
    findings=lambda: SNAPSHOT_RULES,
    of_others="gate.memory.no_snapshot",
    not_here="gate.memory.of_profile",
    measures={"peak": _peak, "fragmentation": _fragmentation},
    loss=_loss,
    no_times="gate.memory.no_times",
    without={
        "report": Without(("range", "step", "eager", "unprofiled"), "cli.report_of_snapshot"),
        "compare": Without(
            ("step", "rank", "map", "tolerance", "fail_on", "allow_damage", "ignore", "eager"), "compare.memory.options"
        ),
        "check": Without(("against", "baseline", "write_baseline", "range", "step"), "gate.memory.alone"),
    },
    refusals={"crop": "crop.snapshot", "log": "log.snapshot", "timeline": "mcp.is_snapshot"},
    unlike="compare.memory.mixed",
)
