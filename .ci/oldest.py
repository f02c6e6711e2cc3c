"""Runs the wheel in the oldest Python that is here, with the oldest dependencies that it allows.

Prints why where there is no such Python. Needs ``build``, ``hatchling`` and ``packaging`` in the Python that runs it.
"""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from tried import run, tried

ROOT = Path(__file__).resolve().parents[1]


def main() -> str | None:
    """Run everything; what is wrong, None if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", here, ROOT)
        (wheel,) = here.glob("*.whl")
        said = metadata(wheel)
        python = oldest_python(SpecifierSet(said["Requires-Python"]))
        if python is None:
            print("oldest dependencies: skipped, no older Python is installed")
            return None
        home = here / "environment"
        run(python, "-m", "venv", "--without-pip", home)
        oldest = here / "oldest.txt"
        oldest.write_text("\n".join(lower_bounds(said)))
        pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python", "--disable-pip-version-check")
        run(*pip, "install", "--quiet", "--no-compile", "--only-binary", ":all:", "-c", oldest, wheel)

        elsewhere = here / "elsewhere"
        elsewhere.mkdir()
        environment = {"PATH": os.defpath, "HOME": folder, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        return tried([str(home / "bin" / "npu-tui")], elsewhere, environment)


def metadata(wheel: Path) -> Message:
    """What ``wheel`` says of itself."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def lower_bounds(said: Message) -> Iterator[str]:
    """Every dependency at its lower bound, as constraints of pip."""
    for requirement in map(Requirement, said.get_all("Requires-Dist", [])):
        for bound in requirement.specifier:
            if bound.operator in (">=", "~=", "==") and "extra" not in str(requirement.marker):
                yield f"{requirement.name}=={bound.version}" + (f"; {requirement.marker}" * bool(requirement.marker))


def oldest_python(supported: SpecifierSet) -> str | None:
    """The oldest Python older than this one, or this one if none that is supported can be older."""
    versions = [f"3.{minor}" for minor in range(sys.version_info.minor + 1) if f"3.{minor}" in supported]
    for version in versions[:-1] or versions:
        for python in pythons(version):
            tried = subprocess.run([python, "-c", "import ctypes, mmap, sqlite3, ssl, venv, zlib"], capture_output=True)
            if not tried.returncode:  # neither a shim without a Python behind it nor one that was built without these
                return python
    return None


def pythons(version: str) -> Iterator[str]:
    """Where a Python of ``version`` may be."""
    if found := shutil.which(f"python{version}"):
        yield found
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from map(str, sorted(versions.glob(f"{version}.*/bin/python{version}")))


if __name__ == "__main__":
    sys.exit(main())
