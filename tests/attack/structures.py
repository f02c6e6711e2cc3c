"""Traces of a wrong structure, through every command: `python tests/attack/structures.py --mutants 20000`.

Types are swapped, keys repeated or missing, numbers of any size, texts of any kind, lists in lists, and companions of
any content. Each goes through the report in all forms, `check` and now and then `screenshot`, in this process with a
watchdog. No traceback, no exit code but those that are documented, nothing longer than ``PATIENCE``. A failing case is
shrunk to as few events as fail the same way and written to the current directory.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

from shapes import SHAPES

from npu_tui.cli import options as profile_options
from npu_tui.cli.main import main as program
from npu_tui.cli.options import opened_profile
from npu_tui.profile.profile import Profile

PATIENCE = 5.0
"""Seconds of processor time that the commands on one small trace may take together."""
FRESH = 20
"""Of so many cases one is read anew by every command; in the others all look at what the first of them has read."""
KINDS = ("links", "waits", "steps", "crossing", "begun", "calls", "odd_counters", "processes", "devices", "nested_args")
NUMBERS = (
    "0",
    "-1",
    "1",
    "1e400",
    "-1e400",
    "1e-400",
    "9" * 20,
    "9" * 5_000,
    str(2**31),
    str(2**63),
    str(-(2**63) - 1),
)
TEXTS = ('""', '"0"', '"NaN"', '"\\ud800"', '"\\u0000"', '"\\u001b[2J"', '"\\u202e"', '"' + " " * 20_000 + '"',
         '"' + "x" * 20_000 + '"', '"=1+1"', '"X"', '"Free"', '"Plane 0"', '"ProfilerStep#9"', '"NPU 1"')  # fmt: skip
OTHERS = (
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "[1, [2]]",
    '{"a": {"b": 1}}',
    "[" * 300 + "]" * 300,
    "[" * 3_000 + "]" * 3_000,
)
VALUES = (*NUMBERS, *TEXTS, *OTHERS)
COMPANIONS = ("../profiler_info_0.json", "../profiler_metadata.json", "kernel_details.csv", "memory_record.csv")

Event = dict[str, Any]


class Literal(str):
    """JSON as it is to be written."""

    __slots__ = ()


def written(event: object) -> str:
    """``event`` as JSON; a dictionary may hold a key twice, as its pairs."""
    if isinstance(event, Literal):
        return str(event)
    if isinstance(event, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {written(value)}" for key, value in event.items()) + "}"
    if isinstance(event, list):
        return "[" + ", ".join(map(written, event)) + "]"
    return json.dumps(event)


def mutant(seed: int, number: int) -> tuple[list[str], dict[str, bytes]]:
    """The events of case ``number`` and its companion files."""
    rng = random.Random(f"{seed}/{number}")
    events = [dict(event) for kind in rng.sample(KINDS, 2) for event in SHAPES[kind](rng.choice([2, 5, 12]))]
    for _ in range(rng.choice([1, 2, 4, 12])):
        rng.choice(DAMAGES)(rng, events)
    texts = [written(event) for event in events]
    for _ in range(rng.choice([0, 0, 1, 3])):
        at = rng.randrange(len(texts))
        texts[at] = rng.choice([repeated, cut])(rng, texts[at])
    return texts, dict(_companions(rng))


def _companions(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    for name in COMPANIONS:
        if rng.random() < 0.3:
            head = b"Name,Type,Accelerator Core,Start Time(us),Duration(us),Component,Total Allocated(MB),OP State\n"
            body = [rng.choice(VALUES).encode(errors="replace") for _ in range(24)]
            rows = b"\n".join(b",".join(body[at : at + 8]) for at in (0, 8, 16))
            document = b'{"config": {"experimental_config": %b}, "ENV_VARIABLES": %b}' % (body[0], body[1])
            yield name, rng.choice([head + rows, document, body[2], b"", os.urandom(64), head + head])


def swap(rng: random.Random, events: list[Event]) -> None:
    """A value becomes one of another kind."""
    place = _place(rng, events)
    place[rng.choice(list(place))] = Literal(rng.choice(VALUES))


def everywhere(rng: random.Random, events: list[Event]) -> None:
    """A field has a strange value in all events of one kind."""
    chosen = rng.choice(events)
    key, value = rng.choice(list(chosen)), Literal(rng.choice(VALUES))
    for event in events:
        if event.get("ph") == chosen.get("ph") and key in event:
            event[key] = value


def lose(rng: random.Random, events: list[Event]) -> None:
    """A key is missing."""
    place = _place(rng, events)
    place.pop(rng.choice(list(place)))
    if not place:
        place["a"] = 1


def rename(rng: random.Random, events: list[Event]) -> None:
    """A value stands under another key."""
    place = _place(rng, events)
    place[rng.choice(["ph", "name", "pid", "ts", "dur", "args", "id", "Task Type", "dst rank"])] = place.pop(
        rng.choice(list(place))
    )


def again(rng: random.Random, events: list[Event]) -> None:
    """Events come many times."""
    at = rng.randrange(len(events))
    events[at:at] = [dict(events[at]) for _ in range(rng.choice([1, 3, 60]))]


def shuffle(rng: random.Random, events: list[Event]) -> None:
    """Events come in any order."""
    rng.shuffle(events)


def drop(rng: random.Random, events: list[Event]) -> None:
    """Events of one phase are missing."""
    phase = rng.choice("XMsfC")
    events[:] = [event for event in events if event.get("ph") != phase] or events


def times(rng: random.Random, events: list[Event]) -> None:
    """Times lie anywhere."""
    for event in events:
        if "ts" in event and rng.random() < 0.3:
            event["ts"] = rng.choice([str(rng.randrange(10**16)), "0", "-5.5", str(2**62), "1736405443863000.500"])
            event["dur"] = rng.choice([0, 1, 1e-9, 1e15, -1, 5])


DAMAGES: tuple[Callable[[random.Random, list[Event]], None], ...] = (
    swap, swap, swap, everywhere, lose, rename, again, shuffle, drop, times,
)  # fmt: skip


def _place(rng: random.Random, events: list[Event]) -> Event:
    """An event, or its args."""
    event = rng.choice(events)
    args = event.get("args")
    return args if isinstance(args, dict) and args and rng.random() < 0.5 else event


def repeated(rng: random.Random, text: str) -> str:
    """A key stands there twice."""
    return text.replace('"ph":', f'"ph": {rng.choice(VALUES)}, "name": "twice", "ph":', 1)


def cut(rng: random.Random, text: str) -> str:
    """The text of an event ends too early."""
    return text[: rng.randrange(len(text) + 1)]


class HangError(Exception):
    """A case took longer than ``PATIENCE``."""


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Run the body for no more than ``PATIENCE`` seconds of processor time: what waits for others is no hang."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextlib.contextmanager
def read_once() -> Iterator[None]:
    """Within the body a profile is read and analysed by the first command that asks for it."""
    held: dict[str, Profile] = {}

    def opened(path: str, *rest: Any) -> Profile:
        if path not in held:
            held[path] = opened_profile(path, *rest)
        return held[path]

    with mock.patch.object(profile_options, "opened_profile", opened):
        yield


def problem(texts: list[str], companions: dict[str, bytes], folder: Path, drawn: bool, fresh: bool = False) -> str:
    """What goes wrong with the trace of ``texts``; empty if nothing does."""
    profile = folder / "p" / "ASCEND_PROFILER_OUTPUT"
    profile.mkdir(parents=True, exist_ok=True)
    for name in COMPANIONS:
        (profile / name).unlink(missing_ok=True)
    for name, content in companions.items():
        (profile / name).write_bytes(content)
    path = profile / "trace_view.json"
    path.write_text("[" + ",\n".join(texts) + "]", encoding="utf-8", errors="replace")
    commands = [["report", str(path), "--format", form] for form in ("json", "text", "markdown", "html")]
    commands.append(
        ["check", str(path), "--max-free", "10%", "--max-lost", "5ms", "--fail-on", "low", "--format", "json"]
    )
    if drawn:
        commands.append(["screenshot", str(path), "-o", str(folder / "a.svg"), "--size", "100x30"])
    reading = contextlib.nullcontext() if fresh else read_once()
    traceback_said = mock.patch.dict(os.environ, {"NPU_TUI_DEBUG": "1"})
    with watched(), reading, traceback_said:
        for words in commands:
            found = _answer(words)
            if found:
                return f"{words[0]} {words[-1] if words[0] == 'report' else ''}: {found}"
    return ""


def _answer(words: list[str]) -> str:
    out, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = program([*words, "--no-cache"])
    except HangError:
        return f"longer than {PATIENCE} s"
    except Exception as error:
        trace, last = error.__traceback__, None
        while trace is not None:
            last, trace = trace, trace.tb_next
        where = f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}" if last else ""
        return f"{type(error).__name__} at {where}: {error!s:.120}"
    said = errors.getvalue()
    if code not in (0, 1, 3) or (code == 1 and words[0] != "check"):
        error, where = said.strip().splitlines()[-2:][0], said.rpartition('File "')[2].split(", in")[0].strip()
        return f"exit code {code}, {Path(where).name}: {error:.160}"
    if code == 3 and said.count("\n") != 1:
        return f"refused in {said.count(chr(10))} lines: {said:.120}"
    out.flush()
    text = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    if code != 3 and words[-1] == "json":
        json.loads(text)
    return "an escape character in the answer" if "\x1b" in text else ""


def shrunk(
    texts: list[str], companions: dict[str, bytes], folder: Path, drawn: bool
) -> tuple[list[str], dict[str, bytes]]:
    """As few events and companions as go wrong in the same place."""
    same = problem(texts, companions, folder, drawn).partition(": ")[2][:80]
    for name in list(companions):
        fewer = {kept: content for kept, content in companions.items() if kept != name}
        if problem(texts, fewer, folder, drawn).partition(": ")[2][:80] == same:
            companions = fewer
    size = max(len(texts) // 2, 1)
    while True:
        at = 0
        while at < len(texts):
            fewer_texts = texts[:at] + texts[at + size :]
            if fewer_texts and problem(fewer_texts, companions, folder, drawn).partition(": ")[2][:80] == same:
                texts = fewer_texts
            else:
                at += size
        if size == 1:
            return texts, companions
        size //= 2


def run_mutants(seed: int, numbers: range, drawn: int = 25, kept: Path | None = None) -> tuple[Counter[str], list[str]]:
    """How the cases ended, and what is wrong; every ``drawn``-th is drawn, a failing one is shrunk into ``kept``."""
    ended: Counter[str] = Counter()
    problems = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in numbers:
            texts, companions = mutant(seed, number)
            picture = number % drawn == 0
            found = problem(texts, companions, folder, picture, number % FRESH == 0)
            ended["failed" if found else "withstood"] += 1
            if not found:
                continue
            problems.append(f"case {number} of seed {seed}: {found}")
            if kept is not None and len(problems) <= 5:
                few, beside = shrunk(texts, companions, folder, picture)
                (kept / f"mutant_{seed}_{number}.json").write_text("[" + ",\n".join(few) + "]", errors="replace")
                for each, content in beside.items():
                    (kept / f"mutant_{seed}_{number}_{Path(each).name}").write_bytes(content)
    return ended, problems


def main() -> int:
    """The command; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Write traces of a wrong structure and run every command on them.")
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    begun, piece = time.monotonic(), 250
    ended: Counter[str] = Counter()
    problems: list[str] = []
    with ProcessPoolExecutor(options.processes) as pool:
        last = options.first + options.mutants
        jobs = [
            pool.submit(run_mutants, options.seed, range(low, min(low + piece, last)), 25, Path.cwd())
            for low in range(options.first, last, piece)
        ]
        for job in jobs:
            counts, found = job.result()
            ended += counts
            problems += found
            print(f"{ended.total():,} {dict(ended)}", *found[:10], sep="\n", flush=True)
    print(f"{ended.total():,} mutants in {time.monotonic() - begun:.0f} s: {dict(ended)}; {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
