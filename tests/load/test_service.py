"""What msServiceProfiler writes, read into columns: each table, each version, and what is damaged."""

from __future__ import annotations

import csv
import io
import sqlite3
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.load import csv_table
from npu_tui.load.errors import InputError
from npu_tui.load.find import find_source
from npu_tui.load.service import read_service
from npu_tui.strings import words
from npu_tui.trace.message import message
from npu_tui.trace.service import NONE, TABLES, UNKNOWN, Kind, Pass, Service

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service_causes import write_service

NEW = {
    "request.csv": (
        "http_rid,start_datetime,recv_token_size,reply_token_size,execution_time(ms),queue_wait_time(ms),"
        "first_token_latency(ms),cache_hit_rate,start_time(ms)\n"
        "b,2025-11-20 08:53:20:500000,200,3,700,12.5,0,N/A,1763600000500.0\n"
        "a,2025-11-20 08:53:20:002687,100,8,900,0,55.25,0.5,1763600000002.687256\n"
    ),
    "batch.csv": (
        "name,res_list,start_datetime,end_datetime,during_time(ms),batch_type,prof_id,batch_size,prefill_batch_size,"
        "decode_batch_size,total_blocks,used_blocks,free_blocks,blocks_allocated,blocks_freed,kvcache_usage_rate,"
        "dp_rank,start_time(ms),end_time(ms)\n"
        "batchFrameworkProcessing,\"[{'rid': 'a', 'iter': 0, 'type': 0, 'num_scheduled_tokens': 100}]\","
        "2025-11-20 08:53:20:010000,2025-11-20 08:53:20:011000,1.0,Prefill,77,1,1,0,64,4,60,4,0,0.0625,<NA>,"
        "1763600000010.0,1763600000011.0\n"
        "modelExec,\"[{'rid': 'a', 'iter': 1, 'type': 1}, {'rid': 'b', 'iter': 0, 'type': 0}]\","
        '2025-11-20 08:53:20:520000,2025-11-20 08:53:20:530000,10.0,"Prefill, Decode",77,2,1,1,64,9,55,5,0,0.140625,'
        "1,1763600000520.0,1763600000530.0\n"
        "modelExec,[],2025-11-20 08:53:20:620000,2025-11-20 08:53:20:630000,10.0,Dummy,78,0,,,,,,,,,2,"
        "1763600000620.0,1763600000630.0\n"
    ),
}


def folder_of(path: Path, files: dict[str, str]) -> Path:
    """A folder with ``files``."""
    path.mkdir(exist_ok=True)
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def names(service: Service, codes: np.ndarray) -> list[str]:
    """The texts of ``codes``."""
    return [service.text(code) for code in codes.tolist()]


def test_requests(tmp_path: Path) -> None:
    """By start, to the nanosecond; a time to first token or a wait of 0 is unknown."""
    service = read_service(folder_of(tmp_path / "out", NEW))
    requests = service.requests
    assert [service.rids[code] for code in requests.rid] == ["a", "b"]
    assert requests.start.tolist() == [1_763_600_000_002_687_256, 1_763_600_000_500_000_000]
    assert requests.end.tolist() == [1_763_600_000_902_687_256, 1_763_600_001_200_000_000]
    assert requests.queue.tolist() == [UNKNOWN, 12_500_000]
    assert requests.first_token.tolist() == [55_250_000, UNKNOWN]
    assert requests.prompt_tokens.tolist() == [100, 200]
    assert requests.hit_rate[0] == 0.5
    assert np.isnan(requests.hit_rate[1])
    assert service.odd == []
    assert service.clock.basis == "written"


def test_batches(tmp_path: Path) -> None:
    """Passes, kinds and members; what a row does not say is unknown."""
    service = read_service(folder_of(tmp_path / "out", NEW))
    batches, members = service.batches, service.members
    assert batches.passes.tolist() == [Pass.schedule, Pass.execute, Pass.execute]
    assert batches.kind.tolist() == [Kind.prefill, Kind.mixed, Kind.dummy]
    assert names(service, batches.process) == ["77", "77", "78"]
    assert batches.dp_rank.tolist() == [UNKNOWN, 1, 2]
    assert batches.free_blocks.tolist() == [60, 55, UNKNOWN]
    assert batches.tokens.tolist() == [UNKNOWN] * 3
    assert (batches.end - batches.start).tolist() == [1_000_000, 10_000_000, 10_000_000]
    assert members.offset.tolist() == [0, 1, 3, 3]
    assert [service.rids[code] for code in members.rid] == ["a", "a", "b"]
    assert members.iter.tolist() == [0, 1, 0]
    assert members.tokens.tolist() == [100, UNKNOWN, UNKNOWN]


def test_an_end_before_its_start_is_unknown(tmp_path: Path) -> None:
    """Unless the length says when it was."""
    text = NEW["batch.csv"].replace("1763600000011.0", "1763600000009.0").replace("1763600000630.0", "1763600000600.0")
    ends = {"batch.csv": text.replace(":20:630000,10.0", ":20:630000,")}
    service = read_service(folder_of(tmp_path / "out", ends))
    batches = service.batches
    assert service.odd == [message("odd.service_impossible", name="batch", column="end", count=2)]
    assert batches.end.tolist() == [1_763_600_000_011_000_000, 1_763_600_000_530_000_000, UNKNOWN]


def test_what_cannot_be_is_unknown_and_told(tmp_path: Path) -> None:
    """Numbers and moments below 0; the date counts where the ms cannot be."""
    text = NEW["request.csv"].replace("1763600000500.0", "-5").replace(",200,3,700,", ",-200,3,-700,")
    service = read_service(folder_of(tmp_path / "out", {"request.csv": text.replace("1763600000002.687256", "-5")}))
    requests = service.requests
    assert service.clock.basis == "assumed"  # such ms tell nothing of the zone of the dates
    assert requests.start.tolist() == [1_763_600_000_002_687_000, 1_763_600_000_500_000_000]
    assert requests.prompt_tokens.tolist() == [100, UNKNOWN]
    told = {said.args["column"]: said.args["count"] for said in service.odd if said.code == "odd.service_impossible"}
    assert told == {"execution": 1, "prompt_tokens": 1}


@pytest.mark.parametrize(
    ("text", "count", "nameless"),
    [
        ("[{'rid': 'a', 'iter': 0, 'type': 1}, {'rid': 'bb', 'it", 2, 1),
        ("[{'rid': 'a', 'iter': 0, 'type': 1}, {'iter': 3}]", 2, 1),
        ("[[[[", 1, 1),
        ("[{}]", 1, 1),
        ("[{'rid': {'a': 1}}]", 2, 2),
        ("[]", 0, 0),
        ("[7, 8]", 2, 0),
    ],
)
def test_lists_that_are_cut_off_or_nameless_are_told(tmp_path: Path, text: str, count: int, nameless: int) -> None:
    rows = f'name,res_list,start_time(ms)\nmodelExec,"{text}",1763600000520.0\n'
    service = read_service(folder_of(tmp_path / "out", {"batch.csv": rows}))
    assert len(service.members) == count
    told = [said.args["count"] for said in service.odd if said.code == "odd.service_nameless"]
    assert told == [nameless] * bool(nameless)


def test_files_of_several_runs_are_told(tmp_path: Path) -> None:
    """Copies beside are named, a row and a request that are there twice, and files of which one is hours later."""
    later = NEW["batch.csv"].replace("1763600000", "1763609000").replace("2025-11-20 08", "2025-11-20 11")
    rows = NEW["request.csv"].splitlines(keepends=True)
    rows += [rows[-1], rows[-1].replace(",100,", ",101,")]
    files = {"request.csv": "".join(rows), "batch.csv": later, "request (1).csv": "", "Batch.CSV.bak": ""}
    service = read_service(folder_of(tmp_path / "out", files))
    assert [(said.code, said.args.get("count"), said.args.get("names")) for said in service.odd] == [
        ("odd.service_unread", None, ["Batch.CSV.bak", "request (1).csv"]),
        ("companion.twice", 1, None),
        ("odd.service_runs", None, ["batch.csv"]),
        ("odd.service_twice", 1, None),
    ]


def test_versions(tmp_path: Path) -> None:
    """Old names, dates alone, capitals, and no ``dp_rank``: the dates are those of UTC+8, which is said."""
    old = {
        "batch.csv": (
            "name,res_list,start_time,end_time,during_time(ms),batch_type,Total_batch_size,Prefill_batch_size,"
            "Decode_batch_size\n"
            'BatchSchedule,"[{""rid"": 7, ""iter"": 3}, {""rid"": 8, ""iter"": 0}]",2025-11-20 08:53:20:010000,'
            "2025-11-20 08:53:20:011000,1.0,,2,1,1\n"
            'modelExec,"[7, 8]",2025-11-20 08:53:20:012000,,2.5,"Decode",2,0,2\n'
        )
    }
    service = read_service(folder_of(tmp_path / "out", old))
    batches = service.batches
    assert service.clock.basis == "assumed"
    assert batches.start[0] == 1_763_600_000_010_000_000
    assert batches.end[1] == 1_763_600_000_014_500_000
    assert batches.size.tolist() == [2, 2]
    assert batches.kind.tolist() == [Kind.mixed, Kind.decode]
    assert batches.type.tolist()[0] == NONE
    assert [service.rids[code] for code in service.members.rid] == ["7", "8", "7", "8"]
    assert service.members.iter.tolist() == [3, 0, UNKNOWN, UNKNOWN]


@pytest.mark.parametrize("name", ["profiler.db", "ms_service_parsed.db"])
def test_database(tmp_path: Path, name: str) -> None:
    """The same columns from the tables of the database."""
    text = read_service(folder_of(tmp_path / "csv", NEW))
    folder = folder_of(tmp_path / "db", {})
    with sqlite3.connect(folder / name) as connection:
        for file, content in NEW.items():
            header, *rows = csv.reader(io.StringIO(content))
            stem, columns = file.removesuffix(".csv"), ", ".join(f'"{column}"' for column in header)
            connection.execute(f"CREATE TABLE {stem} ({columns})")
            connection.executemany(f"INSERT INTO {stem} VALUES ({', '.join('?' * len(header))})", rows)
    data = read_service(folder)
    for table in ("requests", "batches", "members"):
        one, other = getattr(text, table), getattr(data, table)
        for column in one.__struct_fields__:
            np.testing.assert_array_equal(getattr(one, column), getattr(other, column), column)


def test_without_the_compiled_loop_a_service_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_service(tmp_path, "transfer", requests=30)
    once = read_service(tmp_path)
    monkeypatch.setenv("NPU_TUI_SCANNER", "off")
    blocks = read_service(tmp_path)
    assert once.rids == blocks.rids
    for table in (*TABLES, "members"):
        one, other = getattr(once, table), getattr(blocks, table)
        assert len(one) == len(other)
        for column in one.__struct_fields__:
            np.testing.assert_array_equal(getattr(one, column), getattr(other, column), column)


def test_moments_in_seconds(tmp_path: Path) -> None:
    text = NEW["request.csv"]
    for moment in ("1763600000500.0", "1763600000002.687256"):
        text = text.replace(moment, f"{float(moment) / 1000:.6f}")
    start = read_service(folder_of(tmp_path, {"request.csv": text})).requests.start
    assert start.tolist() == pytest.approx([1763600000002687256, 1763600000500000000], abs=1000)


def test_split_tables(tmp_path: Path) -> None:
    """Hand-offs and pulls between prefill and decode, whose columns ``(ms)`` hold dates; states of the queue."""
    files = {
        "pd_split_communication.csv": (
            "rid,http_req_time(ms),send_request_time(ms),send_request_succ_time(ms),prefill_res_time(ms),"
            "request_end_time(ms)\na,2025-11-20 08:53:20:002,2025-11-20 08:53:20:004,0,2025-11-20 08:53:20:044,0\n"
        ),
        "pd_split_kvcache.csv": (
            "domain,rank,rid,block_tables,batch_seq_len,during_time(ms),start_datetime(ms),end_datetime(ms),"
            "start_time(ms),end_time(ms)\nPullKVCache,3,a,\"[1, 2]\",4096,2.5,2025-11-20 08:53:20:046,"
            "2025-11-20 08:53:20:048,1763600000046.0,1763600000048.5\n"
        ),
        "request_status.csv": (
            "hostuid,pid,start_datetime,relative_timestamp(ms),waiting,running,swapped,timestamp(ms)\n"
            "h,5,2025-11-20 08:53:20:002000,0.0,4,,,1763600000002.0\n"
            "h,5,2025-11-20 08:53:20:003000,1.0,,2,,1763600000003.0\n"
        ),
    }  # fmt: skip
    service = read_service(folder_of(tmp_path / "out", files))
    assert service.handoffs.received.tolist() == [1_763_600_000_002_000_000]
    assert service.handoffs.acknowledged.tolist() == [UNKNOWN]
    assert service.transfers.tokens.tolist() == [4096]
    assert (service.transfers.end - service.transfers.start).tolist() == [2_500_000]
    assert service.statuses.waiting.tolist() == [4, UNKNOWN]
    assert service.statuses.running.tolist() == [UNKNOWN, 2]


def test_utf_16_is_named(tmp_path: Path) -> None:
    (tmp_path / "batch.csv").write_bytes(NEW["batch.csv"].encode("utf-16"))
    service = read_service(folder_of(tmp_path, {"request.csv": NEW["request.csv"]}))
    assert [words(said) for said in service.odd] == ["batch.csv: not readable (its text is UTF-16, not UTF-8)"]
    assert len(service.requests) == 2


def test_damage(tmp_path: Path) -> None:
    """A file that is no table, one that is cut off, cells that are no numbers: the rest is read, a line says what."""
    files = {
        "request.csv": NEW["request.csv"].replace("N/A", "1e308") + "c,2025-11-20 08:5",
        "batch.csv": "no such table\n1\n",
        "kvcache.csv": "name,start_time(ms),free_blocks\nKVCacheStatus,1763600000002.0,many\nFree,x,5\n",
    }
    service = read_service(folder_of(tmp_path / "out", files))
    assert len(service.requests) == 2
    assert np.isnan(service.requests.hit_rate[1])
    assert len(service.batches) == 0
    assert service.kv_blocks.free_blocks.tolist() == [5, UNKNOWN]
    assert service.kv_blocks.time.tolist() == [UNKNOWN, 1_763_600_000_002_000_000]
    said = [(odd.code, odd.args["name"]) for odd in service.odd]
    assert said == [
        ("companion.cut_off", "request.csv"),
        ("companion.not_numbers", "request.csv"),
        ("companion.unreadable", "batch.csv"),
        ("companion.not_numbers", "kvcache.csv"),
        ("companion.not_numbers", "kvcache.csv"),
    ]


def test_events_alone(tmp_path: Path) -> None:
    """From ``chrome_tracing.json`` alone come the requests and batches that the tables have, where they are in both."""
    write_service(tmp_path, "split", requests=20, trace=True)
    text = read_service(tmp_path)
    for file in tmp_path.glob("*.csv"):
        file.unlink()
    data = read_service(tmp_path)
    microsecond = {"start", "end", "queue", "first_token"}
    for table, columns in (
        ("requests", ["rid", "prompt_tokens", "output_tokens", *sorted(microsecond - {"end"})]),
        ("batches", ["passes", "kind", "size", "start", "end"]),
        ("members", ["offset", "rid", "iter", "phase", "tokens"]),
    ):
        for column in columns:
            one, other = getattr(getattr(text, table), column), getattr(getattr(data, table), column)
            assert np.abs(one - other).max() <= (1000 if column in microsecond else 0), (table, column)
    assert np.abs(text.requests.execution - data.requests.execution).max() < 1_000_000  # whole ms in the table
    assert (data.batches.dp_rank == UNKNOWN).all()
    (tmp_path / "chrome_tracing.json").write_text('[{"name":"httpReq","ph":"I","ts":1,"args":"x"},{"name":"modelExec"')
    assert len(read_service(tmp_path).requests) == 0


def test_of_two_headings_of_a_column_the_usual_one_counts(tmp_path: Path) -> None:
    """MindIE writes both what is left on the device and the free blocks."""
    head = "rid,name,device_kvcache_left,start_time,total_blocks,free_blocks\n"
    rows = "a,Allocate,77,2025-11-20 08:53:20:002,64,60\n"
    folder = folder_of(tmp_path / "out", {"kvcache.csv": head + rows})
    assert read_service(folder).kv_blocks.free_blocks.tolist() == [60]
    (folder / "kvcache.csv").write_text(head.replace("free_blocks", "x") + rows)
    assert read_service(folder).kv_blocks.free_blocks.tolist() == [77]


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    """Tables without a place here beside those that have one; databases of processes alone get the command for them."""
    folder = folder_of(tmp_path / "out", NEW | {"coordinator.csv": "time\n", "ms_service_host-7.db": ""})
    (odd,) = read_service(folder).odd
    assert words(odd).startswith("coordinator.csv and ms_service_host-7.db: not read")
    folder_of(tmp_path / "raw", {"ms_service_host-7.db": ""})
    with pytest.raises(InputError) as refused:
        find_source(tmp_path / "raw")
    command = f"msserviceprofiler parse --input-path={tmp_path / 'raw'} --output-path={tmp_path / 'raw' / 'parsed'}"
    assert words(refused.value.message).endswith(f"never parsed; run npu-tui analyse, or: {command}")


def test_a_damaged_database_is_said_once(tmp_path: Path) -> None:
    """One line for it, and what stands in files is read."""
    folder = folder_of(tmp_path / "out", {"request.csv": NEW["request.csv"]})
    (folder / "profiler.db").write_bytes(b"SQLite format 3\0" + bytes(40))
    service = read_service(folder)
    assert len(service.requests) == 2
    assert [odd.code for odd in service.odd] == ["input.db_header"]


@given(
    st.lists(st.none() | st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=12),
    st.booleans(),
    st.integers(1, 60),
)
def test_lists_of_requests_are_read_some_at_a_time(lists: list[list[int] | None], plain: bool, together: int) -> None:
    def text(rids: list[int]) -> str:
        members = [f"{rid}" if plain else f"{{'rid': {rid}, 'iter': {rid + 1}, 'type': 0}}" for rid in rids]
        return f"[{', '.join(members)}]"

    texts = pl.Series([None if rids is None else text(rids) for rids in lists], dtype=pl.String)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_table, "_TOGETHER", together)
        counts, requests = csv_table.requests_of(texts)
    assert counts.to_list() == [None if rids is None else len(rids) for rids in lists]
    named = [rid for rids in lists for rid in rids or ()]
    assert requests["rid"].to_list() == [str(rid) for rid in named]
    assert requests["iter"].to_list() == [None if plain else rid + 1 for rid in named]
