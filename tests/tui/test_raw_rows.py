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


def slowly(programs: Path) -> None:
    """Each analysis is a line of ``analysed``, and waits for a file ``go`` that it takes away."""
    shutil.copy(programs / "job-python", programs / "python3")
    lines = f'echo "$target" >> {programs}/analysed; until rm {programs}/go 2>/dev/null; do sleep 0.05; done\n'
    text = (programs / "python3").read_text()
    (programs / "python3").write_text(text.replace("[ -n", lines + "[ -n"))


def analysed(programs: Path) -> list[str]:
    file = programs / "analysed"
    return [Path(line).name for line in file.read_text().splitlines()] if file.exists() else []


async def test_raw_ranks_of_a_recording_are_a_row_that_is_analysed_first_rank_first(
    tmp_path: Path, programs: Path
) -> None:
    slowly(programs)
    ranks = [2, 0, 1]
    places = {rank: raw(tmp_path / "job", f"host_{7 + at}_ascend_pt", rank) for at, rank in enumerate(ranks)}
    raw(tmp_path / "other", "host_5_ascend_pt", 0)
    picker = PickerScreen(tmp_path, cached=False)
    app = NpuTui(picker=picker, cached=False)
    async with app.run_test(size=(120, 24)) as pilot:
        driver = Driver(app, pilot)
        await _until(driver, lambda: picker.choice.is_examined)
        rows = {entry.name: entry for entry in picker.choice.shown()}
        assert [rank.path for rank in rows["job/"].ranks] == [places[rank] for rank in (0, 1, 2)]
        assert not rows["other/host_5"].is_job
        while (row := picker.choice.current()) is None or not row.is_job:
            await driver.press("down")
        await driver.press("enter")
        assert "rank 0 first" in picker._words
        assert analysed(programs) == []
        await driver.press("up", "down", "enter", "enter")
        await _until(driver, lambda: analysed(programs) == [places[0].name])
        await driver.press("enter")
        assert analysed(programs) == [places[0].name]
        (programs / "go").touch()
        await _until(driver, lambda: isinstance(app.screen, MainScreen))
        await _until(driver, lambda: analysed(programs) == [places[0].name, places[1].name])
        (programs / "go").touch()
        await _until(driver, lambda: len(analysed(programs)) == 3)
        (programs / "go").touch()
        await _until(driver, lambda: not app.recordings.is_busy)
        await driver.press("escape")
        await _until(driver, lambda: app.screen is picker and picker.choice.is_examined)
        await _until(driver, lambda: [entry.name for entry in picker.choice.listed if entry.writer] == ["other/host_5"])
        assert any(entry.is_job and len(entry.ranks) == 3 for entry in picker.choice.listed)


@pytest.mark.parametrize("how", ["key", "leave"])
async def test_an_analysis_is_stopped_by_a_key_and_by_leaving(how: str, tmp_path: Path, programs: Path) -> None:
    slowly(programs)
    place = raw(tmp_path / "job")
    picker = PickerScreen(tmp_path / "job", cached=False)
    app = NpuTui(picker=picker, cached=False)
    async with app.run_test(size=(100, 24)) as pilot:
        driver = Driver(app, pilot)
        await _until(driver, lambda: picker.choice.is_examined)
        await driver.press("enter")
        await _until(driver, lambda: "Ctrl+X stops it" in str(picker._shown.content))
        await _until(driver, lambda: analysed(programs) == [place.name])
        (place / "ASCEND_PROFILER_OUTPUT").mkdir()
        (place / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_text("[")
        if how == "key":
            await driver.press("ctrl+x")
            await _until(driver, lambda: "is removed" in picker._words)
            assert "Ctrl+X" not in str(picker._shown.content)
        else:
            await driver.press("q", "q")
    if how == "leave":
        assert "is removed" in app.recordings.stop()
    assert not (place / "ASCEND_PROFILER_OUTPUT").exists()
    assert not app.recordings.is_busy
