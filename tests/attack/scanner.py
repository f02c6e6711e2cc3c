"""The compiled scanner against the reader in Python: `python tests/attack/scanner.py --mutants 20000`.

Damaged traces of every writer (``tests/fuzz.py``) and wrong structures (``structures.py``) in turn: what the scanner
makes of them, in one thread and in several, in ranges and chunks of any size, must be what the reader in Python makes,
to the bit, and so must the args of all events. `--cuts FIXTURE` cuts a trace of 200 kB at every byte: columns must be
those of the complete events. `--alone` runs the loops without the reader in Python, ten times as many
in the same time, for libraries that check their own memory. `--giants` tries texts of 100 MB, numbers of a million
digits and args as deep. With `NPU_TUI_SCANNER=/path/of/a/library.so` another library is tried, such as the
bounds-checked one, which ends the process where it would leave its memory.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from npu_tui.load.args import ChosenArgs
from npu_tui.load.errors import InputError
from npu_tui.load.fast_scanner import Scanned, Scanner
from npu_tui.load.json_chunks import array_start
from npu_tui.load.json_columns import RangeColumns
from npu_tui.load.json_reader import WholeColumns
from npu_tui.load.load import load
from npu_tui.load.text_trace import read_scanned
from npu_tui.native.library import Library, library
from npu_tui.strings import words
from npu_tui.trace.model import Trace

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "load"), str(TESTS / "attack")]

import fuzz  # noqa: E402
import structures  # noqa: E402
from equality import assert_same, assert_same_events  # noqa: E402
from scanning import threads, without_scanner  # noqa: E402

PIECE = 250
KEYS = ("Task Type", "Stream Id", "connection_id", "Call stack", "src rank", "size(Byte)", "link type", "Input Dims")


def mutant(seed: int, number: int) -> bytes:
    """Case ``number`` of ``seed``."""
    if number % 2:
        texts, _ = structures.mutant(seed, number // 2)
        return ("[" + ", ".join(texts) + "]").encode(errors="replace")
    _, data, _ = fuzz.mutant(seed, number // 2)
    return data


def outcome(path: Path, chunk_size: int, range_bytes: int = 0) -> Trace | str:
    """The trace, or why there is none."""
    try:
        return load(path, chunk_size=chunk_size, range_bytes=range_bytes)
    except InputError as error:
        return words(error.message)


def differences(data: bytes, path: Path, rng: random.Random) -> Iterator[str]:
    """What the scanner makes of ``data`` that the reader in Python does not."""
    path.write_bytes(data)
    chunk_size, length, count = int(2 ** rng.uniform(5, 16)), int(2 ** rng.uniform(6, 14)), rng.randint(1, 3)
    with without_scanner():
        expected = outcome(path, chunk_size)
    for number, range_bytes in ((1, 0), (count, length)):
        with threads(number):
            found = outcome(path, chunk_size, range_bytes)
        try:
            assert_same(expected, found)
            if isinstance(expected, Trace) and isinstance(found, Trace):
                assert_same_events(expected, found, 7)
                assert_same_args(found)
        except AssertionError as error:
            yield f"chunks of {chunk_size}, {number} threads, ranges of {range_bytes}: {str(error).splitlines()[0]}"


def assert_same_args(trace: Trace) -> None:
    """The args of all events as the library reads them and as Python does."""
    events = np.arange(sum(trace.events.values()))
    found = [column.objects for column in trace.args.columns(events, KEYS)]
    with without_scanner():
        # A NaN is not equal to itself, and ``True`` is equal to 1.
        assert repr(found) == repr(trace.args.many(events, KEYS)), "args"


def run_mutants(seed: int, numbers: range) -> tuple[Counter[str], list[str]]:
    """How the cases ended, and what is wrong."""
    ended: Counter[str] = Counter()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            rng = random.Random(f"{seed}/{number}/scanner")
            bad = list(differences(mutant(seed, number), Path(folder) / "trace_view.json", rng))
            ended["failed" if bad else "same"] += 1
            problems += [f"case {number}: {why}" for why in bad]
    return ended, problems


def run_alone(seed: int, numbers: range) -> tuple[Counter[str], list[str]]:
    """Scan the cases, and read args of their events; what is wrong ends the process."""
    found, ended = library(), Counter[str]()
    assert found is not None, "no scanner on this machine"
    with tempfile.TemporaryFile() as file:
        for number in numbers:
            rng, data = random.Random(f"{seed}/{number}/alone"), mutant(seed, number)
            file.seek(0)
            file.write(data)
            file.truncate()
            file.flush()
            scanner = Scanner(found, int(2 ** rng.uniform(5, 16)), int(2 ** rng.uniform(6, 16)))
            at, parts = array_start(data) or 0, []
            while 0 <= at < len(data):  # beyond what the library refuses at the next bracket
                scanned = Scanned(at, at)
                scanner._read_common(file.fileno(), scanned, None)
                parts += [part for _, part in scanned.parts]
                at = data.find(b"{", scanned.end + 1)
            read_args(found, data, parts)
            ended["read" if parts else "nothing"] += 1
    return ended, []


def read_args(found: Library, data: bytes, parts: list[RangeColumns]) -> None:
    """Let the library read args of all events of ``parts``, which lie in ``data``."""
    places, count = [], 0
    for part in parts:
        firsts = [*part.columns["chunk_first"].tolist(), part.count]
        bounds = zip(part.columns["chunk_offset"].tolist(), part.columns["chunk_length"].tolist(), strict=True)
        for (offset, length), first, behind in zip(bounds, firsts, firsts[1:], strict=False):
            count += behind - first
            places.append((offset, length, behind - first, count))
    if places:
        positions = np.concatenate([np.arange(events) for *_, events, _ in places])
        room = len(data), len(places), max(events for *_, events, _ in places)
        chosen = ChosenArgs(found, room, KEYS, positions)
        chosen.view[: len(data)] = data
        chosen.take(0, np.array(places, np.int64))


def columns_of(path: Path, start: int, size: int) -> tuple[WholeColumns, bool]:
    """The columns of a file, and whether its end is missing."""
    found, whole = library(), WholeColumns()
    assert found is not None, "no scanner on this machine"
    ended = read_scanned(found, str(path), start, size, whole, 0, 1 << 16, lambda done, events: None)
    return whole, ended.truncated


def cut_problem(path: Path, data: bytes, cut: int, spans: tuple[tuple[int, int], ...], full: WholeColumns) -> str:
    """What is wrong with the columns of ``data[:cut]``, given those of all of it."""
    path.write_bytes(data[:cut])
    complete = sum(end <= cut for _, end in spans)
    found, truncated = columns_of(path, spans[0][0], cut)
    if found.count != complete or not truncated:
        return f"cut at {cut}: {found.count} events of {complete}, truncated: {truncated}"
    for group in ("x", "l"):
        kept = full.peek(f"{group}_event", np.int64) < complete
        for name in [name for name in full._columns if name.startswith(f"{group}_")]:
            whole, part = full.peek(name, np.int64), found.peek(name, np.int64)
            if not np.array_equal(whole[kept], part):
                return f"cut at {cut}: {name}"
    for name in ("c_time", "c_series", "c_value"):
        whole, part = full.peek(name, np.float64), found.peek(name, np.float64)
        if not np.array_equal(whole[: len(part)], part):
            return f"cut at {cut}: {name}"
    return ""


def run_cuts(fixture: str, first: int, step: int) -> tuple[Counter[str], list[str]]:
    """Cut ``fixture`` at every ``step``-th byte."""
    sample = fuzz.truncation_sample(fixture)
    problems, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace_view.json"
        path.write_bytes(sample.data)
        full, _ = columns_of(path, sample.spans[0][0], len(sample.data))
        for cut in range(sample.spans[0][0] + first, len(sample.data), step):
            count += 1
            if problem := cut_problem(path, sample.data, cut, sample.spans, full):
                problems.append(problem)
    return Counter({"cut": count}), problems


def giants(scale: int = 1) -> Iterator[tuple[str, bytes]]:
    """Events of which something is of a size that none has."""
    slice_ = b'{"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": "1736405443863674.400", "dur": 3.5, "args": {%b}}'
    small = slice_ % b'"x": 1'
    million = 1_000_000 // scale
    sizes = {
        "text of args": b'"x": "%b"' % (b"y" * 60 * million),
        "call stack": b'"Call stack": "%b"' % (b"main.py(1): f;\\r\\n" * 2 * million),
        "digits": b'"Stream Id": %b' % (b"9" * million),
        "digits of a text": b'"connection_id": "%b"' % (b"9" * million),
        "brackets": b'"x": %b' % (b"[" * million + b"]" * million),
        "keys": b",".join(b'"k%d": %d' % (k, k) for k in range(million // 10)),
        "endless text": b'"x": "%b' % (b"y" * 100 * million),
        "escapes": b'"x": "%b"' % (b"\\u00e4" * 5 * million),
        "blanks": b" " * 20 * million + b'"x": 1',
    }
    for what, args in sizes.items():
        yield what, b"[" + b", ".join([small, slice_ % args, small, small]) + b"]"
    names = b", ".join(small.replace(b'"a"', b'"n%d"' % k) for k in range(million // 20))
    yield "names", b"[" + names + b"]"
    crossing = [
        b'{"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": "%d.000", "dur": %d}' % (1736405443863674 + k, 10**9 + k)
        for k in range(million // 100)
    ]
    yield "rows", b"[" + b", ".join(crossing) + b"]"


def run_giants(scale: int = 1) -> tuple[Counter[str], list[str]]:
    """Try them all."""
    ended: Counter[str] = Counter()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for what, data in giants(scale):
            path = Path(folder) / "trace_view.json"
            path.write_bytes(data)
            with without_scanner():
                expected = outcome(path, 1 << 18)
            try:
                assert_same(expected, outcome(path, 1 << 18))
                ended["same"] += 1
            except AssertionError as error:
                ended["failed"] += 1
                problems.append(f"{what}: {str(error).splitlines()[0]}")
    return ended, problems


def main() -> int:
    """The command; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="The compiled scanner against the reader in Python.")
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cuts", metavar="FIXTURE")
    parser.add_argument("--every", type=int, default=1, help="only every n-th cut")
    parser.add_argument("--giants", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without the reader in Python")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    found = library()
    print(f"library: {found.name if found else 'none'} {os.environ.get('NPU_TUI_SCANNER', '')}", flush=True)
    begun = time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        if options.giants:
            jobs = [pool.submit(run_giants)]
        elif options.cuts:
            pieces = 8
            jobs = [pool.submit(run_cuts, options.cuts, k * options.every, pieces * options.every)
                    for k in range(pieces)]  # fmt: skip
        else:
            run = run_alone if options.alone else run_mutants
            jobs = [pool.submit(run, options.seed, range(first, min(first + PIECE, options.mutants)))
                    for first in range(0, options.mutants, PIECE)]  # fmt: skip
        results = []
        for number, job in enumerate(jobs, 1):
            results.append(job.result())
            if sys.stderr.isatty() or number % 4 == 0:
                told = sum((counts for counts, _ in results), Counter())
                print(f"{number} of {len(jobs)} parts: {dict(told)}", *results[-1][1], sep="\n", file=sys.stderr)
    ended = sum((counts for counts, _ in results), Counter())
    problems = [problem for _, some in results for problem in some]
    how = ", ".join(f"{count:,} {how}" for how, count in sorted(ended.items()))
    print(f"{ended.total():,} cases in {time.monotonic() - begun:.0f} s: {how}; {len(problems)} problems")
    print(*problems[:40], sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
