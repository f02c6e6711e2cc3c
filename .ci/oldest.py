"""Runs the wheel in the oldest Python that is here, with the oldest dependencies that it allows.

Prints why where there is no such Python. Needs ``build``, ``hatchling`` and ``packaging`` in the Python that runs it.
"""

from __future__ import annotations

import email
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 300
"""How long one command, or the screen, may take at most; all together take about 20."""


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
        program = str(home / "bin" / "npu-tui")
        (healthy,) = home.glob("lib/python*/site-packages/npu_tui/fixtures/healthy")
        sorting = "SELECT name FROM slices ORDER BY start, name"
        for words, told in (
            (["demo"], "Findings"),
            (["report", healthy], "Findings"),
            (["query", healthy, sorting, "--format", "csv"], "ProfilerStep#"),
        ):
            out = run(program, *words, cwd=elsewhere, env=environment)
            if told not in out:
                return f"npu-tui {words[0]} does not print {told!r}:\n{out}"
        return screen([program, "demo"], elsewhere, environment)


def run(*words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What a command prints; ends with all of it where the command fails."""
    words = tuple(map(str, words))
    out, nothing = subprocess.PIPE, subprocess.DEVNULL
    done = subprocess.run(
        words, cwd=cwd, env=env, stdin=nothing, stdout=out, stderr=subprocess.STDOUT, text=True, timeout=SECONDS
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


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


def screen(command: list[str], folder: Path, environment: dict[str, str]) -> str | None:
    """Open the screen in a pseudo-terminal and quit it; what is wrong, None if nothing is."""
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(folder)
        os.execve(command[0], command, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    shown, asked, until = b"", False, time.monotonic() + SECONDS
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 0.5)[0]:
            if not asked and b"ProfilerStep#" in shown:  # painted, and at rest
                os.write(terminal, b":q\r")
                asked = True
            continue
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the program has ended
            break
        if not data:
            break
        shown += data
        if b"\x1b[6n" in data:  # it asks where the cursor is, to know what has been shown
            os.write(terminal, b"\x1b[1;1R" * data.count(b"\x1b[6n"))
    else:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    if asked and not code:
        return None
    return f"the screen ended with {code}{'' if asked else ' before it was painted'}:\n{shown[-2000:]!r}"


if __name__ == "__main__":
    sys.exit(main())
