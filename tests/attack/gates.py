"""The promise of a gate, attacked: no damage that loses anything turns its fail into a pass.

    python tests/attack/gates.py [KIND...] [--mutants 40] [--seed 1] [--first 0]

The limit of each gate stands a little below what is measured, so that whatever is lost can make it pass. Databases and
recordings of engines need ``NPU_TUI_TRACES``.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import random
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "fixtures"), str(ROOT / "tests")]

from roles import SECOND, Layout, Work, write_roles  # noqa: E402
from rounds import rounds  # noqa: E402
from service import Service, serve  # noqa: E402 - its folder is no package
from service_causes import write_service  # noqa: E402
from service_writer import Folder  # noqa: E402
from snapshot import CAUSES, simulate  # noqa: E402
from written import fields_of  # noqa: E402

from npu_tui.cli.main import main as command  # noqa: E402

FIXTURES, TRACES = ROOT / "fixtures", Path(os.environ.get("NPU_TUI_TRACES", "absent"))
SECONDS = 30
BELOW = 0.97
"""What the limit is of the value."""
_NONE = ("abc", [1], {}, None, True, "", "nan")
Change = Callable[[bytes, random.Random], bytes]


def run(words: list[str]) -> tuple[int, str, str]:
    """The exit code of a command, what it writes and what it tells."""
    out, told = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        try:
            code = command(words)
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    out.flush(), told.flush()
    return code, out.buffer.getvalue().decode(), told.buffer.getvalue().decode()  # type: ignore[attr-defined]


def profile(folder: Path, name: str = "dispatch_bound") -> Path:
    """A copy of a fixture."""
    ignored = shutil.ignore_patterns("truth.json")
    return Path(shutil.copytree(FIXTURES / name, folder / f"{Path(name).name}_ascend_pt", ignore=ignored))


def database(folder: Path) -> Path:
    """A copy of a real profile that is a database."""
    return Path(shutil.copytree(TRACES / "db/level1/rank0_ascend_pt", folder / "rank0_ascend_pt"))


def engine(folder: Path) -> Path:
    """The recording of an inference engine."""
    file = next((TRACES / "inference" / "vllm_decode_full").glob("*.json.gz"))
    (folder / "trace_view.json").write_bytes(gzip.decompress(file.read_bytes()))
    return folder / "trace_view.json"


def snapshot(folder: Path) -> Path:
    """A memory snapshot."""
    (folder / "snapshot.pkl").write_bytes(pickle.dumps(simulate(CAUSES["leak"], 1).snapshot(), 4))
    return folder / "snapshot.pkl"


def service(folder: Path) -> Path:
    """The tables of a service."""
    (folder / "service").mkdir()
    write_service(folder / "service", "kv", 1, 40)
    return folder / "service"


def services_compared(folder: Path) -> list[str]:
    """A service and a faster one."""
    for name, more in (("base", 0), ("new", 6_000_000)):
        Folder(serve(Service(requests=60, sample=300_000 + more))).write(folder / name)
    return ["compare", str(folder / "base"), str(folder / "new"), "--fail-on", "slower"]


def asked(words: list[str]) -> list[str]:
    """The command of a gate."""
    return [*(["check"] if words[0] != "compare" else []), *words, "--no-cache"]


def halved(path: Path) -> None:
    """Make the times of a baseline or of a run of a log half as long."""
    path.write_text(
        re.sub(
            r'("\w+(?:_us|_p50|_p99)": ?)([0-9.]+)', lambda found: f"{found[1]}{float(found[2]) / 2}", path.read_text()
        )
    )


def baselined(folder: Path) -> list[str]:
    """A profile and a baseline of the half."""
    path, file = profile(folder), folder / "baseline.json"
    run(["check", str(path), "--write-baseline", str(file)])
    content = fields_of(file.read_text())
    content["measures_us"] = {name: value and value / 2 for name, value in content["measures_us"].items()}
    file.write_text(json.dumps(content))
    return [str(path), "--baseline", str(file)]


def against(folder: Path) -> list[str]:
    """A profile and a faster one."""
    base = profile(folder)
    slow = Path(shutil.copytree(base, folder / "slow_ascend_pt"))
    longer(next(slow.rglob("trace_view.json")))
    return [str(slow), "--against", str(base), "--tolerance", "5%"]


def limited(make: Callable[[Path], Path], option: str, tight: str) -> Callable[[Path], list[str]]:
    """A gate of one limit a little below the value; ``tight`` is one that surely fails."""

    def made(folder: Path) -> list[str]:
        path = str(make(folder))
        _, out, _ = run(["check", path, option, tight, "--format", "json", "--no-cache"])
        check = fields_of(out)["checks"][0]
        if tight.endswith("%"):
            return [path, option, f"{check['ratio'] * 100 * BELOW:.6f}%"]
        if check.get("value_bytes") is not None:
            return [path, option, f"{int(check['value_bytes'] * BELOW)}B"]
        return [path, option, f"{tight.rpartition(':')[0]}:{check['value_us'] * BELOW:.3f}us".lstrip(":")]

    return made


def one(make: Callable[[Path], Path], *words: str) -> Callable[[Path], list[str]]:
    """A gate with these words."""
    return lambda folder: [str(make(folder)), *words]


def two_ranks(folder: Path) -> Path:
    """A job."""
    return profile(folder, "two_ranks")


def communication(folder: Path) -> Path:
    """A profile that waits for its peers."""
    return profile(folder, "communication_bound")


def longer(file: Path) -> None:
    """What the device does takes a tenth longer."""
    events = json.loads(file.read_text())
    device = {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] != "Python"}
    for event in events:
        if event["ph"] == "X" and event["pid"] in device and event["name"] != "Free":
            event["dur"] = float(event["dur"]) * 1.1
    file.write_text(json.dumps(events))


def roles(folder: Path, layout: Layout = "steps", name: str = "roles_job", slow: float = 1.0) -> Path:
    """A job of a generating and a training role, whose rank 2 comes late."""
    work = []
    for step in (1, 2):
        for role, begin, length in (("rollout_generate", 0, 60), ("actor_update", 70, 25)):
            start, end = (step * 100 + begin) * SECOND, (step * 100 + begin) * SECOND + round(length * SECOND * slow)
            meets = tuple(start + (end - start) * part // 4 for part in (1, 2, 3))
            for rank in range(3):
                early = tuple((1 if rank == 2 else 900 + rank) * 1_000_000 for _ in meets)
                work.append(Work(step, role, rank, start, end, rank, 0, rank, meets, early))
    write_roles(folder / name, work, layout)
    return folder / name


def mindspeed(folder: Path) -> Path:
    """The same with all roles of a process in one profile."""
    return roles(folder, "mindspeed")


def roles_against(layout: Layout) -> Callable[[Path], list[str]]:
    """A job of roles and a faster one."""

    def made(folder: Path) -> list[str]:
        new, base = roles(folder, layout, "new", 1.2), roles(folder, layout, "base")
        return [str(new), "--against", str(base), "--tolerance", "5%"]

    return made


def job_against(folder: Path) -> list[str]:
    """A job of traces and a faster one."""
    base = two_ranks(folder)
    new = Path(shutil.copytree(base, folder / "new"))
    for trace in new.rglob("trace_view.json"):
        longer(trace)
    return [str(new), "--against", str(base), "--tolerance", "computing=0.5%"]


def tables_against(folder: Path) -> list[str]:
    """A job without traces, whose files tell of faster steps."""
    sides = [Path(shutil.copytree(TRACES / "job4", folder / name)) for name in ("new", "base")]
    for side in sides:
        for file in side.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
            if file.suffix == ".db" or "memory" in file.name or file.name.startswith(("npu_", "kernel_")):
                file.unlink()
    for file in sides[0].rglob("step_trace_time.csv"):
        title, *steps = file.read_text().splitlines()
        cells = [row.split(",") for row in steps]
        slow = [",".join([*row[:2], *(f"{float(cell) * 1.2:.3f}" for cell in row[2:])]) for row in cells]
        file.write_text("\n".join([title, *slow, ""]))
    return [str(sides[0]), "--against", str(sides[1]), "--tolerance", "5%"]


def job_of_log(make: Callable[[Path], Path]) -> Callable[[Path], list[str]]:
    """A job and a log of faster runs."""

    def made(folder: Path) -> list[str]:
        path, log = make(folder), folder / "log"
        run(["log", "add", str(path), "--label", "r1", "--when", "2026-01-01", "--log", str(log)])
        (first,) = log.glob("*-r1-*")
        halved(first)
        run_of = json.loads(first.read_text())
        for day in range(2, 6):
            when = run_of["when"].replace("01-01", f"01-0{day}")
            another = run_of | {"id": f"{day}{run_of['id'][1:]}", "label": f"r{day}", "when": when}
            (log / first.name.replace("0101000000-r1", f"010{day}000000-r{day}")).write_text(json.dumps(another))
        return [str(path), "--against", "log:last-5", "--log", str(log)]

    return made


GATES: dict[str, Callable[[Path], list[str]]] = {
    "free": limited(profile, "--max-free", "1us"),
    "late": limited(profile, "--max-host-late", "1us"),
    "lost": limited(profile, "--max-lost", "1us"),
    "exposed": limited(communication, "--max-exposed-communication", "1us"),
    "step": limited(profile, "--max-step", "1us"),
    "findings": one(profile, "--fail-on", "high"),
    "baseline": baselined,
    "against": against,
    "log": job_of_log(profile),
    "wait": limited(two_ranks, "--max-rank-wait", "1us"),
    "excess": limited(two_ranks, "--max-own-excess", "1us"),
    "peak": limited(snapshot, "--max-peak", "1KB"),
    "fragmentation": limited(snapshot, "--max-fragmentation", "0%"),
    "snapshot findings": one(snapshot, "--fail-on", "low"),
    "ttft": limited(service, "--max-ttft", "p99:1us"),
    "tpot": limited(service, "--max-tpot", "p50:1us"),
    "services compared": services_compared,
    "service findings": one(service, "--fail-on", "high"),
    "decode": limited(engine, "--max-step", "decode:p99:1us"),
    "database free": limited(database, "--max-free", "1us"),
    "database lost": limited(database, "--max-lost", "1us"),
    "job against": job_against,
    "job log": job_of_log(two_ranks),
    "roles wait": limited(roles, "--max-rank-wait", "1us"),
    "roles excess": limited(roles, "--max-own-excess", "1us"),
    "roles against": roles_against("steps"),
    "roles log": job_of_log(roles),
    "mindspeed wait": limited(mindspeed, "--max-rank-wait", "1us"),
    "mindspeed against": roles_against("mindspeed"),
    "mindspeed log": job_of_log(mindspeed),
    "tables against": tables_against,
}
"""Gates that fail, each with what it reads first."""


def cut(data: bytes, draw: random.Random) -> bytes:
    """The file ends somewhere."""
    return data[: draw.randrange(len(data))]


def zeroes(data: bytes, draw: random.Random) -> bytes:
    """A hole in the file."""
    size = min(draw.choice([512, 4096, len(data) // 3]), len(data))
    at = draw.randrange(len(data) - size + 1)
    return data[:at] + bytes(size) + data[at + size :]


def emptied(data: bytes, draw: random.Random) -> bytes:
    """Nothing is left, or nothing that can be read."""
    return draw.choice([b"", b"[]", b"{}", b"\n", data[:1] * len(data), b"[" * 10_000, data[::-1]])


def events(data: bytes, draw: random.Random) -> bytes:
    """Some events of a trace lose what they are read by."""
    found: list[dict[str, Any]] = json.loads(data)
    found = found["traceEvents"] if isinstance(found, dict) else found
    spans = [event for event in found if event.get("ph") in ("X", "s", "f", "M")]
    picked = [e for e in spans if e["name"] == (draw.choice(spans)["name"])] if draw.random() < 0.6 else spans
    for event in draw.sample(picked, max(int(len(picked) * draw.choice([0.05, 0.5, 1.0])), 1)):
        field = draw.choice([name for name in ("ts", "dur", "ph", "pid", "tid") if name in event] or ["ph"])
        if draw.random() < 0.3:
            event.pop(field, None)
        else:
            event[field] = draw.choice(_NONE)
    return json.dumps(found).encode()


def values(data: bytes, draw: random.Random) -> bytes:
    """Values of a document are others, or gone."""
    found = json.loads(data)

    def visit(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            if draw.random() < share:
                node[key] = draw.choice(_NONE)
            else:
                visit(node[key])

    share = draw.choice([0.02, 0.2, 1.0])
    visit(found)
    return json.dumps(found).encode()


def rows(data: bytes, draw: random.Random) -> bytes:
    """Cells of a table are no numbers, or rows are no rows."""
    lines = data.split(b"\n")
    column = draw.randrange(max(lines[0].count(b",") + 1, 1))
    for at in draw.sample(range(1, len(lines)), max(int((len(lines) - 1) * draw.choice([0.05, 0.5, 1.0])), 1)):
        cells = lines[at].split(b",")
        if len(cells) > column:
            cells[column] = draw.choice([b"", b"x", b"nan", b"inf", b"1e999", b"\xff"])
            lines[at] = draw.choice([b",".join(cells), b",".join(cells), b"\0" * len(lines[at])])
    return b"\n".join(lines)


def fewer(data: bytes, draw: random.Random) -> bytes:
    """The last rows of a table were never written."""
    lines = data.splitlines(keepends=True)
    return b"".join(lines[: draw.randrange(len(lines))])


def entries(data: bytes, draw: random.Random) -> bytes:
    """Entries of a snapshot have odd values, or parts of it are gone."""
    found = pickle.loads(data)
    if draw.random() < 0.2:
        found[draw.choice(["segments", "device_traces"])] = draw.choice([None, "x", {}, 7])
        return pickle.dumps(found, 4)
    groups = [found["device_traces"][0], found["segments"], [b for s in found["segments"] for b in s["blocks"]]]
    group = draw.choice(groups)
    for entry in draw.sample(group, max(int(len(group) * draw.choice([0.05, 0.5, 1.0])), 1)):
        field = draw.choice(
            [name for name in ("size", "addr", "address", "action", "total_size", "state") if name in entry]
        )
        if draw.random() < 0.3:
            del entry[field]
        else:
            entry[field] = draw.choice(["abc", [1], None, -5, 1 << 64])
    return pickle.dumps(found, draw.choice([2, 4]))


_TABLES = ("TASK", "CANN_API", "PYTORCH_API", "STRING_IDS", "COMMUNICATION_OP", "COMPUTE_TASK_INFO")
"""What gates of a database rest on."""


def tables(data: bytes, draw: random.Random) -> bytes:
    """A table of a database is gone, or its cells are no numbers."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.db"
        path.write_bytes(data)
        base = sqlite3.connect(path)
        there = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = draw.choice([name for name in _TABLES if name in there])
        columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
        kind = draw.choice(["drop", "rename", "view", "cells", "cells", "cells"])
        if kind == "drop":
            base.execute(f"DROP TABLE {table}")
        elif kind == "rename":
            base.execute(f"ALTER TABLE {table} RENAME TO T2")
        elif kind == "view":
            base.execute(f"ALTER TABLE {table} RENAME TO T2")
            base.execute(f"CREATE VIEW {table} AS SELECT * FROM T2")
        else:
            value, every = draw.choice(["'abc'", "NULL", "x'00ff'", "1e300"]), draw.choice([1, 2, 20])
            with contextlib.suppress(sqlite3.IntegrityError):  # the number of a row
                base.execute(f"UPDATE OR IGNORE {table} SET {draw.choice(columns)} = {value} WHERE rowid % {every} = 0")
        base.commit()
        base.close()
        return path.read_bytes()


CHANGES: dict[str, tuple[Change, ...]] = {
    ".json": (cut, zeroes, emptied, events, events, events),
    ".csv": (cut, zeroes, emptied, fewer, rows, rows, rows),
    ".pkl": (cut, zeroes, emptied, entries, entries, entries),
    ".db": (cut, zeroes, emptied, tables, tables, tables),
}


def lost(job: Path, output: Path, compared: bool, draw: random.Random) -> str:
    """A part of a profile of a job is gone, or, where another one tells what there was, the whole, or its folder."""
    parts = [output, draw.choice(sorted(output.iterdir()))]
    parts += [place for place in output.parents if place.is_relative_to(job) and place != job] if compared else []
    part = draw.choice(parts)
    if part.is_file():
        part.unlink()
    else:
        shutil.rmtree(part)
        if draw.random() < 0.3:
            part.mkdir()
    return f"{part.relative_to(job)} is gone"


def damage(words: list[str], draw: random.Random) -> str:
    """Damage what is checked, or what it is held against; what was done."""
    checked, *others = [Path(word) for word in words if Path(word).exists()][:: -1 if words[0] == "compare" else 1]
    path = draw.choice(others) if others and draw.random() < 0.3 else checked
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    outputs = sorted(path.rglob("ASCEND_PROFILER_OUTPUT"))
    if len(outputs) > 1 and draw.random() < 0.2:
        return lost(path, draw.choice(outputs), "--against" in words, draw)
    read = _READ if len(outputs) < 2 else ("",)
    file = draw.choice(sorted(file for file in files if file.name.startswith(read) or path != checked))
    changes = CHANGES[file.suffix] if path == checked or len(outputs) > 1 else (cut, zeroes, emptied)
    change, data = draw.choice(changes), file.read_bytes()
    if change is events and file.name != "trace_view.json":
        change = values
    file.write_bytes(change(data, draw))
    return f"{file.name} {change.__name__}" if file.read_bytes() != data else ""


_READ = ("snapshot.pkl", "trace_view.json", "ascend_pytorch_profiler", "request.csv", "batch.csv", "kvcache.csv")
"""What gates measure; other tables only say more."""


def attack(kind: str, numbers: range, seed: int) -> tuple[int, list[str]]:
    """How many mutants the gate ``kind`` withstood, and what went wrong, a line each."""
    withstood, failed = 0, list[str]()
    with tempfile.TemporaryDirectory() as name:
        folder, kept = Path(name) / "gate", Path(name) / "kept"
        folder.mkdir()
        words = GATES[kind](folder)
        code, out, told = run(asked(words))
        assert code == 1, f"{kind}: {words} {code} {out} {told}"
        assert "FAIL  " in out or words[0] == "compare", out
        folder.rename(kept)
        for number in numbers:
            draw = random.Random(f"{kind} {seed} {number}")
            shutil.copytree(kept, folder)
            done = damage(words, draw)
            signal.alarm(SECONDS)
            try:
                code, out, told = run(asked(words))
            except Exception as error:
                code, out, told = 70, "", f"{type(error).__name__} {error}"
            signal.alarm(0)
            if done and (code not in (1, 3) or (code == 3 and told.count("\n") != 1) or "Traceback" in told):
                failed.append(f"{kind} {number}: {code} {done}: {(told or out)[:300]}")
            else:
                withstood += 1
            shutil.rmtree(folder)
    return withstood, failed


def main() -> int:
    """The command; 1 if anything is wrong."""
    return rounds("Damage what gates read.", GATES, attack, 40)


if __name__ == "__main__":
    sys.exit(main())
