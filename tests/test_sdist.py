"""What the archive of the sources holds, as the build backend lists it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from hatchling.builders.sdist import SdistBuilder

ROOT = Path(__file__).resolve().parents[1]
TOP = {
    ".ci",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "README.zh.md",
    "fixtures",
    "npu_tui",
    "screenshots",
    "tests",
}


def held(project: Path) -> set[str]:
    return {each.relative_path for each in SdistBuilder(str(project)).recurse_included_files()}


def test_what_contributing_names() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/.])(?:npu_tui|fixtures|tests|\.ci)(?:/\w+)*(?:\.py)?(?![\w/*.<])", text))
    assert {"npu_tui/trace", "tests/flavours.py", ".ci/run", "fixtures/generate.py"} <= named
    files = held(ROOT)
    folders = {str(parent) for file in files for parent in Path(file).parents}
    assert named <= files | folders
    assert {"npu_tui/native/scan.c", "npu_tui/native/layout.h", "npu_tui/native/library/aarch64.so"} <= files
    assert {file.partition("/")[0] for file in files} == TOP
    assert not [file for file in files if "__pycache__" in file or "site-packages" in file]


def test_folders_of_these_names_elsewhere_stay_out(tmp_path: Path) -> None:
    """An environment holds the package too, and a folder of work may hold tests and pictures."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in ("", "env/lib/site-packages/", "work/", ".cache/"):
        for file in ("npu_tui/__init__.py", "tests/test_one.py", "screenshots/one.svg", ".ci/run", "README.md"):
            (tmp_path / folder / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / file).touch()
    (tmp_path / "notes.md").touch()
    assert held(tmp_path) == {"npu_tui/__init__.py", "tests/test_one.py", "screenshots/one.svg", ".ci/run", "README.md"}
