"""Renders the pictures of this folder and of the tutorials from the bundled fixtures: ``python screenshots/render.py``.

A page of the manual has its pictures as blocks of code. The first line of a block says what it shows: ``screen FIXTURE
SIZE KEYS...`` or ``job FIXTURE SIZE KEYS...`` a screen after these keys, ``run LINES ARGUMENTS...`` the first lines
that ``npu-tui ARGUMENTS`` prints. A FIXTURE is one of those in the repository or of ``MADE``.
``python screenshots/render.py pages`` renders only these, ``generated`` only the pictures of simulated jobs and of a
service.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from walk import walk

from npu_tui.load.load import Opening
from npu_tui.nearby import with_profile_beside
from npu_tui.profile.profile import Profile
from npu_tui.strings import LANGUAGES, language, speaking
from npu_tui.tui.app import NpuTui
from npu_tui.tui.job_screen import JobScreen
from npu_tui.tui.picture import job_picture, picture, text_frame
from npu_tui.tui.session import make_session
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.view.palette import BLIND, LIGHT

HERE = Path(__file__).resolve().parent

PICTURES: tuple[tuple[str, str, int, int, str], ...] = (
    ("opening_80x24", "dispatch_bound", 80, 24, ""),
    ("opening_120x40", "dispatch_bound", 120, 40, ""),
    ("opening_200x50", "dispatch_bound", 200, 50, ""),
    ("links_200x50", "dispatch_bound", 200, 50, "x W t x x"),
    ("healthy_200x50", "healthy", 200, 50, "t t"),
    ("chain_120x40", "dispatch_bound", 120, 40, "x x x x c"),
    ("finding_120x40", "dispatch_bound", 120, 40, "e"),
    ("code_lines_120x40", "dispatch_bound", 120, 40, "2 P"),
    ("operators_120x40", "dispatch_bound", 120, 40, "6"),
    ("communication_120x40", "healthy", 120, 40, "7"),
    ("range_120x40", "dispatch_bound", 120, 40, "x m x v d d v 5"),
    ("idle_120x40", "dispatch_bound", 120, 40, "I b 3 P"),
    ("distribution_120x40", "dispatch_bound", 120, 40, "slash g e l u enter 8 8 P"),
    ("keys_120x40", "dispatch_bound", 120, 40, "question_mark"),
)
"""(name, fixture, columns, rows, keys pressed first)."""

TERMINALS: tuple[tuple[str, str, int, int, str, Terminal], ...] = (
    ("light_120x40", "dispatch_bound", 120, 40, "x W t x x", Terminal(palette=LIGHT)),
    ("colour_blind_120x40", "dispatch_bound", 120, 40, "x W t x x", Terminal(palette=BLIND)),
    ("colours16_120x40", "dispatch_bound", 120, 40, "x W t x x", Terminal("16")),
    ("no_colour_120x40", "dispatch_bound", 120, 40, "x W t x x", Terminal("none")),
    ("safe_120x40", "dispatch_bound", 120, 40, "x W t x x", Terminal(glyphs="safe")),
    ("ascii_120x40", "dispatch_bound", 120, 40, "x W t x x", Terminal("none", glyphs="ascii")),
    ("small_60x15", "dispatch_bound", 60, 15, "x", Terminal("256")),
)
"""The same, with the terminal that shows it."""


@contextmanager
def chdir(folder: str) -> Iterator[None]:
    """Be in ``folder`` meanwhile, so that pictures show relative paths."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


SIZES = (80, 24), (120, 40), (200, 50)
GENERATED = {"pipeline": "", "experts": "", "roles": "", "service": "e"}
"""Simulated jobs and a service that no fixture holds, with the keys pressed first."""
MADE = (
    *GENERATED, "pipeline_before", "engine", "memory", "leak.pkl", "perf-log", "stolen", "requests/out", "replay",
    "eager",
)  # fmt: skip
"""What else pages show, each in a folder or a file of its name."""


@cache
def made() -> TemporaryDirectory[str]:
    """A folder with all of ``MADE``."""
    folder = TemporaryDirectory()
    generate(Path(folder.name))
    return folder


def generate(folder: Path) -> None:
    """Write ``MADE`` below ``folder``."""
    for room in (".", "fixtures", "tests", "tests/jobs", "tests/rules", "tests/tui"):
        sys.path.insert(0, str(HERE.parent / room))
    from beside import profile_with_files
    from engines import recorded, troubles
    from generate import build, write
    from made_roles import colocated
    from moe_jobs import Shape, simulate
    from pipeline_jobs import SITUATIONS, job_of
    from role_simulations import one
    from roles import write_roles
    from service_causes import write_service
    from snapshot import write_snapshot
    from thefts import JOBS, THEFTS

    from tests.analysis.test_borrowed import DECODE
    from tests.output.test_log import put_all, runs_of
    from tests.tui.test_service import write_npu

    for name in (*GENERATED, "pipeline_before"):
        (folder / name).mkdir()
    job_of(SITUATIONS["middle stage slow"][0], folder / "pipeline")
    job_of(next(made for name, (made, *_) in SITUATIONS.items() if "even" in name), folder / "pipeline_before")
    simulate("hot rank", Shape(), 1, folder / "experts")
    write_roles(folder / "roles", colocated(one(5, 41, 2), steps=3))
    write_service(folder / "service", "kv")
    write_snapshot(folder / "leak.pkl", "leak")
    profile_with_files(HERE.parent / "fixtures" / "healthy", folder / "memory")
    recorded(troubles()["eager above"].engine, folder / "engine")
    put_all(folder / "perf-log", runs_of())
    write(build(replace(JOBS["level"], theft=THEFTS["preempted"])), folder / "stolen")
    write_service(folder / "requests" / "out", "healthy", requests=12)
    write_npu(folder / "requests", Opening(folder / "requests" / "out", cached=False).trace())
    write(build(replace(DECODE, graph=True, kernel_ns=190_000)), folder / "replay")
    write(build(DECODE), folder / "eager")


def render_generated() -> None:
    """Write the pictures of the ``GENERATED`` at every size."""
    with chdir(made().name):
        for name, keys in GENERATED.items():
            for columns, rows in SIZES:
                if name == "service":
                    opening = Opening(Path(name), cached=False)
                    drawn = picture([Profile(opening.trace(), opening.source)], columns, rows, keys.split())
                else:
                    drawn = job_picture(Path(name), columns, rows, keys.split(), traces=True)
                (HERE / f"{name}_{columns}x{rows}.svg").write_text(drawn, encoding="utf-8")
                print(f"{name}_{columns}x{rows}.svg")


BLOCK = re.compile(r"^```(screen|job|run) (.+)\n(?:(?!```).*\n)*```$", re.MULTILINE)


def render_pages() -> None:
    """Write the pictures of the manual into its pages, in the language of the page."""
    for spoken in LANGUAGES:
        for file in sorted((HERE.parent / "npu_tui" / "manual" / spoken).glob("*.md")):
            with speaking(spoken):
                file.write_text(BLOCK.sub(_rendered, file.read_text(encoding="utf-8")), encoding="utf-8")
            print(f"{spoken}/{file.name}")


def _rendered(block: re.Match[str]) -> str:
    kind, words = block[1], shlex.split(block[2])
    lines = _printed(int(words[0]), words[1:]) if kind == "run" else _screen(kind, *words)
    return "\n".join([f"```{kind} {block[2]}", *lines, "```"])


def _printed(count: int, arguments: list[str]) -> list[str]:
    words = [sys.executable, "-m", "npu_tui", *arguments, "--lang", language()]
    where = made().name if set(arguments) & {*MADE} else None
    run = subprocess.run(words, capture_output=True, text=True, cwd=where)
    assert run.returncode < 2, run.stderr  # 1: a gate fails
    return [f"$ npu-tui {shlex.join(arguments)}", *run.stdout.splitlines()[:count]]


def _screen(kind: str, fixture: str, size: str, *keys: str) -> list[str]:
    if fixture in MADE:
        with chdir(made().name):
            return _drawn(kind, Path(fixture), size, keys)
    return _drawn(kind, Path("fixtures") / fixture, size, keys)


def _drawn(kind: str, path: Path, size: str, keys: tuple[str, ...]) -> list[str]:
    columns, rows = map(int, size.split("x"))
    if kind == "job":
        return text_frame(NpuTui(job=JobScreen(path, cached=False)), columns, rows, keys)
    openings = with_profile_beside([Opening(path, cached=False)])
    profiles = [Profile(opening.trace(), opening.source) for opening in openings]
    return text_frame(NpuTui(session=make_session(profiles)), columns, rows, keys)


CHINESE = ("opening_80x24", "opening_120x40", "finding_120x40", "idle_120x40", "keys_120x40")
"""Pictures that are made once more in Chinese."""


def main() -> None:
    """Write every picture."""
    os.chdir(HERE.parent)  # the pictures show relative paths
    if sys.argv[1:] != ["generated"]:
        render_pages()
    if sys.argv[1:] == ["pages"]:
        return
    render_generated()
    if sys.argv[1:] == ["generated"]:
        return
    for name, fixture, columns, rows, keys, terminal in (*((*entry, Terminal()) for entry in PICTURES), *TERMINALS):
        for spoken in ("en", "zh") if name in CHINESE else ("en",):
            opening = Opening(Path("fixtures") / fixture, cached=False)
            profile = Profile(opening.trace(), opening.source)
            file = HERE / (f"{name}.svg" if spoken == "en" else f"{name}.{spoken}.svg")
            with speaking(spoken):
                file.write_text(picture([profile], columns, rows, keys.split(), terminal), encoding="utf-8")
            print(file.name)
    opening = Opening(Path("fixtures") / "dispatch_bound", cached=False)
    for spoken, name in (("en", "walk.svg"), ("zh", "walk.zh.svg")):
        with speaking(spoken):
            (HERE / name).write_text(walk(Profile(opening.trace(), opening.source)), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
