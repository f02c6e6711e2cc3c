"""Dumps of MemScope: the columns of both forms, what they do not tell, damaged and hostile ones, real ones."""

from __future__ import annotations

import csv
import os
import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npu_tui.analysis.limits import Thresholds
from npu_tui.cli.main import main
from npu_tui.cli.options import opened_profile
from npu_tui.load.snapshot import load_snapshot
from npu_tui.output.memory_report import DeviceRow, MemoryReport, memory_report
from tests.conftest import WITHOUT_TRACES

HEADER = [
    "ID", "Event", "Event Type", "Name", "Timestamp(ns)", "Process Id", "Thread Id", "Device Id", "Ptr", "Attr",
    "Call Stack(Python)", "Call Stack(C)",
]  # fmt: skip
START = 1764753083997498270
STACK = (
    "/opt/msmemscope/python/msmemscope/aten_collection.py(174): __torch_dispatch__\n/home/me/train.py(7): step\n",
    "/opt/lib/libhook.so(halMemAlloc+0x118) [0xf79b]\n",
)


def row(
    number: int, event: str, address: int, size: int, more: str = "", *, kind: str = "PTA", device: str = "0",
    process: int = 7, time: int | None = None, stack: tuple[str, str] = ("", ""),
) -> list[str]:  # fmt: skip
    at = START + 1000 * number if time is None else time
    attr = f"{{allocation_id:1,addr:0x{address:016x},size:{size}{more}}}"
    return [str(number), event, kind, "N/A", str(at), str(process), "8", device, f"0x{address:016x}", attr, *stack]


ROWS = [
    row(9, "FREE", 0x2000, 300, ",total:4096,used:1512"),  # rows are in no order
    row(1, "MALLOC", 0x1000, 1000, ",total:2048,used:1000", stack=STACK),
    row(2, "MALLOC", 0x2000, 300, ",total:2048,used:1300"),
    row(3, "MALLOC", 0x4000, 512, ",total:4096,used:1812"),
    row(4, "MALLOC", 0x1000, 4096, kind="HAL"),
    row(5, "FREE", 0x1000, 4096, kind="HAL", device="N/A"),  # the driver does not say of which device
    row(6, "MALLOC", 0x9000, 64, kind="HOST_PINNED", device="cpu"),
    ["7", "OP_LAUNCH", "ATEN_START", "aten.t", str(START), "7", "8", "0", "N/A", "", "", ""],
]


def dumped(folder: Path, rows: list[list[str]] = ROWS, form: str = "csv") -> Path:
    path = folder / f"memscope_dump_1.{form}"
    if form == "csv":
        with path.open("w", newline="") as stream:
            csv.writer(stream).writerows([HEADER, *rows])
    else:
        with sqlite3.connect(path) as base:
            base.execute(f"CREATE TABLE memscope_dump ({', '.join(f'{chr(34)}{name}{chr(34)}' for name in HEADER)})")
            base.executemany(f"INSERT INTO memscope_dump VALUES ({','.join('?' * len(HEADER))})", rows)
        base.close()
    return path


def reported(path: Path) -> tuple[MemoryReport, dict[str, DeviceRow]]:
    report = memory_report(load_snapshot(path))
    return report, {device.label: device for device in report.devices}


def launch(number: int, kind: str, name: str) -> list[str]:
    return [
        str(number),
        "OP_LAUNCH",
        kind,
        f"torch._ops.{name}",
        str(START + 1000 * number),
        "7",
        "8",
        "0",
        "N/A",
        "",
        "",
        "",
    ]


def test_operations_and_owners_tell_who_holds_memory_where_no_stack_does(tmp_path: Path):
    rows = [
        launch(10, "ATEN_START", "aten.addmm.default"), launch(11, "ATEN_START", "aten.mm.default"),
        row(12, "MALLOC", 0x1000, 4000, ",owner:PTA@ops@aten"), launch(13, "ATEN_END", "aten.mm.default"),
        row(14, "MALLOC", 0x3000, 600, ",owner:PTA@weight", stack=STACK), launch(15, "ATEN_END", "aten.addmm.default"),
        launch(16, "ATEN_START", "aten.cut.default"), row(17, "MALLOC", 0x5000, 100),  # it never ends
    ]  # fmt: skip
    report, devices = reported(dumped(tmp_path, rows))
    assert report.verdict == ["Peak 4.6 KiB at event 2; aten.mm.default holds most: 3.9 KiB (85.1%)"]
    assert [(row.where, row.function, row.bytes) for row in devices["0 PTA"].stacks_at_peak] == [
        (None, "aten.mm.default", 4000), ("/home/me/train.py", "step", 600), (None, None, 100),
    ]  # fmt: skip
    assert [(row.pool, row.bytes) for row in devices["0 PTA"].at_peak.pools] == [
        (None, 100), ("PTA@ops@aten", 4000), ("PTA@weight", 600),
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "db"])
def test_allocators_of_a_dump_are_told_apart_and_not_added_up(form: str, tmp_path: Path):
    report, devices = reported(dumped(tmp_path, form=form))
    assert list(devices) == ["cpu HOST_PINNED", "0 HAL", "0 PTA"]
    assert (report.source.kind, report.health.skipped) == ("memscope_dump", [])
    pta, hal, host = devices["0 PTA"], devices["0 HAL"], devices["cpu HOST_PINNED"]
    assert (pta.peak_requested_bytes, pta.peak_event, pta.requested_end_bytes, pta.blocks_end) == (1812, 2, 1512, 2)
    assert (pta.reserved_at_peak_bytes, pta.peak_reserved_bytes, pta.reserved_end_bytes) == (4096, 4096, 4096)
    assert (hal.peak_requested_bytes, hal.requested_end_bytes, hal.reserved_end_bytes) == (4096, 0, None)
    assert (host.device, host.requested_end_bytes) == (None, 64)
    assert (pta.inactive_bytes, pta.segments, pta.expandable, pta.allocated_end_bytes) == (None,) * 4
    first = pta.stacks_at_peak[0]
    assert (first.where, first.line, first.bytes) == ("/home/me/train.py", 7, 1000)  # not the hook of the tool
    assert report.verdict[0].startswith("Device cpu HOST_PINNED: Peak 64 B at event 0; no call stack")
    assert [point.requested_bytes for point in pta.curve] == [1000, 1300, 1812, 1512]
    assert {point.reserved_bytes for point in hal.curve} == {None}
    assert {row.id for row in report.not_checked} == {"steps", "segments", "sum"}


def test_what_the_allocator_counted_tells_of_missing_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = dumped(tmp_path, ROWS[1:2] + ROWS[3:4])
    report, _ = reported(path)
    assert [(skipped.count, "rows are missing" in skipped.reason) for skipped in report.health.skipped] == [(1, True)]
    assert main(["check", str(path), "--max-peak", "1GB"]) == 1  # a peak that is too low is no pass
    assert "NOT MEASURED" in capsys.readouterr().out
    assert main(["check", str(dumped(tmp_path)), "--max-peak", "2KB"]) == 1
    assert "device 0 HAL, event 0" in capsys.readouterr().out


def test_dumps_of_the_first_version(tmp_path: Path):
    """Microseconds, negative sizes of releases, decimal addresses, several processes, totals that are none."""

    def old(number: int, event: str, size: int, more: str, process: int, device: str = "0") -> list[str]:
        address, time = 20616935636992, 1746006014162153 + number
        attr = f"{{addr:{address},size:{size},owner:{more}}}"
        return [str(number), event, "PTA", "N/A", str(time), str(process), "8", device, str(address), attr, "", ""]

    rows = [
        old(1, "MALLOC", 512, ",total:256,used:512", 1), old(2, "MALLOC", 2048, ",total:256,used:2048", 2),
        old(3, "FREE", -512, ",total:256,used:0", 1),
    ]  # fmt: skip
    report, devices = reported(dumped(tmp_path, rows))
    assert [(name, row.peak_requested_bytes, row.requested_end_bytes) for name, row in devices.items()] == [
        ("0 PTA 1", 512, 0), ("0 PTA 2", 2048, 2048),
    ]  # fmt: skip
    assert report.health.skipped == []
    assert devices["0 PTA 1"].reserved_end_bytes is None
    assert load_snapshot(dumped(tmp_path, rows)).devices[0].moments[0] == 1746006014162154000


def test_damaged_rows_are_counted_and_nothing_else_is_lost(tmp_path: Path):
    bad = [
        row(20, "MALLOC", 0x5000, -5), row(21, "MALLOC", 0x5000, 1 << 55), row(22, "MALLOC", 0x5000, 1, device="99999"),
        row(23, "MALLOC", 0x5000, 1, time=1 << 63), [*ROWS[1][:8], "0xfffffffffffffffff", *ROWS[1][9:]],
        row(24, "FREE", 0x7000, 1, kind="HAL", device="N/A"),
    ]  # fmt: skip
    path = dumped(tmp_path, [*ROWS, *bad])
    path.write_text(path.read_text() + "25,MALLOC,PTA")
    report, devices = reported(path)
    assert sorted(skipped.count for skipped in report.health.skipped) == [1, 1, 5]
    assert devices["0 PTA"].peak_requested_bytes == 1812


def test_a_folder_of_dumps_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "msmemscope_7_1" / "device_0" / "dump"
    folder.mkdir(parents=True)
    path = dumped(folder)
    for place in (tmp_path, folder):
        assert main(["report", str(place)]) == 3
        assert capsys.readouterr().err == (
            f"npu-tui: {place}: no profile, but 1 recording of memory; give the path of one: {path}\n"
        )


def test_a_dump_of_endless_allocators_has_some(tmp_path: Path):
    report, devices = reported(dumped(tmp_path, [row(n, "MALLOC", n, 1, kind=f"A{n}") for n in range(1, 401)]))
    assert (len(devices), [skipped.count for skipped in report.health.skipped]) == (256, [144])


HOSTILE: dict[str, Any] = {
    "columns.csv": b"ID,Event,Event Type,Ptr\n1,MALLOC,PTA,0x1\n",
    "empty.csv": ",".join(HEADER).encode(),
    "nulls.csv": ",".join(HEADER).encode() + b"\n" + b"\0" * 5000,
    "quote.csv": ",".join(HEADER).encode() + b'\n1,MALLOC,"' + b"x" * 5000,
    "digits.csv": ",".join(HEADER).encode() + b"\n" + b"9" * 5000 + b",MALLOC,PTA" + b",9" * 9 + b"\n",
    "cut.db": b'SQLite format 3\0' + b'\x10\0\1\1\0@  ' + b'\0' * 76 + b'CREATE TABLE "memscope_dump" (',
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_dumps_are_one_line_or_an_empty_report(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    code = main(["report", str(path)])
    said = capsys.readouterr()
    assert (code, said.err.count("\n")) in ((3, 1), (0, 0))
    assert "Traceback" not in said.err
    assert code or "No allocation is recorded." in said.out


def test_a_view_is_no_table_of_a_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "memscope_dump.db"
    with sqlite3.connect(path) as base:
        base.execute('CREATE TABLE "memscope_dump" (a)')
        base.execute("DROP TABLE memscope_dump")
        base.execute("CREATE VIEW memscope_dump AS SELECT 'CREATE TABLE memscope_dump (' AS ID")
    base.close()
    assert main(["report", str(path)]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_the_explorer_and_tables_have_blocks_of_every_allocator(tmp_path: Path):
    profile = opened_profile(str(dumped(tmp_path)), True, Thresholds())
    names = [lane.name for lane in profile.trace.lanes]
    assert [name for name in names if name in ("history", "blocks")] == ["history"] * 3 + ["blocks"] * 3
    assert "odd.memory_axis" not in {said.code for said in profile.trace.health.warnings}  # times are there
    blocks = [lane.index for lane in profile.trace.lanes if lane.name == "blocks"]
    assert int(np.isin(profile.trace.slices.lane, blocks).sum()) == 5


FIGURES = {
    "memscope_baseline.csv": {
        "0 PTA": (32, 16781824, 4, 3072, 20971520), "0 HAL": (7, 25884340, 3, 7009972, None),
    },
    "memscope_leaks.csv": {
        "0 PTA": (34, 20782080, 6, 8003584, 39845888), "0 HAL": (6, 44758708, 4, 25884340, None),
    },
    "memscope_dump_20260527062213.db": {"cpu HOST_PINNED": (7, 22683648, 5, 19664896, None)},
}  # fmt: skip
"""Of real dumps the events, peak, blocks and bytes at the end, and what is reserved then."""


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_real_dumps(name: str):
    folder = os.environ.get("NPU_TUI_TRACES")
    path = Path(folder or "") / "memory" / name
    if not folder or not path.exists():
        pytest.skip(reason=WITHOUT_TRACES)
    report, devices = reported(path)
    assert report.health.skipped == []
    assert FIGURES[name] == {
        label: (
            row.events, row.peak_requested_bytes, row.blocks_end, row.requested_end_bytes, row.reserved_end_bytes
        )
        for label, row in sorted(devices.items(), reverse=True)
    }  # fmt: skip
    if path.suffix == ".csv":  # the allocator itself counted as much after each of its events, in order of time
        used = [int(count) for count in re.findall(r"used:(\d+)", path.read_text())]
        pta = next(device for device in load_snapshot(path).devices if device.allocator == "PTA")
        assert sorted(used) == sorted(pta.requested.tolist())
