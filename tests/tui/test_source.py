"""The code with the times of its lines: the figures of the tables, the walk from hot line to hot line, the editor."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from driving import opened
from measured import answers, session_of

from npu_tui.load import source
from npu_tui.load.find import find_source
from npu_tui.load.load import load
from npu_tui.profile.launch_tables import CODE_LINES
from npu_tui.trace.text import duration_text
from npu_tui.tui import exports

FIXTURE = Path("fixtures/dispatch_bound")


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_given", [])


@pytest.fixture
def away(tmp_path: Path):
    """The demo where nothing of its program is at hand."""
    folder = tmp_path / "a" / "b" / "c" / "run_ascend_pt"
    shutil.copytree(FIXTURE, folder)
    return session_of(load(find_source(folder)))


def of_report(trace) -> dict[tuple[str, int], tuple[float, float]]:
    """What the JSON report says of each line, by file and line: ns on the path of a step, ns that it loses."""
    report = answers(trace)
    path, found = report["critical_path"], {}
    for owner in path["owners"]:
        if where := owner.get("where"):
            place = where["file"].rpartition("/")[2], where["line"]
            each, lost = found.get(place, (0.0, 0.0))
            found[place] = each + 1000 * owner["on_path_us"] / path["count"], lost
    for row in report["dispatch"]["code_lines"]:
        place = row["file"].rpartition("/")[2], row["line"]
        found[place] = found.get(place, (0.0, 0.0))[0], 1000 * row["lost_us"] / path["count"]
    return found


def figure(time: float) -> str:
    return duration_text(time) if time else ""


async def test_the_margin_has_the_figures_of_the_report(session):
    expected = of_report(session.scene.traces[0])
    async with opened(session, (120, 50)) as driver:
        await driver.press("2")
        await driver.settle()
        panel, seen, file = driver.panel, {}, ""
        for row in panel.rows:
            _, path, lost, code = map(str, row.cells)
            if code.endswith(".py"):
                file = code.rpartition("/")[2]
            elif not row.minor:
                seen[file, int(code.split()[0])] = path, lost
        told = {place: tuple(map(figure, times)) for place, times in expected.items()}
        assert seen == told
        assert panel.content.headings[1] == "path/step"
        first = session.findings[0].findings[0]
        hottest = panel.rows[panel.content.walked[0]]
        assert str(hottest.cells[1]) in driver.text().split("\n")[1], "the verdict says the same"
        assert (first.code_lines or [hottest.code])[0].line == hottest.code.line


async def test_n_goes_from_the_hottest_line_to_the_next_and_round(session):
    async with opened(session, (120, 40)) as driver:
        await driver.press("2")
        await driver.settle()
        walked = driver.panel.content.walked
        assert driver.table.cursor_row == walked[0], "it begins at the hottest"
        for number in (*range(1, len(walked)), 0):
            await driver.press("n")
            assert driver.table.cursor_row == walked[number]
            assert f"{number + 1} of {len(walked)}" in driver.text()
        await driver.press("N")
        assert driver.table.cursor_row == walked[-1]
        await driver.send("/matmul\r")
        await driver.settle()
        await driver.press("2")
        row = driver.table.cursor_row
        await driver.press("n")
        assert driver.table.cursor_row == row, "hits of a search come first where the keys are for the lanes"
        await driver.run("tab_lines")
        await driver.press("n")
        assert driver.table.cursor_row != row


async def test_a_filtered_code_is_walked_too(session):
    async with opened(session) as driver:
        await driver.press("2", "2")
        await driver.settle()
        await driver.send("&self.\r")
        await driver.press("n")
        assert "self." in str(driver.panel.row_at_cursor().cells[-1])
        assert " of 5: " in driver.text()


async def test_the_key_of_the_tab_shows_the_table_and_the_code_again(session):
    async with opened(session) as driver:
        await driver.press("2", "2")
        await driver.settle()
        assert driver.panel.content.walked
        await driver.press("2")
        await driver.settle()
        table = driver.panel.content
        assert not table.walked
        assert driver.table.cursor_row == 0
        losses = CODE_LINES.make(session.profiles[0])
        assert len(table.rows) == losses.rows
        await driver.press("2")
        await driver.settle()
        assert driver.panel.content.walked


async def test_enter_goes_to_what_a_line_did(session):
    async with opened(session) as driver:
        await driver.press("2", "2")
        await driver.settle()
        row = driver.panel.row_at_cursor()
        await driver.press("enter")
        start, end = driver.window
        assert start <= row.places[0].start < row.places[0].end <= end


async def test_o_opens_the_file_that_is_shown(session, monkeypatch):
    called = []
    monkeypatch.setattr(exports.subprocess, "run", lambda command, check: called.append(command))
    monkeypatch.setenv("VISUAL", "ed")
    async with opened(session) as driver:
        monkeypatch.setattr(driver.app, "suspend", nullcontext)
        await driver.press("2", "2")
        await driver.settle()
        await driver.press("o", "down", "o")
        await driver.press("escape", "e")
        await driver.settle()
        driver.state.selection = None
        await driver.press("o")
    path = str(Path("fixtures/vit/model.py").resolve())
    assert called == [["ed", "+31", path], ["ed", "+32", path], ["ed", "+31", path]]


async def test_without_a_source_the_table_stands_and_a_folder_can_be_named(away, tmp_path):
    async with opened(away) as driver:
        await driver.press("2")
        await driver.settle()
        assert not driver.panel.content.walked
        await driver.press("n")
        assert "hit" in driver.text().split("\n")[-1]
        await driver.send(f":code {tmp_path / 'missing'}\r")
        assert "no such folder" in driver.text()
        (tmp_path / "mine").mkdir()
        shutil.copy("fixtures/vit/model.py", tmp_path / "mine" / "model.py")
        await driver.send(f":code {tmp_path / 'mine'}\r")
        await driver.settle()
        content = driver.panel.content
        assert content.walked
        shown = "\n".join(str(row.cells[-1]) for row in content.rows)
        assert "mine/model.py" in shown
        assert "train.py:139 in train_epoch()" in shown, "what is not here stands by its place"
        assert f"--code={tmp_path / 'mine'}" in exports.command_here(driver.explorer, "", "lines")


async def test_another_version_is_told_and_not_shown(away, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "model.py").write_text("def relative_bias():\n    pass\n")
    source.look_below(tmp_path / "mine")
    async with opened(away, (200, 50)) as driver:
        await driver.press("2")
        await driver.settle()
        assert not driver.panel.content.walked
        assert "another version" in driver.text()


async def test_hostile_code_stays_in_its_row(away, tmp_path):
    (tmp_path / "mine").mkdir()
    lines = Path("fixtures/vit/model.py").read_text().split("\n")
    lines[63] = "        \x1b[31mx\x1b[0m = '宽\u202e字\x07' \t" + "y" * 50_000
    (tmp_path / "mine" / "model.py").write_text("\n".join(lines))
    source.look_below(tmp_path / "mine")
    async with opened(away, (80, 24)) as driver:
        await driver.press("2", "2")
        await driver.settle()
        cells = [str(row.cells[-1]) for row in driver.panel.rows]
        assert all(cell.isprintable() and len(cell) < 500 for cell in cells)
        row = next(at for at, cell in enumerate(cells) if cell.strip().startswith("64 "))
        assert "?[31mx?[0m = '宽?字?'" in cells[row]
        while driver.table.cursor_row != row:
            await driver.press("n")
        assert all(len(line) <= 80 for line in driver.rows())
