from __future__ import annotations

import re

import pytest
from driving import opened
from textual.widgets import Input, Label

from npu_tui.tui.commands import BY_ID, commands_of
from npu_tui.tui.footer import StatusLine
from npu_tui.tui.screen import MainScreen


def typed(driver) -> str:
    return driver.prompt.query_one(Input).value


def answer(driver) -> str:
    return str(driver.prompt.query_one("#answer", Label).render())


def status(driver) -> str:
    return str(driver.main.query_one(StatusLine).render())


async def test_typing_counts_the_hits_and_a_click_elsewhere_ends_it(session):
    async with opened(session) as driver:
        await driver.press("/")
        assert driver.prompt.is_open
        counts = []
        for letter in "Gelu":
            await driver.send(letter)
            counts.append(len(driver.main.finder.hits.starts))
        assert typed(driver) == "Gelu"
        assert counts == sorted(counts, reverse=True)
        assert 0 < counts[-1] < counts[0]
        assert answer(driver) == f"{counts[-1]} hits"
        await driver.pilot.click(driver.timeline, offset=(60, 6))  # elsewhere: the prompt is closed
        await driver.idle()
        assert not driver.prompt.is_open
        assert driver.app.focused is driver.timeline


async def test_what_is_typed_ahead_belongs_to_the_prompt(session):
    async with opened(session) as driver:
        before = driver.window
        await driver.send("/wax/", at_once=True)
        assert typed(driver) == "wax/"
        assert driver.window == before
        await driver.press("escape")
        await driver.send(":3ms\r", at_once=True)
        assert driver.state.cursor == 3_000_000
        before = driver.window
        await driver.send(":3ms\x1b", at_once=True)
        await driver.send(":3ms", at_once=True)
        await driver.press("escape", "enter", "w")  # Enter after Esc leaves no key waiting
        assert driver.window != before


async def test_keys_ahead_of_a_prompt_run_in_their_order(session):
    async with opened(session) as one, opened(session) as other:
        for begin in ("\x1b[B\x1b[Cww\x1b[B/", "wwgg:", "wwK"):
            await one.send(begin + "MatMul", at_once=True)
            assert one.prompt.is_open
            assert typed(one) == "MatMul"
            for key in re.findall(r"\x1b\[.|.", begin):
                await other.send(key)
            assert one.window == other.window
            assert one.state.cursor == other.state.cursor
            for driver in (one, other):
                await driver.press("escape")


async def test_what_is_typed_ahead_of_a_second_prompt_belongs_to_it(session):
    async with opened(session) as driver:
        before = driver.window
        await driver.send(":sql\rselect count(*) as wwss from kernels\rww", at_once=True)
        await driver.settle()
        assert not driver.prompt.is_open
        assert "wwss" in driver.text()
        assert driver.window != before
        width = before[1] - before[0]
        assert driver.window[1] - driver.window[0] < width, "the last two keys zoom"


async def test_what_is_typed_ahead_of_the_answer_belongs_to_the_lanes(session):
    async with opened(session) as driver:
        await driver.send("/Gelu\rnn", at_once=True)
        assert driver.main.finder.hits.text == "Gelu"
        here = driver.main.finder.hits.index(driver.state.selection)
        await driver.send("N", at_once=True)
        await driver.press("N", "N")
        assert driver.main.finder.hits.index(driver.state.selection) == (here - 3) % len(driver.main.finder.hits.starts)
        await driver.send(":stream 3\rgg", at_once=True)
        assert driver.state.focus == 0
        await driver.send("/Gelu\x1b[27uG", at_once=True)
        assert driver.state.focus == len(driver.explorer.rows) - 1


async def test_enter_goes_to_the_first_hit_after_the_cursor_and_n_on_and_back(session):
    async with opened(session) as driver:
        driver.state.cursor = 0
        await driver.press("/", "Gelu", "enter")
        starts = driver.main.finder.hits.starts.tolist()
        assert not driver.prompt.is_open
        assert driver.app.focused is driver.timeline
        seen = [driver.state.cursor]
        for _ in range(3):
            await driver.press("n")
            seen.append(driver.state.cursor)
        assert seen == starts[:4]
        assert "Gelu" in driver.selected
        assert status(driver).startswith(f"hit 4 of {len(starts)} ")
        await driver.press("N")
        assert driver.state.cursor == starts[2]
        await driver.press("/", "ProfilerStep", "enter")  # hits go round
        first = driver.selected
        seen = set()
        for _ in driver.main.finder.hits.starts:
            seen.add(driver.selected)
            await driver.press("n")
        assert seen == {"ProfilerStep#20", "ProfilerStep#21", "ProfilerStep#22"}
        assert driver.selected == first
        await driver.press("N", "n")
        assert driver.selected == first


async def test_a_search_that_is_given_up_or_finds_nothing_moves_nothing(session):
    async with opened(session) as driver:
        before = driver.window
        await driver.press("n")
        assert "/" in status(driver), "without a search it says what to do"
        await driver.press("/", "w", "q", "x", "space", "0", ":")
        assert typed(driver) == "wqx 0:", "letters of commands are text"
        assert driver.window == before
        await driver.press("escape", "/", "Gelu", "escape")
        assert not driver.prompt.is_open
        assert driver.app.focused is driver.timeline
        for text in ("xyzzy", "[red]"):
            await driver.press("/", text, "enter")
            assert text in status(driver)
        await driver.press(":", "[/]", "enter")
        assert "[/]" in status(driver), "signs of markup are plain text"
        assert driver.window == before
        await driver.press("/", "Gelu", "enter")
        await driver.settle()
        assert driver.panel.tab == "search"
        assert driver.table.row_count == len(driver.main.finder.hits.starts)
        await driver.press("/")
        assert typed(driver) == "", "a new search begins empty"


async def test_a_command_by_its_id_its_beginning_and_its_title(session):
    async with opened(session) as driver:
        opened_on = driver.window
        await driver.press(":", "zoom_in", "enter")
        assert driver.window != opened_on
        await driver.press(":", "undo zooms, pans and jumps", "enter")
        assert driver.window == opened_on
        await driver.press(":", "Link Mode", "enter")
        assert driver.state.link_mode == "all"
        for text, command in (("show_h", "show_hidden"), ("tab_op", "tab_operators"), ("heal", "health")):
            await driver.press(":", *text)
            assert BY_ID[command].title in answer(driver)
            await driver.press("escape")


async def test_a_time_a_lane_and_nonsense(session):
    async with opened(session) as driver:
        await driver.press(":", "12.5ms", "enter")
        assert driver.state.cursor == 12_500_000
        assert driver.window[0] <= 12_500_000 < driver.window[1]
        await driver.press("u")
        assert driver.state.cursor != 12_500_000
        for text in ("999s", "-999s"):
            await driver.press(":", *text, "enter")
            assert driver.window[0] <= driver.state.cursor < driver.window[1]
            assert "last from 0.000000 ms to" in driver.text()
        await driver.press(":", "stream 3", "enter")
        assert driver.explorer.focused.name == "copy s3"
        for text in ("abracadabra", "open_rank"):  # that of another screen runs nothing
            await driver.press(":", text, "enter")
            assert text in status(driver)
        await driver.press(":", "enter")
        assert driver.app.is_running


async def test_an_unknown_command_runs_nothing_and_names_the_nearest(session, monkeypatch):
    ran: list[str] = []
    run = MainScreen.run_command
    for name in ("run_command", "action_run", "action_lanes_run"):
        monkeypatch.setattr(MainScreen, name, lambda self, command: (ran.append(command), run(self, command)))
    async with opened(session) as driver:
        for text, nearest in (("nope", "open_code"), ("zomin", "zoom_in"), ("serch", "search"), ("healh", "health")):
            for at_once in (False, True):
                await driver.send(f":{text}\r", at_once=at_once)
                assert ran == ["command"]
                ran.clear()
                message = status(driver)
                assert f"is named {text}; nearest: :" in message
                assert text == "nope" or message.endswith(f":{nearest}")


async def test_a_guess_runs_only_once_it_is_chosen(session):
    async with opened(session) as driver:
        await driver.press(":", "nope")
        assert answer(driver).startswith("no match; ↓ chooses command ")
        await driver.press("down", "up", "down")
        assert answer(driver).startswith("→ command ")
        await driver.press("tab")
        assert typed(driver) in {command.title for command in commands_of("lanes")}
        await driver.press("escape")
        opened_on = driver.window
        await driver.send(":zomin\x1b[B\r", at_once=True)
        assert driver.window[1] - driver.window[0] < opened_on[1] - opened_on[0]


@pytest.mark.parametrize("text", ["q", "q!", "exit"])
async def test_what_people_type_to_leave(session, text):
    async with opened(session) as driver:
        await driver.press(":", *text, "enter")
    assert driver.app.return_code == 0


async def test_tab_takes_the_suggestion(session):
    async with opened(session) as driver:
        await driver.press(":", *"Ascend Hardware / Stream 3"[:-1])
        await driver.idle()
        await driver.press("tab")
        assert driver.prompt.is_open
        assert typed(driver).startswith("Ascend Hardware / Stream ")
        assert typed(driver) != "Ascend Hardware / Stream "
        await driver.press("enter")
        assert driver.explorer.focused.name.startswith("Stream")


async def test_a_query_is_completed_and_its_rows_have_the_focus(session):
    async with opened(session) as driver:
        await driver.send(":sql sel", at_once=True)
        assert (driver.prompt.kind, typed(driver)) == ("sql", "sel")
        await driver.press("escape")
        await driver.send(":sql\r", at_once=True)
        await driver.send("SELECT name, los", at_once=True)
        assert answer(driver).startswith("→ lost [ns]: how long the idle device waited for it (1 of ")
        await driver.press("tab")
        assert typed(driver) == "SELECT name, lost"
        await driver.send(" FROM laun", at_once=True)
        await driver.press("tab")
        await driver.send(" LIMIT 2\r", at_once=True)
        await driver.settle()
        assert driver.panel.tab == "lines"
        assert driver.panel.table.has_focus
        assert len(driver.panel.rows) == 2
        await driver.press("escape", ":")
        await driver.send("sql\r", at_once=True)
        assert typed(driver) == "SELECT name, lost FROM launches LIMIT 2"
        driver.main.querying.ask("SELECT 1")
        await driver.press("escape", ":")
        await driver.send("sql\r", at_once=True)
        assert typed(driver) == "SELECT 1"
        await driver.press("up")
        assert typed(driver) == "SELECT name, lost FROM launches LIMIT 2"
        await driver.press("down", "down")
        assert typed(driver) == ""
