"""Raw profiles in the list: Enter analyses them and opens what comes out; what is waited for stands in the header."""

import shutil
from pathlib import Path

import pytest

from npu_tui.tui.app import NpuTui
from npu_tui.tui.picker import PickerScreen
from npu_tui.tui.screen import MainScreen
from tests.record.test_analysis import programs as programs
from tests.record.test_analysis import raw
from tests.tui.driving import Driver
from tests.tui.test_picker import _until


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


async def test_enter_analyses_a_raw_profile_and_opens_it(tmp_path: Path, programs: Path) -> None:
    shutil.copy(programs / "job-python", programs / "python3")
    place = raw(tmp_path / "job")
    picker = PickerScreen(tmp_path / "job", cached=False)
    app = NpuTui(picker=picker, cached=False)
    async with app.run_test(size=(100, 24)) as pilot:
        driver = Driver(app, pilot)
        await _until(driver, lambda: picker.choice.is_examined)
        assert "no analysis was recorded here yet" in picker.choice.told[place].text
        await driver.press("enter")
        await _until(driver, lambda: isinstance(app.screen, MainScreen))
        app._hold("waiting: for the next step")
        await driver.idle()
        assert driver.main.head.headline.said[0].endswith("  waiting: for the next step")
        app._hold("")
        assert "waiting" not in driver.main.head.headline.said[0]
        await driver.press("escape")
        await _until(driver, lambda: app.screen is picker and picker.choice.is_examined)
        await _until(driver, lambda: all(each.writer is None for each in picker.choice.listed))
    assert (place / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").is_file()


async def test_where_the_profiler_is_absent_the_whole_command_stands_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = raw(tmp_path / "job")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    picker = PickerScreen(tmp_path / "job", cached=False)
    app = NpuTui(picker=picker, cached=False)
    async with app.run_test(size=(80, 24)) as pilot:
        driver = Driver(app, pilot)
        await _until(driver, lambda: picker.choice.is_examined)
        await driver.press("enter")
        await _until(driver, lambda: "analyse(" in picker._words)
        shown = "".join(line.strip() for line in str(picker._shown.content).splitlines()[-10:])
        assert f"{place}".replace(" ", "") in shown.replace(" ", "")
        assert app.screen is picker
