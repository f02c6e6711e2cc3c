"""What the environment and the terminal itself say about colours, background and glyphs."""

from __future__ import annotations

import time

import pytest
from terminals import PROGRAM, Terminal, answering, starts_programs

from npu_tui.cli import options as look
from npu_tui.settings import GLYPHS
from npu_tui.trace.text import cell_count
from npu_tui.tui.terminal import terminal as module
from npu_tui.tui.terminal.internals import driver
from npu_tui.tui.terminal.terminal import (
    GLYPHS_NAMES,
    THEME_NAMES,
    colour_depth,
    glyphs_of_width,
    is_utf8,
    palette_named,
)
from npu_tui.view.ansi import PROBE

PROFILE = "fixtures/dispatch_bound"


@pytest.mark.parametrize(
    ("environment", "depth"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "screen", "COLORTERM": "24bit"}, "truecolor"),
        ({"TERM": "xterm-direct"}, "truecolor"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "tmux-256color"}, "256"),
        ({"TERM": "xterm-kitty"}, "truecolor"),
        ({"TERM": "foot"}, "truecolor"),
        ({"TERM": "xterm-ghostty"}, "truecolor"),
        ({"TERM": "xterm"}, "16"),
        ({"TERM": "linux"}, "16"),
        ({"TERM": "screen"}, "16"),
        ({"TERM": "xterm-16color"}, "16"),
        ({"TERM": "vt100"}, "none"),
        ({"TERM": "vt220"}, "none"),
        ({"TERM": "dumb"}, "none"),
        ({}, "none"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "256"),
    ],
)
def test_depths(environment, depth):
    assert colour_depth(environment) == depth


@pytest.mark.parametrize(
    ("environment", "utf8"),
    [
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "zh_CN.utf8"}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, True),
        ({"LANG": "zh_CN.GB18030"}, False),
        ({"LC_ALL": "", "LANG": "zh_CN.GBK"}, False),
        ({}, False),
    ],
)
def test_locales(environment, utf8):
    assert is_utf8(environment) == utf8


def test_glyphs_by_the_width_of_the_probe():
    cells = cell_count(PROBE)
    assert [glyphs_of_width(width, True) for width in (None, cells, cells + 1, 2 * cells, 3 * cells, 0)] == [
        "blocks", "blocks", "safe", "safe", "ascii", "ascii",
    ]  # fmt: skip
    assert glyphs_of_width(cells, False) == "ascii"


def test_names_are_the_same_everywhere():
    assert look.THEMES == THEME_NAMES
    assert look.GLYPHS == GLYPHS_NAMES == GLYPHS
    assert palette_named("auto", dark=False).name == "light"
    assert palette_named("auto").name == "dark"


_KEEPS, _INDEXED, _PLAIN, _UNKNOWN = b"48:2::1:2:3m", b"48;5;16m", b"0m", None

TERMINALS = [
    # name, what it sets, its answer to DCS $ q m ST (b"" none, None not known), colours, glyphs by TERM alone, source
    ("xterm", {"TERM": "xterm-256color"}, b"0;48:2::1:2:3m", "truecolor", None, "invisible-island.net ctlseqs"),
    ("xterm, no direct colour", {"TERM": "xterm-256color"}, b"0;48;5;16m", "256", None, "termstandard/colors"),
    ("foot", {"TERM": "foot"}, _KEEPS, "truecolor", None, "termstandard/colors"),
    ("foot as xterm", {"TERM": "xterm-256color"}, b"0;48:2:1:2:3m", "truecolor", None, "termstandard/colors"),
    ("Ghostty", {"TERM": "xterm-ghostty"}, _KEEPS, "truecolor", None, "ghostty-org/ghostty#1094"),
    ("Ghostty as xterm", {"TERM": "xterm-256color"}, b"0;48:2:0:1:2:3m", "truecolor", None, "ghostty-org/ghostty#1094"),
    ("Windows Terminal", {"TERM": "xterm-256color"}, b"0;48;2;1;2;3m", "truecolor", None, "microsoft/terminal"),
    ("WezTerm", {"TERM": "wezterm"}, _UNKNOWN, "truecolor", None, "wezterm/wezterm#6856"),
    ("WezTerm as xterm", {"TERM": "xterm-256color"}, _UNKNOWN, "256", None, "wezterm/wezterm#6856"),
    ("Alacritty as xterm", {"TERM": "xterm-256color"}, b"", "256", None, "alacritty/alacritty#7184"),
    ("kitty", {"TERM": "xterm-kitty"}, _KEEPS, "truecolor", None, "termstandard/colors"),
    ("VS Code over ssh", {"TERM": "xterm-256color"}, _PLAIN, "256", None, "xtermjs.org/docs/api/vtfeatures"),
    ("VS Code", {"TERM": "xterm-256color", "COLORTERM": "truecolor"}, _PLAIN, "truecolor", None, "termstandard/colors"),
    ("iTerm2", {"TERM": "xterm-256color", "COLORTERM": "truecolor"}, b"", "truecolor", None, "termstandard/colors"),
    ("Konsole", {"TERM": "xterm-256color", "COLORTERM": "truecolor"}, b"", "truecolor", None, "termstandard/colors"),
    ("tmux", {"TERM": "tmux-256color"}, _UNKNOWN, "256", None, "tmux/tmux#4034"),
    ("mosh", {"TERM": "xterm-256color"}, b"", "256", None, "termstandard/colors"),
    ("GNU screen", {"TERM": "screen-256color"}, None, "256", None, "screen(1): a device control string goes through"),
    ("in GNU screen", {"TERM": "xterm-256color", "STY": "1.pts"}, None, "256", None, "screen(1)"),
    ("Linux console", {"TERM": "linux"}, None, "16", "ascii", "console_codes(4)"),
    ("serial, ansi", {"TERM": "ansi"}, None, "16", "ascii", "terminfo(5)"),
    ("serial, VT100", {"TERM": "vt100"}, None, "none", "ascii", "terminfo(5)"),
    ("serial, VT220", {"TERM": "vt220"}, None, "none", "ascii", "terminfo(5)"),
    ("dumb", {"TERM": "dumb"}, None, "none", "ascii", "terminfo(5)"),
]  # fmt: skip
"""What is documented of terminals, each with where."""


@pytest.mark.parametrize(
    ("environment", "answer", "depth", "glyphs"), [row[1:5] for row in TERMINALS], ids=[row[0] for row in TERMINALS]
)
def test_colours_and_glyphs_of_terminals(monkeypatch, environment, answer, depth, glyphs):
    for name in ("TERM", "COLORTERM", "NO_COLOR", "STY", "TEXTUAL_DRIVER", "LC_ALL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (environment | {"LC_ALL": "C.UTF-8"}).items():
        monkeypatch.setenv(name, value)
    fake = Fake(len(PROBE), "rgb:00/00/00", setting=answer)
    asked = []

    def ask(background, colours=False):
        asked.append(colours)
        return module._dialogue(fake.write, fake.read, background, colours)

    monkeypatch.setattr(module, "ask", ask)
    found = module.find_terminal()
    assert found.depth == depth
    assert found.glyphs == (glyphs or "blocks")
    assert bool(asked) == (glyphs is None)
    assert found.typed == b""
    silent = "screen" in environment["TERM"] or "STY" in environment or glyphs or "COLORTERM" in environment
    assert not silent or "$q" not in fake.written


def test_a_browser_is_asked_nothing(monkeypatch):
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    monkeypatch.setenv("TERM", "screen")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(module, "ask", None)
    found = module.find_terminal()
    assert (found.depth, found.glyphs, found.palette.name) == ("truecolor", "blocks", "dark")
    assert driver() is None


class Fake:
    """A terminal that answers each question after the one before, with ``typed`` between the answers."""

    def __init__(
        self, cells: int | None, background: str | None, typed: bytes = b"", setting: bytes | None = b""
    ) -> None:
        self.cells, self.background, self.typed, self.setting = cells, background, typed, setting
        self.written = ""
        self._waiting = b""
        self._column = 1

    def write(self, text: str) -> None:
        self.written += text
        if self.cells is None:
            return
        for part in text.split("\x1b"):
            if part.startswith("]11"):
                answer = f"\x1b]11;{self.background}\x07".encode() if self.background else b""
                self._waiting += self.typed + answer
            elif part.startswith("P$qm"):
                known = b"\x1bP0$r\x1b\\" if self.setting is None else b"\x1bP1$r" + self.setting + b"\x1b\\"
                self._waiting += known if self.setting != b"" else b""
            elif part.startswith("[6n"):
                self._waiting += f"\x1b[7;{self._column}R".encode() + self.typed
                if PROBE in part:
                    self._column += self.cells

    def read(self, wait: float) -> bytes:
        if not self._waiting:
            time.sleep(min(wait, 0.01))
            return b""
        data, self._waiting = self._waiting[:1], self._waiting[1:]
        return data


@pytest.mark.parametrize(
    ("cells", "background", "expected"),
    [
        (9, "rgb:ffff/ffff/ffff", (9, 1.0)),
        (18, "rgb:00/00/00", (18, 0.0)),
        (9, "rgba:8080/8080/8080/ffff", (9, pytest.approx(0.502, abs=0.001))),
        (9, None, (9, None)),
        (None, None, (None, None)),
    ],
)
@pytest.mark.parametrize("typed", [b"", b"x", b"\x1b[Cq"])
def test_the_dialogue_keeps_what_is_typed(monkeypatch, cells, background, expected, typed):
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    fake = Fake(cells, background, typed)
    answers = module._dialogue(fake.write, fake.read, True)
    width, light, kept = answers.width, answers.light, answers.typed
    assert (width, light) == expected
    if cells is not None:
        assert kept == typed * (kept.count(typed) if typed else 0)
        assert not typed or kept
    assert ("]11" in fake.written) == (cells is not None), "a silent terminal is asked nothing else"


def started(answers=None, *words: str, **environment: str) -> Terminal:
    terminal = Terminal([*PROGRAM, PROFILE, *words], answers=answers, **environment)
    terminal.shows("Ascend Hardware")
    return terminal


_LIGHT, _DARK = b"48;2;245;246;249", b"48;2;17;18;24"
_WHITE, _BLACK = "ffff/ffff/ffff", "0000/0000/0000"


@starts_programs
@pytest.mark.parametrize(
    ("answers", "words", "environment", "glyph", "ground"),
    [
        (None, (), {}, "▎", _DARK),
        (answering(2 * len(PROBE), _BLACK), (), {}, "⡇", _DARK),
        (answering(3 * len(PROBE), ""), (), {}, "|v", _DARK),
        (None, (), {"LC_ALL": "zh_CN.GBK"}, "|v", _DARK),
        (answering(2 * len(PROBE), _WHITE), ("--glyphs", "blocks"), {}, "▎", _LIGHT),
        (answering(2 * len(PROBE), _WHITE), ("--theme", "colour-blind"), {}, "⡇", _DARK),
        (None, ("--glyphs", "ascii", "--theme", "light"), {}, "|v", _LIGHT),
    ],
    ids=["silent", "wide, dark", "bytes, no answer", "GBK", "glyphs", "theme", "both by option"],
)
def test_glyphs_and_theme_in_a_terminal(answers, words, environment, glyph, ground):
    terminal = started(answers, *words, **environment)
    try:
        text = "\n".join(terminal.rows())
        assert [each for each in ("▎", "⡇", "|v") if each in text] == [glyph]
        assert ground in terminal.output
        assert (b"]11;?" in terminal.output) == (answers is not None and "--theme" not in words)
    finally:
        terminal.close()


@starts_programs
def test_settings_choose_too(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('[screen]\nglyphs = "ascii"\ntheme = "light"\n')
    terminal = started(None, NPU_TUI_CONFIG=str(file))
    try:
        assert b"48;2;245;246;249" in terminal.output
        assert "▎" not in "\n".join(terminal.rows())
        assert b"\x1b[6n" not in terminal.output.partition(b"\x1b[?1049h")[0], "nothing is left to ask"
    finally:
        terminal.close()


@starts_programs
def test_wrong_settings_are_one_line(tmp_path, capfd):
    file = tmp_path / "settings.toml"
    file.write_text('[screen]\ntheme = "ligth"\n')
    terminal = Terminal([*PROGRAM, PROFILE], NPU_TUI_CONFIG=str(file))
    try:
        assert terminal.exit_code() == 2
        assert "light" in " ".join(terminal.rows())
        assert b"1049" not in terminal.output
    finally:
        terminal.close()
