"""Builds the libraries: ``python -m npu_tui.native.build [-o DIRECTORY] [--checked | --sanitize]``.

The pinned compiler makes a freestanding shared library for each machine: no symbol comes from outside, no byte depends
on the machine that builds. ``--checked`` makes the library of this machine that ends the process at the first access
outside of a region and at undefined behaviour; ``--sanitize`` makes one with gcc's address sanitizer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from npu_tui.native import layout

ZIGLANG = "0.17.1"
"""With this version the libraries come out byte for byte the same."""

HERE = Path(__file__).parent
LIBRARIES = HERE / "library"
HEADER = HERE / "layout.h"

TARGETS = {
    "x86_64_v2": ("-target", "x86_64-linux-musl", "-mcpu=x86_64_v2"),
    "x86_64_v3": ("-target", "x86_64-linux-musl", "-mcpu=x86_64_v3"),
    "aarch64": ("-target", "aarch64-linux-musl", "-mcpu=generic"),
}
_LINKS = {"x86_64": ("-m", "elf_x86_64"), "aarch64": ("-m", "aarch64linux", "-z", "max-page-size=65536")}

_FLAGS = (
    "-std=c17", "-ffreestanding", "-fPIC", "-fvisibility=hidden", "-g0", "-Wall", "-Wextra", "-Werror",
    "-fno-stack-protector", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-ffp-contract=off",
)  # fmt: skip
"""A sum of products is rounded the same on every machine: no multiplication and addition in one."""

# Most loops end after a few rounds: vectors of them cost more than they bring. A sum that overflows is wrong, not
# undefined: the reader checks what came out.
_FAST = ("-O3", "-fno-vectorize", "-fno-slp-vectorize", "-fwrapv", "-fno-sanitize=all")
_CHECKED = ("-O2", "-DNPU_TUI_CHECKED", "-fsanitize=undefined", "-fsanitize-trap=undefined")
_SANITIZED = ("-O0", "-g", "-shared", "-Wno-psabi", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

_CONSTANTS = (
    "MORE", "WRONG", "GROW", "DONE", "TEXT", "THREAD_WORDS", "SERIES_WORDS", "PLAIN", "NAMED",
    "SLICE_TIME", "DURATION", "VALUE", "SAMPLE_TIME", "LINK_TIME", "MOST_VALUES", "ENTITIES_PER_EVENT",
    "CHOSEN_ABSENT", "CHOSEN_NUMBER", "CHOSEN_TEXT", "CHOSEN_UNREAD",
    "CSV_LEFT_OUT", "CSV_WHOLE", "CSV_REAL", "CSV_MILLISECONDS", "CSV_MICROSECONDS", "CSV_DATE", "CSV_TEXT",
    "CSV_REQUESTS",
)  # fmt: skip
_ARRAYS = {"phase_s": ("phase_ends", 3), f"known_{layout.DICTIONARIES[0]}": ("known", len(layout.DICTIONARIES))}
"""Numbers that C knows as an array: the first one's name, that of the array, and how many they are."""


def header() -> str:
    """``layout.h``: what ``layout.py`` says, for C."""
    lines = ["/* Written by build.py from layout.py. */", "", "#ifndef LAYOUT_H", "#define LAYOUT_H", ""]
    lines += ['#include "region.h"', ""]
    lines += _struct("State", layout.REGION, layout.NUMBER)
    lines += _struct("Chosen", layout.CHOSEN_REGION, layout.CHOSEN_WORD)
    lines += _struct("CellPlan", layout.CELL_REGION, layout.CELL_WORD)
    lines += _struct("CsvPlan", layout.CSV_REGION, layout.CSV_WORD)
    lines += [f"enum {{ {', '.join(name.upper() for name in layout.DICTIONARIES)} }};", ""]
    lines += [f"#define {name} {getattr(layout, name)}" for name in _CONSTANTS]
    return "\n".join([*lines, "", "#endif", ""])


def _struct(name: str, regions: dict[str, int], numbers: dict[str, int]) -> list[str]:
    """A block of memory as a struct of C, word for word."""
    words = {at: f"Region {region};" for region, at in regions.items()}
    skipped = 0
    for number, at in numbers.items():
        if skipped:
            skipped -= 1
            continue
        array, size = _ARRAYS.get(number, (number, 0))
        words[at] = f"int64_t {array}[{size}];" if size else f"int64_t {number};"
        skipped = max(size - 1, 0)
    return ["typedef struct {", *(f"    {words[at]}" for at in sorted(words)), f"}} {name};", ""]


def compiled(target: str, flags: tuple[str, ...]) -> bytes:
    """The library for one target."""
    with tempfile.TemporaryDirectory() as folder:
        made, result = Path(folder, "native.o"), Path(folder, "native.so")
        command = [sys.executable, "-m", "ziglang", "cc", *TARGETS[target], *_FLAGS, *flags, "-c", "native.c"]
        subprocess.run([*command, "-o", str(made)], check=True, cwd=HERE)
        command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", "-nostdlib", "--no-undefined"]
        command += _LINKS["aarch64" if target == "aarch64" else "x86_64"]
        command += ["--build-id=none", "--strip-all", "--hash-style=sysv", "-z", "relro", "-z", "noexecstack"]
        subprocess.run([*command, "-soname", "native.so", "-o", str(result), str(made)], check=True)
        return result.read_bytes()


def sanitized() -> bytes:
    """The library of this machine with gcc's sanitizers of addresses and undefined behaviour."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "native.so")
        machine = ["-march=x86-64-v2"] if os.uname().machine == "x86_64" else []
        command = ["gcc", *machine, *_FLAGS, *_SANITIZED, "native.c", "-o", str(result)]
        subprocess.run(command, check=True, cwd=HERE)
        return result.read_bytes()


def main() -> None:
    """Write the libraries."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-o", "--output", type=Path, default=LIBRARIES)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--checked", action="store_true")
    kind.add_argument("--sanitize", action="store_true")
    options = parser.parse_args()
    if HEADER.read_text() != header():
        HEADER.write_text(header())
    options.output.mkdir(parents=True, exist_ok=True)
    if options.sanitize:
        made = {"sanitized": sanitized()}
    else:
        names = [name for name in TARGETS if not options.checked or name.startswith(os.uname().machine)]
        made = {name: compiled(name, _CHECKED if options.checked else _FAST) for name in names}
    for name, data in made.items():
        path = options.output / f"{name}.so"
        path.write_bytes(data)
        print(f"{path} {len(data)} bytes")


if __name__ == "__main__":
    main()
