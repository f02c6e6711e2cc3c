"""Searching on the screen: fields, args from the file, errors, and dimming what is no hit."""

from __future__ import annotations

import numpy as np
import pytest
from driving import opened
from textual.widgets import Label

from npu_tui.tui.footer import StatusLine
from npu_tui.tui.prompt import Prompt
from npu_tui.view.palette import Ink


def status(driver) -> str:
    return str(driver.main.query_one(StatusLine).render())


def answer(driver) -> str:
    return str(driver.main.query_one(Prompt).query_one("#answer", Label).render())


async def test_fields_are_counted_while_they_are_typed(session):
    trace = session.scene.traces[0]
    async with opened(session) as driver:
        await driver.press("/", "layer:cann dur>20us")
        cann = [layer.index for layer in trace.layers if layer.kind == "cann"]
        layers = np.array([lane.layer for lane in trace.lanes])[trace.slices.lane]
        expected = int((np.isin(layers, cann) & (trace.slices.end - trace.slices.start > 20_000)).sum())
        assert answer(driver) == f"{expected} hits"
        await driver.press("enter")
        assert len(driver.main.finder.hits) == expected
        assert status(driver).startswith("hit ")


async def test_what_is_wrong_with_a_search_is_said_while_it_is_typed_and_when_it_is_entered(session):
    async with opened(session) as driver:
        await driver.press("/", "dur>soon")
        assert answer(driver).startswith("dur needs")
        await driver.press("enter")
        assert status(driver).startswith("dur needs")
        await driver.press("/", "class:slow", "enter")
        assert "near-vertical" in status(driver)
        await driver.press("/", "clas:starved", "enter")
        assert status(driver) == "no match for clas:starved; the field is class"
        await driver.press("/", "Gelu zzz:1", "enter")
        assert "the fields are name dur" in status(driver)
        await driver.press("/", "aten::nothing", "enter")
        assert status(driver) == "no match for aten::nothing"


WRONG = {
    "dur>soon": "dur needs a comp",
    "class:stuck": "no class stuck",
    "clas:starved": "no match; the field is class",
    "/(unclosed/": "not a valid reg",
    "lane:Strem 2": "no lane name con",
    "layer:canm": "no layer name contains canm;",
    "arg:": "arg needs text",
    "/(?=a)b/": "patterns cannot use",
    "a long text that leaves no more room than it must": "no m",
}
"""What is typed after / and what is told beside it."""


async def test_what_is_wrong_leaves_what_is_typed_in_sight(session):
    async with opened(session, (60, 15)) as driver:
        for text, told in WRONG.items():
            await driver.press("/", text)
            line = driver.rows()[-1]
            assert text[-30:] in line
            assert line.split(text[-30:])[1].strip().startswith(told), text
            await driver.press("escape")


async def test_args_are_read_from_the_file_and_enter_goes_to_the_first_hit(session):
    async with opened(session) as driver:
        await driver.press("/", "arg:Input Dims~64", "enter")
        assert len(driver.main.finder.hits)
        assert not driver.main.finder.running
        assert status(driver).startswith("hit ")
        assert "80" in driver.text() or driver.main.finder.hits.text == "arg:Input Dims~64"
        first = driver.state.selection
        await driver.press("n")
        assert driver.main.finder.hits.index(driver.state.selection) == (
            driver.main.finder.hits.index(first) + 1
        ) % len(driver.main.finder.hits)


async def test_the_newest_search_wins(session):
    async with opened(session) as driver:
        driver.main.finder.begin("arg:~a")
        driver.main.finder.begin("Gelu")
        await driver.idle()
        assert driver.main.finder.hits.text == "Gelu"
        driver.main.finder.begin("arg:Input Dims~")
        driver.main.finder.clear()
        await driver.settle()
        assert not len(driver.main.finder.hits)


async def test_only_hits_keep_their_colour_on_demand(session):
    async with opened(session) as driver:
        await driver.press("*")
        assert status(driver) == "no hits yet: / searches"
        await driver.press("*", "/", "class:starved", "enter", "0", "0")
        before = driver.timeline.frame.grid.fg.copy()
        await driver.press("*")
        after = driver.timeline.frame.grid.fg
        assert status(driver).startswith("only hits are coloured")
        assert (after != before).sum() > 50
        assert (after == Ink.RULE).sum() > (before == Ink.RULE).sum()
        await driver.press("escape")
        assert (driver.timeline.frame.grid.fg == Ink.RULE).sum() <= (before == Ink.RULE).sum() + 200


async def test_hits_are_sorted_by_duration_in_the_tab(session):
    trace = session.scene.traces[0]
    async with opened(session) as driver:
        await driver.press("/", "layer:hardware", "enter", "8")
        await driver.settle()
        driver.table.move_cursor(row=0)
        await driver.press("enter")
        lasting = (trace.slices.end - trace.slices.start)[driver.main.finder.hits.items]
        item = driver.state.selection.item
        assert int(trace.slices.end[item] - trace.slices.start[item]) == lasting.max()


async def test_slice_names_and_lanes_are_completed_behind_the_colon(session):
    async with opened(session) as driver:
        await driver.press(":", "stream 2")
        assert "→ lane Ascend Hardware / compute s2 (Stream 2)" in answer(driver)
        await driver.press("enter")
        assert driver.explorer.focused.name == "compute s2"
        await driver.press(":", "gelu gelu")
        assert "→ slice" in answer(driver)
        first = answer(driver)
        await driver.press("down")
        assert answer(driver) != first
        await driver.press("up", "enter")
        assert "gelu" in driver.selected.lower()
        await driver.press(":", "zqxj", "enter")
        assert "no command, lane or slice is named zqxj" in status(driver)
        await driver.press(":", "links of", "tab")
        assert driver.prompt.text.lower().startswith("links of")


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("MatMul >100us", "dur>100us"),
        ("name~^aclnn", "/^aclnn/"),
        ("/^aclnn.*MatMul", "close the pattern"),
        ("nothing.*at all", "/^aclnn/"),
    ],
)
async def test_what_finds_nothing_says_how_it_is_written_here(session, typed, hint):
    async with opened(session) as driver:
        driver.search(typed)
        await driver.settle()
        assert not len(driver.main.finder.hits)
        assert hint in driver.main.finder.words()
