"""An inference service as a trace: its lanes, its links from requests to batches, and where it is found."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from measured import part_of, profile_of
from written import text_report

from npu_tui.load.find import find_source, sources_below
from npu_tui.load.load import load
from npu_tui.output.report import report
from npu_tui.output.report_tables import profile_again
from npu_tui.profile.profile import Profile
from npu_tui.query.engine import EXAMPLES
from npu_tui.query.frames import TABLES, tables_of
from npu_tui.query.query import query
from npu_tui.strings import say
from npu_tui.trace.model import Trace
from npu_tui.trace.service import SERVED, Pass

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service_causes import write_service


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service whose requests are prefilled on one host and decoded on another."""
    folder = tmp_path_factory.mktemp("run") / "out"
    folder.mkdir()
    write_service(folder, "split", requests=20, trace=True)
    return folder


@pytest.fixture(scope="module")
def trace(split: Path) -> Trace:
    """Its trace."""
    return load(split)


def lanes_of(trace: Trace, layer: str) -> dict[str, int]:
    """The slices of each lane of ``layer``."""
    lanes = next(each.lanes for each in trace.layers if each.name == layer)
    return {trace.lanes[lane].name.split()[0]: trace.lanes[lane].last - trace.lanes[lane].first for lane in lanes}


def test_lanes(trace: Trace) -> None:
    """Every row of every file is a slice of its lane; those of the tool's own trace stand below."""
    service = trace.service
    assert service is not None
    assert lanes_of(trace, "Requests") == {"queued": 20, "prefill": 20, "decode": 20}
    assert lanes_of(trace, "Transfers") == {"prefill": 20, "hand-off": 20, "decode": 20, "pull": 20}
    assert [layer.name for layer in trace.layers][:4] == ["Requests", "Engine DP 0", "KV cache", "Transfers"]
    assert any(layer.name == "api-server" for layer in trace.layers)
    executed = int(np.count_nonzero(service.batches.passes == Pass.execute))
    engine = next(layer for layer in trace.layers if layer.name == "Engine DP 0")
    sizes = [trace.lanes[lane].last - trace.lanes[lane].first
             for lane in engine.lanes if trace.lanes[lane].name.startswith("execute")]  # fmt: skip
    assert sum(sizes) == executed


def test_states_meet(trace: Trace) -> None:
    """Queued, prefill and decode of a request follow each other, to the nanosecond, from its start to its end."""
    service, slices = trace.service, trace.slices
    assert service is not None
    names = np.array(trace.names)[slices.name]
    category = np.array(trace.categories)[slices.category]
    request = 3
    rid = service.rids[service.requests.rid[request]]
    queued, prefill, decode = (
        np.flatnonzero((names == rid) & (category == state))[0] for state in ("queued", "prefill", "decode")
    )
    assert slices.start[queued] + trace.start_ns == service.requests.start[request]
    assert slices.end[queued] == slices.start[prefill]
    assert slices.end[prefill] == slices.start[decode]
    assert slices.end[decode] + trace.start_ns == service.requests.end[request]
    assert trace.args.one(int(slices.event[prefill]))["first_token_ms"] == service.requests.first_token[request] / 1e6


def test_links(trace: Trace) -> None:
    """A request leads to every batch that executes it, and no other; none leads back in time."""
    service, links = trace.service, trace.links
    assert service is not None
    chosen = trace.links_of(SERVED)
    rids = [trace.name_of(int(source)) for source in links.source_slice[chosen]]
    members, wanted = service.members, []
    for row in np.flatnonzero(service.batches.passes[members.batch] == Pass.execute).tolist():
        wanted.append((service.rids[members.rid[row]], int(service.batches.start[members.batch[row]])))
    found = zip(rids, (links.target_time[chosen] + trace.start_ns).tolist(), strict=True)
    assert sorted(found) == sorted(wanted)
    assert (links.latency[chosen] >= 0).all()


def test_found(split: Path, tmp_path: Path) -> None:
    """By the folder, by a table in it, from a folder above; a table of the same name by somebody else is none."""
    for path in (split, split / "batch.csv", split.parent):
        source = find_source(path)
        assert (source.kind, source.path) == ("service", split)
    assert [source.path for source in sources_below(split.parent) if source.path == split] == [split]
    (tmp_path / "request.csv").write_text("time,user\n1,2\n")
    assert not list(sources_below(tmp_path))


def curves(trace: Trace) -> dict[tuple[str, str], list[float]]:
    """The values of the curves by name and key."""
    counters, offset = trace.counters, trace.counters.offset
    return {
        (series.name, series.key): counters.value[offset[number] : offset[number + 1]].tolist()
        for number, series in enumerate(counters.series)
    }


def test_spans(split: Path, trace: Trace, tmp_path: Path) -> None:
    """Instants are spans too, with the request that they are about; profiler.db alone says the same, in ns."""
    service = trace.service
    assert service is not None
    spans = service.spans
    arrivals = [code for code, name in enumerate(spans.name.tolist()) if service.text(name) == "httpReq"]
    assert spans.start[arrivals].tolist() == service.requests.start.tolist()
    assert spans.rid[arrivals].tolist() == service.requests.rid.tolist()
    assert not trace.health.skipped
    write_service(tmp_path, "split", requests=20, database=True)
    for file in tmp_path.iterdir():
        if file.suffix != ".db":
            file.unlink()
    other = load(tmp_path)
    assert other.service is not None
    assert len(other.slices) == len(trace.slices)
    assert len(other.service.spans) == len(spans)
    assert curves(other) == curves(trace)
    text = [service.text(code) for code in spans.name.tolist()]
    assert [other.service.text(code) for code in other.service.spans.name.tolist()] == text
    assert np.abs(other.service.spans.start - spans.start).max() <= 250  # us as a float of today


def test_a_report_asks_a_service_for_nothing_that_only_a_trace_has(trace: Trace) -> None:
    """Without a profile of the NPU beside it, that is the one thing it misses; how to record it is said."""
    found = report(part_of(trace))
    assert [missing.id for missing in found.not_checked] == ["service"]
    assert profile_again(found) == [say("again.service"), say("again.limits")]
    assert "20 requests" in text_report(found).splitlines()[2]


def test_a_report_lists_the_longest_of_many_requests(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leaves out is counted, and no total forgets it."""
    whole = report(part_of(trace))
    monkeypatch.setattr("npu_tui.output.report.MOST_ROWS", 6)
    found = report(part_of(trace))
    assert found.left_out == {"latencies": 14, "requests": 14, "transfers": 14}
    assert found.latencies == whole.latencies[:6]  # the slowest are first
    longest = sorted(whole.requests, key=lambda row: -(row.execution_us or 0))[:6]
    assert found.requests == [row for row in whole.requests if row in longest]
    assert "20 requests" in text_report(found).splitlines()[2]
    assert (found.request_count, whole.request_count, whole.left_out) == (20, 20, {})


@pytest.mark.parametrize("seed", range(3))
def test_damaged_folders_open(tmp_path: Path, seed: int) -> None:
    """Cells, columns, rows and bytes that nobody expects: what is left opens, with a line for what is not."""
    write_service(tmp_path, "split", requests=4, trace=True, database=seed % 2 == 0)
    random = Random(seed)
    cells = ["", "NaN", "inf", "-1", "1e400", "9223372036854775807", "<NA>", '"', "2026-13-45 99:99:99:1", "[[", "\x00"]
    for file in sorted(tmp_path.iterdir()):
        data = file.read_bytes()
        if file.suffix == ".csv" and random.random() < 0.7:
            rows = [row.split(",") for row in data.decode().split("\n")]
            for row in random.choices(rows[random.randrange(2) :], k=20):
                row[random.randrange(len(row))] = random.choice(cells)
            data = "\n".join(",".join(row) for row in rows).encode()
        elif file.name != "truth.json":
            data = data[: random.randrange(len(data))]
        file.write_bytes(data)
    trace = load(tmp_path)
    profile = Profile(trace, find_source(tmp_path))
    for table in (each for each in TABLES.values() if each.file == "service_tables"):
        sheet = table.make(profile)
        assert all(len(sheet.values(column.id)) == sheet.rows for column in table.sql)
    assert trace.service is not None
    assert len(trace.service.spans) <= len(trace.slices)
    assert trace.health.warnings
    assert all(isinstance(trace.args.one(event), dict) for event in trace.slices.event[:50].tolist())


def test_rows_without_names(tmp_path: Path) -> None:
    """A request without rid, a batch of an unknown process: they are drawn, and not as somebody else's."""
    (tmp_path / "request.csv").write_text(
        "http_rid,execution_time(ms),start_time(ms)\na,5,1763600000000.0\n<NA>,5,1763600000001.0\n"
    )
    (tmp_path / "batch.csv").write_text(
        "name,res_list,during_time(ms),prof_id,start_time(ms)\nmodelExec,[],2,,1763600000000.0\n"
        "modelExec,[],2,77,1763600000002.0\n"
    )
    trace = load(tmp_path)
    assert {trace.name_of(item) for item in range(len(trace.slices))} == {"a", "?", "batch"}
    assert {layer.name for layer in trace.layers} == {"Requests", "Engine", "Engine 77"}
    assert [trace.args.one(int(event)).get("rid") for event in trace.slices.event[:2]] == ["a", None]


def test_events_beside_another_trace_are_no_service(tmp_path: Path) -> None:
    """A file called ``chrome_tracing.json`` hides nobody's trace."""
    (tmp_path / "chrome_tracing.json").write_text('[{"name":"httpReq","ph":"I","ts":1,"pid":1,"tid":1}]')
    assert find_source(tmp_path).kind == "service"
    (tmp_path / "trace_view.json").write_text('[{"name":"a","ph":"X","ts":1,"dur":1,"pid":1,"tid":1}]')
    assert find_source(tmp_path).path.name == "trace_view.json"


@pytest.mark.parametrize("name", ["requests", "tail"])
def test_examples_of_services_have_rows(trace: Trace, name: str) -> None:
    """No NPU profile has rows for them."""
    assert len(query(tables_of(profile_of(trace)), EXAMPLES[name]))
