"""Keys that go from place to place, and a walk through a profile with nothing but what the screen tells."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from driving import opened

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from launch_groups import COMPILED, COMPILED_CALL, GRAPH, GRAPH_CALL, launch_groups
from measured import session_of

from npu_tui.analysis.calls import host_operators, launched_in
from npu_tui.analysis.overlap import free_slices
from npu_tui.analysis.ranges import namesakes
from npu_tui.load.load import load
from npu_tui.trace.model import FORWARD_BACKWARD
from npu_tui.trace.text import duration_text
from npu_tui.tui.app import NpuTui
from npu_tui.tui.footer import StatusLine
from npu_tui.view.moves import links_of, siblings
from npu_tui.view.outline import lane_key
from npu_tui.view.scene import Selected


def status(driver) -> str:
    return str(driver.main.query_one(StatusLine).render())


# --- forward and backward


async def test_one_key_shows_the_forward_and_the_backward_operation_of_the_selection(session):
    trace = session.scene.traces[0]
    operators = host_operators(trace)
    at = int(np.flatnonzero(operators.backward)[0])
    forward, times = int(operators.item[at]), (operators.device_total[at], operators.backward[at])
    assert len(links_of(trace, forward, FORWARD_BACKWARD).out) == 1
    backward = int(trace.links.target_slice[links_of(trace, forward, FORWARD_BACKWARD).out[0]])
    lengths = [duration_text(int(trace.slices.end[item] - trace.slices.start[item])) for item in (forward, backward)]
    words = [f"{length}, device {duration_text(int(time))}" for length, time in zip(lengths, times, strict=True)]
    async with opened(session) as driver:
        driver.explorer.select(Selected(0, forward))
        await driver.press("%")
        assert status(driver).startswith(f"forward {words[0]}   backward {words[1]}   {trace.name_of(backward)}")
        for key, item, said in (("forward", forward, words[0]), ("backward", backward, words[1])):
            parts = key, trace.name_of(item), said
            assert any(all(part in line for part in parts) for line in driver.text().splitlines())
        view, rows = driver.state.viewport, driver.explorer.rows
        assert view.start <= trace.slices.start[forward]
        assert trace.slices.end[backward] <= view.end
        lanes = {(row.lane, row.depth) for row in rows}
        assert {(int(trace.slices.lane[item]), int(trace.slices.depth[item])) for item in (forward, backward)} <= lanes
        await driver.press("%")
        assert driver.state.selection.item == backward
        await driver.press("%")
        assert driver.state.selection.item == forward
        driver.explorer.select(Selected(0, int(launched_in(trace, backward)[0])))
        await driver.press("%")
        assert driver.state.selection.item == backward
        await driver.press("escape")
        assert len(driver.explorer.rows) > len(rows)
        step = next(item for item in range(len(trace.slices)) if trace.name_of(item).startswith("Optimizer.step"))
        driver.explorer.select(Selected(0, step))
        await driver.press("%")
        assert status(driver).startswith(f"no fwd→bwd link starts or ends in {trace.name_of(step)}")
        assert driver.main.contents.lines.view == "passes"  # those that have both
        await driver.press("I", "I")
        await driver.settle()
        before = driver.state.viewport, driver.state.selection, driver.explorer.list.only
        await driver.press("%")
        assert (driver.state.viewport, driver.state.selection, driver.explorer.list.only) == before


# --- slices of the same name, siblings, bubbles, steps


async def test_namesakes_come_in_the_order_of_time_with_their_place_among_them(session):
    trace = session.scene.traces[0]
    async with opened(session) as driver:
        await driver.press("x", "}")
        item = driver.state.selection.item
        found = namesakes(trace, item)
        assert trace.slices.start[item] > session.profiles[0].starved[0].start
        words = status(driver)
        assert words.startswith(f"{found.at + 1:,} of {len(found.items):,} of this name: ")
        assert f"   {driver.selected} · " in words
        assert f"median {duration_text(found.median)}" in words
        assert f"percentile {found.percentile:.0f}   " in words
        await driver.press("{", "{", "{", "{")
        assert driver.state.selection.item == found.items[0]
        assert "no further" in status(driver)


def test_the_percentile_is_the_share_that_lasts_no_longer(session):
    trace = session.scene.traces[0]
    for item in range(0, len(trace.slices), 97):
        found = namesakes(trace, item)
        lasting = [int(trace.slices.end[other] - trace.slices.start[other]) for other in found.items]
        own = lasting[found.at]
        assert found.percentile == pytest.approx(100 * sum(time <= own for time in lasting) / len(lasting))
        assert found.median == pytest.approx(np.median(lasting))
        assert {trace.name_of(int(other)) for other in found.items} == {trace.name_of(item)}


async def test_bubbles_are_the_slices_of_the_free_lane(session):
    trace = session.scene.traces[0]
    items = free_slices(trace)
    async with opened(session) as driver:
        await driver.press("0", "0")
        driver.explorer.go_to(0)
        seen = []
        for _ in range(3):
            await driver.press("b")
            seen.append(driver.state.selection.item)
        assert seen == [int(item) for item in items if trace.slices.start[item] > 0][:3]
        free = duration_text(int(trace.slices.end[seen[-1]] - trace.slices.start[seen[-1]]))
        assert status(driver).startswith(f"bubble {items.tolist().index(seen[-1]) + 1} of {len(items)}: idle {free}: ")
        await driver.press("B")
        assert driver.state.selection.item == seen[1]
        inside = int(trace.slices.start[seen[2]] + trace.slices.end[seen[2]]) // 2
        driver.explorer.state.selection = None
        driver.explorer.go_to(inside)
        await driver.press("b")
        assert driver.state.selection.item == seen[2]


async def test_steps_are_fitted_one_after_the_other(session):
    steps = session.scene.steps()
    async with opened(session) as driver:
        await driver.press("0", "0")
        driver.explorer.go_to(0)
        for start, end, _ in steps:
            await driver.press(">")
            assert driver.state.cursor == start
            assert driver.explorer.fitted == (start, end)
        await driver.press(">")
        assert "last step" in status(driver)
        await driver.press("<")
        assert driver.state.cursor == steps[-2][0]


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    """A graph with one id for five kernels, a call with three launches, and launches with one kernel each."""
    path = tmp_path_factory.mktemp("launches") / "trace_view.json"
    path.write_bytes(launch_groups())
    return session_of(load(path))


def slice_called(session, name: str) -> Selected:
    trace = session.scene.traces[0]
    return Selected(0, next(item for item in range(len(trace.slices)) if trace.name_of(item) == name))


@pytest.mark.parametrize(
    ("call", "kernels"), [(GRAPH_CALL, GRAPH), (COMPILED_CALL, COMPILED)], ids=["one id", "one call"]
)
async def test_siblings_are_what_one_launch_led_to(groups, call, kernels):
    names, count = [name for name, *_ in kernels], len(kernels)
    async with opened(groups) as driver:
        driver.explorer.select(slice_called(groups, call))
        for n, name in enumerate(names, 1):
            await driver.send(")")
            assert (driver.selected, status(driver).partition("   ")[0]) == (
                name,
                f"kernel {n} of {count} launched together",
            )
        await driver.send(")")
        assert driver.selected == names[-1]
        assert status(driver).startswith(f"no further kernel of the {count} launched together")
        for n, name in reversed(list(enumerate(names[:-1], 1))):
            await driver.send("(")
            assert (driver.selected, status(driver).partition("   ")[0]) == (
                name,
                f"kernel {n} of {count} launched together",
            )
        await driver.send("(")
        assert driver.selected == names[0]
        assert status(driver).startswith(f"no further kernel of the {count} launched together")
        driver.explorer.select(slice_called(groups, call))
        await driver.send("(")
        assert driver.selected == names[-1]
        await driver.send("[")
        assert driver.selected == call


async def test_a_launch_with_one_kernel_has_no_siblings(groups):
    async with opened(groups) as driver:
        for name in ("Node@launch", "aclnnAdd_AddAiCore_Add", "EVENT_RECORD", "ProfilerStep#7"):
            selected = slice_called(groups, name)
            driver.explorer.select(selected)
            for key in "()":
                await driver.send(key)
                assert driver.state.selection == selected
                assert status(driver).startswith("nothing else was launched with it")


async def test_kernels_of_one_operation_are_siblings_where_each_has_a_launch_of_its_own(session):
    trace = session.scene.traces[0]
    operation = next(item for item in range(len(trace.slices)) if len(siblings(trace, item, "async_npu")) == 4)
    kernels = siblings(trace, operation, "async_npu")
    assert all(len(links_of(trace, kernel).into) == 2 for kernel in kernels)
    async with opened(session) as driver:
        driver.explorer.select(Selected(0, kernels[1]))
        await driver.send(")")
        assert driver.state.selection.item == kernels[2]
        assert status(driver).startswith("kernel 3 of 4 launched together")


async def test_one_rank_cannot_be_aligned(session):
    async with opened(session) as driver:
        for key in ("L", "R"):
            await driver.press(key)
            assert status(driver) == "there is only one rank to align"


# --- rows


async def test_pinned_lanes_stay_on_top_while_the_others_scroll(session):
    async with opened(session, (120, 30)) as driver:
        await driver.press("x", "p")
        pinned = lane_key(driver.explorer.focused)
        assert driver.explorer.rows[0].pinned
        assert "is pinned on top" in status(driver)
        await driver.press("G")
        shown = [driver.explorer.rows[index] for index in driver.timeline.frame.lane_rows if index >= 0]
        assert lane_key(shown[0]) == pinned
        assert lane_key(shown[-1]) == lane_key(driver.explorer.rows[-1])
        assert any(row.startswith("^") for row in driver.rows())
        await driver.press("g", "g", "p")
        assert not driver.explorer.rows[0].pinned
        assert driver.state.pinned == 0


async def test_pinned_rows_take_at_most_half_of_the_screen(session):
    async with opened(session, (80, 24)) as driver:
        for _ in range(12):
            await driver.press("p", "G")
        height = len(driver.timeline.frame.lane_rows)
        assert driver.state.pinned <= height // 2
        await driver.press("G")
        assert driver.explorer.rows[driver.state.focus] is driver.explorer.rows[-1]
        assert driver.state.focus in driver.timeline.frame.lane_rows


async def test_hidden_lanes_are_counted_and_come_back(session):
    async with opened(session) as driver:
        await driver.press("x")
        selected, before = driver.state.selection, [lane_key(row) for row in driver.explorer.rows]
        hidden = lane_key(driver.explorer.focused)
        await driver.press("H")
        assert hidden not in [lane_key(row) for row in driver.explorer.rows if row.kind != "hidden"]
        assert "1 hidden" in driver.text()
        driver.explorer.select(selected)
        assert hidden in [lane_key(row) for row in driver.explorer.rows]
        await driver.press("H")
        at = next(i for i, row in enumerate(driver.explorer.rows) if row.kind == "hidden")
        driver.state.focus = at
        await driver.press("space")
        assert sorted(map(lane_key, driver.explorer.rows)) == sorted(before)
        await driver.press("j", "H")
        await driver.run("show_hidden")
        assert "shown again" in status(driver)


async def test_rows_without_a_slice_in_view_are_left_out_and_come_back_with_the_view(session):
    async with opened(session, (120, 60)) as driver:
        await driver.press("x", "f")
        whole = len(driver.explorer.rows)
        await driver.press("i")
        few = len(driver.explorer.rows)
        view = driver.state.viewport
        for row in driver.explorer.rows:
            if not row.opener and row.rows is not None:
                own = slice(*row.rows.offset[[row.row, row.row + 1]].tolist())
                inside = (row.rows.start[own] < view.end) & (row.rows.end[own] > view.start)
                assert inside.any()
        await driver.press("0", "0")
        assert len(driver.explorer.rows) >= few
        await driver.press("i")
        assert len(driver.explorer.rows) == whole or whole >= few


# --- what can do nothing says why


async def test_disabled_commands_give_their_reason_in_the_help(session):
    async with opened(session, (140, 60)) as driver:
        reasons = driver.main.why_not()
        assert reasons["align_start"] == "there is only one rank to align"
        assert reasons["hit_next"] == "no hits yet: / searches"
        assert "starved_next" not in reasons
        await driver.press("?", *"align")
        assert "there is only one rank" in " ".join(driver.text().split())
        await driver.press("?")
        driver.search("Gelu")
        await driver.press("x", "v", "d", "v")
        assert not {"hit_next", "range_zoom", "fit"} & set(driver.main.why_not())


async def test_the_first_run_leads_to_the_first_starved_launch_and_is_remembered(session, tmp_path):
    seen = tmp_path / "data" / "seen"
    async with opened(session, app=NpuTui(session=session, seen=seen)) as driver:
        assert f"x goes to the {len(session.profiles[0].starved)} launches" in status(driver)
        await driver.press("d")
        assert "x goes to" in status(driver)
        assert not seen.exists()
        await driver.press("x")
        assert seen.exists()
        await driver.press("escape", "d")
        assert "zoom" in status(driver)
    async with opened(session, app=NpuTui(session=session, seen=seen)) as driver:
        assert "zoom" in status(driver)


async def test_the_first_run_leads_to_the_findings_where_dispatch_does_not_come_first(tmp_path):
    bound = session_of(load(Path("fixtures") / "communication_bound"))
    async with opened(bound, app=NpuTui(session=bound, seen=tmp_path / "seen")) as driver:
        assert bound.profiles[0].findings.findings[0].cls != "dispatch"
        assert "e goes to the first finding" in status(driver) or "e: the first finding" in status(driver)
