"""The workflows name what is there, and a release has its notes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import npu_tui

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = {path.stem: path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")}
NOTES = (sys.executable, str(ROOT / ".ci" / "notes.py"))


def test_every_supported_python_is_tested_and_bundled() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    (tested,) = re.findall(r"python: \[(.*)\]", WORKFLOWS["checks"])
    assert re.findall(r"3\.\d+", tested) == supported
    (bundled,) = re.findall(r"PYTHONS:-([0-9. ]+)", (ROOT / ".ci" / "bundles").read_text())
    assert bundled.split() == supported


def test_what_the_workflows_run_is_there() -> None:
    named = {name for text in WORKFLOWS.values() for name in re.findall(r"\.ci/[\w.]+", text)}
    assert {".ci/run", ".ci/bundles", ".ci/tried.py"} <= named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_the_python_inside_is_pinned_for_each_machine() -> None:
    (name,) = re.findall(r"PYTHON: (\S+\$\{\{ matrix\.arch \}\}\S+)", WORKFLOWS["release"])
    pinned = dict(reversed(line.split()) for line in (ROOT / ".ci" / "standalone.sha256").read_text().splitlines())
    assert set(pinned) == {name.replace("${{ matrix.arch }}", arch) for arch in ("x86_64", "aarch64")}
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in pinned.values())
    (version,) = re.findall(r"cpython-(3\.\d+)\.", name)
    assert f"bin/python{version}" in WORKFLOWS["release"]


def test_notes_are_those_of_the_version() -> None:
    done = subprocess.run([*NOTES, f"v{npu_tui.__version__}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().splitlines()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert lines
    assert "\n".join(lines) in changelog
    assert not any(line.startswith("## ") for line in lines)
    assert changelog.index(f"## {npu_tui.__version__}") < changelog.index(
        lines[0], changelog.index("## Unreleased\n") + 20
    )


def test_what_is_not_released_is_told_by_subject() -> None:
    """Who upgrades reads a screen or two, not every change."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    lengths = {section.split()[0]: section.rstrip().count("\n") for section in sections}
    assert lengths["Unreleased"] <= 80
    assert lengths[npu_tui.__version__] <= 80


def test_no_notes_for_another_version() -> None:
    done = subprocess.run([*NOTES, "99.0"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "99.0" in done.stderr
