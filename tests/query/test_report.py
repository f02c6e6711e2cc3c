"""Tables against our own JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from asking import FIXTURES, rows, tables_at
from measured import answers, profile_at

from npu_tui.output.report import report
from npu_tui.query.frames import tables_of

if TYPE_CHECKING:
    from conftest import Sample

SAMPLES = ["healthy", "dispatch_bound", "communication_bound", "msprof_two_devices/msprof", "mindspore", "kineto"]


@pytest.fixture(scope="session", params=[name for name in SAMPLES if (FIXTURES / name).exists()])
def fixture(request: pytest.FixtureRequest) -> Path:
    return FIXTURES / str(request.param)


def us(value: Any) -> float | None:
    return None if value is None else round(value / 1000, 3)


def agrees(path: Path, told: dict[str, Any]) -> None:
    tables = tables_at(path)
    (whole,) = rows(tables, "SELECT * FROM profile")
    trace = told["trace"]
    assert (whole["start_ns"], us(whole["span"])) == (trace["start_ns"], trace["span_us"])
    assert (whole["events"], whole["slices"], whole["links"]) == (trace["events"], trace["slices"], trace["links"])
    assert rows(tables, "SELECT count(*) AS n FROM slices") == [{"n": trace["slices"]}]
    layers = {row["name"]: row["slices"] for row in told["layers"] if row["slices"]}
    assert {row["layer"]: row["n"] for row in rows(tables, "SELECT layer, count(*) n FROM slices GROUP BY layer")} == (
        layers if len(layers) == sum(bool(row["slices"]) for row in told["layers"]) else _summed(told["layers"])
    )
    links = rows(
        tables,
        "SELECT category, min(latency) least, median(latency) middle, quantile_cont(latency, 0.9) p90, max(latency) "
        "most, count(DISTINCT CASE WHEN latency < 0 THEN link END) negative FROM links GROUP BY category",
    )
    assert {
        row["category"]: [us(row["least"]), us(row["middle"]), us(row["p90"]), us(row["most"])] for row in links
    } == {row["category"]: list(row["latency_us"].values()) for row in told["links"]}
    operators = rows(tables, "SELECT type, core, calls, total, shortest, longest FROM operators")
    assert [
        (r["type"], r["core"], r["calls"], us(r["total"]), us(r["shortest"]), us(r["longest"])) for r in operators
    ] == [(r["type"], r["core"], r["count"], r["total_us"], r["min_us"], r["max_us"]) for r in told["operators"]]
    grouped = rows(tables, "SELECT type, core, count(*) n, sum(duration) t FROM kernels GROUP BY type, core")
    assert {(r["type"], r["core"]): (r["n"], us(r["t"])) for r in grouped} == {
        (r["type"], r["core"]): (r["count"], r["total_us"]) for r in told["operators"]
    }
    calls = rows(tables, "SELECT level, name, calls, total FROM apis")
    assert [(r["level"], r["name"], r["calls"], us(r["total"])) for r in calls] == [
        (r["level"], r["name"], r["count"], r["total_us"]) for r in told["apis"]
    ]
    _dispatch(tables, told)
    _communication(tables, told)
    found = rows(tables, "SELECT id, severity, title, detail, gain, start FROM findings ORDER BY number")
    assert [(r["id"], r["severity"], r["title"], r["detail"], us(r["gain"])) for r in found] == [
        (r["id"], r["severity"], r["title"], r["detail"], r["gain_us"]) for r in told["findings"]
    ]
    places = rows(tables, "SELECT count(*) n FROM evidence")
    assert places == [{"n": sum(len(r["evidence"]) for r in told["findings"])}]


def _summed(layers: list[dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in layers:
        if row["slices"]:
            found[row["name"]] = found.get(row["name"], 0) + row["slices"]
    return found


def _dispatch(tables: Any, told: dict[str, Any]) -> None:
    parts = told["dispatch"] if isinstance(told["dispatch"], list) else [told["dispatch"]]
    parts = [part for part in parts if part["links"]]
    found = rows(
        tables,
        "SELECT device, count(*) links, count(*) FILTER (WHERE class = 'near-vertical') near, "
        "count(*) FILTER (WHERE class = 'shallow') shallow, count(*) FILTER (WHERE starved) starved, sum(lost) lost "
        "FROM launches GROUP BY device ORDER BY device",
    )
    assert [
        (r["device"], r["links"], r["near"], r["shallow"], r["starved"]) for r in found
    ] == [(p["device"], p["links"], p["near_vertical"], p["shallow"], p["starved"]) for p in parts]  # fmt: skip
    for row, part in zip(found, parts, strict=True):
        assert row["lost"] / 1000 == pytest.approx(part["lost_us"], abs=0.001)
    lines = rows(tables, "SELECT file, line, function, lost, launches FROM code_lines")
    assert [(r["file"], r["line"], r["function"], us(r["lost"]), r["launches"]) for r in lines] == [
        (r["file"], r["line"], r["function"], r["lost_us"], r["launches"]) for p in parts for r in p["code_lines"]
    ]
    own = rows(tables, "SELECT file, line, sum(lost) lost, count(*) n FROM launches WHERE lost > 0 GROUP BY file, line")
    assert sum(r["lost"] for r in own) / 1000 == pytest.approx(sum(p["lost_us"] for p in parts), abs=0.01)
    assert {(r["file"], r["line"], r["n"]) for r in own} == {
        (file, line, n) for (file, line), n in _by_place(lines).items()
    }
    free = rows(
        tables, "SELECT sum(duration) free, sum(host_late) late, sum(device_side) side, sum(unlinked) none FROM free"
    )[0]
    overlap = told["overlap"]
    if overlap["free_us"] is not None and rows(tables, "SELECT 1 FROM free LIMIT 1"):
        assert us(free["free"]) == overlap["free_us"]
        if overlap["free_host_late_us"] is not None:
            kept = (free["late"], free["side"], free["none"])
            parts_of = ("free_host_late_us", "free_device_side_us", "free_unlinked_us")
            assert [each / 1000 for each in kept] == pytest.approx([overlap[name] for name in parts_of], abs=0.01)


def _by_place(lines: list[dict[str, Any]]) -> dict[tuple[Any, Any], int]:
    found: dict[tuple[Any, Any], int] = {}
    for row in lines:
        key = row["file"], row["line"]
        found[key] = found.get(key, 0) + row["launches"]
    return found


def _communication(tables: Any, told: dict[str, Any]) -> None:
    found = rows(tables, "SELECT * FROM collectives")
    names = ("wait", "transit", "synchronization", "idle", "longest_wait")
    assert [
        (r["name"], r["type"], r["group_name"], us(r["start"]), us(r["duration"]), *(us(r[name]) for name in names),
         r["size"], r["peer_rank"])
        for r in found
    ] == [
        (r["name"], r["type"], r["group"], r["start_us"], r["elapsed_us"], *(r[f"{name}_us"] for name in names),
         r["size_bytes"], r["peer_rank"])
        for r in told["communication"]
    ]  # fmt: skip
    arrivals = rows(tables, "SELECT peer_rank, after FROM arrivals")
    assert [(r["peer_rank"], us(r["after"])) for r in arrivals] == [
        (a["rank"], a["after_us"]) for r in told["communication"] for a in r["arrivals"] or ()
    ]


def test_tables_say_what_the_report_says(fixture: Path) -> None:
    agrees(fixture, answers(profile_at(fixture).trace, opened=fixture))


@pytest.mark.parametrize("real", ["level0/rank0", "level1/rank1", "single_card"], indirect=True)
def test_tables_say_what_the_report_says_of_real_profiles(real: Sample) -> None:
    agrees(real.path, answers(real.trace, opened=real.path))


def test_steps_are_those_of_the_report(fixture: Path) -> None:
    told = answers(profile_at(fixture).trace, opened=fixture)["steps"]
    found = rows(
        tables_at(fixture),
        "SELECT name, step, sum(computing) computing, sum(free) free, sum(communication) communication FROM steps "
        "GROUP BY name, step ORDER BY step",
    )
    if any(row["computing_us"] is not None for row in told):
        assert [(r["name"], r["step"], us(r["computing"]), us(r["free"]), us(r["communication"])) for r in found] == [
            (r["name"], r["step"], r["computing_us"], r["free_us"], r["communication_us"]) for r in told
        ]


def test_a_profile_without_a_trace_has_its_tables(traces: Path) -> None:
    profile = profile_at(traces / "job4" / "rank_0_ascend_pt")
    tables, told = tables_of(profile), report(profile)
    calls = rows(tables, "SELECT level, name, calls, total FROM apis")
    assert [(r["name"], r["calls"], us(r["total"])) for r in calls] == [
        (r.name, r.count, r.total_us) for r in told.apis
    ]
    kinds = rows(tables, "SELECT type, calls, total FROM operators")
    assert [(r["type"], r["calls"], us(r["total"])) for r in kinds] == [
        (r.type, r.count, r.total_us) for r in told.operators
    ]
    found = rows(tables, "SELECT name, start, wait FROM collectives")
    assert [(r["name"], us(r["start"]), us(r["wait"])) for r in found] == [
        (r.name, r.start_us, r.wait_us) for r in told.communication
    ]
    (step,) = rows(tables, "SELECT computing, free, start FROM steps")
    assert (us(step["computing"]), us(step["free"]), step["start"]) == (
        told.steps[0].computing_us, told.steps[0].free_us, None,
    )  # fmt: skip
    assert rows(tables, "SELECT count(*) n FROM kernels") == [{"n": sum(r.count for r in told.operators)}]
