"""What the archive of the sources holds, as the build backend lists it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from hatchling.builders.sdist import SdistBuilder

ROOT = Path(__file__).resolve().parents[1]
TOP = {
    ".ci",
    ".github",
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


def test_what_pages_for_contributors_name() -> None:
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "tests/README.md")]
    found = re.findall(r"(?<![\w/.])(?:npu_tui|fixtures|tests|\.ci)(?:/\w+)*(?:\.py)?(?![\w/*.<])", "\n".join(pages))
    named = {name.rstrip("/") for name in found}
    assert {"tests/flavours.py", ".ci/run", "fixtures/generate.py"} <= named
    files = held(ROOT)
    folders = {str(parent) for file in files for parent in Path(file).parents}
    assert named <= files | folders
    assert {"npu_tui/native/scan.c", "npu_tui/native/layout.h", "npu_tui/native/library/aarch64.so"} <= files
    assert {file.partition("/")[0] for file in files} == TOP
    assert not [file for file in files if "__pycache__" in file or "site-packages" in file]


def test_contributing_knows_its_way_about() -> None:
    """It is short; the files of the package that it names are there, and so are the names in its examples."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 150
    package = ROOT / "npu_tui"
    rooms = {path.name for path in package.iterdir()}
    named = [name for name in re.findall(r"`([\w/]+(?:\.py)?)`", text) if name.partition("/")[0] in rooms]
    assert len(named) > 60
    assert [name for name in named if not (package / name).exists()] == []
    answers = text.partition("| where do I change … | there |")[2].partition("\n\n")[0]
    assert answers.count("\n| ") == 20
    code = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    for name in ("Draft", "Skipped", "EXPLANATIONS", "RULES", "COLUMNS", "FORMATS", "SUBJECTS", "Nature"):
        assert f"`{name}" in text
        assert re.search(rf"^(?:class )?{name}\b", code, re.MULTILINE), name


def test_folders_of_these_names_elsewhere_stay_out(tmp_path: Path) -> None:
    """An environment holds the package too, and a folder of work may hold tests and pictures."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in ("", "env/lib/site-packages/", "work/", ".cache/"):
        for file in ("npu_tui/__init__.py", "tests/test_one.py", "screenshots/one.svg", ".ci/run", "README.md"):
            (tmp_path / folder / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / file).touch()
    (tmp_path / "notes.md").touch()
    assert held(tmp_path) == {"npu_tui/__init__.py", "tests/test_one.py", "screenshots/one.svg", ".ci/run", "README.md"}
