"""Damages small traces in every way and loads them: `python tests/fuzz.py --mutations 20000 --seed 1`.

The only exception may be ``InputError``, nothing may hang, and every element that stands whole before the first damage
must be found again with its own bytes. `--truncate FIXTURE` cuts a trace at every byte and expects exactly the complete
events. `--readers` loads every damaged trace in this process, with several readers of small ranges and with the
compiled scanner, which must give the same to the bit. A finding names its case:
`--only N` with the same seed repeats it.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

from npu_tui.load.args import json_args
from npu_tui.load.errors import InputError
from npu_tui.load.json_chunks import ChunkReader, array_start
from npu_tui.load.json_events import Event, decode_events, strict_json
from npu_tui.load.load import load
from npu_tui.output.report import report
from npu_tui.output.report_document import report_document
from npu_tui.output.text import text
from npu_tui.profile.profile import Profile
from npu_tui.strings import words
from npu_tui.trace.model import Trace

sys.path.insert(0, str(Path(__file__).resolve().parent / "load"))

from equality import assert_same
from scanning import threads, without_scanner

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
SEED_BYTES = 20_000
CHUNK_SIZES = (64, 1_500, 1 << 16)
PATIENCE = 20
"""Seconds that one small trace may take: a hang, not slowness, is what this finds."""
PROCESSES = 2

EXTREMES = [
    "1e400",
    "-1e400",
    "1e-400",
    "-0",
    "0",
    "1",
    "-1",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "4611686018427387904",
    "1e15",
    "1.5e18",
    "9999999999999999.9999",
    "NaN",
    "Infinity",
    "-Infinity",
    "null",
    "true",
    "false",
    '""',
    '"0"',
    '"-1"',
    '"inf"',
    '"nan"',
    '"1e400"',
    '"0x1f"',
    '"',
    "7",
    '"',
    '"1736405443863674.400"',
    '"\\ud800"',
    '"\\u0000"',
    '"\\u001b[2J"',
    '"\\u202e"',
    "[]",
    "{}",
    "[[]]",
    "[{}]",
    '{"ph":"X"}',
    "[1,2",
    '{"a":',
    '{"b":',
    "nul",
    '"X"',
    '"C"',
    '"s"',
    '"f"',
    '"t"',
    '"M"',
    '"B"',
    '"E"',
    '"b"',
    '"e"',
    '"i"',
]
EXTREMES += ["9" * 400, '"' + "9" * 400 + '"', '"' + "x" * 5_000 + '"', "[" * 3_000, "[" * 3_000 + "]" * 3_000]
BYTES = [b"\x00", b"\x1b", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r\n", b"\t", b'"', b"\\", b"{", b"}"]
BYTES += [b"[", b"]", b",", b":", b"}, {", b'}, {"', b'\\"', "算子".encode(), "算子".encode("gb18030"), b"\xe2\x80\xae"]


@dataclass(frozen=True)
class Sample:
    """A well-formed trace: its text, and [start, end) of each of its elements in bytes."""

    name: str
    data: bytes
    spans: tuple[tuple[int, int], ...]


def trace_files() -> list[Path]:
    """Every trace of the fixtures."""
    return sorted(path for path in FIXTURES.rglob("*.json") if path.name not in ("truth.json", "manifest.json")
                  and not path.name.startswith(("profiler_", "communication")) and _begins_a_trace(path))  # fmt: skip


def _begins_a_trace(path: Path) -> bool:
    with path.open("rb") as file:
        return array_start(file.read(4096)) is not None


def split(data: bytes) -> tuple[tuple[int, int], ...]:
    """Where the elements of a well-formed trace stand, found with ``json`` alone."""
    text = data.decode("latin-1")  # one character is one byte
    at = array_start(data)
    assert at is not None
    decoder, spans = json.JSONDecoder(), []
    while True:
        while text[at] in " \t\r\n,":
            at += 1
        if text[at] == "]":
            return tuple(spans)
        _, end = decoder.raw_decode(text, at)
        spans.append((at, end))
        at = end


@cache
def samples() -> tuple[Sample, ...]:
    """Every trace of the fixtures, thinned out to ``SEED_BYTES`` without losing its style."""
    found = []
    for path in trace_files():
        data = path.read_bytes()
        spans = split(data)
        events = [data[start:end] for start, end in spans]
        every = max(1, len(data) // SEED_BYTES + 1)
        kept = events[::every]
        while sum(map(len, kept)) > SEED_BYTES:
            kept.pop()
        opening, closing = data[: spans[0][0]], data[spans[-1][1] :]
        found.append(rendered(path.name, kept, opening, data[spans[0][1] : spans[1][0]], closing))
    return tuple(found)


def rendered(name: str, events: list[bytes], opening: bytes, separator: bytes, closing: bytes) -> Sample:
    """A sample of ready-made elements."""
    data, spans = opening, []
    for index, event in enumerate(events):
        data += separator if index else b""
        spans.append((len(data), len(data) + len(event)))
        data += event
    return Sample(name, data + closing, tuple(spans))


def _place(rng: random.Random, data: bytes) -> int:
    return rng.randrange(len(data) + 1)


def _span(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = _place(rng, data)
    return start, min(len(data), start + rng.choice([1, 1, 2, 8, 40, 300, 3_000]))


def flip(rng: random.Random, data: bytes) -> bytes:
    """One byte becomes another."""
    at = rng.randrange(len(data))
    return data[:at] + bytes([rng.choice([data[at] ^ 1 << rng.randrange(8), rng.randrange(256)])]) + data[at + 1 :]


def delete(rng: random.Random, data: bytes) -> bytes:
    """Some bytes are missing."""
    start, end = _span(rng, data)
    return data[:start] + data[end:]


def duplicate(rng: random.Random, data: bytes) -> bytes:
    """Some bytes stand there twice."""
    start, end = _span(rng, data)
    return data[:end] + data[start:]


def insert(rng: random.Random, data: bytes) -> bytes:
    """Bytes that mean something stand where they should not."""
    at = _place(rng, data)
    return data[:at] + rng.choice(BYTES) * rng.choice([1, 1, 2, 50]) + data[at:]


def splice(rng: random.Random, data: bytes) -> bytes:
    """The trace of one writer goes on as that of another."""
    other = rng.choice(samples()).data
    return data[: _place(rng, data)] + other[_place(rng, other) :]


def truncate(rng: random.Random, data: bytes) -> bytes:
    """The file ends too early."""
    return data[: _place(rng, data)]


def token(rng: random.Random, data: bytes) -> bytes:
    """A value becomes one that the field never has."""
    at = data.find(b": ", _place(rng, data)) + 2
    end = min((found for mark in (b",", b"}") if (found := data.find(mark, at)) > 0), default=len(data))
    return data[:at] + rng.choice(EXTREMES).encode() + data[end:] if at > 1 else flip(rng, data)


def key(rng: random.Random, data: bytes) -> bytes:
    """A key becomes another one of the format."""
    fields = [b"ph", b"name", b"pid", b"tid", b"ts", b"dur", b"cat", b"id", b"args", b"connection_id", b"Call stack"]
    old, new = rng.sample(fields, 2)
    at = data.find(b'"%b"' % old, _place(rng, data))
    return data[:at] + b'"%b"' % new + data[at + len(old) + 2 :] if at >= 0 else flip(rng, data)


def unquote(rng: random.Random, data: bytes) -> bytes:
    """A mark of the syntax is missing."""
    at = data.find(rng.choice([b'"', b"{", b"}", b":", b",", b"["]), _place(rng, data))
    return data[:at] + data[at + 1 :] if at >= 0 else truncate(rng, data)


MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    flip, delete, duplicate, insert, splice, truncate, token, token, token, key, unquote, unquote,
)  # fmt: skip


class HangError(Exception):
    """A trace took longer than ``PATIENCE``."""


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def mutant(seed: int, number: int) -> tuple[Sample, bytes, str]:
    """Case ``number`` of ``seed``: the trace it was, its damaged bytes, and what was done to it."""
    rng = random.Random(f"{seed}/{number}")
    sample = rng.choice(samples())
    data, done = sample.data, [sample.name]
    for _ in range(rng.choice([1, 1, 2, 4])):
        mutation = rng.choice(MUTATIONS)
        data = mutation(rng, data or b"[")
        done.append(mutation.__name__)
    return sample, data, " ".join(done)


def intact(sample: Sample, data: bytes) -> int:
    """How many elements of ``sample`` stand in ``data`` before the first difference."""
    low, high = 0, min(len(data), len(sample.data))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if data[:middle] == sample.data[:middle] else (low, middle - 1)
    return sum(end <= low for _, end in sample.spans)


def problems(sample: Sample, data: bytes, path: Path) -> Iterator[str]:
    """What is wrong with how ``data`` is loaded from ``path``."""
    path.write_bytes(data)
    whole = intact(sample, data)
    wanted = [sample.data[start:end] for start, end in sample.spans[:whole]]
    for chunk_size in CHUNK_SIZES:
        where = f"chunks of {chunk_size}"
        try:
            with _alarm():
                trace = load(path, chunk_size=chunk_size)
                lost = _lost(trace, wanted)
                if chunk_size == CHUNK_SIZES[-1]:
                    _used(trace)
        except InputError as error:
            if "\n" in words(error.message):
                yield f"{where}: a message of several lines"
            if whole:
                yield f"{where}: refused though {whole} events stand whole: {words(error.message)}"
        except HangError:
            yield f"{where}: longer than {PATIENCE} s"
        except Exception:
            yield f"{where}: {_raised()}"
        else:
            if lost:
                yield f"{where}: {lost} of {whole} whole events before the damage are lost"


def _raised() -> str:
    error = sys.exc_info()[1]
    frames = traceback.extract_tb(error.__traceback__)[-3:] if error else []
    return f"{error!r:.200} at " + " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))


def _lost(trace: Trace, wanted: list[bytes]) -> int:
    count = sum(trace.events.values())
    return sum(i >= count or json_args(trace).event_bytes(i) != event for i, event in enumerate(wanted))


def _used(trace: Trace) -> None:
    """Everything that is said about a trace, and its last events."""
    text(report_document(report(Profile(trace))))
    for ordinal in range(max(0, sum(trace.events.values()) - 3), sum(trace.events.values())):
        json_args(trace).event(ordinal)


def run_cases(seed: int, numbers: range) -> tuple[Counter[str], list[str]]:
    """How the cases ended, and what is wrong."""
    ended: Counter[str] = Counter()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            sample, data, done = mutant(seed, number)
            packed = number % 20 == 0
            bad = list(_packed_problems(seed, number, data, Path(folder) / "trace_view.json.gz") if packed else
                       problems(sample, data, Path(folder) / "trace_view.json"))  # fmt: skip
            ended["failed" if bad else "packed" if packed else "passed"] += 1
            found += [f"case {number} ({done}): {words}" for words in bad]
    return ended, found


def _packed_problems(seed: int, number: int, data: bytes, path: Path) -> Iterator[str]:
    """A damaged gzip of a trace must neither fail nor hang."""
    rng = random.Random(f"{seed}/{number}/gz")
    path.write_bytes(rng.choice([flip, delete, truncate, duplicate])(rng, gzip.compress(data)))
    try:
        with _alarm():
            _used(load(path))
    except InputError:
        return
    except HangError:
        yield f"packed: longer than {PATIENCE} s"
    except Exception:
        yield f"packed: {_raised()}"


def run_readers(seed: int, numbers: range) -> tuple[Counter[str], list[str]]:
    """Read every case alone and with several readers, in ranges and chunks of any size."""
    ended: Counter[str] = Counter()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            _, data, done = mutant(seed, number)
            bad = list(differences(seed, number, data, Path(folder) / "trace_view.json"))
            ended["failed" if bad else "passed"] += 1
            found += [f"case {number} ({done}): {words}" for words in bad]
    return ended, found


def differences(seed: int, number: int, data: bytes, path: Path) -> Iterator[str]:
    """What several readers find in ``data`` that one does not."""
    path.write_bytes(data)
    rng = random.Random(f"{seed}/{number}/readers")
    chunk_size, length, count = int(2 ** rng.uniform(5, 16)), int(2 ** rng.uniform(6, 14)), rng.randint(1, 4)
    where = f"chunks of {chunk_size}, {count} readers of {length}"
    try:
        with _alarm():
            with without_scanner():
                alone = _outcome(path, chunk_size)
                assert_same(alone, _outcome(path, chunk_size, length))
            where = f"scanned, chunks of {chunk_size}"
            assert_same(alone, _outcome(path, chunk_size))
            where = f"scanned, chunks of {chunk_size}, {count} threads, ranges of {length}"
            with threads(count):
                assert_same(alone, _outcome(path, chunk_size, length))
    except HangError:
        yield f"{where}: longer than {PATIENCE} s"
    except AssertionError as error:
        yield f"{where}: {str(error).splitlines()[0]}"
    except Exception:
        yield f"{where}: {_raised()}"


def _outcome(path: Path, chunk_size: int, length: int = 0) -> Trace | str:
    try:
        return load(path, chunk_size=chunk_size, range_bytes=length)
    except InputError as error:
        return words(error.message)


def truncation_sample(fixture: str, size: int = 200_000) -> Sample:
    """The first trace of ``fixture``, thinned out to ``size`` bytes of whole events of every part of it."""
    folder = FIXTURES / fixture
    path = next(path for path in trace_files() if folder in path.parents)
    data = path.read_bytes()
    spans = split(data)
    kept = spans[:: len(data) // size + 1]
    return rendered(fixture, [data[start:end] for start, end in kept], data[: spans[0][0]], b", ", b"]")


def run_truncations(sample: Sample, cuts: range, chunk_size: int = 1 << 14) -> tuple[Counter[str], list[str]]:
    """Read ``sample`` cut at each of ``cuts``: it must give exactly the complete events, and say that it is cut."""
    ended: Counter[str] = Counter()
    found = []
    ends = [end for _, end in sample.spans]
    start = sample.spans[0][0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace_view.json"
        for number, cut in enumerate(cuts):
            complete = sum(end <= cut for end in ends)
            loaded = number % 50 == 0
            read, truncated = (_loaded if loaded else _read)(sample.data[:cut], path, start, chunk_size)
            right = read == complete and (truncated or not complete)
            ended["loaded" if loaded else "read"] += 1
            if not right:
                found.append(f"cut at {cut}: {read} events of {complete}, truncated: {truncated}")
    return ended, found


def _read(data: bytes, path: Path, start: int, chunk_size: int) -> tuple[int, bool]:
    if len(data) < start:
        return 0, True
    reader: ChunkReader[Event] = ChunkReader(io.BytesIO(data), start, decode_events, strict_json, chunk_size)
    return sum(len(chunk.events) for chunk in reader) + reader.malformed, reader.truncated


def _loaded(data: bytes, path: Path, start: int, chunk_size: int) -> tuple[int, bool]:
    path.write_bytes(data)
    try:
        trace = load(path, chunk_size=chunk_size)
    except InputError:
        return 0, True
    return sum(trace.events.values()), trace.health.truncated


def main(argv: list[str] | None = None) -> int:
    """The command; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Damage small traces in every way and load them.")
    parser.add_argument("--mutations", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--readers", action="store_true", help="compare one reader with several instead")
    parser.add_argument("--only", type=int, help="repeat this case and leave its file in the current directory")
    parser.add_argument("--truncate", metavar="FIXTURE", help="cut this fixture at every byte instead")
    parser.add_argument("--every", type=int, default=1, help="only every n-th truncation point")
    options = parser.parse_args(argv)
    if options.only is not None:
        sample, data, done = mutant(options.seed, options.only)
        path = Path(f"case_{options.only}.json")
        found = differences(options.seed, options.only, data, path) if options.readers else problems(sample, data, path)
        print(done, *found, sep="\n")
        return 0
    begun = time.monotonic()
    with ProcessPoolExecutor(PROCESSES) as pool:
        if options.truncate:
            cut = truncation_sample(options.truncate)
            stride = options.every * PROCESSES
            jobs = [pool.submit(run_truncations, cut, range(first * options.every, len(cut.data), stride))
                    for first in range(PROCESSES)]  # fmt: skip
        else:
            piece = 500
            run = run_readers if options.readers else run_cases
            jobs = [pool.submit(run, options.seed, range(first, min(first + piece, options.mutations)))
                    for first in range(0, options.mutations, piece)]  # fmt: skip
        results = [job.result() for job in jobs]
    ended = sum((counts for counts, _ in results), Counter())
    found = [words for _, words_found in results for words in words_found]
    print(f"{ended.total():,} cases in {time.monotonic() - begun:.0f} s: "
          + ", ".join(f"{count:,} {how}" for how, count in sorted(ended.items()))
          + f"; {len(found)} problems")  # fmt: skip
    print(*found[:40], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
