"""Names of a trace act on nothing: no byte of theirs that a terminal, a report or a picture would obey gets through."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import termios
import time
import unicodedata
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "tui"))

from driving import opened  # noqa: E402 - its folder is no package
from measured import part_of, profile_at, profile_of, session_of  # noqa: E402
from refusals import said  # noqa: E402
from test_film import filmed  # noqa: E402
from written import html_report, markdown_report, text_report  # noqa: E402

from npu_tui.load.errors import InputError  # noqa: E402
from npu_tui.load.load import load  # noqa: E402
from npu_tui.output.film import causes, film_of  # noqa: E402
from npu_tui.output.html import MOST_BYTES, share_page  # noqa: E402
from npu_tui.output.report import report  # noqa: E402
from npu_tui.output.report_tables import health_lines  # noqa: E402
from npu_tui.profile.profile import Profile  # noqa: E402
from npu_tui.trace.model import Trace  # noqa: E402
from npu_tui.tui.commands import TAB_KEYS  # noqa: E402
from npu_tui.tui.picture import picture  # noqa: E402
from npu_tui.tui.session import make_session  # noqa: E402
from npu_tui.tui.terminal.internals import strips_of  # noqa: E402
from npu_tui.view.explorer import Explorer  # noqa: E402

TEXTS = {
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[2J\x1b[31m",
    "device control": "\x1bP1$r\x1b\\",
    "c1": "\x9b31m\x9d0;owned\x9c\x85",
    "lines": "a\nb\rc\td\x0b\x0c",
    "null": "\x00\x08\x7f",
    "bidi": "\u202egnp.exe\u202c\u2066x\u2069\u200f",
    "invisible": "a\u200b\u200d\u2060\ufeff\u00adb",
    "tags": "\U000e0041\U000e007f\U000e0100",
    "wide": "全角\U0001f680",
    "combining": "e\u0301\u0301\u20dd",
    "surrogate": "\ud800x",
    "separator": "a\u2028b\u2029c",
    "markup": "[red]r[/] [link=http://x]l[/link] [/] [bold",
    "svg": "</text><script>alert(1)</script>&amp;\"'",
    "long": "x\x1b[2J" * 20_000,
}
STACK = "/home/\x1b[2Ju.py(3): \u202ef;\r\n/b.py(4): [red]g"


def hostile_events() -> list[dict[str, object]]:
    """A launch for every text, with that text wherever a trace holds one."""
    events: list[dict[str, object]] = []
    for pid, layer in ((1, "Python"), (2, "CANN"), (3, "Ascend Hardware")):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": layer}})
    for number, text in enumerate(TEXTS.values()):
        base = 1_000 * number
        args = {"connection_id": number, text: text, "Call stack": STACK, "Task Type": "AI_CORE", "list": [text]}
        for pid, tid, at in ((1, 5, 0), (2, 5, 10), (3, 2, 300), (3, 100 + number, 300), (100 + number, text, 0)):
            name = text if number % 2 else f"op {text}"
            events.append({"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": base + at, "dur": 90, "cat": text})
            events[-1]["args"] = args
        events += [
            {"ph": "s", "cat": "HostToDevice", "id": text, "name": text, "pid": 2, "tid": 5, "ts": base + 20},
            {
                "ph": "f",
                "cat": "HostToDevice",
                "id": text,
                "name": text,
                "pid": 3,
                "tid": 2,
                "ts": base + 300,
                "bp": "e",
            },
            {"ph": "s", "cat": text, "id": 1, "name": text, "pid": 1, "tid": 5, "ts": base},
            {"ph": "f", "cat": text, "id": 1, "name": text, "pid": 3, "tid": 2, "ts": base + 300},
            {"ph": "s", "cat": text, "id": 2, "name": text, "pid": 999, "tid": 5, "ts": base},
            {"ph": "f", "cat": text, "id": 2, "name": text, "pid": 998, "tid": 2, "ts": base + 300},
            {"ph": "C", "name": text, "pid": 50, "tid": 0, "ts": base, "args": {text: 1, "acc_id": 2}, "id": text},
            {"ph": "C", "name": text, "pid": 50, "tid": 0, "ts": base, "args": {"a": text}},
            {"ph": "M", "name": "process_name", "pid": 100 + number, "tid": 0, "args": {"name": text}},
            {"ph": "M", "name": "process_name", "pid": 100 + number, "tid": 0, "args": {"name": "other" + text}},
            {"ph": "M", "name": "thread_name", "pid": 3, "tid": 100 + number, "args": {"name": text}},
            {"ph": text[:50], "name": text, "ts": base},
        ]
    step = {"ph": "X", "name": "ProfilerStep#1", "pid": 1, "tid": 5, "ts": 0, "dur": 20_000, "cat": "cpu_op"}
    return [*events, step]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("hostile") / "\x1b]0;owned\x07[red]trace_view.json"
    file.write_text(json.dumps(hostile_events()), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def trace(path: Path) -> Trace:
    return load(path)


def dangerous(text: str) -> list[str]:
    """The characters of ``text`` that act on a terminal, turn the line round, or cannot be seen."""
    categories = ("Cc", "Cs", "Cf", "Zl", "Zp")
    return sorted({ascii(char) for char in text if unicodedata.category(char) in categories})


def test_the_trace_holds_what_it_should(trace: Trace) -> None:
    assert len(trace.slices) == 5 * len(TEXTS) + 1
    assert TEXTS["title"] in "".join(trace.names)


def test_health(trace: Trace) -> None:
    for line in health_lines(profile_of(trace)):
        assert dangerous(line) == []
        assert len(line) < 2_000, line[:200]


KEYS = ["", "x", "c", "]", "t", "q", *TAB_KEYS.values(), "/o\r", "n", "m", ":health\r", "\x1b", "G", "i", "?"]


async def test_every_cell_of_every_screen(trace: Trace) -> None:
    size = (160, 45)
    async with opened(session_of(trace), size) as driver:
        for key in KEYS:
            if key:
                await driver.send(key)
                await driver.settle()
            for strip in strips_of(driver.app.screen):
                assert dangerous(strip.text) == [], (key, strip.text)
                assert strip.cell_length == size[0], (key, strip.text)
                links = [segment.style.link for segment in strip if segment.style and segment.style.link]
                assert not links, "markup of a name became a link"
        await driver.press("escape", "G")  # every slice in the details
        for _ in range(len(TEXTS)):
            await driver.press("k", ".")
            await driver.settle()
            assert dangerous(driver.text().replace("\n", "")) == []


def test_pictures(trace: Trace) -> None:
    for keys in (["x", "c"], ["q"]):
        drawn = picture([profile_of(trace)], 120, 40, keys)
        assert dangerous(drawn.replace("\n", "")) == []
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawn).iter()}
        assert not tags & {"script", "a", "image", "foreignObject"}


def test_reports(trace: Trace) -> None:
    part = part_of(trace)
    found = report(part)
    for text in (text_report(found), markdown_report(found), html_report(found, part)):
        assert dangerous(text.replace("\n", "")) == []
    assert "<script>alert" not in html_report(found, part)


def test_messages(path: Path, tmp_path: Path) -> None:
    for name, text in TEXTS.items():
        file = tmp_path / (text[:60].replace("/", "_").replace("\0", "").encode("utf-8", "replace").decode() + name)
        file.write_bytes(text.encode("utf-8", "replace"))
        with pytest.raises(InputError) as refused:
            load(file)
        assert dangerous(said(refused.value)) == []
        with pytest.raises(InputError) as refused:
            load(file.with_name(file.name + " absent"))
        assert dangerous(said(refused.value)) == []


@pytest.mark.parametrize(("lanes", "length"), [(4, 0), (60, 20_000), (1_000, 300)])
def test_a_shared_page_holds_all_names_and_stays_small(tmp_path: Path, lanes: int, length: int) -> None:
    events = hostile_events() if not length else []
    for lane in range(lanes):
        name = f"{lane} </script>" + "全" * length
        events.append({"ph": "X", "pid": 1, "tid": lane, "ts": lane, "dur": 5, "name": name})
        events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": lane, "args": {"name": name}})
    file = tmp_path / "trace_view.json"
    file.write_text(json.dumps(events))
    session = session_of(load(file))
    explorer = Explorer(session.scene, 100, 40)
    page = share_page(session.scene, explorer.rows, explorer.state, list(TEXTS.values()))
    assert dangerous(page.replace("\n", "")) == []
    assert len(page.encode()) < MOST_BYTES
    assert page.count("</script") == 1


async def test_a_film_of_hostile_names() -> None:
    """The run without a cause is the same whatever names are, and no cell of it acts."""
    profile = profile_at(ROOT / "fixtures" / "dispatch_bound")
    marks = "ProfilerStep", "Computing", "Enqueue@", "Dequeue@", "AscendCL@", "Node@"
    names = list(profile.trace.names)
    others = [number for number, name in enumerate(names) if not name.startswith(marks) and "@" not in name]
    films = []
    for texts in (["x"], [*TEXTS.values()]):
        for at, number in enumerate(others):
            names[number] = profile.trace.names[number] + texts[at % len(texts)][:300]
        hostile = Profile(replace(profile.trace, names=[*names]), None)
        film = film_of(hostile, [causes(hostile)[0].whatif])
        films.append([(rung.text, rung.length) for rung in film.rungs])
    assert films[0] == films[1]
    async with opened(make_session([hostile]), (160, 45)) as driver:
        await driver.settle()
        await driver.press("!")
        await filmed(driver)
        assert driver.main.session.film is not None
        assert dangerous(driver.text().replace("\n", "")) == []


SEQUENCES = re.compile(
    rb"\x1b\[[?>=<]?[0-9;:]*[ $]?[A-Za-z]"  # cursor, colours, modes
    rb"|\x1b[78=>]|\x1b\([B0]"
    rb"|\x1b\]22;[a-z]+\x07"  # the shape of the pointer
)


def written(path: Path, keys: list[str]) -> bytes:
    """All bytes that the real program writes on ``path`` in a pseudo-terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        environment = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
        os.execvpe(sys.executable, [sys.executable, "-m", "npu_tui", str(path)], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    output = _read(terminal, 10.0, b"Hardware")
    for key in keys:
        os.write(terminal, key.encode())
        output += _read(terminal, 0.15)
    os.write(terminal, b"\x11")
    output += _read(terminal, 10.0)
    os.close(terminal)
    os.waitpid(pid, 0)
    return output


def _read(terminal: int, patience: float, until: bytes | None = None) -> bytes:
    data, end = b"", time.monotonic() + patience
    while time.monotonic() < end and not (until and until in data):
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                more = os.read(terminal, 1 << 16)
            except OSError:  # the program has ended
                break
            if not more:
                break
            data += more
    return data


def test_bytes_of_the_real_program(path: Path) -> None:
    output = written(path, ["x", "]", *list(TAB_KEYS.values())[:2], "/o\r", ":health\r", "\x1b", "?"])
    assert b"Hardware" in output
    rest = SEQUENCES.sub(b"", output)
    at = rest.find(b"\x1b")
    assert at < 0, rest[max(0, at - 40) : at + 60]
    assert b"owned" not in b"".join(re.findall(rb"\x1b\].*?(?:\x07|\x1b\\)", output))
    assert dangerous(rest.decode("utf-8").replace("\r", "").replace("\n", "")) == []
