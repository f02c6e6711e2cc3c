"""The private names of Textual stand in one module, and Textual still has them."""

from __future__ import annotations

import ast
import asyncio
import signal
from itertools import count
from pathlib import Path
from typing import Literal

import pytest
from rich.text import Text
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import DataTable

from npu_tui.tui.terminal import internals

ROOM = Path(internals.__file__).parents[1]


@pytest.fixture(scope="module")
def has() -> dict[type, set[str]]:
    """The attributes that Textual's own objects have, those that an instance makes for itself too."""

    class Bare(App[None]):
        pass

    async def made(app: App[None]) -> LinuxDriver:
        return LinuxDriver(app)

    app, handlers = Bare(), [(each, signal.getsignal(each)) for each in (signal.SIGTSTP, signal.SIGCONT)]
    driver = asyncio.run(made(app))
    for number, handler in handlers:  # a driver takes them for good
        signal.signal(number, handler)
    objects = {App: app, Screen: Screen(), Strip: Strip([]), Timer: Timer(Bare(), 1.0), LinuxDriver: driver}
    objects[DataTable] = DataTable()
    return {owner: {*dir(objects.get(owner, owner))} for owner in internals.USED}


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for owner, names in internals.USED.items() for name in names.split()]
)
def test_textual_still_has(owner: type, name: str, has: dict[type, set[str]]) -> None:
    assert name in has[owner]


def private(path: Path) -> set[str]:
    """The private names of a file that belong to no object of its own, and private modules."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual._"):
            found.add(str(node.module))
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            found.add(node.attr)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("_") and not node.name.startswith("__"):
            found.add(node.name)
    return found


def test_what_is_used_is_listed() -> None:
    listed = {name for names in internals.USED.values() for name in names.split()}
    used = private(Path(internals.__file__))
    textual = {name for owner in (App, Screen, Strip, DataTable) for name in dir(owner)} | listed
    assert {name for name in used if name in textual} == listed


def test_no_other_module_uses_them() -> None:
    inherited = {name for owner in (App, Screen, DataTable) for name in dir(owner)}
    inherited |= {name for names in internals.USED.values() for name in names.split()}
    for path in ROOM.rglob("*.py"):
        if path == Path(internals.__file__):
            continue
        found = {name for name in private(path) if name in inherited or name.startswith("textual")}
        assert not found, f"{path}: {sorted(found)}"


def test_the_pin_is_as_tight() -> None:
    assert '"textual~=8.2.8"' in (ROOM.parents[1] / "pyproject.toml").read_text(encoding="utf-8")


async def test_a_timer_that_begins_late_calls_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where other threads have the processor for longer than the delay."""
    app: App[None] = App()
    async with app.run_test():
        seconds = count()
        monkeypatch.setattr("textual._time.get_time", lambda: float(next(seconds)))
        called = asyncio.Event()
        internals.after(0.001, app, called.set)
        await asyncio.wait_for(called.wait(), 10)


CELLS = [
    Text("plain"),
    Text(""),
    Text("12", justify="right"),
    Text("dim", style="dim", justify="right"),
    Text.assemble("a ", ("bold", "bold red"), " of it"),
    Text.assemble(("all", "on blue"), style="italic", justify="right"),
    Text("乘法 …"),
    Text("ends with a blank "),
    Text("and so does this ", justify="right"),
    Text("two\nlines"),
    Text("a\ttab"),
]


@pytest.mark.parametrize("priority", ["renderable", "css"])
async def test_cells_are_drawn_as_textual_does(priority: Literal["renderable", "css"]) -> None:
    own = internals.PlainTable(cursor_type="row", cursor_foreground_priority=priority)
    other = DataTable[Text](cursor_type="row", cursor_foreground_priority=priority)
    app: App[None] = App()
    async with app.run_test(size=(60, 40)) as pilot:
        await app.mount(own, other)
        for table in (own, other):
            table.styles.height = 20
            table.add_columns(*(Text(name, justify="right") for name in ("one", "two")))
            table.add_rows([[cell, cell] for cell in CELLS])
        app.set_focus(None)
        await pilot.pause()
        for row in range(len(CELLS)):
            for table in (own, other):
                table.move_cursor(row=row)
            await pilot.pause()
            assert [column.content_width for column in own.ordered_columns] == [
                column.content_width for column in other.ordered_columns
            ]
            assert own.virtual_size == other.virtual_size
            for y in range(len(CELLS) + 2):
                assert own.render_line(y) == other.render_line(y), (row, y)


def test_pieces_of_one_look_are_written_as_one() -> None:
    red, blue = "\x1b[31m", "\x1b[1;34m"
    one = f"\x1b[1;1H{red}a\x1b[0m{red}b\x1b[0m{red}c\x1b[0m{blue}d\x1b[0me\x1b[0m{blue}f\x1b[0m"
    assert internals.joined(one) == f"\x1b[1;1H{red}a\x1b[0m{red}bc\x1b[0m{blue}d\x1b[0me\x1b[0m{blue}f\x1b[0m"
    turned = f"{red}a\x1b[7mb\x1b[0m{red}c\x1b[0m"
    assert internals.joined(turned) == turned
    assert internals.joined("plain\x1b[0m") == "plain\x1b[0m"
