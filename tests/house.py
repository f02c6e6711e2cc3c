"""What the house is made of, and how many rooms a thing passes: the figures that keep the code simple.

    python tests/house.py [--checkout DIR]         # files and lines of the package
    python tests/house.py walks [--checkout DIR]   # functions and files that keys, a load and a report pass

A walk counts the distinct functions of the package that Python calls, by ``sys.setprofile`` in all threads. Keys are
pressed in a real pseudo-terminal of 160x50, after the screen has come to rest.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_JUDGING = "rules", "analysis", "jobs", "subjects"
_OF_A_KIND = {"service", "snapshot", "scheduling", "roles", "experts", "engine"}
_FLAGS = {"is_kineto", "is_of_gpu", "on_gpu", "is_job", "is_service", "is_tables"}
_OWN = {"snapshot": "memory snapshot", "scheduling": "cpu ftrace", "on_gpu": "kineto", "is_of_gpu": "kineto"}
"""Words in the names of files that are about a kind; others have the word of the question."""
_OTHERS = {"curve", "row", "chart", "column", "table", "options"}  # what has a kind that nobody opens
_NAMES = {"FOREIGN", "ASCEND", "KINETO", "GPU", "CLUSTER", "EXPERTS", "COMPANIONS", "OTHER", "OPPROF"}
"""Constants that stand for a kind: of a recorder, or of the rank of a job."""
_KINDS = {"database", "kineto", "service", "memory", "ftrace", "msprof_json", "opprof", "experts", "cluster", "job"}
_IDLE_TICKS = 8
"""Of the 100 of a second: fewer are the polling of the terminal, more are findings that are still looked for."""

_TRACED = """
import json, os, signal, sys, threading
seen, files, last = set(), set(), [None, 0]
def watch(frame, event, arg):
    if event == "call":
        code = frame.f_code
        if PACKAGE in code.co_filename and not code.co_name.startswith("<"):
            seen.add((code.co_filename, code.co_qualname if hasattr(code, "co_qualname") else code.co_firstlineno))
            if code.co_filename != last[0]:
                last[:] = code.co_filename, last[1] + 1
def begin(*_):
    seen.clear()
    last[1] = 0
    threading.setprofile(watch)
    sys.setprofile(watch)
def end(*_):
    sys.setprofile(None)
    threading.setprofile(None)
    with open(OUT, "w") as file:
        json.dump([len(seen), len({name for name, _ in seen}), last[1], sorted(map(list, seen))], file)
"""


def lines_of(path: Path) -> Counter[str]:
    """The lines of one file by kind: docstring, import, comment, blank, code; ``reason`` is a text below a value."""
    text = path.read_text(encoding="utf-8")
    kinds: dict[int, str] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), "import")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), "docstring")
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                alone = token.line.strip().startswith("#")
                kinds.setdefault(token.start[0] if alone else -token.start[0], "comment" if alone else "trailing")
    count = Counter(kinds.values())
    count["reason"] = sum(_below_values(ast.parse(text)))
    for number, line in enumerate(text.splitlines(), 1):
        if number not in kinds:
            count["code" if line.strip() else "blank"] += 1
    return count


def _below_values(tree: ast.AST) -> Iterator[int]:
    """The lines of each text that stands below the value that it is about."""
    for node in ast.walk(tree):
        for above, below in pairwise(body if isinstance(body := getattr(node, "body", []), list) else []):
            text = below.value if isinstance(below, ast.Expr) else None
            if isinstance(above, ast.Assign | ast.AnnAssign) and isinstance(text, ast.Constant):
                yield (below.end_lineno or below.lineno) - below.lineno + 1


def names_of(paths: Sequence[Path]) -> dict[str, Counter[str]]:
    """How often each name is defined at the top of a module, of classes and of functions."""
    kinds = {"classes": ast.ClassDef, "functions": ast.FunctionDef | ast.AsyncFunctionDef}
    bodies = [ast.parse(path.read_text(encoding="utf-8")).body for path in paths]
    return {
        name: Counter(node.name for body in bodies for node in body if isinstance(node, kind))
        for name, kind in kinds.items()
    }


def numbers_of(checkout: Path) -> int:
    """The constants and thresholds in the rooms that judge; those of ``limits`` mean the same everywhere."""
    number, threshold = re.compile(r"^_[A-Z_]* = [0-9.]", re.MULTILINE), re.compile(r"Threshold\(")
    texts = [path.read_text() for room in _JUDGING for path in (checkout / "npu_tui" / room).rglob("*.py")]
    return sum(len(number.findall(text)) + sum(map(bool, map(threshold.search, text.splitlines()))) for text in texts)


def asks_of(tree: ast.AST) -> Iterator[str]:
    """What code asks to know which kind of thing it has, but where it only asserts that.

    A record that one kind alone has compared with None or taken for a truth, a ``kind``, ``subject`` or ``nature``
    compared with one of them, a recorder that is compared or whose kind is taken for a truth, a flag such as
    ``is_job``.
    """
    asserted = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Assert) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in asserted:
            continue
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if name in _FLAGS:
                yield name
        elif isinstance(node, ast.Compare):
            sides = [_plain(side) for side in (node.left, *node.comparators)]
            parts = [part for side in sides for part in ast.walk(side)]
            attributes = [part for part in parts if isinstance(part, ast.Attribute)]
            names = {part.attr for part in attributes if getattr(part.value, "id", "") not in _OTHERS}
            names |= {part.id for part in parts if isinstance(part, ast.Name)}
            values = {part.value for part in parts if isinstance(part, ast.Constant)}
            records = set(map(_record_of, sides)) & _OF_A_KIND
            if None in values and records:
                yield min(records)
            elif names & {"kind", "kinds", "subject"} and (values & _KINDS or names & _NAMES):
                yield "kind"
            elif names & {"recorder", "recorder_of", "recorder_named"} and names & _NAMES:
                yield "kineto"
            elif "nature" in names:
                yield "nature"
        for name in (_record_of(test) for test in _truths_of(node) if isinstance(test, ast.Attribute)):
            if name in _OF_A_KIND - {"experts"}:  # those of a job are a list
                yield name
            elif name == "recorder":
                yield "kineto"


def _record_of(side: ast.expr) -> str:
    """The name of an attribute, or of what its kind is asked for; empty for what no kind has."""
    if isinstance(side, ast.Name):
        return side.id
    if not isinstance(side, ast.Attribute) or getattr(side.value, "id", "") in _OTHERS:
        return ""
    if side.attr == "kind" and "recorder" in ast.unparse(side):
        return "recorder"
    return "" if ast.unparse(side).endswith(("trace.roles", "report.roles")) else side.attr  # of lanes, and a list


def _plain(side: ast.expr) -> ast.expr:
    """What ``side`` of a comparison is, without the name that it is given."""
    return side.value if isinstance(side, ast.NamedExpr) and isinstance(side.value, ast.Attribute) else (
        side.target if isinstance(side, ast.NamedExpr) else side
    )  # fmt: skip


def _truths_of(node: ast.AST) -> Iterator[ast.expr]:
    """What ``node`` takes for true or false."""
    tests: list[ast.expr] = []
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        tests = [node.test]
    elif isinstance(node, ast.comprehension):
        tests = list(node.ifs)
    while tests:
        test = tests.pop()
        if isinstance(test, ast.BoolOp):
            tests += test.values
        elif isinstance(test, ast.UnaryOp):
            tests.append(test.operand)
        else:
            yield _plain(test)


def _is_own(path: Path, asked: str) -> bool:
    """Whether the file is about the kind that is ``asked`` for: it may know itself."""
    return any(word in path.stem for word in _OWN.get(asked, asked.removeprefix("is_")).split())


def house(checkout: Path) -> None:
    """Print files and lines of the package."""
    paths = sorted((checkout / "npu_tui").rglob("*.py"))
    total = Counter[str]()
    for path in paths:
        total += lines_of(path)
    trailing, reasons = total.pop("trailing", 0), total.pop("reason", 0)
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    depth = Counter(len(path.relative_to(checkout).parts) - 1 for path in paths)
    short = [path for path, length in lengths.items() if length <= 30]
    rooms = [path for path in paths if path.name == "__init__.py"]
    print(f"files {len(paths)}, lines {sum(lengths.values()):,}, median {sorted(lengths.values())[len(paths) // 2]}")
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in total.most_common())
    told = (total["comment"] + trailing) / total["code"], reasons / total["code"]
    print(
        f"  {kinds}, trailing comments {trailing:,}; comments {told[0]:.1%} of code, texts below values {told[1]:.1%}"
    )
    alone = len(set(short) - set(rooms))
    print(f"  files of 30 lines or fewer {len(short)} ({alone} without __init__), __init__ {len(rooms)}")
    print(f"  past 560 lines: {', '.join(f'{path.name} {length}' for path, length in lengths.items() if length > 560)}")
    for kind, names in names_of(paths).items():
        often = ", ".join(f"{name} {count}" for name, count in names.most_common() if count > 2)
        print(f"  {kind} of one name three times or more: {often or 'none'}")
        print(f"  {kind} of one name more than once: {sum(count > 1 for count in names.values())}")
    print(f"  constants and thresholds in {', '.join(_JUDGING)}: {numbers_of(checkout)}")
    asked = Counter[str]()
    for path in (path for path in paths if "subjects" not in path.parts):
        asks = Counter(asks_of(ast.parse(path.read_text(encoding="utf-8"))))
        asked += Counter({name: n for name, n in asks.items() if not _is_own(path, name)})
    print(f"  places that ask for a kind: {asked.total()} ({', '.join(f'{n} {c}' for n, c in asked.most_common())})")
    print("  folders from the top: " + ", ".join(f"{level} deep {depth[level]}" for level in sorted(depth)))


def _program(checkout: Path, out: Path, body: str) -> list[str]:
    head = f"PACKAGE, OUT = {str(checkout / 'npu_tui')!r}, {str(out)!r}\n"
    return [sys.executable, "-c", head + _TRACED + body]


def _environment(checkout: Path, folder: str) -> dict[str, str]:
    homes = dict.fromkeys(("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), folder)
    terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
    return os.environ | {"PYTHONPATH": str(checkout)} | terminal | homes


def command_walk(checkout: Path, words: list[str]) -> list[object]:
    """What a command passes, from the call of ``main`` to its end."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "walk.json")
        body = (
            "from npu_tui.cli.main import main\nimport contextlib, io\nbegin()\n"
            "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
            f"    main({words!r})\nend()\n"
        )
        subprocess.run(_program(checkout, out, body), env=_environment(checkout, folder), check=True, cwd=folder,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        return list(json.loads(out.read_text()))


def load_walk(checkout: Path, profile: Path) -> list[object]:
    """What passes from a path to its ``Trace``, nothing reused and nothing written."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "walk.json")
        body = (
            "try:\n    from npu_tui.load.load import opening_of\n"
            "except ImportError:\n    from npu_tui.load.opening import opening_of\n"
            f"from pathlib import Path\nbegin()\nopening_of(Path({str(profile)!r}), cached=False).trace()\nend()\n"
        )
        subprocess.run(_program(checkout, out, body), env=_environment(checkout, folder), check=True, cwd=folder)
        return list(json.loads(out.read_text()))


def key_walk(checkout: Path, profile: Path, key: bytes, before: bytes = b"") -> list[object]:
    """What a key passes until the screen is at rest again."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "walk.json")
        body = (
            "signal.signal(signal.SIGUSR1, begin)\nsignal.signal(signal.SIGUSR2, end)\n"
            f"from npu_tui.cli.main import main\nmain([{str(profile)!r}])\n"
        )
        pid, terminal = pty.fork()
        if not pid:
            os.chdir(folder)
            command = _program(checkout, out, body)
            os.execve(command[0], command, _environment(checkout, folder))
        import fcntl
        import struct
        import termios

        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))

        def rest(seconds: float) -> None:
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                if not select.select([terminal], [], [], left)[0]:
                    continue
                data = os.read(terminal, 1 << 16)
                if b"\x1b[6n" in data:  # the program asks where the cursor is, to know what has been shown
                    os.write(terminal, b"\x1b[1;1R" * data.count(b"\x1b[6n"))

        def worked() -> int:
            """How long the program has had the processor, in its ticks of 10 ms."""
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return int(fields[11]) + int(fields[12])

        def settle(seconds: float) -> None:
            """Rest for so many seconds, and on until a second goes by in which the program does next to nothing."""
            rest(seconds)
            done = -_IDLE_TICKS
            while worked() - done >= _IDLE_TICKS:
                done = worked()
                rest(1)

        settle(6)
        for byte in before:
            os.write(terminal, bytes([byte]))
            settle(0.7)
        os.kill(pid, signal.SIGUSR1)
        rest(0.3)
        os.write(terminal, key)
        settle(1.5)
        os.kill(pid, signal.SIGUSR2)
        rest(0.7)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return list(json.loads(out.read_text()))


def walks(checkout: Path, detail: bool) -> None:
    """Print every walk."""
    healthy, bound = ROOT / "fixtures" / "healthy", ROOT / "fixtures" / "dispatch_bound"
    for name, walk in {
        "PATH to Trace": lambda: load_walk(checkout, healthy),
        "report": lambda: command_walk(checkout, ["report", str(bound), "--no-cache"]),
        "key w": lambda: key_walk(checkout, bound, b"w"),
        "key e": lambda: key_walk(checkout, bound, b"e"),
    }.items():
        functions, files, changes, passed = walk()
        print(f"{name:14} {functions:5} functions in {files:3} files, {changes:5} changes of file")
        if detail:
            for file, function in passed:  # type: ignore[attr-defined]
                print(f"    {Path(file).relative_to(checkout)}: {function}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", nargs="?", choices=("files", "walks"), default="files")
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--detail", action="store_true", help="name every function that is passed")
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    if options.what == "walks":
        walks(checkout, options.detail)
    else:
        house(checkout)


if __name__ == "__main__":
    main()
