"""Storms of keys, pastes, mouse, resizes, answers and broken bytes on the explorer in a pseudo-terminal.

    python tests/attack/storm.py --storms 500 --events 300
    python tests/attack/storm.py --storms 50 --columns 1200
    python tests/attack/storm.py --replay storm-17.json

A storm is made of its seed. It fails where the program shows a traceback, ends with another code than 0 or 130, leaves
the terminal in another state than before, or does not end within ``storm_terminal.PATIENCE`` seconds of its own after
Ctrl+C; it is then made smaller as long as it fails, and written to ``storm-<seed>.json``, the last of its output to
``storm-<seed>.out``, and what its threads were at where it did not end to ``storm-<seed>.stacks``.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import pty
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "attack"))
sys.path.insert(0, str(ROOT / "fixtures"))
sys.path.insert(0, str(ROOT / "tests" / "jobs"))
sys.path.insert(0, str(ROOT / "tests" / "load" / "database"))

from bombs import SWITCH  # noqa: E402
from large_trace import write_large_trace  # noqa: E402
from made_roles import colocated  # noqa: E402
from roles import write_roles  # noqa: E402
from service_causes import write_service  # noqa: E402
from snapshot import write_snapshot  # noqa: E402
from storm_terminal import TELL, StormTerminal  # noqa: E402

from npu_tui.cli.main import main  # noqa: E402

TRACES = [
    "dispatch_bound",
    "communication_bound",
    "two_ranks/rank0_ascend_pt",
    "broken",
    "large",
    "snapshot",
    "service",
    "roles",
    "two_ranks",
    "healthy | dispatch_bound",
    "compare | two_ranks | two_ranks",
    "compare | roles | roles again",
    "snapshot leak | snapshot peak",
    "service healthy | service kv",
    "recording",
    "graph",
    "kineto",
    ".",
]
"""Every subject alone, two of most of them, and a folder with many."""
KEYS = [
    *"wsadWSADhjklgGxXeEbBcfnNtvmMzZpHiKoyYLRuU<>{}[]().,0 12345678?/:",
    *("\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[5~", "\x1b[6~", "\x1b[H", "\x1b[F", "\x1b[1;2C", "\x1b[1;2D"),
    *("\r", "\x1b", "\t", "\x7f", "\x10", "\x0c", "\x12", "\x1b[Z", "\x1bOP", "\x1b[97;5u", "\x1b[120;1;120u"),
]
BURSTS = [
    "\x10zoom\r\r", "\x10\r\r\r", "\x10copy\x1b\x1b", "/Gelu\rnnN", "/arg:~1\r", ":3ms\r", ":aten::mm\r",
    ":99999999999s\r",
    "K\r", "Kname\r", ":flags\r", ":flags\rdddd", ":health\r\x1b", "?zoom\x1b\x1b", "1122334455667788",
    ":copy_csv\r", "xxxxceee", "gg" * 5, "wwww0000", "vdddv", "5\x1b5\x1b", ":filter\rab\r", "2\t\r\r ",
    "xo", "\x10" * 4,
    "/\x1b/\x1b/\x1b", ":" * 40, "/step:99999999999999999999\r", "/line:" + "9" * 400 + "\r", "\x1b\x1b\x1b\x1b",
]  # fmt: skip
ANSWERS = [
    b"\x1b[5;7R", b"\x1b[1;2R" * 3, b"\x1b[?3;4R", b"\x1b]11;rgb:1111/2222/3333\x1b\\", b"\x1b]11;rgb:ff/ff",
    b"\x1b[?64;1;2;6c",
    b"\x1b[>0;276;0c", b"\x1b[?2026;2$y", b"\x1b[?2048;1$y", b"\x1b[48;9999;9999;99;99t", b"\x1b[8;40;120t",
    b"\x1b[?1u",
    b"\x1bP>|term(1.0)\x1b\\", b"\x1b[I", b"\x1b[O", b"\x1b[1;5R", b"\x1bOR", b"\x1b[13;2~", b"\x1b[0n",
    b"\x1b_Gi=1;OK\x1b\\",
]  # fmt: skip
BROKEN = [
    b"\x1b[M\x20\xff\x21", b"\x1b[M\x23\xfe\xfe", b"\x1b[M\x20", "你好世界".encode("gbk"), "né".encode("latin-1"),
    b"\xff\xfe\x80",
    b"\x1b[200~half a paste", b"\x1b[201~", b"\x1b[99999999999999u", b"\x1b[1;1;1;1;1u", b"\x1b[<0;99999;99999M",
    b"\x1b[<35;-3;-7M", b"\x1b[" + b"1;" * 80 + b"m", b"\x1b]" + b"x" * 9000, b"\x00\x00", b"\xc2\x9b31m",
    b"\x1b[<64;5;5M" * 9,
    b"\xe4\xbd", b"\x1b", b"\x1b[", b"\x1b[<0;3", b"\x1b[[A", b"\x1bOw", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
]  # fmt: skip
_LEAVING = ["q", "qqqq", "5q5q", "\x10quit\r", "q\x1bq", "\x1b[113u", "qn", "qy"]
"""They stand at the end only: what follows is not seen by anybody."""
KINDS = ("keys", "burst", "burst", "mouse", "resize", "answer", "broken", "paste", "wait")
WEIGHTS = (40, 8, 8, 14, 3, 8, 8, 2, 9)


@dataclass
class Storm:
    """What is done to the explorer on the trace called ``trace`` in a terminal of ``size``.

    ``answers`` is what the terminal does with questions: ``prompt``, ``late`` (1.2 s), ``twice`` or ``silent``. An
    event is bytes in hexadecimals, ``size COLUMNS ROWS`` or ``wait SECONDS``. Ctrl+C comes when all is done where
    ``settled`` says so, else while the program is still at it.
    """

    seed: int
    trace: str
    size: tuple[int, int]
    answers: str
    events: list[str] = field(default_factory=list)
    settled: bool = True


def storm(seed: int, count: int, traces: list[str], columns: int = 0) -> Storm:
    """The storm of ``seed`` with ``count`` events; with ``columns`` the terminal has so many, or is made so wide."""
    draw = random.Random(seed)
    size = draw.choice([(120, 40), (80, 24), (200, 50), (40, 10), (100, 30)])
    size = (columns or size[0], size[1])
    made = Storm(seed, draw.choice(traces), size, draw.choice(["prompt", "late", "twice", "silent"]))
    for kind in draw.choices(KINDS, WEIGHTS, k=count):
        made.events.append(_event(kind, draw) if kind != "resize" or not columns else f"size {columns} {size[1]}")
    made.settled = draw.random() < 0.8
    if draw.random() < 0.2:
        made.events[-5:] = [each.encode().hex() for each in draw.sample(_LEAVING, 5)]
    return made


def _event(kind: str, draw: random.Random) -> str:
    if kind == "resize":
        return f"size {draw.choice([1, 2, 10, 40, 80, 120, 300])} {draw.choice([1, 2, 5, 10, 24, 40, 90])}"
    if kind == "wait":
        return f"wait {draw.choice([0.0, 0.001, 0.02, 0.15])}"
    if kind == "keys":
        data = "".join(draw.choices(KEYS, k=draw.randint(1, 4))).encode()
    elif kind == "burst":
        data = draw.choice(BURSTS).encode()
    elif kind == "answer":
        data = draw.choice(ANSWERS)
    elif kind == "broken":
        data = draw.choice(BROKEN) if draw.random() < 0.7 else bytes(draw.choices(range(256), k=draw.randint(1, 30)))
        data = data.replace(b"\x03", b"").replace(b"\x11", b"").replace(b"\x1a", b"")
    elif kind == "paste":
        text = draw.choice(["Gelu", "a\nb\n", "\x1b]52;c;AAAA\x07", "长" * 50, "x" * 20_000])
        data = b"\x1b[200~" + text.encode() + b"\x1b[201~"
    else:
        code = draw.choice([0, 0, 2, 8, 16, 32, 34, 35, 40, 64, 65, 68, 69, 80, 81])
        x, y = draw.randint(1, 210), draw.randint(1, 60)
        data = f"\x1b[<{code};{x};{y}{draw.choice('MMm')}".encode()
    return data.hex()


@dataclass
class Outcome:
    """How a storm ended: ``fault`` in a few words, empty where it was withstood, and what the program wrote last.

    ``stacks`` is what its threads were at, a few times over, where it did not end.
    """

    fault: str
    seconds: float
    output: bytes
    stacks: str = ""


class Traces:
    """What storms are on: ``words`` gives the command line of each name."""

    def __init__(self, names: list[str], more: Path | None = None) -> None:
        self.names = names
        # A folder that is removed at exit would be by the child of a storm, which exits as well.
        self.home = Path(tempfile.mkdtemp(prefix="npu-tui-storm-"))
        self._words = {
            name: [each if each == "compare" else str(self._path(each, more)) for each in name.split(" | ")]
            for name in names
        }

    def words(self, name: str) -> list[str]:
        return self._words[name]

    def close(self) -> None:
        """Remove what was made."""
        shutil.rmtree(self.home, ignore_errors=True)

    def _path(self, name: str, more: Path | None) -> Path:
        kind, _, cause = name.partition(" ")
        path = self.home / name.replace(" ", "_")
        if name == "given":
            assert more is not None
            return more
        if kind == "snapshot":
            path.mkdir(exist_ok=True)
            write_snapshot(path / "snapshot.pickle", cause or "leak")
            return path / "snapshot.pickle"
        if kind == "service":
            write_service(path, cause or "kv", 1, 40, trace=True)
        elif kind == "roles":
            write_roles(path, colocated(lambda step, rank: 0.0, world=2, steps=1))
        elif kind == "large":
            write_large_trace(path, 150_000)
        elif kind in ("recording", "graph"):
            path.mkdir(exist_ok=True)
            if kind == "graph":
                names = ["EVENT_RECORD_1", "EVENT_WAIT_1", "Add", "Mul"] * 40
                rows = [
                    {"ph": "X", "name": name, "pid": "7 aclGraph", "tid": f"stream{at % 3}", "ts": 10 * at, "dur": 9.5}
                    for at, name in enumerate(names)
                ]
                (path / "graph.json").write_text(json.dumps(rows))
                return path / "graph.json"
            lines = (SWITCH.format(task=at % 5, other=(at + 1) % 5, time=f"1.{at:06d}") for at in range(4000))
            (path / "trace.txt").write_text("# tracer: nop\n" + "".join(lines))
            return path / "trace.txt"
        elif kind == "broken":
            path.mkdir(exist_ok=True)
            whole = (ROOT / "fixtures/dispatch_bound/ASCEND_PROFILER_OUTPUT/trace_view.json").read_bytes()
            cut = bytearray(whole[: len(whole) * 2 // 3])
            draw = random.Random(7)
            for _ in range(40):
                cut[draw.randrange(len(cut))] = draw.randrange(256)
            (path / "trace_view.json").write_bytes(cut)
        return path if path.exists() else ROOT / "fixtures" / name


def run(made: Storm, traces: Traces) -> Outcome:
    """Let ``made`` loose on the explorer."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as stacks:
        pid, fd = pty.fork()
        if pid == 0:
            faulthandler.register(TELL, stacks.fileno())
            _explore(traces.words(made.trace), traces.home)
        terminal = StormTerminal(pid, fd, made.size, made.answers)
        try:
            terminal.begin()
            for event in made.events:
                if not terminal.do(event):
                    break
            fault = (made.settled and terminal.settle()) or terminal.end()
            if fault and not terminal.ended():
                terminal.tell_stacks()
        finally:
            terminal.close()
        stacks.seek(0)
        told = stacks.read().decode("utf-8", "replace")
    return Outcome(fault, time.monotonic() - begun, terminal.output[-20_000:], told)


def _explore(words: list[str], home: Path) -> None:
    """The explorer as its command runs it, in a child process; never returns."""
    code = 70
    try:
        # Nothing the storm does may reach the editor, the files or the flags of whoever lets it loose.
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8", "EDITOR": "true"}
        for name in ("VISUAL", "TMUX"):
            os.environ.pop(name, None)
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
            os.environ[name] = str(home)
        os.chdir(home)
        code = main(words)
    except SystemExit as end:  # a signal while the loop of the explorer closes
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def smaller(made: Storm, traces: Traces, tries: int = 60) -> Storm:
    """A storm that still fails with as few of the events as ``tries`` runs find; itself if it withstands again."""
    if not run(made, traces).fault:
        return made
    events, size = made.events, max(len(made.events) // 2, 1)
    while size and tries:
        at = 0
        while at < len(events) and tries:
            fewer = events[:at] + events[at + size :]
            tries -= 1
            if run(replace(made, events=fewer), traces).fault:
                events = fewer
            else:
                at += size
        size //= 2
    return replace(made, events=events)


def read_storm(path: Path) -> Storm:
    """A storm from a file."""
    found = json.loads(path.read_text())
    return Storm(
        found["seed"],
        found["trace"],
        tuple(found["size"]),
        found["answers"],
        found["events"],
        found.get("settled", True),
    )


def let_loose() -> int:
    """Let storms loose; 1 where one was not withstood."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--storms", type=int, default=500)
    parser.add_argument("--events", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1, help="that of the first storm")
    parser.add_argument("--columns", type=int, default=0, help="those of the terminal, such as 1200")
    parser.add_argument("--trace", type=Path, help="a trace of your own beside those of the fixtures")
    parser.add_argument("--replay", type=Path, help="a file that a failed storm was written to")
    options = parser.parse_args()
    names = [*TRACES, *["given"] * bool(options.trace)]
    if options.replay:
        made = read_storm(options.replay)
        outcome = run(made, Traces([made.trace], options.trace))
        print(outcome.output.decode("utf-8", "replace")[-3000:], outcome.stacks)
        print(outcome.fault or "withstood")
        return bool(outcome.fault)
    traces, failed, events, slowest = Traces(names, options.trace), 0, 0, 0.0
    for seed in range(options.seed, options.seed + options.storms):
        made = storm(seed, options.events, names, options.columns)
        outcome = run(made, traces)
        events, slowest = events + len(made.events), max(slowest, outcome.seconds)
        if outcome.fault:
            failed += 1
            Path(f"storm-{seed}.out").write_bytes(outcome.output)
            if outcome.stacks:
                Path(f"storm-{seed}.stacks").write_text(outcome.stacks)
            print(f"storm {seed} on {made.trace}, {made.answers}: {outcome.fault}", flush=True)
            path = Path(f"storm-{seed}.json")
            path.write_text(json.dumps(asdict(smaller(made, traces)), indent=1) + "\n")
            print(f"  {path}: {len(read_storm(path).events)} events", flush=True)
        elif seed % 25 == 0:
            print(f"storm {seed}: {events:,} events, {failed} not withstood, slowest {slowest:.1f} s", flush=True)
    traces.close()
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"{options.storms} storms, {events:,} events, {failed} not withstood")
    print(f"slowest {slowest:.1f} s, {memory} MB at most")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(let_loose())
