"""Damages every file beside a trace in every way and looks at the profile: nothing may fail, what is lost is said.

``python tests/damaged_files.py [CUTS]`` prints a row per damage with how the files are told; 20 cuts without a number.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "fixtures")]

from beside import profile_with_files  # noqa: E402 - its folder is no package

from npu_tui.ingest.load import load  # noqa: E402
from npu_tui.ingest.source.find import find_source  # noqa: E402
from npu_tui.profile.profile import Profile  # noqa: E402
from npu_tui.report.pages.json_report import json_report  # noqa: E402
from npu_tui.report.report import report  # noqa: E402
from npu_tui.strings import words  # noqa: E402
from npu_tui.trace.model import Trace  # noqa: E402

Damage = Callable[[Path, bytes], None]


def directory(file: Path, content: bytes) -> None:
    file.unlink()
    file.mkdir()


def chinese(file: Path, content: bytes) -> None:
    file.write_bytes(content.replace(b"aten::mm", "矩阵乘".encode("gbk")))


def headless(file: Path, content: bytes) -> None:
    file.write_bytes(content.partition(b"\n")[2])


def columnless(file: Path, content: bytes) -> None:
    """Every second column is gone."""
    lines = content.decode().splitlines()
    file.write_text("\n".join(",".join(line.split(",")[::2]) for line in lines) + "\n")


def rubbish(file: Path, content: bytes) -> None:
    file.write_bytes(bytes((37 * k) % 251 for k in range(4096)))


def nothing(file: Path, content: bytes) -> None:
    file.write_bytes(b"")


WAYS: dict[str, Damage] = {
    "directory": directory, "GBK": chinese, "no header": headless, "columns missing": columnless,
    "rubbish": rubbish, "no byte": nothing,
}  # fmt: skip


def cut_at(part: int, parts: int) -> Damage:
    return lambda file, content: (file.write_bytes(content[: len(content) * part // parts]), None)[1]


def damages(folder: Path, cuts: int, whole: bool = True) -> Iterator[tuple[str, str, str, str]]:
    """(file, damage, state, what is said) for a profile in ``folder`` that is damaged again and again.

    ``whole``: the report is made each time, else only what reads the files.
    """
    profile = profile_with_files(ROOT / "fixtures" / "healthy", folder)
    trace = load(find_source(profile))
    output = profile / "ASCEND_PROFILER_OUTPUT"
    settings = profile / "profiler_info_0.json"
    files = [*sorted(file for file in output.iterdir() if file.name != "trace_view.json"), settings]
    ways = {**{f"cut {part}/{cuts}": cut_at(part, cuts) for part in range(1, cuts)}, **WAYS}
    for file in files:
        content = file.read_bytes()
        for name, damage in ways.items():
            damage(file, content)
            yield file.name, name, *_seen(trace, profile, file.name, whole)
            if file.is_dir():
                file.rmdir()
            file.write_bytes(content)


def _seen(trace: Trace, folder: Path, name: str, whole: bool) -> tuple[str, str]:
    found = Profile(trace, find_source(folder))
    _ = found.kernel_table, found.memory, found.transfers, found.link_matrix, found.preprocessing, found.beside
    if whole:
        json_report(report(found.whole))
    wanted = "profiler_info.json" if name.startswith("profiler_info") else name
    state = next(each for each in found.files if each.name == wanted)
    return state.state, "; ".join(words(problem) for problem in state.problems)


def main(arguments: list[str]) -> None:
    """Print the table."""
    folder = Path(tempfile.mkdtemp())
    count = 0
    try:
        for row in damages(folder / "profile", int(arguments[0]) if arguments else 20):
            count += 1
            print(f"| {' | '.join(row)} |")
    finally:
        shutil.rmtree(folder)
    print(f"{count} damaged profiles, none failed")


if __name__ == "__main__":
    main(sys.argv[1:])
