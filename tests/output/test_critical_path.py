"""The critical path in every answer: it tiles the run, its owners add up to it, and all answers say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import opened
from written import fields_of

from npu_tui.analysis.device import Window
from npu_tui.analysis.path import Owner
from npu_tui.analysis.questions import UnknownChangeError
from npu_tui.analysis.replay import NO_CHANGE, Change, HostCut, TaskCut
from npu_tui.gate.measures import measures
from npu_tui.output.report import MOST_ROWS, sections_of
from npu_tui.output.report_tables import owners_table
from npu_tui.output.whatif import remedies, whatif
from npu_tui.profile.parts import Selection
from npu_tui.profile.profile import Profile
from npu_tui.rules.judged_path import JudgedPath, explained
from npu_tui.rules.model import Finding, Remedy
from npu_tui.strings import words
from npu_tui.trace.message import message

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = [
    "clock_offset", "communication_bound", "dispatch_bound", "healthy", "interrupted", "kineto", "level0", "mindspore",
    "msprof_two_devices", "newest_torch_npu", "older_chip", "two_ranks/rank0_ascend_pt", "chrome_generic/lines.json",
]  # fmt: skip
REAL = [
    "single_card", "text/level1/rank0_ascend_pt", "text/level1/rank1_ascend_pt", "text/level0/rank0_ascend_pt",
    "text/level0/rank1_ascend_pt", "db/level1/rank0_ascend_pt", "db/level1/rank1_ascend_pt",
    "db/level0/rank0_ascend_pt", "db/level0/rank1_ascend_pt", "job4/rank_0_ascend_pt", "inference/sglang_decode",
    "inference/vllm_decode_full", "inference/vllm_prefilldecode_piecewise",
    "gpu/Falconsai_nsfw_image_detection__1016002.json.gz", "gpu/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "gpu/gaunernst_bert-small-uncased__1016001.json.gz",
]  # fmt: skip


def said(name: str, **part: Any) -> list[dict[str, Any]]:
    """The paths of the JSON report by device."""
    paths = fields_of(opened(name).report(**part).json())["critical_path"]
    return paths if isinstance(paths, list) else [paths]


def tiles(told: JudgedPath) -> None:
    assert told.owners is not None
    path, owners = told.owners.path, told.owners.owners
    assert (path.start[1:] == path.end[:-1]).all()
    assert (path.end > path.start).all()
    assert sum(owner.on_path for owner in owners) == path.length
    assert sum(owner.count for owner in owners) == len(path)
    of_owner = np.bincount(told.owners.owner, path.end - path.start, len(owners)).astype(np.int64)
    assert of_owner.tolist() == [owner.on_path for owner in owners]


@pytest.mark.few(7)
@pytest.mark.parametrize("name", [*FIXTURES, *REAL])
def test_stretches_are_the_run(name: str) -> None:
    profile = opened(name).measured
    for told, facts in zip(profile.critical_paths, profile._judged, strict=True):
        assert (told.owners is None) == (told.reason is not None) == (facts.replay is None)
        if told.owners is not None:
            tiles(told)
            assert facts.replay is not None
            assert facts.warm_up or told.owners.path.length == facts.replay.recorded


@pytest.mark.few(7)
@pytest.mark.parametrize("name", [*FIXTURES, *REAL])
def test_json_adds_up(name: str) -> None:
    for path in said(name):
        if not path["told"]:
            assert path["reason"]
            assert not path["owners"]
            continue
        assert path["reason"] is None
        assert round(sum(row["on_path_us"] for row in path["owners"]), 3) == path["length_us"]
        assert sum(row["ratio"] for row in path["owners"]) == pytest.approx(1, abs=1e-4)
        assert [row["number"] for row in path["owners"]] == list(range(1, len(path["owners"]) + 1))
        assert len(path["stretches"]) == min(path["stretch_count"], MOST_ROWS)
        if path["stretch_count"] <= MOST_ROWS:
            times = [round(row["end_us"] - row["start_us"], 3) for row in path["stretches"]]
            assert round(sum(times), 3) == path["length_us"]
            for number, owner in enumerate(path["owners"]):
                own = [time for time, row in zip(times, path["stretches"], strict=True) if row["owner"] == number]
                assert (round(sum(own), 3), len(own)) == (owner["on_path_us"], owner["count"])
        starts = [row["start_us"] for row in path["stretches"]]
        assert starts == sorted(starts)


@pytest.mark.few(7)
@pytest.mark.parametrize("name", [*FIXTURES, *REAL])
def test_owners_are_told_apart(name: str) -> None:
    for path in said(name):
        titles = [row["title"] for row in path["owners"] if "…" not in row["title"]]
        assert len(titles) == len(set(titles))
        assert all(title == title.strip() and "  " not in title and " at 0x" not in title for title in titles)


@pytest.mark.few(7)
@pytest.mark.parametrize("name", [*FIXTURES, *REAL])
def test_sql_is_the_json(name: str) -> None:
    paths = [path for path in said(name) if path["told"]]
    profile = opened(name)
    stretches, owners = profile.critical_path.collect(), profile.path_owners.collect()
    assert stretches.height == sum(path["stretch_count"] for path in paths)
    assert owners.height == sum(len(path["owners"]) for path in paths)
    for path in paths:
        mine = pl.col("device").eq_missing(pl.lit(path["device"], pl.Int64))
        rows = stretches.filter(mine)
        assert (rows["start"][1:] == rows["end"][:-1]).all()
        assert rows["duration"].sum() / 1000 == path["length_us"]
        table = owners.filter(mine).to_dicts()
        for row, told in zip(table, path["owners"], strict=True):
            same = {"number", "kind", "doing", "title", "name", "thread", "finding"}
            assert {key: row[key] for key in same} == {key: told[key] for key in same}
            assert row["on_path"] / 1000 == told["on_path_us"]
            assert row["ratio"] == pytest.approx(told["ratio"], abs=1e-6)
            assert (row["peer_rank"], row["stretches"]) == (told["rank"], told["count"])
            assert (None if row["gain"] is None else row["gain"] / 1000) == told["gain_us"]
            assert (row["per"], row["count"]) == (path["per"], path["count"])
            where = told["where"] or {"file": None, "line": None, "function": None}
            assert [row[key] for key in ("file", "line", "function")] == [*where.values()]
        shown = {(row["start_us"], row["kind"], row["lane"], row["name"], row["owner"]) for row in path["stretches"]}
        listed = {
            (row["start"] / 1000, row["kind"], row["lane"], row["name"], row["owner"] - 1)
            for row in rows.iter_rows(named=True)
        }
        assert shown <= listed


def test_sql_joins_stretches_and_owners() -> None:
    query = "SELECT p.number, SUM(c.duration) AS time, MAX(p.on_path) AS told FROM critical_path c "
    frame = opened("dispatch_bound").sql(query + "JOIN path_owners p ON c.owner = p.number GROUP BY p.number")
    assert frame.height == len(said("dispatch_bound")[0]["owners"])
    assert frame["time"].to_list() == frame["told"].to_list()


@pytest.mark.parametrize(
    ("name", "title", "least", "most"),
    [
        ("dispatch_bound", "tolist at model.py:31 in relative_bias()", 0.336, 0.338),
        ("single_card", "aclopCompileAndExecute", 0.46, 0.48),
        ("text/level1/rank0_ascend_pt", "rank 5 late", 0.9, 0.96),
    ],
)
def test_the_largest_owner(name: str, title: str, least: float, most: float) -> None:
    (path,) = said(name)
    first = path["owners"][0]
    assert first["title"] == title
    assert least < first["ratio"] < most
    assert first["gain_us"] > 0


def test_an_owner_has_its_line_and_its_finding() -> None:
    first = said("dispatch_bound")[0]["owners"][0]
    assert first["name"] == "tolist"
    assert first["where"] == {"file": "model.py", "line": 31, "function": "relative_bias"}
    assert (first["kind"], first["doing"], first["finding"]) == ("host", "work", "HOST.WORK")


def test_a_range_of_a_late_rank() -> None:
    (path,) = said("text/level1/rank0_ascend_pt", range="62ms..137ms")
    assert path["per"] == "range"
    assert path["length_us"] == 75_000
    assert (path["owners"][0]["kind"], path["owners"][0]["rank"]) == ("late_rank", 5)
    assert path["owners"][0]["ratio"] > 0.9


@given(st.tuples(st.integers(0, 28_000_000), st.integers(1, 28_000_000)))
def test_any_range_is_tiled(bounds: tuple[int, int]) -> None:
    start, length = bounds
    part = opened("dispatch_bound").measured.part(Selection(Window(start, start + length)))
    for told in part.critical_paths:
        if told.owners is not None:
            tiles(told)
            path = told.owners.path
            assert not len(path) or start <= path.start[0] + told.floor <= path.end[-1] + told.floor <= start + length
            assert all((owner.gain or 0) <= owner.on_path for owner in told.owners.owners)


@pytest.mark.parametrize("step", [20, 21, 22])
def test_a_step(step: int) -> None:
    (path,) = said("dispatch_bound", step=step)
    assert (path["per"], path["count"]) == ("step", 1)
    assert round(sum(row["on_path_us"] for row in path["owners"]), 3) == path["length_us"]
    assert path["owners"][0]["name"] == "tolist"
    assert all((row["gain_us"] or 0) <= row["on_path_us"] for row in path["owners"])


def test_several_devices_are_a_list() -> None:
    answer = fields_of(opened("msprof_two_devices").report().json())["critical_path"]
    assert [path["device"] for path in answer] == [0, 1]
    written = opened("msprof_two_devices").report().text()
    assert "Where the iteration goes on device 1" in written


def test_without_a_device_the_reason_is_told() -> None:
    (path,) = said("chrome_generic/lines.json")
    assert path == {
        "told": False, "reason": "No device does anything here", "device": None, "per": None, "count": None,
        "length_us": None, "clock_floor_us": None, "owners": [], "stretch_count": 0, "stretches": [],
    }  # fmt: skip
    assert opened("chrome_generic/lines.json").critical_path.collect().height == 0


def test_a_run_that_cannot_be_replayed_says_so_in_a_sentence() -> None:
    told = opened("job4/rank_0_ascend_pt").report().text()
    assert "No critical path is told. No launch leads to the device, so nothing says what it waited for." in told


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
@pytest.mark.parametrize("part", [{}, {"step": 21}, {"range": "3ms..20ms"}])
def test_a_page_adds_up(form: str, part: dict[str, Any]) -> None:
    found = opened("dispatch_bound").report(**part)
    word = "range" if "range" in part else "step"
    assert f"Where the {word} goes" in str(getattr(found, form)())
    (path,) = found.data.critical_paths  # type: ignore[union-attr]
    table = owners_table(path)
    at = table.columns.index("share")
    assert sum(row[at].sort or 0 for row in table.shown(100)) == pytest.approx(1, abs=1e-5)
    assert len(table.rows) <= 10


def test_a_gate_does_without_the_path() -> None:
    found = sections_of(Profile(opened("healthy").measured.trace))
    assert measures(found).times["device"]
    assert {"overlap", "steps", "dispatch"} <= vars(found).keys()
    assert "critical_path" not in vars(found)


# What-if, and findings.


@pytest.mark.parametrize("name", ["dispatch_bound", "interrupted", "single_card", "text/level1/rank0_ascend_pt"])
def test_whatif_gains_what_the_owner_does(name: str) -> None:
    (path,) = said(name)
    for row in path["owners"]:
        if row["gain_us"] is not None and row["number"] <= 6:
            answer = whatif(opened(name).measured, [f"owner {row['number']}"])
            assert answer.changes[0].alone_us == pytest.approx(row["gain_us"], abs=0.01)


def test_an_owner_is_called_by_its_name_or_line() -> None:
    profile = opened("dispatch_bound").measured
    asked = [
        "owner 1", "owner tolist", "OWNER  model.py:31", "owner tolist at model.py:31", "owner tolist model.py",
        "owner tolist at model.py:31 in relative_bias()", "owner model.py:31 relative_bias() 的 tolist",
    ]  # fmt: skip
    gains = {whatif(profile, [each]).gain_us for each in asked}
    assert len(gains) == 1
    owners = said("dispatch_bound")[0]["owners"]
    launching = [row["number"] for row in owners if row["name"] == "launching"]
    together = whatif(profile, ["owner launching"]).changes[0]
    assert len(launching) > 1
    assert all(together.alone_us > whatif(profile, [f"owner {number}"]).changes[0].alone_us for number in launching)


@pytest.mark.parametrize("asked", ["owner 0", "owner 999", "owner " + "9" * 5000, "owner nobody", "owner to"])
def test_no_owner_is_called_so(asked: str) -> None:
    with pytest.raises(UnknownChangeError) as error:
        whatif(opened("dispatch_bound").measured, [asked])
    assert error.value.message.code == "whatif.no_owner"
    assert "1 tolist at model.py:31 in relative_bias()" in words(error.value.message)


def test_nobody_can_do_without_kernels() -> None:
    with pytest.raises(UnknownChangeError) as error:
        whatif(opened("healthy").measured, ["owner MatMulV2"])
    assert words(error.value.message) == (
        "MatMulV2 at model.py:58 in forward() is on the critical path, but nobody can do without it"
    )


def test_owners_are_offered() -> None:
    profile = opened("dispatch_bound").measured
    offered = [row.text for row in remedies(profile).changes if row.text.startswith("owner ")]
    assert offered[0] == "owner tolist at model.py:31"
    for change in remedies(profile).changes:
        assert whatif(profile, [change.text]).changes[0].alone_us == pytest.approx(change.alone_us, abs=0.01)


def explaining(owner: Owner, findings: list[Finding]) -> Finding | None:
    [found] = explained([owner], findings)
    return found


def _finding(change: Change) -> Finding:
    text = message("path.no_device")
    return Finding("X", "dispatch", "high", text, text, (), (), None, "high", (), remedy=Remedy(change, None, 1))


def test_a_finding_explains_what_it_does_without() -> None:
    (told,) = opened("dispatch_bound").measured.critical_paths
    assert told.owners is not None
    owner = told.owners.owners[0]
    assert owner.change is not None
    (cut,) = owner.change.host
    same = _finding(owner.change)
    assert explaining(owner, [same]) is same
    assert explaining(owner, [_finding(Change(waits=frozenset({1})))]) is None
    assert explaining(owner, [_finding(Change(host=(HostCut(cut.thread + 1, cut.span),)))]) is None
    half = Change(host=(HostCut(cut.thread, (cut.span[0], (cut.span[0] + cut.span[1]) // 2)),))
    assert explaining(owner, [_finding(half)]) is None
    most = Change(host=(HostCut(cut.thread, (cut.span[0], cut.span[1] - (cut.span[1] - cut.span[0]) // 10)),))
    assert explaining(owner, [_finding(half), known := _finding(most)]) is known
    assert explaining(owner, [_finding(NO_CHANGE)]) is None
    (other,) = opened("healthy").measured.critical_paths
    assert other.owners is not None
    kernels = next(row for row in other.owners.owners if row.change is None)
    assert explaining(kernels, [same]) is None


def test_a_finding_about_some_tasks_does_not_explain_all() -> None:
    (told,) = opened("communication_bound").measured.critical_paths
    assert told.owners is not None
    transfer = next(owner for owner in told.owners.owners if owner.kind == "transfer")
    late = next(owner for owner in told.owners.owners if owner.kind == "late_rank")
    assert transfer.change is not None
    items = transfer.change.tasks[0].items
    assert explaining(transfer, [_finding(Change(tasks=(TaskCut(items),)))]) is not None
    assert explaining(transfer, [_finding(Change(tasks=(TaskCut(items[1:]),)))]) is None
    assert explaining(late, [_finding(Change(in_time=frozenset({late.peer, 77})))]) is not None
    assert explaining(late, [_finding(Change(in_time=frozenset({77})))]) is None
