"""The findings on screen: verdict, strip, tab, and the keys that walk along them."""

from __future__ import annotations

import re

import pytest
from driving import Driver, opened
from msgspec.structs import replace

from npu_tui.output.report_document import finding_text
from npu_tui.output.report_tables import gain_words
from npu_tui.rules.ladder import is_work
from npu_tui.rules.model import Finding, Findings
from npu_tui.strings import say, words
from npu_tui.tui.app import NpuTui
from npu_tui.tui.panel import Panel
from npu_tui.tui.sheets import Sheet
from npu_tui.tui.tabs.findings import listed
from npu_tui.view.scene import Selected
from npu_tui.view.start import Start


def found(driver) -> Findings:
    return driver.main.session.findings[0]


def worth(driver: Driver) -> list[Finding]:
    """The findings to work on."""
    return [each for each in listed(found(driver)) if is_work(each)]


async def test_the_opening_screen_is_the_verdict(session):
    async with opened(session) as driver:
        verdict = [words(line) for line in found(driver).verdict]
        rows = driver.rows()
        assert rows[1].startswith(f" 1 {verdict[0][:60]}")
        assert rows[2].startswith(f" 2 {verdict[1][:60]}")
        assert any(row.startswith(" findings ") and "1━" in row for row in rows)
        panel = driver.main.query_one(Panel)
        assert panel.tab == "findings"
        assert [row.cells[4].plain.strip().partition(" (in ")[0] for row in panel.rows] == [
            words(each.title).partition(" (in ")[0] for each in listed(found(driver))
        ]
        assert f"1 Findings {len(worth(driver))} " in driver.text()


async def test_small_terminals_have_less_of_the_verdict(session):
    async with opened(session, (80, 24)) as driver:
        await driver.settle()
        assert driver.main.head.verdict.size.height == 2  # the first finding, whole
        await driver.press("P")
        assert driver.main.head.verdict.size.height == 1  # the panel needs the room
    async with opened(session, (60, 15)) as driver:
        assert driver.main.head.verdict.size.height == 1
    async with opened(session, (60, 12)) as driver:
        assert not driver.main.head.verdict.display


@pytest.mark.parametrize("width", [1, 2, 4, 5])
async def test_a_terminal_of_a_few_columns_has_the_verdict_too(session, width: int):
    async with opened(session, (width, 24)) as driver:
        assert driver.main.head.verdict.size.height == 2


async def test_the_verdict_takes_the_room_that_was_kept_for_it(session):
    async with opened(session, (80, 24)) as driver:
        verdict = driver.main.head.verdict
        for width in (80, 200):
            await driver.pilot.resize_terminal(width, 24)
            await driver.settle()
            known = verdict.size.height
            learned = dict(session.findings)
            session.findings.clear()
            driver.main.show_head()
            await driver.idle()
            assert verdict.size.height == known
            session.findings.update(learned)


async def test_e_goes_to_the_evidence_of_one_finding_after_the_other(session):
    async with opened(session) as driver:
        listed = worth(driver)
        for number, finding in enumerate(listed[:3], 1):
            await driver.press("e")
            place = finding.evidence[0]
            assert driver.state.range == (place.start, place.end)
            assert driver.explorer.fitted[0] <= place.start
            assert driver.explorer.fitted[1] >= place.end
            assert f"{number} of {len(listed)}: {words(finding.title)}"[:60] in driver.text()
        await driver.press("E")
        assert driver.state.range == (listed[1].evidence[0].start, listed[1].evidence[0].end)


async def test_on_a_low_screen_the_sentence_of_a_finding_is_whole(session):
    async with opened(session, (80, 24)) as driver:
        await driver.settle()
        verdict = driver.rows()[1]
        for finding in worth(driver)[:3]:
            await driver.press("e")
            await driver.settle()
            head = " ".join(" ".join(driver.rows()[1:3]).split())
            number = found(driver).findings.index(finding) + 1
            assert f"{number} {words(finding.title)}" in head
        await driver.press("escape", "escape", "0")
        await driver.settle()
        assert driver.rows()[1] == verdict
        await driver.press("1", "1")
        for finding in worth(driver)[:3]:
            await driver.settle()
            table = driver.main.query_one(Panel).table
            lines = [line for line in driver.rows()[-8:-1] if "…" not in line]
            told = " ".join(" ".join(line[24:77] for line in lines).split())
            assert words(finding.title) in told, "the row of the cursor is wrapped"
            assert (
                sum(row.height for row in table.rows.values())
                == table.row_count + table.rows[table.ordered_rows[table.cursor_row].key].height - 1
            )
            await driver.press("down")


async def test_a_walk_out_of_the_evidence_leaves_its_range(session):
    """What the tabs list is then the whole trace again; a range that the user marked stays."""
    async with opened(session) as driver:
        starved = session.profiles[0].starved
        await driver.press("e", "e", "x")  # the second one is a stretch
        assert driver.state.range is not None
        assert driver.state.range[0] <= driver.state.cursor <= driver.state.range[1]
        outside = next(
            number
            for number, each in enumerate(worth(driver), 1)
            if number > 2 and not each.evidence[0].start <= starved[-1].start <= each.evidence[0].end
        )
        driver.explorer.deselect()
        await driver.press(*"e" * (outside - 2))
        assert driver.state.range is not None
        driver.explorer.select(Selected(0, starved[-2].item))
        await driver.press("x")
        assert driver.state.range is None
        driver.explorer.set_range(0, 10)
        await driver.press("X")
        assert driver.state.range == (0, 10)


async def test_enter_walks_along_the_evidence(session):
    async with opened(session) as driver:
        evidence = found(driver).findings[0].evidence
        await driver.press("tab", "enter")
        assert driver.state.range == (evidence[0].start, evidence[0].end)
        await driver.press("enter")
        assert driver.state.range == (evidence[1].start, evidence[1].end)


async def test_space_tells_all_and_y_copies_it(session):
    async with opened(session) as driver:
        text = finding_text(session.profiles[0], found(driver).findings[0], 1)
        await driver.press("tab", "y")
        assert driver.app.clipboard == text
        await driver.press("space")
        assert isinstance(driver.app.screen, Sheet)
        told = " ".join(driver.text().replace("│", " ").split())
        assert words(found(driver).findings[0].title)[:60] in told


async def test_the_command_line_can_name_the_finding(session):
    last = None
    async with opened(session) as driver:
        last = next(each for each in reversed(found(driver).findings) if each.evidence)
    async with opened(session, app=NpuTui(session=session, start=Start(finding=last.id))) as driver:
        await driver.settle()
        assert driver.state.range == (last.evidence[0].start, last.evidence[0].end)
    async with opened(session, app=NpuTui(session=session, start=Start(finding="FREQ"))) as driver:
        assert "no finding FREQ in this trace" in driver.text()


async def test_a_finding_asked_for_too_early_is_gone_to_when_there_are_some(sessions):
    session = replace(sessions["dispatch_bound"], findings={})
    async with opened(session) as driver:
        findings = session.findings.pop(0)
        await driver.press("e")
        assert driver.rows()[-1].strip().startswith(say("findings.then"))
        await driver.press("7")
        before = driver.state.viewport
        driver.main.head.examined = 0
        driver.main.learn(session, 0, findings)
        await driver.settle()
        assert driver.state.viewport != before
        assert driver.panel.tab == "communication"
        session.findings.pop(0)
        await driver.press("e", "d")  # who goes elsewhere stays there
        before = driver.state.viewport
        driver.main.head.examined = 0
        driver.main.learn(session, 0, findings)
        await driver.settle()
        assert driver.state.viewport == before


def test_a_gain_that_others_hold_up_says_after_which(sessions):
    for session in sessions.values():
        for found in session.findings.values():
            for number, each in enumerate(found.findings, 1):
                held = re.search(r"Fix 1(–\d+)? first: then this saves", words(each.detail)) is not None
                assert bool(each.gain_after) == held
                assert each.gain_after in (0, number - 1)
    assert gain_words("20.44 ms", 0) == "20.44 ms"
    assert gain_words("20.44 ms", 1) == "20.44 ms after 1"
    assert gain_words("20.44 ms", 3) == "20.44 ms after 1–3"


async def test_rows_left_below_the_table_say_what_the_next_findings_mean(session):
    """As far as each is whole, under its title."""
    async with opened(session, (200, 60)) as driver:
        await driver.settle()
        rows = [row for row in driver.panel.rows if row.explained is not None]
        lines = [str(line) for line in driver.panel._explained(rows[0], 100, 100)]
        starts = [f"{str(row.cells[0]).strip()}  {str(row.cells[-1]).strip()}"[:40] for row in rows[1:]]
        assert [line[:40] for line in lines if line[:40] in starts] == starts
        second = next(at for at, line in enumerate(lines) if line[:40] == starts[0])
        alone = [str(line) for line in driver.panel._explained(rows[0], 100, second)]
        assert alone == lines[: second - 1], "a part of the next one is not shown"
        await driver.press("P", "P")
        await driver.settle()
        shown = driver.text()
        assert alone[0][:40] in shown
        assert starts[0] in shown
