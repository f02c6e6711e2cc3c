"""What leaves the screen: to files, as a report, a picture, a page; to the clipboard; to the editor."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from textual.app import App, SuspendNotSupported
from textual.screen import Screen

from npu_tui.analysis.code_lines import CodeLine, whole_name
from npu_tui.load.errors import InputError
from npu_tui.load.find import PIPED
from npu_tui.load.source import Source, given_folders, source_of
from npu_tui.output.svg import Piece
from npu_tui.profile.module_tables import code_of
from npu_tui.strings import say, words
from npu_tui.trace.text import brief, drawable, printable
from npu_tui.tui.head import HeadRow
from npu_tui.tui.panel import Panel
from npu_tui.tui.session import Session
from npu_tui.tui.sheets import Sheet
from npu_tui.tui.tabs.table import row_cells
from npu_tui.tui.terminal.internals import strips_of
from npu_tui.tui.terminal.terminal import Terminal
from npu_tui.view.ansi import Rgb
from npu_tui.view.explorer import Explorer
from npu_tui.view.grid import Attr
from npu_tui.view.palette import Ink
from npu_tui.view.start import Start, offsets_of, rows_text, slice_text
from npu_tui.whole_file import write_file

if TYPE_CHECKING:
    from npu_tui.output.statement import Statement


FORMS = {".html": "html", ".htm": "html", ".md": "markdown", ".txt": "text", ".json": "json"}
"""What a report is written as, by the ending of its file."""


def report_to(name: str, statement: Callable[[], Statement]) -> str:
    """Write ``statement`` into the file ``name`` in the form that its ending names; returns the message."""
    form = FORMS.get(Path(name).suffix.lower())
    if form is None:
        return say("export.report_needs", endings=", ".join(FORMS))

    def made() -> bytes:
        text = statement().written(form)
        return text if isinstance(text, bytes) else text.encode("utf-8", "replace")

    return _written(name, made)


def page_to(name: str, ending: str, made: Callable[[], str]) -> str:
    """Write what is ``made`` into the file ``name``, which has such an ``ending``; returns the message."""
    if Path(name).suffix.lower() != ending:
        return say("export.needs", ending=ending)
    return _written(name, lambda: made().encode("utf-8", "replace"))


def share_to(name: str, head: Iterable[HeadRow], explorer: Explorer) -> str:
    """Write a page of what is on screen below the ``head``, to pan and zoom in a browser, into the file ``name``."""
    from npu_tui.output.html import share_page  # a template engine is not needed before

    said = [text for line in head for text in line.said if text.strip()]
    return page_to(name, ".html", lambda: share_page(explorer.scene, explorer.rows, explorer.state, said))


def _written(name: str, made: Callable[[], bytes]) -> str:
    path = Path(name).expanduser()
    try:
        data = made()
        write_file(path, data)
    except InputError as error:
        return words(error.message)
    except OSError as error:
        return say("export.failed", path=printable(str(path)), why=error.strerror or str(error))
    return say("export.done", path=printable(str(path)), size=len(data))


_XTERM: tuple[Rgb, ...] = (
    (0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229),
    (127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255), (255, 0, 255), (0, 255, 255),
    (255, 255, 255),
)  # fmt: skip
"""The 16 colours that xterm names."""


def screen_runs(screen: Screen[Any], terminal: Terminal) -> list[list[Piece]]:
    """The rows of ``screen`` as styled pieces, colours as RGB."""
    theme = _terminal_theme(terminal)
    strips = strips_of(screen)
    return [[_piece(segment, theme) for segment in strip] for strip in strips]


def _piece(segment: Segment, theme: TerminalTheme) -> Piece:
    style = segment.style or Style()
    fg, bg = (
        (*theme.foreground_color,) if style.color is None else (*style.color.get_truecolor(theme),),
        (*theme.background_color,)
        if style.bgcolor is None
        else (*style.bgcolor.get_truecolor(theme, foreground=False),),
    )
    if style.reverse:
        fg, bg = bg, fg
    attr = Attr.BOLD * bool(style.bold) | Attr.DIM * bool(style.dim) | Attr.UNDERLINE * bool(style.underline)
    return drawable(segment.text), fg, bg, int(attr)


def _terminal_theme(terminal: Terminal) -> TerminalTheme:
    """Colours of a terminal that fit the palette: xterm's 16, on the palette's ground."""
    text, ground = (_rgb(terminal, ink) for ink in (Ink.TEXT, Ink.LANE))
    return TerminalTheme(ground, text, [*_XTERM[:8]], [*_XTERM[8:]])


def _rgb(terminal: Terminal, ink: int) -> Rgb:
    red, green, blue = terminal.palette.rgb[ink].tolist()
    return red, green, blue


def open_code(app: App[Any], session: Session, explorer: Explorer, panel: Panel) -> str:
    """Open the line of code of the row under the cursor or of the selected slice; returns what was done."""
    code = _code_at(session, explorer, panel)
    if code is None:
        return say("code.none")
    selected, row = explorer.state.selection, explorer.trace
    trace = session.scene.traces[row if selected is None else selected.trace]
    found = source_of(whole_name(trace, code.file), [(code.line, code.function)], Path(trace.path))
    return open_line(app, replace(code, file=str(found.path)) if isinstance(found, Source) else code)


def _code_at(session: Session, explorer: Explorer, panel: Panel) -> CodeLine | None:
    row, selected = panel.row_at_cursor(), explorer.state.selection
    code = row.code if row is not None and (panel.table.has_focus or selected is None) else None
    if code is None and selected is not None:
        code = code_of(session.profiles[selected.trace], selected.item)
    return row.code if code is None and row is not None else code


def copy_text(app: App[Any], session: Session, explorer: Explorer, panel: Panel) -> str:
    """Copy the row of a table that has the focus, else the name of the selected slice; returns what was done."""
    text, selected = "", explorer.state.selection
    row = panel.row_at_cursor() if panel.table.has_focus else None
    if row is not None:
        text = row.told() if row.told is not None else "\t".join(row_cells(row.cells))
    if not text and selected is not None:
        text = printable(session.scene.traces[selected.trace].name_of(selected.item))
    if not text:
        return say("copy.nothing")
    app.copy_to_clipboard(text)
    return say("copy.name", text=text.partition("\n")[0].replace("\t", "   "))


def copy_view(app: App[Any], explorer: Explorer, search: str, tab: str, holds: Callable[[str], bool]) -> str | None:
    """Copy the command that opens what is on screen; returns it where the bottom line ``holds`` it, else shows it."""
    text = command_here(explorer, search, tab)
    app.copy_to_clipboard(text)
    piped = PIPED in _paths(explorer)  # the trace must come again for a command to open it
    told = say("copy.piped" if piped else "copy.name", text=printable(text))
    if holds(told):
        return told
    app.push_screen(Sheet(say("copy.title_piped" if piped else "copy.title"), Text(printable(text))))
    return None


def command_here(explorer: Explorer, search: str, tab: str) -> str:
    """The command that opens what ``explorer`` shows, with the hits of ``search`` and the panel's ``tab``."""
    state, scene = explorer.state, explorer.scene
    start = Start(
        view=explorer.fitted,
        at=state.cursor,
        range=state.range,
        select="" if state.selection is None else slice_text(scene, state.selection),
        rows=rows_text(explorer),
        search=search,
        links=state.link_mode,
        tab=tab,
        offsets=offsets_of(scene),
    )
    words = ["compare"] if scene.pair is not None else []
    folders = [f"--code={folder.absolute()}" for folder in given_folders()]
    return " ".join(map(quoted, [*_program(), *words, *map(str, _paths(explorer)), *start.words(), *folders]))


def quoted(word: str) -> str:
    """``word`` for a shell; what is not printable, or no character at all, as bash, zsh and ksh escape it."""
    if word.isprintable():
        return shlex.quote(word)
    plain = (char if char.isprintable() and char not in "\\'" else _escaped(char) for char in word)
    return f"$'{''.join(plain)}'"


def _escaped(char: str) -> str:
    """``char`` byte by byte; paths that are no text hold their bytes as surrogates."""
    errors = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", errors))


def _paths(explorer: Explorer) -> list[Path]:
    paths = [Path(trace.path) for trace in explorer.scene.traces]
    return [path if path == PIPED else path.absolute() for path in paths]


def _program() -> list[str]:
    """How the program is called from anywhere."""
    called = Path(sys.argv[0])
    if shutil.which("npu-tui") is None and called.name == "npu-tui":
        return [str(called.absolute())]
    if shutil.which("npu-tui") is None and called.parts[-2:] == ("npu_tui", "__main__.py"):
        return [sys.executable, "-m", "npu_tui"]
    return ["npu-tui"]


_EDITOR = "vi"


def open_line(app: App[Any], code: CodeLine) -> str:
    """Open ``code`` in ``$VISUAL`` or ``$EDITOR`` where its file is here, else copy it; returns what was done."""
    place = say("lines.place", file=printable(code.file), line=code.line)
    shown = brief(place)
    if not os.path.isfile(code.file):  # also one that may not be looked at, or has too long a name
        app.copy_to_clipboard(place)
        return say("code.copied", place=shown)
    try:
        command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or _EDITOR) or [_EDITOR]
        with app.suspend():
            # A whole path cannot be taken for an option.
            subprocess.run([*command, f"+{code.line}", os.path.realpath(code.file)], check=False)
    except (OSError, ValueError, SuspendNotSupported) as error:
        app.copy_to_clipboard(place)
        return say("code.failed", place=shown, why=str(error) or type(error).__name__)
    return say("code.opened", place=shown)
