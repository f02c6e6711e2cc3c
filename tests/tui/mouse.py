"""Mouse events at cells of the timeline."""

from __future__ import annotations

from driving import Driver
from textual import events
from textual._xterm_parser import XTermParser

MINIMAP, RULER = 0, 1


async def send(driver: Driver, kind: type[events.MouseEvent], x: int, y: int, **modifiers) -> None:
    """One mouse event at a cell of the timeline, as the terminal's bytes become one."""
    region = driver.timeline.region
    values = {"button": 0, "shift": False, "meta": False, "ctrl": False} | modifiers
    where = {"x": x + region.x, "y": y + region.y, "screen_x": x + region.x, "screen_y": y + region.y}
    event = kind(None, delta_x=0, delta_y=0, **values, **where)
    event.set_sender(driver.app)
    driver.app._driver.process_message(event)
    await driver.idle()


async def send_bytes(driver: Driver, *data: str) -> None:
    """What a terminal sends (SGR mouse reports), read by Textual's own parser."""
    parser = XTermParser()
    for event in parser.feed("".join(data)):
        event.set_sender(driver.app)
        driver.app._driver.process_message(event)
        await driver.idle()


def report(button: int, x: int, y: int, released: bool = False) -> str:
    """The bytes for ``button``: 0 is the left, 2 the right one; 4 Shift, 8 Alt, 16 Ctrl, 32 a move, 64 the wheel."""
    return f"\x1b[<{button};{x + 1};{y + 1}{'m' if released else 'M'}"


async def drag(driver: Driver, start: tuple[int, int], end: tuple[int, int], **modifiers) -> None:
    values = {"button": 1} | modifiers
    await send(driver, events.MouseDown, *start, **values)
    middle = ((start[0] + end[0]) // 2, (start[1] + end[1]) // 2)
    for x, y in (middle, end):
        await send(driver, events.MouseMove, x, y, **values)
    await send(driver, events.MouseUp, *end, **values)


async def click(driver: Driver, x: int, y: int, times: int = 1) -> None:
    for _ in range(times):
        await send(driver, events.MouseDown, x, y, button=1)
        await send(driver, events.MouseUp, x, y, button=1)


def cell_of(driver: Driver, name: str) -> tuple[int, int]:
    """A cell of the timeline where a slice called ``name`` is drawn."""
    frame, trace = driver.timeline.frame, driver.explorer.scene.traces[0]
    for y, row in enumerate(frame.items):
        for x, item in enumerate(row.tolist()):
            if item >= 0 and trace.name_of(item) == name:
                return x + frame.gutter, y + frame.lanes_top
    raise AssertionError(f"{name} is not on screen")


def time_at(driver: Driver, x: int) -> int:
    return driver.state.viewport.edge(x - driver.timeline.frame.gutter)
