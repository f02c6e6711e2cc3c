"""The list of profiles to choose from: what fits, keys, and the way there and back."""

import shutil
from pathlib import Path

import pytest

from npu_tui.load.find import sources_below
from npu_tui.nearby import Verdict, nearby
from npu_tui.strings import speaking
from npu_tui.trace.text import cell_count
from npu_tui.tui.app import NpuTui
from npu_tui.tui.job_screen import JobScreen
from npu_tui.tui.keymap import use_keys
from npu_tui.tui.picker import PickerChoice, PickerScreen, columns, foot_lines, head_line, row_line, title_line
from npu_tui.tui.screen import MainScreen
from npu_tui.tui.sheets import HelpSheet
from tests.tui.driving import Driver

_FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def folder(tmp_path) -> Path:
    shutil.copytree(_FIXTURES / "two_ranks", tmp_path / "run")
    shutil.copytree(_FIXTURES / "level0", tmp_path / "level0")
    return tmp_path


@pytest.mark.parametrize("width", [20, 40, 78, 118, 198])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_lines_fit(folder, width, language):
    with speaking(language):
        choice = PickerChoice(folder, nearby(folder), is_whole=True)
        choice.told = {each.path: Verdict(each.path, "DISPATCH: 下发 " * 20) for each in choice.listed}
        choice.wanted = "r"
        shown = choice.shown()
        widths = columns(choice, shown, width)
        rows = [row_line(choice, each, widths, False) for each in shown]
        lines = [head_line(choice, width), title_line(widths), *rows, *foot_lines(choice, width, "")]
        assert max(cell_count(line.plain) for line in lines[1:]) <= width
        assert all(each.name.rpartition("/")[2][:4] in row.plain for each, row in zip(shown, rows, strict=True))
        if width >= 78:
            assert all("DISPATCH" in row.plain for row in rows)


def test_ranks_of_a_large_job_are_folded(folder):
    choice = PickerChoice(folder, nearby(folder))
    job = next(each for each in choice.listed if each.is_job)
    assert len(choice.shown()) == 4
    choice.turned.add(job.path)
    assert len(choice.shown()) == 2
    choice.wanted = "rank1"
    assert [each.name for each in choice.shown()] == ["run/", "run/rank1"]


async def _until(driver: Driver, said) -> None:
    for _ in range(1000):
        await driver.idle()
        if said():
            return
        await driver.pilot.pause(0.02)
    raise AssertionError("never")


@pytest.mark.reached_from("npu_tui/tui/picker", "npu_tui/tui/app.py", "npu_tui/tui/job_screen.py", "npu_tui/nearby")
async def test_choosing_and_coming_back(folder):
    picker = PickerScreen(folder, cached=False)
    app = NpuTui(picker=picker, cached=False)
    async with app.run_test(size=(100, 24)) as pilot:
        driver = Driver(app, pilot)
        await _until(driver, lambda: picker.choice.is_examined)
        assert all(each.path in picker.choice.told for each in picker.choice.listed)
        job = next(at for at, each in enumerate(picker.choice.shown()) if each.is_job)
        await driver.press("G", *["k"] * (len(picker.choice.shown()) - 1 - job), "enter")
        await _until(driver, lambda: isinstance(app.screen, JobScreen) and app.screen.view is not None)
        await driver.press("escape")
        await _until(driver, lambda: app.screen is picker)
        await driver.press(*"run/")
        assert picker.choice.wanted == "run/"
        assert len(picker.choice.shown()) == 3
        await driver.press("down", "space", "space", "enter")
        await _until(driver, lambda: isinstance(app.screen, MainScreen))
        assert [profile.trace.rank for profile in driver.main.session.profiles] == [0, 1]
        await driver.press("escape")
        await _until(driver, lambda: app.screen is picker)
        await driver.press("escape")
        assert not picker.choice.wanted
        assert len(picker.choice.marked) == 2
        await driver.press("escape", "q", "k", "q")  # what comes between takes it back, as in the explorer
        assert str(picker._shown.content).endswith("q again leaves npu-tui")
        assert app.is_running
        await driver.press("q")
        await _until(driver, lambda: not app.is_running or app._exit)
    assert app.return_code == 0


@pytest.fixture
def own_keys():
    use_keys({"row_down": ("x",), "open": ("o o",), "mark": ("+",)})
    yield
    use_keys({})


async def test_keys_of_ones_own_hold_in_the_list_and_what_cannot_be_opened_is_said_there(tmp_path, own_keys):
    shutil.copytree(_FIXTURES / "chrome_generic", tmp_path / "generic")
    shutil.copytree(_FIXTURES / "level0", tmp_path / "level0")
    (tmp_path / "level0" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_text("[]")
    picker = PickerScreen(tmp_path, cached=False)
    app = NpuTui(picker=picker, cached=False)
    async with app.run_test(size=(100, 24)) as pilot:
        driver = Driver(app, pilot)
        await _until(driver, lambda: picker.choice.is_examined)
        first = picker.choice.at
        await driver.press("x")
        assert picker.choice.at == first + 1
        assert not picker.choice.wanted
        await driver.press("j")  # no command any more: it begins a filter
        assert picker.choice.wanted == "j"
        await driver.press("backspace", "escape")
        assert not picker.choice.wanted
        await driver.press("?")
        assert isinstance(app.screen, HelpSheet)
        at = [each.name for each in picker.choice.shown()].index("level0")
        await driver.press("escape", "home", *["x"] * at, "o", "o")
        await _until(driver, lambda: app.screen is picker and picker._words)
        assert "trace_view.json" in picker._words


def test_a_tree_of_too_many_folders_is_told(folder, monkeypatch):
    monkeypatch.setattr("npu_tui.load.find.MOST_FOLDERS", 1)
    choice = PickerChoice(folder, is_whole=True)
    found = list(sources_below(folder, lambda: setattr(choice, "is_cut", True)))
    assert len(found) == 1
    assert "only the first 1,000 folders were searched" in head_line(choice, 118).plain
