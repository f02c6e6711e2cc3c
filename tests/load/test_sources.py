"""Where traces lie, and how they are packed: every layout of the profilers, gzip whole and damaged."""

from __future__ import annotations

import ast
import gzip
import json
import shlex
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
from refusals import refused, said

from npu_tui.load import unpack
from npu_tui.load.errors import InputError, Watcher
from npu_tui.load.find import find_source, find_sources, home_of, sources_below, twin_of, writer_of
from npu_tui.load.format import SQLITE, Form
from npu_tui.load.load import load
from npu_tui.profile.profile import Profile
from npu_tui.strings import words

EVENT = b'{"ph": "X", "name": "op", "pid": 1, "tid": 2, "ts": "1.000", "dur": 1}'
TRACE = b"[" + b", ".join([EVENT] * 400) + b"]"
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SLICED = FIXTURES / "msprof_two_devices" / "mindstudio_profiler_output"

LAYOUTS = {
    "torch_npu": "ASCEND_PROFILER_OUTPUT/trace_view.json",
    "MindSpore": "host_1_20250701_ascend_ms/ASCEND_PROFILER_OUTPUT/trace_view.json",
    "a parent of one rank": "rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json",
    "msprof": "PROF_000001_20250701_ABC/mindstudio_profiler_output/msprof_20250701120003.json",
    "msprof output alone": "mindstudio_profiler_output/msprof_20250701120003.json",
    "a trace alone": "trace_view.json",
    "msprof of CANN 7": "PROF_000001_20230818_ABC/device_0/timeline/msprof_0_2_1.json",
    "hardware alone": "PROF_000001_20230818_ABC/device_3/timeline/task_time_3_2_1.json",
    "copied": "trace_view_rank3.json",
    "Kineto": "host_1.17513424.pt.trace.json",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_is_found_from_its_directory_and_its_file(tmp_path: Path, layout: str, packed: bool) -> None:
    file = tmp_path / (layout + ".gz" if packed else layout)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(TRACE) if packed else TRACE)
    for path in (tmp_path, file.parent, file):
        assert find_source(path).files == (file,)
        assert len(load(path).slices) == 400


def test_the_processed_trace_comes_before_the_raw_export(tmp_path: Path) -> None:
    for layout in (LAYOUTS["torch_npu"], LAYOUTS["msprof"]):
        (tmp_path / layout).parent.mkdir(parents=True)
        (tmp_path / layout).write_bytes(TRACE)
    assert find_source(tmp_path).files == (tmp_path / LAYOUTS["torch_npu"],)


def test_several_profiles_are_named_so_that_one_can_be_copied(tmp_path: Path) -> None:
    names = ["of one/rank0_ascend_pt", "of one/rank1_ascend_pt", "two/deep/rank0_ascend_pt"]
    for name in names:
        (tmp_path / name / "ASCEND_PROFILER_OUTPUT").mkdir(parents=True)
        (tmp_path / name / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_bytes(TRACE)
    with pytest.raises(InputError) as caught:
        find_source(tmp_path)
    told = said(caught.value)
    assert "holds 3 traces; npu-tui ranks compares them, or give one of them: " in told
    assert "\n" not in told
    assert shlex.split(told.partition("give one of them: ")[2]) == [str(tmp_path / name) for name in names]
    assert find_source(tmp_path / "two").path == tmp_path / names[2] / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"


def test_many_profiles_are_not_all_named(tmp_path: Path) -> None:
    for rank in range(12):
        (tmp_path / f"rank{rank:02}").mkdir()
        (tmp_path / f"rank{rank:02}" / "trace_view.json").write_bytes(TRACE)
    with refused(r"holds 12 traces.*rank07, and 4 more"):
        find_source(tmp_path)


def laid(folder: Path, *names: str) -> Path:
    """``folder`` with traces of these ``names``, packed where they say so."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(gzip.compress(TRACE) if name.endswith(".gz") else TRACE)
    return folder


@pytest.mark.parametrize(
    ("names", "opened", "left"),
    [
        (["run.json.gz", "capture_traces/graph_capture_rank_0.17.pt.trace.json.gz"], "run.json.gz", ["capture_traces"]),
        (["a.pt.trace.json", "graph_capture_profile/bs_1.json", "graph_capture_profile/bs_2.json"], "a.pt.trace.json",
         ["graph_capture_profile"]),
        (["capture_traces/graph_capture_rank_0.17.pt.trace.json.gz"],
         "capture_traces/graph_capture_rank_0.17.pt.trace.json.gz", []),
        (["trace_view.json", "older.json", "old/trace_view.json"], "trace_view.json", ["older.json", "old"]),
        (["msprof_20250701120003.json", "msprof_20250702120003.json", "msprof_20250702120003.json.gz"],
         "msprof_20250702120003.json", ["msprof_20250701120003.json"]),
        (["a_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json",
          "a_ascend_pt/PROF_1_2_A/mindstudio_profiler_output/msprof_20250702120003.json"],
         "a_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", []),
        (["a_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", "a_ascend_pt/FRAMEWORK/torch.op_range",
          "b_ascend_pt/FRAMEWORK/torch.op_range"],
         "a_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", ["b_ascend_pt"]),
    ],
)  # fmt: skip
def test_what_lies_beside_and_is_not_opened_is_told(
    tmp_path: Path, names: list[str], opened: str, left: list[str]
) -> None:
    source = find_source(laid(tmp_path, *names))
    assert source.path == tmp_path / opened
    told = [said(InputError(warning)) for warning in Profile(load(tmp_path), source).health.warnings]
    assert {name for name in left if any(str(tmp_path / name) in line for line in told)} == set(left)
    assert any("not opened" in line or "never parsed" in line for line in told) == bool(left)


def test_a_rank_without_a_trace_and_one_further_down_are_ranks_of_the_job(tmp_path: Path) -> None:
    laid(tmp_path, "rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", "b/deep/rank1_ascend_pt/trace_view.json")
    tables = tmp_path / "rank2_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv"
    tables.parent.mkdir(parents=True)
    tables.write_text("Step\n")
    assert len(find_sources(tmp_path)) == 3
    with refused("holds 3 traces.*rank2_ascend_pt"):
        find_source(tmp_path)


def test_the_last_of_several_exports(tmp_path: Path) -> None:
    for name in ("msprof_20250701120003.json", "msprof_20250702120003.json"):
        (tmp_path / name).write_bytes(TRACE)
    assert find_source(tmp_path).files[0].name == "msprof_20250702120003.json"


def test_slices_are_one_trace_from_the_directory_and_from_each_slice() -> None:
    paths = [SLICED.parent, SLICED, *sorted(SLICED.glob("msprof_slice_*"))]
    traces = [load(path) for path in paths]
    assert {len(trace.files) for trace in traces} == {2}
    assert len({len(trace.slices) for trace in traces}) == 1
    links = traces[0].links
    file_of = np.searchsorted(traces[0].chunks.first_event, [links.source_event, links.target_event], "right") - 1
    file = traces[0].chunks.file[file_of]
    assert (file[0] != file[1]).any(), "a link goes from one slice to the other"
    assert (links.source_slice >= 0).all()


def test_packed_slices_and_their_plain_twins_count_once(tmp_path: Path) -> None:
    for file in SLICED.glob("msprof_slice_*"):
        (tmp_path / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    assert len(load(tmp_path).slices) == len(load(SLICED).slices)
    shutil.copytree(SLICED, tmp_path, dirs_exist_ok=True)
    trace = load(tmp_path)
    assert len(trace.slices) == len(load(SLICED).slices)
    assert all(file.path.endswith(".json") for file in trace.files)


def test_one_unreadable_slice_costs_only_itself(tmp_path: Path) -> None:
    shutil.copytree(SLICED, tmp_path, dirs_exist_ok=True)
    first, second = sorted(tmp_path.iterdir())
    second.write_bytes(b"")
    trace = load(tmp_path)
    assert 0 < len(trace.slices) < len(load(SLICED).slices)
    assert "is empty" in words(trace.health.warnings[0])
    first.write_bytes(b"")
    with refused("is empty"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("folders", "opened", "command"),
    [
        (["PROF_000001_20250701_ABC/host", "FRAMEWORK"], "", "torch_npu.profiler.profiler import analyse"),
        (["PROF_000001_20250701_ABC/device_0"], "", "msprof --export=on --output="),
        (["PROF_000001_20250701_ABC/device_0"], "PROF_000001_20250701_ABC", "msprof --export=on --output="),
    ],
)
def test_raw_data_print_the_command_that_parses_them(
    tmp_path: Path, folders: list[str], opened: str, command: str
) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(InputError) as refused:
        load(tmp_path / opened)
    assert command in said(refused.value)
    assert str(tmp_path / opened) in said(refused.value)


@pytest.mark.parametrize("folders", [["PROF_1_A", "FRAMEWORK"], ["PROF_1_A"]])
def test_that_command_holds_any_path(tmp_path: Path, folders: list[str]) -> None:
    place = tmp_path / 'it\'s $HOME; a "profile"'
    for folder in folders:
        (place / folder).mkdir(parents=True)
    with pytest.raises(InputError) as refused:
        load(place)
    last = shlex.split(said(refused.value).partition(", or: ")[2])[-1]
    if last.startswith("--output="):
        assert last == f"--output={place}"
    else:
        call = ast.parse(last).body[-1]
        assert isinstance(call, ast.Expr)
        assert isinstance(call.value, ast.Call)
        assert ast.literal_eval(call.value.args[0]) == str(place)


PT, MS, PROF = "host_{}_20260605162026076_ascend_pt", "host_{}_20260605_ascend_ms", "PROF_00000{}_20260605_ABC"


@pytest.mark.parametrize(
    ("folders", "count", "commands"),
    [
        ([f"{PT}/FRAMEWORK", f"{PT}/{PROF}"], 1, ["torch_npu analyse a/host_0_20260605162026076_ascend_pt"]),
        ([f"{PT}/{PROF}"], 3, ["torch_npu analyse a"]),
        ([f"{MS}/{PROF}/device_0"], 2, ["mindspore analyse a"]),
        ([f"{PROF}/device_0/data"], 2, ["msprof a"]),
        (["node/{}/" + PROF], 2, ["msprof a/node/0", "msprof a/node/1"]),
        ([f"{PT}/FRAMEWORK", f"{MS}/{PROF}"], 1, ["torch_npu analyse", "mindspore analyse"]),
    ],
)
def test_raw_data_below_a_folder_print_the_command_that_parses_them(
    tmp_path: Path, folders: list[str], count: int, commands: list[str]
) -> None:
    for number in range(count):
        for folder in folders:
            (tmp_path / "a" / folder.format(number, number)).mkdir(parents=True)
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    told = said(caught.value)
    profiles = count * len({folder.partition("/")[0] for folder in folders})
    assert f"{tmp_path}: holds {profiles} raw profile" in told
    for command in commands:
        writer, *_, place = command.split()
        call = (
            f"--output={tmp_path / place}" if writer == "msprof" else f"from {writer}.profiler.profiler import analyse"
        )
        assert call in told
        assert place == "analyse" or str(tmp_path / place) in told


def test_a_part_of_raw_data_stands_for_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "PROF_000001_20230818_ABC/device_0/data").mkdir(parents=True)
    with refused(r"PROF_000001_20230818_ABC: raw profiler data .* --output=\S*/PROF_000001_20230818_ABC$"):
        load(tmp_path / "PROF_000001_20230818_ABC/device_0")


def test_the_summary_of_an_old_export_leads_to_its_timeline(tmp_path: Path) -> None:
    device = tmp_path / "PROF_000001_20230818_ABC" / "device_0"
    (device / "timeline").mkdir(parents=True)
    (device / "summary").mkdir()
    (device / "timeline" / "msprof_0_2_1.json").write_bytes(TRACE)
    with refused(rf"it is a part of a profile, give all of it: {device.parent}$"):
        load(device / "summary")
    assert [source.path for source in sources_below(device.parent)] == [device / "timeline" / "msprof_0_2_1.json"]
    assert home_of(find_source(tmp_path)) == device.parent


def test_an_export_of_tables_is_no_raw_data(tmp_path: Path) -> None:
    output = tmp_path / "PROF_000001_20250701_ABC" / "mindstudio_profiler_output"
    output.mkdir(parents=True)
    (output / "fusion_op_20250701.csv").write_text("Op Name\n")
    with refused(r"an msprof export with tables \(fusion_op_20250701.csv\) and no timeline"):
        load(tmp_path)


def test_copied_traces_have_the_ranks_of_their_names(tmp_path: Path) -> None:
    for rank in (0, 3, 12):
        (tmp_path / f"trace_view_rank{rank}.json").write_bytes(TRACE)
    assert sorted((source.rank, source.kind) for source in find_sources(tmp_path)) == [
        (0, "trace_view_json"),
        (3, "trace_view_json"),
        (12, "trace_view_json"),
    ]


@pytest.mark.parametrize(
    ("layout", "writer"),
    [
        ("torch_npu", "torch_npu"),
        ("MindSpore", "mindspore"),
        ("msprof", "msprof"),
        ("msprof of CANN 7", "msprof"),
        ("Kineto", "torch"),
    ],
)
def test_the_profiler_is_known_by_its_names(tmp_path: Path, layout: str, writer: str) -> None:
    file = tmp_path / LAYOUTS[layout]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(TRACE)
    assert writer_of(find_source(tmp_path)) == writer
    assert Profile(load(tmp_path), find_source(tmp_path)).writer == writer


def test_a_cut_gzip_keeps_what_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json.gz"
    events = [json.dumps({"ph": "X", "name": f"op{i * i}", "ts": i, "dur": i % 7, "tid": i % 3}) for i in range(4_000)]
    packed = gzip.compress(f"[{', '.join(events)}]".encode())
    for twentieth in range(1, 20):
        cut = packed[: len(packed) * twentieth // 20]
        path.write_bytes(cut)
        trace = load(path)
        assert sum(trace.events.values()) == zlib.decompressobj(31).decompress(cut).count(b"}"), twentieth
        assert trace.health.truncated, twentieth


@pytest.mark.parametrize(
    ("packed", "cut"),
    [
        (gzip.compress(TRACE[:9_000]) + gzip.compress(TRACE[9_000:]), False),
        (gzip.compress(TRACE) + b"\0" * 700, False),
        (gzip.compress(TRACE) + b"garbage", False),
        (gzip.compress(TRACE)[:-8] + b"12345678", True),
    ],
    ids=["two members", "zeros behind it", "garbage behind it", "wrong checksum"],
)
def test_odd_gzip(tmp_path: Path, packed: bytes, cut: bool) -> None:
    path = tmp_path / "trace_view.json.gz"
    path.write_bytes(packed)
    trace = load(path)
    assert len(trace.slices) == 400
    assert trace.health.truncated == cut


def test_gzip_damaged_in_the_middle_keeps_what_stands_before(tmp_path: Path) -> None:
    events = [json.dumps({"ph": "X", "name": f"op{i * i}", "ts": i, "dur": i % 7}) for i in range(4_000)]
    packed = bytearray(gzip.compress(f"[{', '.join(events)}]".encode()))
    packed[len(packed) // 2 : len(packed) // 2 + 40] = bytes(range(40))
    path = tmp_path / "trace_view.json.gz"
    path.write_bytes(packed)
    assert len(load(path).slices) > 1_000


def test_a_gzip_of_blanks_is_refused_before_it_fills_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace_view.json.gz"
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        file.write(deflate.compress(b"["))
        for _ in range(140):
            file.write(deflate.compress(b" " * (1 << 20)))
        file.write(deflate.flush())
    assert path.stat().st_size < 1 << 20
    written = 0
    original = unpack._refuse_endless

    def check(file: Path, taken: int, so_far: int) -> None:
        nonlocal written
        written = so_far
        original(file, taken, so_far)

    monkeypatch.setattr(unpack, "_refuse_endless", check)
    with refused("times its size"):
        load(path)
    assert written < 128 << 20


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json"
    path.write_bytes(b"[" + b", ".join([EVENT] * 60_000) + b"]")

    def shrink(done: int, size: int, events: int) -> bool:
        with path.open("r+b") as file:
            file.truncate(3_000_000)
        return True

    trace = load(path, Watcher(shrink))
    assert trace.health.truncated
    assert len(trace.slices) == b", ".join([EVENT] * 60_000)[: 3_000_000 - 1].count(b"}")


def test_a_directory_is_no_file_of_slices(tmp_path: Path) -> None:
    (tmp_path / "msprof_slice_0_20250701120003.json").mkdir()
    with refused("no ASCEND_PROFILER_OUTPUT"):
        load(tmp_path)


def test_names_of_files_reach_messages_without_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "\x1b]0;owned\x07\u202etrace\n.json"
    path.write_bytes(b"no trace")
    with pytest.raises(InputError) as refused:
        load(path)
    assert said(refused.value).isprintable()


def test_text_is_taken_before_the_database_beside_it(tmp_path: Path) -> None:
    output = tmp_path / "rank1_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    text, database = output / "trace_view.json", output / "ascend_pytorch_profiler_1.db"
    database.write_bytes(SQLITE + bytes(100))
    alone = find_source(tmp_path)
    assert (alone.path, alone.kind, alone.rank, twin_of(alone)) == (database, "database", 1, None)
    with refused("no text trace"):
        find_source(tmp_path, "text")
    text.write_text("[]")
    asked: list[tuple[Path, Form | None, Path]] = [
        (tmp_path, None, text),
        (tmp_path, "text", text),
        (tmp_path, "db", database),
        (database, None, database),
        (database, "text", text),
        (text, "db", database),
    ]
    for opened, form, expected in asked:
        source = find_source(opened, form)
        assert source.path == expected
        assert twin_of(source) == (database if expected == text else text)


def test_the_last_of_several_databases_of_msprof_is_taken(tmp_path: Path) -> None:
    output = tmp_path / "PROF_000001_20250109102030_ABC" / "mindstudio_profiler_output"
    output.mkdir(parents=True)
    for name in ("msprof_20250109102030.db", "msprof_20250109112030.db"):
        (output / name).write_bytes(SQLITE)
    assert find_source(tmp_path).path.name == "msprof_20250109112030.db"
    assert find_source(tmp_path).rank is None


def test_a_database_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    renamed = tmp_path / "trace.sqlite"
    renamed.write_bytes(SQLITE + bytes(100))
    assert find_source(renamed).kind == "database"
    (tmp_path / "text.json").write_text("[]")
    assert find_source(tmp_path / "text.json").kind == "json"


def test_databases_of_statistics_hold_no_timeline(tmp_path: Path) -> None:
    (tmp_path / "analysis.db").write_bytes(SQLITE)
    with refused("hold no timeline"):
        find_source(tmp_path)
