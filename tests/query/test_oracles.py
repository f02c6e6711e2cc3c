"""The profiler's own files, each reproduced by one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asking import cells, ns, rows, tables_at

if TYPE_CHECKING:
    from conftest import Sample

KERNELS = """
SELECT name, type, core, start_ns, duration, wait, step FROM kernels
UNION ALL
SELECT name, type, 'HCCL' AS core, start_ns, duration, NULL AS wait, step FROM collectives
ORDER BY start_ns, name
"""

OPERATORS = """
SELECT type, core, count(*) AS calls, sum(duration) AS total, min(duration) AS shortest, max(duration) AS longest
FROM kernels GROUP BY type, core
UNION ALL
SELECT type, 'HCCL' AS core, count(*) AS calls, sum(duration) AS total, min(duration) AS shortest,
       max(duration) AS longest
FROM collectives GROUP BY type
ORDER BY type, core
"""

CALLS = """
SELECT split_part(name, '@', 1) AS level, split_part(name, '@', 2) AS call, count(*) AS calls, sum(duration) AS total,
       min(duration) AS shortest, max(duration) AS longest
FROM slices WHERE kind = 'cann' GROUP BY level, call
"""

STEPS = """
SELECT step, computing, not_overlapped, overlapped, communication, free, stage, bubble, preparing FROM steps
"""

LEVELS = {"AscendCL": "acl", "Node": "node", "Model": "model", "Hccl": "hccl", "Communication": "communication"}


def test_kernel_details_is_one_statement(level1: Sample) -> None:
    theirs = sorted(cells(level1.path, "kernel_details.csv"), key=lambda row: (ns(row["Start Time(us)"]), row["Name"]))
    ours = rows(tables_at(level1.path), KERNELS)
    assert len(ours) == len(theirs) > 100
    for own, row in zip(ours, theirs, strict=True):
        assert (own["name"], own["type"], own["core"]) == (row["Name"], row["Type"], row["Accelerator Core"])
        assert abs(own["start_ns"] - ns(row["Start Time(us)"])) <= 1
        assert abs(own["duration"] - ns(row["Duration(us)"])) <= 2
        assert own["step"] == int(row["Step Id"])
        if own["core"] != "HCCL":
            assert abs(own["wait"] - ns(row["Wait Time(us)"])) <= 2


def test_op_statistic_is_one_statement(level1: Sample) -> None:
    theirs = {(row["OP Type"], row["Core Type"]): row for row in cells(level1.path, "op_statistic.csv")}
    ours = rows(tables_at(level1.path), OPERATORS)
    kinds = {(own["type"], own["core"]) for own in ours}
    assert {key for key in theirs if key[1] not in ("HCCL", "COMMUNICATION")} <= kinds
    for own in ours:
        row = theirs.get((own["type"], own["core"]))
        if row is None:
            assert own["core"] == "HCCL"  # msprof lists kernels only
            continue
        assert own["calls"] == int(row["Count"])
        assert abs(own["total"] - ns(row["Total Time(us)"])) <= own["calls"] + 10
        assert abs(own["shortest"] - ns(row["Min Time(us)"])) <= 1
        assert abs(own["longest"] - ns(row["Max Time(us)"])) <= 1


def test_api_statistic_is_one_statement(level1: Sample) -> None:
    ours = {(LEVELS[own["level"]], own["call"]): own for own in rows(tables_at(level1.path), CALLS)}
    theirs = cells(level1.path, "api_statistic.csv")
    assert len(theirs) == len(ours) > 50
    for row in theirs:
        own = ours[row["Level"], row["API Name"]]
        assert own["calls"] == int(row["Count"])
        assert abs(own["total"] - ns(row["Time(us)"])) <= 10
        assert abs(own["shortest"] - ns(row["Min(us)"])) <= 1
        assert abs(own["longest"] - ns(row["Max(us)"])) <= 1


def test_step_trace_time_is_one_statement(profile: Sample) -> None:
    theirs = cells(profile.path, "step_trace_time.csv")
    ours = rows(tables_at(profile.path), STEPS)
    headings = {
        "computing": "Computing",
        "not_overlapped": "Communication(Not Overlapped)",
        "overlapped": "Overlapped",
        "communication": "Communication",
        "free": "Free",
        "stage": "Stage",
        "bubble": "Bubble",
        "preparing": "Preparing",
    }
    assert [own["step"] for own in ours] == [int(row["Step"]) for row in theirs]
    for own, row in zip(ours, theirs, strict=True):
        for name, heading in headings.items():
            assert abs(own[name] - ns(row[heading])) <= (300 if name in ("stage", "preparing") else 60), name
