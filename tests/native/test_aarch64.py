"""The library for aarch64, run by an emulator on the very memory that the one for this machine is run on."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npu_tui.load.fast_scanner import ScannerMemory
from npu_tui.native import build
from npu_tui.native import library as libraries
from npu_tui.native import rows as csv
from npu_tui.native.layout import (
    CSV_DATE,
    CSV_MILLISECONDS,
    CSV_REAL,
    CSV_REGION,
    CSV_REQUESTS,
    CSV_TEXT,
    DONE,
    NUMBER,
    REGION,
    WORDS,
)

HERE = Path(__file__).parent
FOLDER = Path(libraries.__file__).parent / "library"
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static") or ""
FILES = [
    FIXTURES / "healthy/ASCEND_PROFILER_OUTPUT/trace_view.json",
    FIXTURES / "newest_torch_npu/ASCEND_PROFILER_OUTPUT/trace_view.json",
    FIXTURES / "mindspore/localhost_284117_20250701120000000_ascend_ms/ASCEND_PROFILER_OUTPUT/trace_view.json",
    FIXTURES / "decimal_pids/trace_view.json",
]


def missing() -> str:
    """What it takes to run a program of aarch64, if something of that is not here."""
    if platform.machine() != "x86_64" or not libraries._flags() >= libraries._V2:
        return "it is compared with the library for x86-64"
    if not EMULATOR:
        return "qemu-aarch64 is not installed: apt-get install qemu-user"
    if importlib.util.find_spec("ziglang") is None:
        return "ziglang is not installed: pip install -e '.[libraries]'"
    return ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of aarch64 that runs a function of a library on a block of memory."""
    made = tmp_path_factory.mktemp("harness") / "harness.o"
    compiler = [sys.executable, "-m", "ziglang", "cc", *build.TARGETS["aarch64"], "-O1", "-ffreestanding"]
    alone = ["-fno-stack-protector", "-fno-sanitize=all", "-c", str(HERE / "harness.c"), "-o", str(made)]
    subprocess.run([*compiler, *alone], check=True)
    linker = [sys.executable, "-m", "ziglang", "ld.lld", "-static", *build._LINKS["aarch64"]]
    subprocess.run([*linker, "-o", str(made.with_suffix("")), str(made)], check=True)
    return made.with_suffix("")


def block_of(data: bytes) -> bytearray:
    """Numbers, tables, columns and ``data`` after its opening bracket as one block; addresses are offsets in it."""
    memory = ScannerMemory(len(data), 8 * len(data))
    memory.arrays["buffer"][: len(data)] = np.frombuffer(data, np.uint8)
    for name, value in (("filled", len(data)), ("position", 1), ("cut", 1 << 60), ("chunk_size", 4096)):
        memory.numbers[name] = value
    for group in ("x", "c", "l", "chunk"):
        for name, array in memory.arrays.items():
            if name.startswith(f"{group}_"):
                array.fill(0)
    block = bytearray(8 * WORDS)
    words = memory.words.copy()
    for name, at in REGION.items():
        array = memory.arrays[name]
        block += bytes(-len(block) % 64)
        words[at] = len(block)
        block += array.tobytes()
    block[: 8 * WORDS] = words.tobytes()
    return block


def run_here(block: bytearray) -> int:
    """The same by the library for x86-64, in this process."""
    library = ctypes.CDLL(str(FOLDER / "x86_64_v2.so"))
    library.scan.argtypes, library.scan.restype = [ctypes.c_int64] * 2, ctypes.c_int64
    whole = np.frombuffer(block, np.uint8)
    words, base = whole[: 8 * WORDS].view(np.int64), whole.ctypes.data
    starts = list(REGION.values())
    words[starts] += base
    why = int(library.scan(base, WORDS))
    words[starts] -= base
    return why


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parts[len(FIXTURES.parts)])
@pytest.mark.parametrize("damage", [None, 31_337])
def test_both_machines_leave_the_same_memory(harness: Path, path: Path, damage: int | None, tmp_path: Path) -> None:
    data = bytearray(path.read_bytes())
    if damage is not None:
        data[damage] ^= 4
    block = block_of(bytes(data))
    file = tmp_path / "block"
    file.write_bytes(block)
    command = [
        EMULATOR,
        str(harness),
        str(FOLDER / "aarch64.so"),
        "scan",
        str(file),
        str(len(REGION)),
        str(WORDS),
    ]
    why = subprocess.run(command).returncode
    assert why == run_here(block)
    assert why not in (DONE, 101, 102, 103)
    assert file.read_bytes() == bytes(block)
    assert np.frombuffer(block, np.int64)[NUMBER["x"]] > 100


class Emulated:
    """The loop of CSV files for aarch64, on copies of the memory that a plan names."""

    def __init__(self, harness: Path, file: Path) -> None:
        self._harness, self._file = harness, file

    def csv_columns(self, plan: csv.I64) -> int:
        """The number of rows, below 100, or a negative one."""
        words, block = plan.copy(), bytearray(8 * len(plan))
        for at in CSV_REGION.values():
            words[at], address, size = len(block), plan[at], plan[at + 1]
            block += ctypes.string_at(int(address), int(size)) + bytes(-int(size) % 64 + 64)
        block[: 8 * len(plan)] = words.tobytes()
        self._file.write_bytes(block)
        command = [EMULATOR, str(self._harness), str(FOLDER / "aarch64.so"), "csv_columns", str(self._file)]
        code = subprocess.run([*command, str(len(CSV_REGION)), "0"]).returncode
        block = bytearray(self._file.read_bytes())
        words[:] = np.frombuffer(block[: 8 * len(plan)], np.int64)
        for at in CSV_REGION.values():
            ctypes.memmove(int(plan[at]), bytes(block[words[at] : words[at] + words[at + 1]]), int(plan[at + 1]))
            words[at] = plan[at]
        plan[:] = words
        assert code not in (101, 102, 103)
        return code if code < 100 else -1


def test_both_machines_read_the_same_columns(harness: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [CSV_TEXT, CSV_REQUESTS, CSV_DATE, CSV_MILLISECONDS, CSV_REAL]
    cells = (
        ("decode", "\"[{'rid': 'a', 'iter': 1, 'type': 1, 'num_scheduled_tokens': 1}]\"", "2026-03-02 10:00:00:021911"),
        ('"say ""no"", twice"', "[]", "N/A"),
    )
    numbers = ("1772416800021.9115", "0.1234567890123456"), ("", "-2.25")
    rows = [",".join([*cells[k % 2], *numbers[k % 3 % 2]]) for k in range(60)]
    for text in ("\n".join(rows) + "\n", "\r\n".join(rows) + "\r\n", "\n".join(rows) + '\n"a,b\n'):
        here = csv.csv_columns(text.encode(), kinds, ["", "N/A"])
        with monkeypatch.context() as patched:
            patched.setattr(csv, "library", lambda: Emulated(harness, tmp_path / "block"))
            there = csv.csv_columns(text.encode(), kinds, ["", "N/A"])
        assert (here is None) is (there is None) is text.endswith("b\n")
        if here is not None and there is not None:
            assert (here.rows, here.texts) == (there.rows, there.texts)
            assert here.requests.tolist() == there.requests.tolist()
            assert {k: v.tolist() for k, v in here.values.items()} == {k: v.tolist() for k, v in there.values.items()}
            assert sorted(here.values) == [0, 1, 2, 3, 4]
