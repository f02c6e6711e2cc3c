"""Stages × micro batches of a job on screen: where it opens, what the cursor walks, the way into a timeline."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from driving import Driver, opened
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "jobs"))
from pipeline_jobs import SITUATIONS, job_of

from npu_tui.jobs.timelines import trace_of_calls
from npu_tui.load.find import find_sources
from npu_tui.load.load import load
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.tui.app import NpuTui
from npu_tui.tui.film import first_with_film, ranks_below
from npu_tui.tui.job_map import natural_lines, parts_rows
from npu_tui.tui.job_overview import Examined, Overview
from npu_tui.tui.job_screen import JobScreen
from npu_tui.tui.ranks import ranks_session
from npu_tui.tui.session import make_session
from npu_tui.view.grid import Grid
from npu_tui.view.outline import default_folds, outline
from npu_tui.view.palette import PALETTES, Ink, Palette
from npu_tui.view.passes import DrawnStage, PassBar, PassesPicture, bar_room, draw_passes
from npu_tui.view.stacked import SharedLanes, is_stacked_row, stacked_rows


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Examined:
    """Four stages, the third of which takes longer."""
    return Examined(job_of(SITUATIONS["middle stage slow"][0], tmp_path_factory.mktemp("pipeline"))[0])


def _lines(view: Overview, width: int, height: int = 6) -> list[str]:
    grid = Grid.blank(height, width, Ink.TEXT, Ink.LANE)
    places = draw_passes(view.passes.picture(view.row, view.column, width), grid)
    assert places.row(2) == 0
    return [grid.text(line).rstrip() for line in range(height)]


def test_a_job_opens_on_the_passes_of_the_slow_stage(slow: Examined):
    view = Overview(slow)
    assert (view.axis, view.rank) == ("pipeline", 2)
    assert view.begun == slow.findings[0].evidence[0].start
    assert view.step == "5"


def test_the_guilty_pass_is_one_key_away(slow: Examined):
    """Enter selects the first kernel of the pass under the cursor in the timeline of its rank."""
    view = Overview(slow)
    source = next(source for source in find_sources(slow.job.path) if source.rank == view.rank)
    profile = Profile(load(source), source)
    session = ranks_session(slow.job, [view.rank], None, None, [profile], begun=view.begun)
    assert session.goal is not None
    start = profile.trace.start_ns + int(profile.trace.slices.start[session.goal.item])
    assert 0 <= start - view.begun < 2_000
    assert profile.compute[session.goal.item]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_every_stage_is_a_line_of_passes(slow: Examined, width: int):
    view = Overview(slow)
    lines = _lines(view, width)
    assert [line[:19].strip(" ▸") for line in lines[2:]] == [f"stage {stage} (rank {stage})" for stage in range(4)]
    assert lines[4].startswith("▸")
    assert all(fill in "".join(lines[2:]) for fill in "█▓╱")
    assert "bubble" in lines[1]
    assert all(line.endswith(" ms") for line in lines[2:])
    if width == 200:
        assert "0.0 to 47.7 ms of 47.67 ms" in lines[0]
        assert all(str(number) in line for number in range(8) for line in lines[2:])


@pytest.mark.parametrize(("width", "height", "lines"), [(80, 7, 2), (120, 7, 2), (120, 6, 1), (200, 7, 1)])
def test_what_the_bubble_is_made_of_is_whole_where_there_are_lines_for_it(
    slow: Examined, width: int, height: int, lines: int
):
    view = Overview(slow)
    picture = view.passes.picture(view.row, view.column, width)
    grid = Grid.blank(height, width, Ink.TEXT, Ink.LANE)
    places = draw_passes(picture, grid)
    assert places.first_line == 1 + lines
    assert natural_lines(view, width)[0] == 1 + lines + len(view.rows) or height < 7
    parts = picture.legend[-1][1]
    shown = grid.text(lines)
    assert (parts in shown) == (width > 80 and height > 6), "120 columns hold all of it on a line of its own"


def test_below_the_stages_stands_what_their_ranks_spend_a_step_on(slow: Examined):
    view = Overview(slow)
    assert view.walk is not None
    assert [part.label for part in parts_rows(view)] == ["0", "1", "2", "3"]


def test_the_cursor_walks_passes_stages_and_steps(slow: Examined):
    view = Overview(slow)
    begun = view.begun
    view.move(1)
    assert view.rank == 3
    run, _ = view.passes.lines[view.row]
    at = view.passes.passes(view.row)[view.column]
    assert run.end[at] + run.apart[3] > begun  # the pass of that time
    for _ in range(16):
        view.move_column(1)
    assert view.step == "6"
    for _ in range(17):
        view.move_column(-1)
    assert view.step == "5"
    for _ in range(99):
        view.move_column(-1)
    assert (view.step, view.column) == ("5", 0)


def test_other_axes_are_as_before(slow: Examined):
    view = Overview(slow)
    seen = [view.next_axis() for _ in range(4)]
    assert seen == ["step", "collective", "time", "pipeline"]
    view.next_metric()
    assert view.axis == "step"


def test_a_finding_leads_to_its_passes(slow: Examined):
    view = Overview(slow)
    view.next_axis()
    assert view.next_finding(1) == 0
    assert (view.axis, view.rank) == ("pipeline", 2)


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
@pytest.mark.parametrize("fill", ["forward", "backward", "other", "tail"])
@pytest.mark.parametrize("cells", [1, 2, 9])
def test_the_selected_pass_is_seen_in_every_palette(palette: Palette, fill: str, cells: int):
    """It keeps its fill: no cell of it has the colour of the ground, and brackets mark it."""

    def drawn(chosen: bool) -> Grid:
        stage = DrawnStage("stage 0", (PassBar(2, 2 + cells, fill, "0", chosen),), "")
        grid = Grid.blank(4, 40, Ink.TEXT, Ink.LANE)
        draw_passes(PassesPicture("passes", (stage,), 1, (("", "bubble"),)), grid)
        return grid

    grid, plain = drawn(True), drawn(False)
    left = bar_room(["stage 0"], [""], 40)[0] + 2
    of_bar = slice(left, left + cells)
    for colours in (palette.rgb, palette.xterm.reshape(-1, 1), palette.ansi.reshape(-1, 1)):
        assert (colours[grid.fg[2, of_bar]] != colours[grid.bg[2, of_bar]]).any(axis=1).all()
    text = grid.text(2)[of_bar]
    assert text == "◆" if cells == 1 else (text[0], text[-1]) == ("[", "]")
    kept = slice(left + 2, left + cells - 1)  # behind bracket and label
    assert grid.text(2)[kept] == plain.text(2)[kept]
    assert (grid.fg[2, kept] == plain.fg[2, kept]).all()


async def test_a_film_is_that_of_the_first_finding_that_has_one(slow: Examined):
    """Of a finding that was gone to it is told why it has none."""
    examined = Examined(slow.job)
    screen = JobScreen(slow.job.path, cached=False)
    screen.show(examined)
    app = NpuTui(job=screen)
    async with app.run_test(size=(120, 40)) as pilot:
        driver = Driver(app, None)
        await pilot.pause()
        examined.findings = [replace(examined.findings[0], id="PIPELINE.BUBBLE"), *examined.findings]
        assert first_with_film(examined) == 1
        played = []
        screen._play = lambda film: played.append(film)  # type: ignore[method-assign,assignment]
        await driver.press("!")
        await pilot.pause()
        assert not isinstance(played[-1], str)
        screen.overview.finding = 0
        await driver.press("!")
        await pilot.pause()
        assert played[-1] == say("film.job_only")


async def test_a_table_of_one_row_has_all_its_lines_for_it(slow: Examined):
    """No sentence is cut beside a row that is blank."""
    screen = JobScreen(slow.job.path, cached=False)
    screen.show(Examined(slow.job))
    app = NpuTui(job=screen)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.pause()
        table = screen.panel.table
        assert table.row_count == 1
        assert table.rows_taken == table.size.height < table.rows_wanted(100)


def test_ranks_of_which_only_calls_are_known_fill_the_rows_of_a_film(slow: Examined):
    known = {profile.rank: profile for profile in slow.job.ranks}
    lanes = {rank: len({group for group, _, _ in profile.calls.kinds}) for rank, profile in known.items()}
    assert ranks_below(known, [2, 0], 0) == []
    assert ranks_below(known, [2, 0], 1_000) == [1, 3]
    assert min(lanes.values()) > 0
    passes = {rank: profile.passes is not None for rank, profile in known.items()}
    three = 2 * sum(lanes[rank] + passes[rank] for rank in (2, 0, 1)) + 2  # with a head of each of both layers
    assert ranks_below(known, [2, 0], three) == [1]


async def test_of_a_rank_without_a_timeline_no_time_is_called_free(slow: Examined):
    """Neither the tab of ranges nor the details make a share or a cause of what is unknown."""
    session = make_session([Profile(trace_of_calls(rank), None) for rank in slow.job.ranks[:2]])
    async with opened(session, (120, 40)) as driver:
        for key in ("5", "3"):
            await driver.press(key)
            await driver.settle()
            text = driver.text()
            assert text.count(say("range.calls_only")[:40]) == 1  # once for all ranks
            assert "0.0%" not in text
            assert say("idle.unlinked") not in text


@pytest.mark.parametrize("heads", [True, False])
def test_rows_are_counted_as_they_are_stacked(slow: Examined, heads: bool):
    """Else lanes fold though there is room for them: heads of traces and of shared layers take none."""
    sources = find_sources(slow.job.path)[:2]
    scene = make_session([Profile(load(source), source) for source in sources]).scene
    scene.stacked = True
    shared = SharedLanes(scene)
    rows = outline(scene, default_folds(scene), lambda trace, lanes: scene.traces[trace].rows, heads)
    stacked = stacked_rows(shared, rows)
    assert sum(is_stacked_row(shared, row) for row in rows) == len(stacked)
    assert (len(stacked) < len(rows)) == heads
