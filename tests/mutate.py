"""Changes one module bit by bit and runs tests against each change; what they let through is printed.

    .venv/bin/python tests/mutate.py npu_tui/trace/intervals.py tests/trace/test_intervals.py

runs mutmut over a copy of the project; it changes what stands in functions, not the constants of a module.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("npu_tui", "tests", "fixtures", ".ci", "pyproject.toml", "README.md", "README.zh.md", "CONTRIBUTING.md")


def settings(module: str, tests: list[str]) -> str:
    """The table of the project file that tells mutmut what to change and what to run."""
    said = {
        "source_paths": [module],
        "pytest_add_cli_args_test_selection": tests,
        "also_copy": [name for name in COPIED if name != "pyproject.toml"],
    }
    return "\n[tool.mutmut]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in said.items())


def main() -> int:
    """Prints every change that no test has seen, on stderr how far it is; 1 if there is one, 2 if mutmut failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", help="a file of the package")
    parser.add_argument("tests", nargs="+", help="test files or folders")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
        project = copy / "pyproject.toml"
        project.write_text(project.read_text(encoding="utf-8") + settings(options.module, options.tests), "utf-8")
        mutmut = (sys.executable, "-m", "mutmut")
        if subprocess.run([*mutmut, "run"], cwd=copy, stdout=sys.stderr).returncode:
            return 2
        told = subprocess.run([*mutmut, "results"], cwd=copy, capture_output=True, text=True, check=True).stdout
        results = re.findall(r"^\s+(\S+): (.+)$", told, re.MULTILINE)
        left = [mutant for mutant, result in results if result not in ("killed", "timeout", "no tests")]
        for mutant in left:
            print(subprocess.run([*mutmut, "show", mutant], cwd=copy, capture_output=True, text=True).stdout)
        unseen = {mutant.rpartition("__mutmut")[0] for mutant, result in results if result == "no tests"}
        print(f"{len(left)} changes left; not run by these tests: {', '.join(sorted(unseen)) or 'nothing'}")
    return bool(left)


if __name__ == "__main__":
    raise SystemExit(main())
