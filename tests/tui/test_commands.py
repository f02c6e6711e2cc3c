from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from driving import Driver, opened

from npu_tui.strings import say, texts_of
from npu_tui.subjects import SUBJECTS
from npu_tui.tui.commands import (
    BY_ID,
    COMMANDS,
    COMPARED_KEYS,
    GROUPS,
    JOB_KEYS,
    TAB_KEYS,
    Command,
    Where,
    commands_of,
    delivered,
    keys_label,
    markdown_table,
    set_keys,
)
from npu_tui.tui.contents import make_tabs
from npu_tui.tui.footer import FOOTERS, hints_of
from npu_tui.tui.job_screen import JobScreen
from npu_tui.tui.keymap import _MOVED, elsewhere, screen_bindings
from npu_tui.tui.picker import PickerScreen
from npu_tui.tui.screen import MainScreen
from npu_tui.view.scene import Selected

STAYING = [command for command in commands_of("lanes") if command.id != "quit"]


def test_every_command_calls_what_its_screen_has(session):
    screens = {"lanes": MainScreen(session), "job": JobScreen(Path()), "picker": PickerScreen}
    for command in COMMANDS:
        assert command.acts
        for where, act in command.acts.items():
            ways = [cell.cell_contents for cell in act.__closure__ or () if callable(cell.cell_contents)]
            assert set([*ways, act][0].__code__.co_names[:1]) - {"say"} <= set(dir(screens[where]))


def test_every_command_has_a_title_and_every_title_a_command():
    titles = {key.removeprefix("command.") for key in texts_of("en") if key.startswith("command.")}
    titles -= {"prompt", "unknown", "nearest"}
    of_screens = {title for title in titles if "." in title}
    assert titles - of_screens == set(BY_ID)
    assert of_screens <= {f"{id_}.{where}" for id_, command in BY_ID.items() for where in (*command.acts, *SUBJECTS)}


def test_every_hint_of_the_footer_has_a_word_and_every_word_a_hint():
    words = {key.removeprefix("footer.") for key in texts_of("en") if key.startswith("footer.")}
    hints = [hint for place in FOOTERS for hint in hints_of(place)]
    assert words == {hint.word for hint in hints}
    assert {command for hint in hints for command in hint.commands} <= set(BY_ID)


def test_every_group_has_a_title_and_commands():
    assert {f"help.task.{group}" for group in GROUPS} <= set(texts_of("en"))
    assert {command.group for command in COMMANDS} == set(GROUPS)


def test_ids_and_titles_are_unique():
    assert len(BY_ID) == len(COMMANDS)
    assert len({command.title for command in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize("where", get_args(Where))
def test_no_key_is_bound_twice(where):
    keys = Counter(key for command in commands_of(where) for key in command.keys)
    assert [key for key, count in keys.items() if count > 1] == []


MOTIONS = {"left", "right", "up", "down", "home", "end", "pageup", "pagedown", "space", "enter", "escape", "tab"}
"""Keys with a word for a label move, open, mark and leave whatever the cursor is in."""


def test_a_key_means_one_thing_over_all_screens():
    means: dict[str, set[str]] = {}
    for command in COMMANDS:
        for key in command.default_keys:
            # A digit is the tab that the line of tabs has it before, and F is its changes.
            meaning = "tab" if command.id.startswith("tab_") else command.id
            means.setdefault(key, set()).add(meaning)
    assert {key: ids for key, ids in means.items() if len(ids) > 1 and key not in MOTIONS} == {}


def test_tabs_of_one_name_have_one_key_on_every_screen():
    keys = TAB_KEYS | COMPARED_KEYS
    same = {"findings": "findings", "changes": "changes", "links": "links", "collectives": "communication"}
    assert {tab: JOB_KEYS[f"job_{tab}"] for tab in same} == {tab: keys[other] for tab, other in same.items()}


def test_keys_that_moved_and_keys_of_other_screens_say_so():
    for (where, key), command in _MOVED.items():
        assert BY_ID[command].press in elsewhere(key, where)
        assert where in BY_ID[command].acts
    told = "x is a key of timelines: next starved launch   here ;: the collective with the longest wait"
    assert elsewhere("x", "job") == told
    assert elsewhere("plus", "lanes") == "+ is a key of jobs: stack the slowest, the median and the fastest rank"
    assert elsewhere("w", "lanes") == elsewhere("f12", "job") == ""


@pytest.mark.parametrize("where", get_args(Where))
def test_no_key_is_also_the_first_of_a_sequence(where):
    keys = {key for command in commands_of(where) for key in command.keys}
    assert not {key.partition(" ")[0] for key in keys if " " in key} & keys


@pytest.mark.parametrize("where", ["lanes", "job"])
def test_every_key_is_a_binding_of_the_screen(where):
    bound = {binding.key for binding in screen_bindings(where)}
    keys = {key.partition(" ")[0] for command in commands_of(where) for key in command.keys}
    assert bound == {name for key in keys for name in delivered(key)}


def test_insights_keys_keep_their_meaning():
    by_key = {key: command.id for command in commands_of("lanes") for key in command.keys}
    expected = {
        "w": "zoom_in", "s": "zoom_out", "a": "pan_left", "d": "pan_right", "left": "pan_left", "right": "pan_right",
        "up": "row_up", "down": "row_down", "backspace": "undo", "ctrl+0": "home", "Z": "range_zoom",
        "m": "range_selection", "q": "panel", "Q": "panel",
    }  # fmt: skip
    assert {key: by_key[key] for key in expected} == expected


def test_the_key_table_names_every_command():
    for where in ("lanes", "job"):
        lines = markdown_table(where).splitlines()
        assert len(lines) == 2 + len(commands_of(where))
        assert all(command.title_on(where) in markdown_table(where) for command in commands_of(where))
        assert "shift+" not in markdown_table(where)


def test_the_bar_and_the_backtick_stay_in_their_cells():
    assert "| `\\|` |" in markdown_table("lanes")
    set_keys({"sides": ("grave_accent",)})
    try:
        assert "| `` ` `` |" in markdown_table("lanes")
    finally:
        set_keys({})


def test_labels_are_what_people_type():
    assert keys_label(BY_ID["undo"]) == "Backspace u"
    assert keys_label(BY_ID["row_first"]) == "gg"
    assert "shift" not in keys_label(BY_ID["range_zoom"])


def prepare(driver: Driver) -> None:
    """A selection, a range and hits."""
    launch = driver.main.session.profiles[0].starved[3]
    driver.explorer.select(Selected(0, launch.item))
    driver.explorer.set_range(1_000_000, 9_000_000)
    if not len(driver.main.finder.hits):  # marking them draws
        driver.search("aclnn")


async def check(driver: Driver, command: Command) -> None:
    driver.main.run_command(command.id)
    await driver.idle()
    state = driver.state
    assert state.viewport.start <= state.cursor < state.viewport.end, command.id
    assert 0 <= state.focus < len(driver.explorer.rows), command.id
    while not isinstance(driver.app.screen, MainScreen):
        await driver.app.pop_screen()


async def test_every_command_runs_without_selection_range_and_hits(session):
    async with opened(session, (20, 6)) as driver:
        for command in STAYING:
            driver.main.set_focus(driver.timeline)
            driver.main.run_command("escape")
            driver.explorer.state.selection = driver.explorer.state.range = None
            await check(driver, command)


async def test_every_command_runs_with_selection_range_and_hits(session):
    async with opened(session, (80, 24)) as driver:
        for command in STAYING:
            prepare(driver)
            await check(driver, command)


async def test_quit_ends_the_program(session):
    async with opened(session) as driver:
        driver.main.run_command("quit")
        await driver.idle()
    assert driver.app.return_code == 0
    assert driver.app.return_value is None


def test_every_tab_has_its_key_in_the_registry():
    assert list(make_tabs(False)) == list(TAB_KEYS)
    assert list(make_tabs(True)) == [*COMPARED_KEYS, *TAB_KEYS]
    assert {command.id.removeprefix("tab_") for command in COMMANDS if command.id.startswith("tab_job_")} == {*JOB_KEYS}


@pytest.mark.parametrize("typed", ["@", ":record\r"])
async def test_recording_again_says_what_it_needs(sessions, typed: str):
    async with opened(sessions["dispatch_bound"]) as driver:
        await driver.send(typed)
        await driver.settle()
        assert say("record.which") in driver.rows()[-1]
