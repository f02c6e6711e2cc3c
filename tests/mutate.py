"""Changes one module bit by bit and runs tests against each change; what they let through is printed.

    .venv/bin/python tests/mutate.py npu_tui/trace/intervals.py tests/trace/test_intervals.py
    .venv/bin/python tests/mutate.py --lines 14,30-45 npu_tui/trace/intervals.py tests/trace/test_intervals.py

runs mutmut over a copy of the project, which changes what stands in functions; before that, each number of the module's
constants is made a little less and a little more. Unset NPU_TUI_TRACES to see what dies without the real profiles.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("npu_tui", "tests", "fixtures", ".ci", "pyproject.toml", "README.md", "README.zh.md", "CONTRIBUTING.md")
BARED = ("cached_property", "contextmanager", "of_trace", "once", "property")
"""Decorators that mutmut, which leaves decorated functions alone, need not see."""
FIRST_FAILURE = "--hypothesis-profile=first-failure"


def settings(module: str, tests: list[str]) -> str:
    """The table of the project file that tells mutmut what to change and what to run."""
    said = {
        "source_paths": [module],
        "pytest_add_cli_args": [FIRST_FAILURE],
        "pytest_add_cli_args_test_selection": tests,
        "also_copy": [name for name in COPIED if name != "pyproject.toml"],
    }
    return "\n[tool.mutmut]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in said.items())


def numbered(text: str) -> set[int]:
    """The numbers of lines such as ``14,30-45``; ValueError for anything else."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def kept_to(source: str, lines: set[int]) -> str:
    """``source`` with a note to mutmut at the end of each line that is not to be changed."""
    rows = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        number = token.start[0]
        if token.type in (tokenize.NEWLINE, tokenize.NL) and number not in lines:
            rows[number - 1] += "  # pragma: no mutate"
    return "\n".join(rows) + "\n"


def functions_of(source: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions and methods of ``source``, the last one first."""
    found = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return sorted(found, key=lambda each: -each.lineno)


def laid_bare(source: str) -> str:
    """``source`` with the decorators in ``BARED`` applied after their functions, where they are the only ones."""
    rows = source.splitlines()
    for each in functions_of(source):
        match each.decorator_list:
            case [ast.Name(id=name) as decorator] if name in BARED:
                rows.insert(each.end_lineno or each.lineno, f"{' ' * each.col_offset}{each.name} = {name}({each.name})")
                rows[decorator.lineno - 1] = ""
    return "\n".join(rows) + "\n"


def other_constants(source: str, lines: set[int] | None) -> Iterator[tuple[str, str]]:
    """``source`` with one number of a module's constant changed, and the line that was; of ``lines`` where given."""
    rows = source.splitlines()
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        for each in ast.walk(statement.value):
            if not isinstance(each, ast.Constant) or type(each.value) not in (int, float):
                continue
            if lines is not None and each.lineno not in lines:
                continue
            row, step = rows[each.lineno - 1].encode(), 1 if isinstance(each.value, int) else each.value / 20
            before, after = row[: each.col_offset].decode(), row[each.end_col_offset :].decode()
            for value in (each.value - step, each.value + step):
                changed = f"{before}{value}{after}"
                yield "\n".join((*rows[: each.lineno - 1], changed, *rows[each.lineno :])) + "\n", changed


def constants_left(copy: Path, module: Path, lines: set[int] | None, tests: list[str]) -> int | None:
    """Prints every changed constant that no test has seen; how many, None if the tests fail without a change."""
    source = module.read_text(encoding="utf-8")
    pytest = (sys.executable, "-m", "pytest", "-x", "-q", FIRST_FAILURE, *tests)
    began = time.monotonic()
    if subprocess.run(pytest, cwd=copy, stdout=sys.stderr).returncode:
        return None
    limit = 60 + 15 * (time.monotonic() - began)
    left = 0
    for changed, row in other_constants(source, lines):
        module.write_text(changed, encoding="utf-8")
        try:
            seen = subprocess.run(pytest, cwd=copy, capture_output=True, timeout=limit).returncode
        except subprocess.TimeoutExpired:
            continue
        if not seen:
            left += 1
            print(row, end="\n\n", flush=True)
    module.write_text(source, encoding="utf-8")
    return left


def functions_left(copy: Path, module: str, lines: set[int] | None, tests: list[str]) -> int | None:
    """Prints every change in a function that no test has seen; how many, None if mutmut failed."""
    source = (copy / module).read_text(encoding="utf-8")
    if lines and not any(lines & set(range(each.lineno, (each.end_lineno or 0) + 1)) for each in functions_of(source)):
        return 0
    (copy / module).write_text(laid_bare(kept_to(source, lines) if lines else source), encoding="utf-8")
    with (copy / "pyproject.toml").open("a", encoding="utf-8") as project:
        project.write(settings(module, tests))
    mutmut = (sys.executable, "-m", "mutmut")
    if subprocess.run([*mutmut, "run"], cwd=copy, stdout=sys.stderr).returncode:
        return None
    told = subprocess.run([*mutmut, "results"], cwd=copy, capture_output=True, text=True, check=True).stdout
    results = re.findall(r"^\s+(\S+): (.+)$", told, re.MULTILINE)
    left = [mutant for mutant, result in results if result not in ("killed", "timeout", "no tests")]
    for mutant in left:
        print(subprocess.run([*mutmut, "show", mutant], cwd=copy, capture_output=True, text=True).stdout)
    unseen = {mutant.rpartition("__mutmut")[0] for mutant, result in results if result == "no tests"}
    print(f"not run by these tests: {', '.join(sorted(unseen)) or 'nothing'}")
    return len(left)


def main() -> int:
    """Prints every change that no test has seen, on stderr how far it is; 1 if there is one, 2 if it cannot be told."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=numbered, help="change these only, such as 14,30-45")
    parser.add_argument("module", help="a file of the package")
    parser.add_argument("tests", nargs="+", help="test files or folders")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
        constants = constants_left(copy, copy / options.module, options.lines, options.tests)
        functions = None if constants is None else functions_left(copy, options.module, options.lines, options.tests)
    if constants is None or functions is None:
        return 2
    print(f"{constants + functions} changes left")
    return bool(constants + functions)


if __name__ == "__main__":
    raise SystemExit(main())
