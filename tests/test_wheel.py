"""The wheel, installed elsewhere, runs the bundled example."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.of_files("npu_tui", "fixtures", "pyproject.toml", "README.md")

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = {f"npu_tui/native/library/{name}.so" for name in ("aarch64", "x86_64_v2", "x86_64_v3")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a fresh environment that holds the wheel and borrows the dependencies of this one."""
    home = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.create(home, with_pip=False)
    (site_packages,) = home.glob("lib/python*/site-packages")
    borrowed = tmp_path_factory.mktemp("dependencies")
    for folder in (Path(path) for path in sys.path if path.endswith("site-packages")):
        for entry in folder.iterdir():
            if not is_ours(entry) and not (borrowed / entry.name).exists():
                (borrowed / entry.name).symlink_to(entry)
    (site_packages / "borrowed.pth").write_text(f"{borrowed}\n")
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python")
    run(*pip, "install", "--quiet", "--no-compile", "--no-deps", "--no-index", "--disable-pip-version-check", wheel)
    return home / "bin"


def is_ours(entry: Path) -> bool:
    """Whether an entry of site-packages makes the checkout importable."""
    name = entry.name.lower().replace("-", "_")
    return "npu_tui" in name or entry.suffix == ".pth"


def run(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_wheel_is_pure_and_holds_the_examples(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for example in ("healthy", "dispatch_bound"):
        assert f"npu_tui/fixtures/{example}/ASCEND_PROFILER_OUTPUT/trace_view.json" in names
    assert "npu_tui/py.typed" in names
    assert {name for name in names if name.startswith("npu_tui/native/library/")} == LIBRARIES
    assert {"npu_tui/native/native.c", "npu_tui/native/scan.c", "npu_tui/native/layout.h"} <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "fixtures/"))]


def test_package_comes_from_the_wheel(bin_folder: Path, tmp_path: Path) -> None:
    code = "import npu_tui; print(npu_tui.__file__)"
    where = run(bin_folder / "python", "-c", code, cwd=tmp_path).stdout
    assert where.startswith(str(bin_folder.parent))


def test_demo_without_a_terminal_prints_the_report(bin_folder: Path, tmp_path: Path) -> None:
    done = run(bin_folder / "npu-tui", "demo", cwd=tmp_path)
    assert "npu_tui/fixtures/dispatch_bound\n\nPyTorch profile" in done.stdout
    for word in ("Device time", "Findings", "ProfilerStep#", "near-vertical", "lost", "Overlap"):
        assert word in done.stdout
    assert not done.stderr


def test_the_wheel_holds_the_templates_of_pages(bin_folder: Path, tmp_path: Path) -> None:
    example = ROOT / "fixtures" / "healthy"
    page = run(bin_folder / "npu-tui", "report", str(example), "--format", "html", cwd=tmp_path).stdout
    assert page.startswith("<!DOCTYPE html>")
    assert page.endswith("</html>\n")


def test_module_runs_too(bin_folder: Path, tmp_path: Path) -> None:
    assert "npu-tui" in run(bin_folder / "python", "-m", "npu_tui", "--version", cwd=tmp_path).stdout
