"""Sources of profiled programs: where they are looked for, whether they fit, what hostile ones can do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npu_tui.load import source
from npu_tui.load.source import Source, look_below, source_of
from npu_tui.trace.message import Message
from npu_tui.trace.side_file import limited_to

CODE = """\
import torch


class Net:
    @torch.no_grad()
    @traced(
        "net",
    )
    def forward(self, x):
        def inner(y):
            return y.tolist()

        # a comment
        return inner(
            x,
        )

    async def later(
        self,
    ):
        return [each for each in self]


if __name__ == "__main__":
    Net()
"""


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(source, "_given", [])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")


def trace_in(folder: Path) -> Path:
    return folder / "out" / "run_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"


def code_at(path: Path, text: str | bytes = CODE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def path_of(found: Source | Message | None) -> Path:
    assert isinstance(found, Source), found
    return found.path


@pytest.mark.parametrize(
    ("line", "function"),
    [(5, "forward"), (9, "forward"), (14, "forward"), (15, "forward"), (11, "inner"), (11, "forward"), (18, "later"),
     (21, "later"), (21, "<listcomp>"), (24, "<module>"), (4, "Net")],
)  # fmt: skip
def test_a_line_of_the_function_fits(tmp_path: Path, line: int, function: str) -> None:
    path = code_at(tmp_path / "net.py")
    assert path_of(source_of(str(path), [(line, function)], trace_in(tmp_path))) == path


@pytest.mark.parametrize(
    ("line", "function"),
    [(0, "forward"), (26, "<module>"), (9999, "forward"), (2, "<module>"), (13, "forward"), (25, "later"),
     (21, "forward"), (14, "inner"), (5, "inner"), (14, "forwards"), (14, "")],
)  # fmt: skip
def test_another_line_is_told_and_not_shown(tmp_path: Path, line: int, function: str) -> None:
    path = code_at(tmp_path / "net.py")
    found = source_of(str(path), [(14, "forward"), (line, function)], trace_in(tmp_path))
    assert isinstance(found, Message)
    assert (found.code, found.args["path"], found.args["line"]) == ("source.other", str(path), line)


def test_the_longest_end_of_the_path_is_found_first(tmp_path: Path) -> None:
    trace = trace_in(tmp_path / "work")
    frame = [(14, "forward")]
    assert source_of("/job/vit/net.py", frame, trace) is None
    by_name = code_at(tmp_path / "work" / "out" / "net.py")
    assert path_of(source_of("/job/vit/net.py", frame, trace)) == by_name
    by_folder = code_at(tmp_path / "work" / "out" / "vit" / "net.py")
    assert path_of(source_of("/job/vit/net.py", frame, trace)) == by_folder
    assert path_of(source_of("C:\\job\\vit\\net.py", frame, trace)) == by_folder
    here = code_at(tmp_path / "elsewhere" / "net.py")
    assert path_of(source_of("net.py", frame, trace)).absolute() == here
    given = code_at(tmp_path / "given" / "net.py")
    look_below(tmp_path / "given")
    assert path_of(source_of("net.py", frame, trace)) == given
    exact = code_at(tmp_path / "job" / "net.py")
    assert path_of(source_of(str(exact), frame, trace)) == exact


def test_one_that_does_not_fit_gives_way_to_one_that_does(tmp_path: Path) -> None:
    code_at(tmp_path / "elsewhere" / "net.py", "def forward():\n    pass\n")
    right = code_at(tmp_path / "out" / "net.py")
    assert path_of(source_of("net.py", [(14, "forward")], trace_in(tmp_path))) == right


@pytest.mark.parametrize("name", ["passwd", "key.pem", "../elsewhere/net.py", "/etc/../etc/net.py", "", "/"])
def test_what_is_no_python_below_the_folders_is_not_looked_at(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "read_regular", lambda *_: pytest.fail("read"))
    assert source_of(name, [(14, "forward")], trace_in(tmp_path)) is None


def test_files_that_are_none(tmp_path: Path) -> None:
    frame, trace = [(1, "<module>")], trace_in(tmp_path)
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "link.py").symlink_to("/dev/zero")
    for name in ("pipe.py", "folder.py", "link.py", "a\0b.py", "x" * 300 + ".py", "\udcff.py"):
        assert source_of(str(tmp_path / name), frame, trace) is None
    with open(tmp_path / "huge.py", "wb") as file:
        file.write(b"x = 1\n" * 1_000_000)
    found = source_of(str(tmp_path / "huge.py"), frame, trace)
    assert isinstance(found, Message)
    assert found.code == "source.large"
    found = source_of(str(code_at(tmp_path / "binary.py", b"\x7fELF\0\0")), frame, trace)
    assert isinstance(found, Message)
    assert found.code == "source.no_text"


@pytest.mark.parametrize(
    ("raw", "first"),
    [
        ("# coding: gbk\nx = '宽'\n".encode("gbk"), "x = '宽'"),
        ("\ufeffx = 1\ny = '宽'\n".encode(), "y = '宽'"),
        (b"# coding: punycode\nx = 'abc-'\n", "x = 'abc-'"),
        (b"# coding: zlib\nx = 1\n", "x = 1"),
        (b"# coding: nonsense\r\nx = 1\r\n", "x = 1"),
        (b"# old\rx = 1\r", "x = 1"),
        (b"#\nx = '\xff'\n", "x = '\ufffd'"),
        ("#\nx = '\x0c\u2028'\n".encode(), "x = '\x0c\u2028'"),
        (b"#\n\tx = 1\n", "        x = 1"),
    ],
)
def test_lines_are_those_that_python_counts(tmp_path: Path, raw: bytes, first: str) -> None:
    found = source_of(str(code_at(tmp_path / "text.py", raw)), [(2, "<module>")], trace_in(tmp_path))
    assert isinstance(found, Source)
    assert found.lines[1:] == [first]


def test_nothing_outside_of_the_roots_is_read(tmp_path: Path) -> None:
    outside = code_at(tmp_path / "secret" / "net.py")
    inside = tmp_path / "project"
    inside.mkdir()
    (inside / "net.py").symlink_to(outside)
    look_below(tmp_path / "secret")
    with limited_to([inside.resolve()]):
        assert source_of(str(outside), [(14, "forward")], trace_in(inside)) is None
        assert source_of("net.py", [(14, "forward")], inside / "out" / "trace_view.json") is None
    assert path_of(source_of("net.py", [(14, "forward")], trace_in(inside))) == outside


def test_the_end_of_a_function(tmp_path: Path) -> None:
    found = source_of(str(code_at(tmp_path / "net.py")), [(14, "forward")], trace_in(tmp_path))
    assert isinstance(found, Source)
    ends = {heading.name: found.end_of(heading) for heading in found.headings}
    assert ends == {"Net": 21, "forward": 16, "inner": 11, "later": 21}
