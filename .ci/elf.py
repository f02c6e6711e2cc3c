"""What a program or library of Linux says of itself: enough to tell where it can be loaded."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import NamedTuple

MACHINES = {62: "x86_64", 183: "aarch64"}
LOAD, DYNAMIC = 1, 2
END, NEEDED, STRINGS, RPATH, RUNPATH = 0, 1, 5, 15, 29


class Binary(NamedTuple):
    """An ELF file of 64 bits.

    ``alignment`` is the least of its parts in memory, in bytes; ``needed`` are the libraries it is linked to, ``paths``
    where it looks for them first; ``glibc`` is the minor version of glibc 2 that it needs, 0 if it needs none.
    """

    arch: str
    alignment: int
    needed: tuple[str, ...]
    paths: str
    glibc: int

    @classmethod
    def at(cls, path: Path) -> Binary | None:
        """That in a file, None if it is another kind of file."""
        with path.open("rb") as file:
            return cls.of(file.read()) if file.read(4) == b"\x7fELF" and not file.seek(0) else None

    @classmethod
    def of(cls, data: bytes) -> Binary:
        """That of its bytes."""
        machine = struct.unpack_from("<H", data, 18)[0]
        (at,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
        loads, entries = [], []
        for k in range(count):
            kind, _, offset, address, _, length, _, alignment = struct.unpack_from("<IIQQQQQQ", data, at + k * size)
            if kind == LOAD:
                loads.append((address, offset, length, alignment))
            elif kind == DYNAMIC:
                entries = list(struct.iter_unpack("<qQ", data[offset : offset + length // 16 * 16]))
        strings = next((value for tag, value in entries if tag == STRINGS), 0)
        names = next((s - a + o for a, o, n, _ in loads if a <= (s := strings) < a + n), 0)

        def text(tag: int) -> tuple[str, ...]:
            starts = [names + value for found, value in entries if found == tag]
            return tuple(data[start : data.index(b"\0", start)].decode() for start in starts)

        return cls(
            MACHINES.get(machine, f"machine {machine}"),
            min((alignment for *_, alignment in loads), default=0),
            text(NEEDED),
            next(iter(text(RUNPATH) + text(RPATH)), ""),
            max((int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)", data)), default=0),
        )
