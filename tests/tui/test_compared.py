"""Two profiles compared on screen: whole screens as text, and what the keys of a comparison do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from driving import opened
from msgspec.structs import replace
from test_golden import compare

from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.measured import MeasuredSide
from npu_tui.load.load import opening_of
from npu_tui.profile.profile import Profile
from npu_tui.tui.ranks import compared_session
from npu_tui.tui.session import Session
from npu_tui.view.scene import ALONE, BASE, NEW, Selected

FOLDER = Path(__file__).resolve().parent / "golden_compared"
WALKS = [
    ((80, 24), {"opening": ()}),
    ((120, 40), {"opening": (), "change": ("e",)}),
    ((120, 40), {"every": ("=",)}),
    ((120, 40), {"base": ("|",), "new": ("|",)}),
    ((120, 40), {"steps": (">",)}),
    ((200, 50), {"opening": (), "change": ("e", "e", "e")}),
]
"""Keys that lead from the opening screen to one view after the other, in terminals of these sizes."""


@pytest.fixture(scope="module")
def profiles() -> list[Profile]:
    openings = [opening_of(Path("fixtures") / name, cached=False) for name in ("healthy", "dispatch_bound")]
    return [Profile(opening.trace(), opening.source) for opening in openings]


@pytest.fixture
def session(profiles: list[Profile]) -> Session:
    return compared_session(lambda both: ProfileComparison(*map(MeasuredSide, both)), profiles)


@pytest.mark.parametrize(("size", "views"), WALKS, ids=str)
async def test_screen(session, size, views):
    async with opened(session, size) as driver:
        for view, pressed in views.items():
            for keys in pressed:
                await driver.send(keys)
                await driver.settle()
            compare(f"{size[0]}x{size[1]}_{view}", driver.rows(), FOLDER)


def twin_of(session: Session) -> tuple[int, int]:
    """A slice of the base that has a counterpart, and that one."""
    twins = session.scene.pair.twins[BASE]
    item = int(np.flatnonzero(twins >= 0)[5])
    return item, int(twins[item])


async def test_the_counterpart_and_back(session):
    item, twin = twin_of(session)
    async with opened(session) as driver:
        driver.explorer.select(Selected(BASE, item))
        await driver.send("\\")
        assert driver.state.selection == Selected(NEW, twin)
        await driver.send("\\")
        assert driver.state.selection == Selected(BASE, item)


async def test_what_one_side_has_alone_has_no_counterpart(session):
    alone = int(np.flatnonzero(session.scene.pair.marks[NEW] == ALONE)[0])
    async with opened(session) as driver:
        driver.explorer.select(Selected(NEW, alone))
        await driver.send("\\")
        assert driver.state.selection == Selected(NEW, alone)


async def test_alignments(session):
    item, twin = twin_of(session)
    scene = session.scene
    async with opened(session) as driver:
        assert [scene.to_scene(k, scene.pair.windows[k][0]) for k in (BASE, NEW)] == [0, 0]
        driver.explorer.select(Selected(BASE, item))
        await driver.send("=")
        assert scene.pair.alignment == "operation"
        assert scene.times(Selected(BASE, item))[0] == scene.times(Selected(NEW, twin))[0]
        await driver.send("=")
        assert scene.pair.alignment == "every"
        base, new = (times.tolist() for times in (scene.pair.matched.base, scene.pair.matched.new))
        moved = [k for k in range(1, len(new) - 1) if new[k - 1] < new[k] < new[k + 1]]
        assert moved
        assert all(scene.to_scene(NEW, new[k]) == scene.to_scene(BASE, base[k]) for k in moved)
        await driver.send("=")
        assert scene.pair.alignment == "step"


async def test_rows_stand_in_pairs(session):
    async with opened(session, (120, 50)) as driver:
        names = [(row.trace, row.name) for row in driver.explorer.rows if row.kind in ("slices", "leaf") and row.opener]
        assert names.index((BASE, "Computing")) + 1 == names.index((NEW, "Computing"))
        both = len(driver.explorer.rows)
        await driver.send("|")
        alone = len(driver.explorer.rows)
        assert {row.trace for row in driver.explorer.rows} == {BASE}
        await driver.send("|")
        assert {row.trace for row in driver.explorer.rows} == {NEW}
        assert len(driver.explorer.rows) == alone < both


async def test_a_fold_is_one_of_both_sides(session):
    async with opened(session, (120, 50)) as driver:
        rows = driver.explorer.rows
        at = next(i for i, row in enumerate(rows) if row.kind == "layer" and row.folded)
        name = rows[at].name
        assert [row.trace for row in rows if row.name == name] == [BASE, NEW]
        driver.state.focus = at
        await driver.send(" ")
        opened_rows = [row for row in driver.explorer.rows if row.name == name]
        assert [(row.trace, row.folded) for row in opened_rows] == [(BASE, False)], "both are open under one head"


async def test_a_change_is_shown_on_both_sides(session):
    change = next(each for each in session.picture.changes if each.id == "DIFF.KERNEL.FASTER")
    place = session.picture.places(change)[0]
    async with opened(session) as driver:
        ladder = [each for each in session.picture.changes if each.delta_ns and each.part_of is None]
        await driver.send("e" * (1 + ladder.index(change)))
        view = driver.state.viewport
        for side, own in ((BASE, place.base), (NEW, place.new)):
            assert view.start <= session.scene.to_scene(side, own.start)
            assert session.scene.to_scene(side, own.end) <= view.end


async def test_changes_that_make_up_for_each_other_have_no_share(session):
    async with opened(session, (120, 40)) as driver:
        await driver.settle()
        assert "share" in driver.panel.table._headings[0]
    picture = session.picture
    at = next(at for at, change in enumerate(picture.changes) if change.delta_ns and change.id != "DIFF.STEP")
    picture.changes[at] = replace(picture.changes[at], delta_ns=-2.0 * picture.comparison.step.delta)
    async with opened(session, (120, 40)) as driver:
        await driver.settle()
        assert driver.panel.table._headings[0][:2] == ("#", "per step")
        assert "share" not in driver.panel.table._headings[0]


async def test_the_view_as_a_command_opens_the_comparison(session):
    async with opened(session) as driver:
        copied = []
        driver.app.copy_to_clipboard = copied.append
        await driver.send("Y")
        assert " compare " in copied[0]


async def test_without_a_comparison_its_keys_say_so(sessions):
    async with opened(sessions["healthy"]) as driver:
        for keys in ("=", "\\", "`", "|", "F"):
            await driver.send(keys)
            assert "npu-tui compare" in driver.rows()[-1]


def test_a_scene_of_one_side_twice_has_no_marks(profiles):
    twice = compared_session(partial(_same, profiles[0]), [profiles[0], profiles[0]])
    assert not any(marks.any() for marks in twice.scene.pair.marks)
    assert not twice.scene.pair.lag.any()
    assert twice.picture.changes == []


def _same(profile: Profile, both: object) -> ProfileComparison:
    del both
    return ProfileComparison(MeasuredSide(profile), MeasuredSide(profile))
