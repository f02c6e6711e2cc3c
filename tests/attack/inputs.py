"""Damaged inputs of every kind through the commands that read them: an answer, or one line.

    python tests/attack/inputs.py [KIND...] [--mutants 300] [--seed 1] [--first 0]

``NPU_TUI_TRACES`` names the folder with the real profiles; kinds whose inputs are not there are left out.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "fixtures"), str(ROOT / "tests")]

from cause_jobs import CALM  # noqa: E402
from generate import build  # noqa: E402
from roles import SECOND, Work, write_roles  # noqa: E402 - its folder is no package
from rounds import rounds  # noqa: E402
from service_causes import write_service  # noqa: E402

from npu_tui.cli.main import main as command  # noqa: E402

FIXTURES, TRACES = ROOT / "fixtures", Path(os.environ.get("NPU_TUI_TRACES", "absent"))
SECONDS = 30
ODD = (
    b"", b"0", b"-1", b"nan", b"inf", b"-inf", b"1e300", b"9223372036854775807", b"-9223372036854775808", b"1e19", b"x",
    b"null", b"[]", b"{}", b'"', b"3.5", b"\xff\xfe", b"true", b"\0", b"99999999999999999999999", b"0.0000001",
)  # fmt: skip
_VALUE = re.compile(rb'-?\d[\d.]*|"[^"\n]{0,60}"|[A-Za-z_]{3,}')


def from_traces(name: str) -> Callable[[Path], object]:
    """Copies ``name`` of the real profiles."""
    return lambda folder: copied(TRACES / name, folder)


def copied(source: Path, folder: Path) -> None:
    """Copy a file into ``folder``, or what is in a folder."""
    if source.is_dir():
        shutil.copytree(source, folder, dirs_exist_ok=True)
    else:
        shutil.copy(source, folder / source.name)


def unpacked(folder: Path) -> None:
    """The recording of an inference engine, its trace unpacked."""
    for file in (TRACES / "inference" / "vllm_prefilldecode_piecewise").rglob("*.json.gz"):
        (folder / file.stem).write_bytes(gzip.decompress(file.read_bytes()))


def history(folder: Path) -> None:
    """A log of five runs."""
    for number, name in enumerate(("healthy", "dispatch_bound", "communication_bound", "level0", "older_chip")):
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
            when = ["--when", f"2026-01-0{number + 1}", "--label", f"c{number}"]
            command(["log", "add", str(FIXTURES / name), "--log", str(folder), *when])


def roles(folder: Path) -> None:
    """Three steps of two roles on four ranks, of which one ends late."""
    work, begin = [], 0
    for step in range(1, 4):
        for name in ("rollout_generate", "actor_update"):
            ends = [begin + (4 if rank == 2 else 2) * SECOND for rank in range(4)]
            work += [Work(step, name, rank, begin, end, rank, device=rank) for rank, end in enumerate(ends)]
            begin = max(ends)
    write_roles(folder, work)


def summaries(folder: Path) -> None:
    """The summaries of a job."""
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        command(["summarize", str(FIXTURES / "two_ranks"), "-o", str(folder)])


def borrowed(folder: Path) -> None:
    """Replays of graphs, and an eager run of the same model."""
    decode = replace(CALM, decode=True, training=False, item_sync=True, step_end_sync=False, steps=5, losses=0)
    for place, changes in (("replay", {"graph": True}), ("eager", {})):
        for name, content in build(replace(decode, embedding=False, layers=4, **changes)).items():
            (folder / place / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / place / name).write_bytes(content)


def only(folder: Path, name: str) -> None:
    """One file of a service."""
    write_service(folder, "kv", 1, 10, trace=True, database=True)
    for file in folder.iterdir():
        if file.name != name:
            file.unlink()


def converted(folder: Path) -> None:
    """A recording of the scheduler as the converter writes it."""
    with sqlite3.connect(folder / "ftrace_data.db") as base:
        base.execute("CREATE TABLE process (pid, process_name)")
        base.execute("CREATE TABLE thread (track_id, tid, pid, thread_name)")
        base.execute("CREATE TABLE slice (id, timestamp, duration, name, track_id, args, end_time)")
        base.execute(
            "INSERT INTO thread VALUES (1, 'CPU 3', 'CPU Scheduling', ''), (2, 'app:7', 'Process Scheduling', '')"
        )
        for k in range(300):
            at, name = (1_700_000_000_000_000_000 + 9_000 * k, "app:7" if k % 2 else f"other:{k}")
            base.execute("INSERT INTO slice VALUES (?, ?, 9000, ?, 1, ?, 0)", (k, at, name, '{"end_state": "R"}'))
            base.execute("INSERT INTO slice VALUES (?, ?, 900, 'Runnable', 2, '', 0)", (1000 + k, at - 1000))
    base.close()


JOB = [["ranks", "{}", "--format", "json"], ["compare", "{}", str(FIXTURES / "two_ranks")]]
PROFILE = [["report", "{}", "--format", "json", "--no-cache"], ["query", "{}", "SELECT * FROM findings", "--no-cache"]]
KINDS: dict[str, tuple[Callable[[Path], object], list[list[str]]]] = {
    "job": (lambda folder: copied(FIXTURES / "two_ranks", folder), JOB),
    "pipeline": (from_traces("job4"), JOB),
    "roles": (roles, [*JOB[:1], ["whatif", "{}", "tail as the median"]]),
    "summaries": (summaries, JOB),
    "cluster": (from_traces("cluster"), JOB),
    "experts": (from_traces("experts/expert_hotspot"), JOB[:1]),
    "deployment": (from_traces("experts/expert_deployment"), JOB[:1]),
    "engine": (unpacked, PROFILE),
    "ftrace": (lambda folder: [copied(TRACES / "ftrace" / name, folder) for name in ("trace.txt", "pid_mapping.json")],
               [["report", "{}/trace.txt", "--format", "json", "--no-cache"]]),
    "eager": (borrowed, [[*PROFILE[0][:1], "{}/replay", "--eager", "{}/eager", "--format", "json", "--no-cache"],
                         ["query", "{}/replay", "SELECT * FROM borrowed_code", "--eager", "{}/eager", "--no-cache"]]),
    "snapshot": (from_traces("memory/snapshot_expandable.pkl"), [["report", "{}/*", "--format", "json"]]),
    "memscope": (from_traces("memory/memscope_leaks.csv"), [["report", "{}/*", "--format", "json"]]),
    "memscope_db": (from_traces("memory/memscope_dump_20260527062213.db"), [["report", "{}/*", "--format", "json"]]),
    "history": (history, [["log", "--log", "{}"], ["check", str(FIXTURES / "healthy"), "--against", "log:last-5",
                                                  "--log", "{}"]]),
    "service": (lambda folder: write_service(folder, "kv", 1, 40),
                [*PROFILE, ["check", "{}", "--max-ttft", "p99:800ms"], ["compare", "{}", "{}"]]),
    "service_files": (lambda folder: write_service(folder, "kv", 1, 10, trace=True, database=True), PROFILE),
    "service_trace": (lambda folder: only(folder, "chrome_tracing.json"), PROFILE[:1]),
    "service_database": (lambda folder: only(folder, "profiler.db"), PROFILE[:1]),
    "ftrace_database": (converted, [["report", "{}/ftrace_data.db", "--format", "json", "--no-cache"]]),
    "settings": (lambda folder: (folder / "npu-tui.toml").write_text(SETTINGS),
                 [["report", str(FIXTURES / "healthy"), "--config", "{}/npu-tui.toml"],
                  ["settings", "--config", "{}/npu-tui.toml"]]),
}  # fmt: skip
SETTINGS = """[keys]
zoom_in = ["w", "+"]
[thresholds]
free_share = 0.1
[screen]
theme = "dark"
glyphs = "ascii"
"""


def replaced(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Makes another thing in the place of a file or folder."""

    def done(place: Path) -> None:
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        make(place)

    return done


def deep(place: Path) -> None:
    """Folders in folders, as far as a path goes."""
    for _ in range(60):
        place = place / ("d" * 50)
    place.mkdir(parents=True)


ODD_PLACES: dict[str, Callable[[Path], object]] = {
    "a FIFO": replaced(os.mkfifo),
    "an empty folder": replaced(os.mkdir),
    "a link to itself": replaced(lambda place: place.symlink_to(place.name)),
    "a link to the folder above": replaced(lambda place: place.symlink_to("..")),
    "a link to nothing": replaced(lambda place: place.symlink_to("gone")),
    "an endless device": replaced(lambda place: place.symlink_to("/dev/zero")),
    "a terminal": replaced(lambda place: place.symlink_to("/dev/tty")),
    "folders in folders": replaced(deep),
    "a loop beside it": lambda place: (place.parent / "loop_ascend_pt").symlink_to(".."),
    "twice": lambda place: copied(place, place.with_name(f"more_{place.name}")) if place.is_dir() else None,
    "odd names beside it": lambda place: [os.mkdir(os.fsencode(place.parent) + b"/" + name) for name in _NAMES],
    "nobody's": lambda place: place.chmod(0),
}
"""What stands in the place of a file or folder, or beside it."""
_NAMES = (b"\xff\xfe_ascend_pt", b"\x1b[2J_ascend_pt", b"rank\n0", b"-o", "长".encode() * 60, b"a" * 255)


def damage(folder: Path, draw: random.Random) -> str:
    """Damage one to three files in ``folder``; what was done."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    told = []
    if draw.random() < 0.25:
        place = draw.choice(list(folder.rglob("*")))
        kind = draw.choice(sorted(ODD_PLACES))
        ODD_PLACES[kind](place)
        told.append(f"{place.name} {kind}")
        files = [file for file in files if file.is_file() and not file.is_symlink()]
    for file in draw.sample(files, min(len(files), draw.choice([1, 1, 2, 3]))):
        data = bytearray(file.read_bytes())
        kind = draw.choice(["values", "values", "values", "bytes", "cut", "lines", "gone", "empty", "swap", "insert"])
        if kind == "values":
            places = [*_VALUE.finditer(data, draw.randrange(len(data) + 1) if len(data) > 1 << 16 else 0)][:5000]
            some = draw.sample(places, min(len(places), draw.choice([1, 3, 20])))
            for match in sorted(some, key=lambda match: -match.start()):
                data[match.start() : match.end()] = draw.choice(ODD)
        elif kind == "bytes" and data:
            for _ in range(draw.choice([1, 4, 50])):
                data[draw.randrange(len(data))] = draw.randrange(256)
        elif kind == "cut":
            del data[draw.randrange(len(data) + 1) :]
        elif kind == "lines":
            lines = data.splitlines(keepends=True)
            first = draw.randrange(len(lines) + 1)
            some, action = lines[first : first + 50], draw.choice(["twice", "shuffle", "gone"])
            draw.shuffle(some)
            parts = {"twice": some * 2, "shuffle": some, "gone": []}
            data = bytearray(b"".join([*lines[:first], *parts[action], *lines[first + 50 :]]))
        elif kind == "swap":
            data = bytearray(draw.choice([other for other in files if other.exists()]).read_bytes())
        elif kind == "insert":
            place = draw.randrange(len(data) + 1)
            data[place:place] = draw.randbytes(draw.choice([1, 8, 200]))
        told.append(f"{file.name} {kind}")
        file.unlink()
        if kind != "gone":
            file.write_bytes(b"" if kind == "empty" else bytes(data))
    return ", ".join(told)


def problem(words: list[str], folder: Path, usual: tuple[int, ...] = (0, 1, 2, 3)) -> str:
    """What goes wrong with the command ``words``, which ends with one of the ``usual`` codes; empty if nothing."""
    given = [word.replace("{}", str(folder)) for word in words]
    if given[1].endswith("*"):
        given[1] = str(next((file for file in folder.rglob("*") if file.is_file()), folder / "gone"))
    out, told = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            code = command(given)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    except BaseException as error:
        frames = [f"{Path(one.filename).name}:{one.lineno}" for one in traceback.extract_tb(error.__traceback__)[-3:]]
        return f"{type(error).__name__} {error} {' '.join(frames)}"[:400]
    finally:
        signal.alarm(0)
    out.flush()
    told.flush()
    text = told.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
    if code not in usual or "Traceback" in text or "internal error" in text or "\x1b" in text:
        return f"exit {code}: {text[-900:]}"
    return ""


def attack(kind: str, numbers: range, seed: int) -> tuple[int, list[str]]:
    """How many commands withstood the mutants ``numbers`` of ``kind``, and what went wrong, a line each."""
    make, commands = KINDS[kind]
    withstood, failed = 0, list[str]()
    with tempfile.TemporaryDirectory() as name:
        sound, damaged = Path(name) / "sound", Path(name) / "damaged"
        sound.mkdir()
        make(sound)
        failed += [f"{kind}: {words[0]}: {why}" for words in commands if (why := problem(words, sound, (0, 1)))]
        for number in numbers:
            draw = random.Random(f"{kind} {seed} {number}")
            shutil.copytree(sound, damaged)
            for place in (damaged, *damaged.rglob("*")):
                place.chmod(0o755 if place.is_dir() else 0o644)
            told = damage(damaged, draw)
            for words in commands:
                if why := problem(words, damaged):
                    failed.append(f"{kind} {number}: {words[0]}: {why} ({told})")
                else:
                    withstood += 1
            shutil.rmtree(damaged)
    return withstood, failed


def attack_there(kind: str, numbers: range, seed: int) -> tuple[int, list[str]]:
    """The same, but for kinds whose sound inputs are not there."""
    try:
        return attack(kind, numbers, seed)
    except FileNotFoundError as error:
        print(f"{kind}: not run, {error.filename} is not there", flush=True)
        return 0, []


def main() -> int:
    """The command; 1 if anything is wrong."""
    os.environ["NPU_TUI_DEBUG"] = "1"
    return rounds("Damage inputs of every kind and run the commands that read them.", KINDS, attack_there, 300)


if __name__ == "__main__":
    sys.exit(main())
