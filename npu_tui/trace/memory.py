"""How much memory this process takes, and how much more it may take under its limits and those of its container."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

UNLIMITED = 1 << 62  # version 1 of control groups writes a number near 2**63 for it

_STATUS = Path("/proc/self/status")

# Of each version: the folder, the files of limit and use, and what of the use the system gives back when asked.
_CONTROL_GROUPS = {
    "": ("", "memory.max", "memory.current", "file"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"),
}


def free_addresses() -> int:
    """Bytes that the process may still map under its limits (``ulimit -v`` and ``-d``)."""
    try:
        import resource
    except ImportError:  # not on Windows
        return UNLIMITED
    taken = _sizes_by_name(_STATUS, ("VmSize:", "VmData:"))
    limits = {"VmSize:": resource.RLIMIT_AS, "VmData:": resource.RLIMIT_DATA}
    soft = {name: resource.getrlimit(limit)[0] for name, limit in limits.items()}
    return min((most - taken[name] for name, most in soft.items() if most >= 0 and name in taken), default=UNLIMITED)


def taken_data() -> int:
    """Bytes of memory that the process has asked for, as ``RLIMIT_DATA`` counts them."""
    return _sizes_by_name(_STATUS, ("VmData:",)).get("VmData:", 0)


def is_limited() -> bool:
    """Whether a limit of the process, not the memory of the machine, may be why there was not enough."""
    return free_addresses() != UNLIMITED


def free_memory() -> int:
    """Bytes of memory that the machine and the container still have for this process."""
    machine = _sizes_by_name(Path("/proc/meminfo"), ("MemAvailable:",)).get("MemAvailable:", UNLIMITED)
    return min([machine, *_left_in_groups(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))])


A_ROW = 192
"""Bytes that a row or an event takes at least until it is put in order, whatever its file spends on it.

Measured: 206 for events of a trace of 4 GB, 270 to 460 for rows of 20 to 40 bytes in tables and databases.
"""


_FEW_ROWS = 5_000  # a megabyte; to ask what is left takes as long as to read so many


class RowRoom:
    """The rows of a file for which there is memory: asked once there are more than few."""

    def __init__(self) -> None:
        self._left, self._asked = _FEW_ROWS, False

    def take(self, rows: int) -> None:
        """Take ``rows`` more in. Raises ``MemoryError`` where there is no room for them: before they are laid out."""
        self._left -= rows
        if self._left < 0 and not self._asked:
            self._left += min(free_memory(), free_addresses()) // A_ROW
            self._asked = True
        if self._left < 0:
            raise MemoryError(os.strerror(errno.ENOMEM))


def _left_in_groups(listing: Path, top: Path) -> Iterator[int]:
    """What the control group of the process, and each around it, has left; what holds copies of files is free."""
    groups = ""
    with suppress(OSError):
        groups = listing.read_text(errors="replace")
    for line in groups.splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        name = "memory" if "memory" in controllers.split(",") else controllers
        if name not in _CONTROL_GROUPS:
            continue
        folder, limit, use, cache = _CONTROL_GROUPS[name]
        group = top / folder / path.strip("/")
        for place in (group, *group.parents):
            if place == top.parent:
                break
            try:
                most, taken = int((place / limit).read_text()), int((place / use).read_text())
            except (OSError, ValueError):  # no limit ("max"), or the container does not show the group
                continue
            yield most - taken + _sizes_by_name(place / "memory.stat", (cache,), unit=1).get(cache, 0)


def _sizes_by_name(path: Path, names: Sequence[str], unit: int = 1024) -> dict[str, int]:
    """Bytes by the names that lines of ``path`` begin with."""
    try:
        parts = (line.split() for line in path.read_text(errors="replace").splitlines())
    except OSError:
        return {}
    return {part[0]: int(part[1]) * unit for part in parts if len(part) > 1 and part[0] in names}
