"""A parsed copy gives the trace it was made of, or nothing at all."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from equality import assert_same, assert_same_events, assert_same_folds
from hypothesis import given
from hypothesis import strategies as st
from measured import answers
from refusals import refused

from npu_tui.load import copy as cache
from npu_tui.load import copy_container as container
from npu_tui.load import unpack
from npu_tui.load.args import json_args
from npu_tui.load.errors import InputError, Watcher
from npu_tui.load.find import Source, content_of, find_source
from npu_tui.load.load import Opening, load
from npu_tui.strings import words
from npu_tui.trace.folded_rows import DEEP, leaf_row
from npu_tui.trace.message import Message
from npu_tui.trace.model import Trace
from npu_tui.trace.recorder import communication_args
from npu_tui.trace.transfers import copies_of

FIXTURES = ["dispatch_bound", "healthy", "msprof_two_devices", "kineto", "mindspore", "level0"]


def wait_for_copies() -> None:
    """Until no thread writes a copy any more."""
    for thread in threading.enumerate():
        if thread.name == cache.KEEPER:
            thread.join(5)


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    wait_for_copies()  # those of other tests would be written into the folder of this one
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "LEAST_BYTES", 1)
    monkeypatch.setattr(cache, "_LEFT_FREE", 0)
    return tmp_path


def kept(path: str | Path) -> tuple[Trace, str]:
    """The trace at ``path``, whose copy is made, and the name of that."""
    trace, key = load(path), cache.key_of(find_source(Path(path)))
    assert key is not None
    cache.keep(trace, key, lambda: True)
    return trace, key


def gone(*_: object) -> Any:
    """Takes the place of what reads a file that is no longer there."""
    raise InputError(Message("input.gone", {"path": "trace_view.json", "why": "gone"}))


def found(path: str | Path, key: str) -> Trace | None:
    return cache.find(find_source(Path(path)), key)


@pytest.mark.parametrize("name", FIXTURES)
def test_a_copy_is_the_trace_to_the_bit(name: str) -> None:
    trace, key = kept(f"fixtures/{name}")
    copy = found(f"fixtures/{name}", key)
    assert copy is not None
    assert_same(trace, copy)
    assert_same_events(trace, copy, 5)
    assert copy.files == trace.files
    assert copy.path == trace.path
    assert_same_folds(trace, copy)
    deep = [lane for lane in trace.lanes if lane.rows > DEEP]
    assert sorted(copy.folded) == [lane.first_row for lane in deep]
    for lane in deep:
        alone = leaf_row(trace, lane)
        assert np.array_equal(copy.folded[lane.first_row].item, alone.item)
        assert np.array_equal(copy.folded[lane.first_row].end, alone.end)


@pytest.mark.parametrize("name", ["healthy", "communication_bound", "two_ranks/rank0_ascend_pt", "level0", "kineto"])
def test_a_copy_knows_the_args_of_communication_layers_and_copies(name: str) -> None:
    _, key = kept(f"fixtures/{name}")
    copy = found(f"fixtures/{name}", key)
    assert copy is not None
    copy.args = gone  # nothing is read again
    assert_same(communication_args(load(f"fixtures/{name}")), communication_args(copy))
    assert_same(copies_of(load(f"fixtures/{name}")), copies_of(copy))


def test_a_copy_without_the_args_of_communication_layers_has_them_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.copytree("fixtures/healthy", tmp_path / "healthy")
    monkeypatch.setattr(container, "communication_args", gone)
    _, key = kept(path)
    copy = found(path, key)
    assert copy is not None
    assert copy.communication is copy.copies is None
    assert len(communication_args(copy).planes.item)


def test_a_copy_is_shown_before_anything_is_made_of_it() -> None:
    kept("fixtures/healthy")
    shown: list[Trace] = []
    trace = Opening(Path("fixtures/healthy")).trace(Watcher(early=shown.append))
    assert [id(each) for each in shown] == [id(trace)]


def test_columns_of_a_copy_can_be_written_to_and_stay_as_they_are_on_disk() -> None:
    trace, key = kept("fixtures/healthy")
    copy = found("fixtures/healthy", key)
    assert copy is not None
    copy.slices.start[:] = 0
    assert_same(trace, found("fixtures/healthy", key))


def traces_of(count: int, folder: Path) -> list[Path]:
    paths = []
    for i in range(count):
        events = ", ".join(f'{{"ph": "X", "ts": "{k}.000", "dur": {i + 1}, "name": "n{k}"}}' for k in range(50))
        paths.append(folder / f"trace{i}.json")
        paths[-1].write_text(f"[{events}]")
    return paths


def test_the_key_follows_the_content_not_the_place(tmp_path: Path) -> None:
    path = traces_of(1, tmp_path)[0]
    key = cache.key_of(find_source(path))
    moved = path.rename(tmp_path / "elsewhere.json")
    assert cache.key_of(find_source(moved)) == key
    status = moved.stat()
    moved.write_bytes(moved.read_bytes().replace(b"n7", b"m7"))
    assert cache.key_of(find_source(moved)) != key
    os.utime(moved, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cache.key_of(find_source(moved)) != key


@given(st.integers(0, 1 << 30))
def test_an_edit_that_keeps_size_and_time_makes_another_key(tmp_path_factory: pytest.TempPathFactory, at: int) -> None:
    """A file so large that samples tell it apart, changed at any of its bytes."""
    path = tmp_path_factory.mktemp("edited") / "trace_view.json"
    path.write_bytes(b'[{"ph":"X","ts":1,"dur":1,"name":"a"}]'.ljust(9 << 20))
    before, status = content_of(path, edited=True), path.stat()
    with path.open("r+b") as file:
        file.seek(at % status.st_size)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes((byte[0] ^ 1,)))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert content_of(path, edited=True) != before


def test_small_files_have_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = traces_of(1, tmp_path)[0]
    monkeypatch.setattr(cache, "LEAST_BYTES", 1 << 20)
    assert cache.key_of(find_source(path)) is None


def packed_trace(folder: Path) -> Path:
    """A small trace whose plain bytes are many more than its own."""
    path = folder / "trace_view.json.gz"
    path.write_bytes(gzip.compress(Path("fixtures/healthy/ASCEND_PROFILER_OUTPUT/trace_view.json").read_bytes()))
    return path


def test_what_a_packed_file_is_worth_is_told_by_its_plain_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = packed_trace(tmp_path)
    monkeypatch.setattr(cache, "LEAST_BYTES", 3 * path.stat().st_size)
    assert cache.key_of(find_source(path)) is not None
    path.write_bytes(path.read_bytes()[:-4])  # its last bytes, now anything, tell nothing that can be true
    assert cache.key_of(find_source(path)) is None


def test_the_copy_of_a_packed_file_unpacks_it_when_an_event_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked: list[Path] = []
    original = unpack.open_plain

    def counted(file: Path) -> unpack.Plain:
        unpacked.append(file)
        return original(file)

    path = packed_trace(tmp_path)
    trace, key = kept(path)
    monkeypatch.setattr(unpack, "open_plain", counted)
    copy = found(path, key)
    assert copy is not None
    assert_same(trace, copy)
    assert copy.size == trace.size
    assert unpacked == []
    assert_same_events(trace, copy, 5)
    assert answers(copy) == answers(trace)
    assert unpacked == [path]


def test_a_packed_file_that_is_gone_or_changed_since_is_one_line(tmp_path: Path) -> None:
    path = packed_trace(tmp_path)
    _, key = kept(path)
    source = find_source(path)
    changed, gone = cache.find(source, key), cache.find(source, key)
    assert changed is not None
    assert gone is not None
    path.write_bytes(gzip.compress(b"[]"))
    with refused("has changed"):
        json_args(changed).event(0)
    path.unlink()
    with refused("No such file"):
        json_args(gone).event(0)


def test_a_watched_packed_file_is_unpacked_ahead(tmp_path: Path) -> None:
    path = packed_trace(tmp_path)
    kept(path)
    trace = Opening(path).trace(Watcher(lambda done, total, events: True))
    packed = trace.files[0].copy
    assert isinstance(packed, unpack.Unpacking)
    for _ in range(500):
        if packed._plain is not None:
            break
        time.sleep(0.01)
    assert packed._plain is not None


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.7, 0.999])
def test_a_shortened_copy_is_removed(tmp_path: Path, share: float) -> None:
    path = traces_of(1, tmp_path)[0]
    _, key = kept(path)
    copy = cache.copies()[0].path
    os.truncate(copy, int(copy.stat().st_size * share))
    assert found(path, key) is None
    assert not copy.exists()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.4, 0.7, 0.99])
@pytest.mark.parametrize("same_time", [True, False])
def test_a_damaged_copy_is_removed(tmp_path: Path, share: float, same_time: bool) -> None:
    path = traces_of(1, tmp_path)[0]
    _, key = kept(path)
    copy = cache.copies()[0].path
    status = copy.stat()
    with copy.open("r+b") as file:
        file.seek(int(status.st_size * share))
        file.write(b"\xa5" * 64)  # no column is full of these
    if same_time:
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cache.sketch(find_source(path), key) is None or found(path, key) is None
    assert not copy.exists()
    assert found(path, key) is None


def test_a_directory_in_the_place_of_a_copy_is_no_copy(tmp_path: Path) -> None:
    path = traces_of(1, tmp_path)[0]
    key = cache.key_of(find_source(path)) or ""
    (cache.directory() / f"{key}.columns").mkdir(parents=True)
    assert found(path, key) is None


def test_the_least_recently_used_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "container_bytes", lambda trace: 10_000)
    paths = traces_of(3, tmp_path)
    keys = [kept(path)[1] for path in paths[:2]]
    sizes = sum(copy.size for copy in cache.copies())
    for second, key in enumerate(keys):
        copy = cache.directory() / f"{key}.columns"
        os.utime(copy, ns=(second * 10**9, copy.stat().st_mtime_ns))
    assert found(paths[0], keys[0]) is not None  # the first is used again, so the second has to go
    monkeypatch.setattr(cache, "limit", lambda: sizes + 5_000)
    kept(paths[2])
    assert found(paths[0], keys[0]) is not None
    assert found(paths[1], keys[1]) is None


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = traces_of(1, tmp_path)[0]

    def full(*_: object) -> bool:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache, "write_container", full)
    notes: list[str] = []
    opening = Opening(path)
    trace = opening.trace(Watcher(note=notes.append))
    assert len(trace.slices) == 50
    wait_for_copies()
    assert notes == [os.strerror(errno.ENOSPC)]
    assert list(cache.directory().iterdir()) == []


def test_a_directory_that_cannot_be_made_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "a file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    path = traces_of(1, tmp_path)[0]
    assert len(Opening(path).trace().slices) == 50
    assert cache.copies() == []
    assert cache.clear() == (0, 0, [])


def test_giving_up_leaves_nothing(tmp_path: Path) -> None:
    path = traces_of(1, tmp_path)[0]
    cache.keep(load(path), "key", lambda: False)
    assert list(cache.directory().iterdir()) == []


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    path = traces_of(1, tmp_path)[0]
    cache.directory().mkdir(parents=True)
    old, new = (cache.directory() / f"{name}.part" for name in ("old", "new"))
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    kept(path)
    assert not old.exists()
    assert new.exists()


def test_processes_side_by_side_all_get_the_trace(tmp_path: Path) -> None:
    path = traces_of(1, tmp_path)[0]
    program = (
        "import sys; from pathlib import Path; from npu_tui.load import copy as cache; cache.LEAST_BYTES = 1;"
        "from npu_tui.load.load import Opening; print(len(Opening(Path(sys.argv[1])).trace().slices))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate()[0] for process in running] == ["50\n"] * 2
    names = [copy.path.name for copy in cache.copies()]
    assert len(names) == 1
    assert [file.name for file in cache.directory().iterdir()] == names


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from npu_tui.cli.main import main

    path = traces_of(1, tmp_path)[0]
    assert main(["cache"]) == 0
    assert "no parsed copies" in capsys.readouterr().out
    assert main(["index", str(path)]) == 0
    assert "50 events" in capsys.readouterr().out
    assert main(["index", str(path)]) == 0
    assert "already has a parsed copy" in capsys.readouterr().out
    assert main(["cache", "list"]) == 0
    listed = capsys.readouterr().out
    assert str(path) in listed
    assert "1 copy, <1 of 8,192 MB" in listed
    assert main(["cache", "clear"]) == 0
    assert "removed 1 copy" in capsys.readouterr().out
    assert cache.copies() == []
    assert main(["index", str(tmp_path / "nothing")]) == 3
    assert "no such file" in capsys.readouterr().err


def test_index_tells_the_truth_of_every_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from npu_tui.cli.main import main

    path, other = traces_of(2, tmp_path)
    monkeypatch.setenv(cache.VARIABLE, "0")
    assert main(["index", str(path), "-"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{path}: could not save the parsed copy" in said.err
    assert "NPU_TUI_CACHE_MB allows 0 MB" in said.err
    assert "-: a pipe has no parsed copy" in said.err
    assert cache.copies() == []
    monkeypatch.delenv(cache.VARIABLE)
    junk = tmp_path / "junk.json"
    junk.write_text("junk")
    assert main(["index", str(path), str(junk), str(other)]) == 3
    said = capsys.readouterr()
    assert said.out.count("50 events") == 2
    assert said.err.count("\n") == 1
    assert len(cache.copies()) == 2


def test_a_trace_that_changes_while_it_is_indexed_is_not_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from npu_tui.cli.main import main
    from npu_tui.load import load as loading

    path = traces_of(1, tmp_path)[0]

    def changing(opened: Source) -> Trace:
        trace = load(opened)
        opened.path.write_bytes(opened.path.read_bytes() + b" ")
        return trace

    monkeypatch.setattr(loading, "load", changing)
    assert main(["index", str(path)]) == 3
    assert "changed while it was read" in capsys.readouterr().err
    assert cache.copies() == []


def test_what_cannot_be_cleared_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from npu_tui.cli.main import main

    kept(traces_of(1, tmp_path)[0])

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        assert main(["cache", "clear"]) == 3
    said = capsys.readouterr()
    assert "removed 0 copies" in said.out
    assert "Permission denied" in said.err
    assert len(cache.copies()) == 1


def test_who_allows_no_copies_is_not_told_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, key = kept(traces_of(1, tmp_path)[0])
    for allowed in ("0", "-5"):
        monkeypatch.setenv(cache.VARIABLE, allowed)
        notes: list[str] = []
        cache.Keeper(trace, key, notes.append).finish(5)
        assert notes == []


def test_a_copy_too_large_to_keep_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, key = kept(traces_of(1, tmp_path)[0])
    monkeypatch.setattr(cache, "container_bytes", lambda trace: 2 << 20)
    monkeypatch.setenv(cache.VARIABLE, "1")
    notes: list[Message | str] = []
    cache.Keeper(trace, key, notes.append).finish(5)
    assert [words(note) for note in notes] == ["it needs 2 MB, but NPU_TUI_CACHE_MB allows 1 MB for all copies"]


def test_no_cache_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from npu_tui.cli.main import main

    path = traces_of(1, tmp_path)[0]
    assert main(["report", str(path), "--no-cache"]) == 0
    assert cache.copies() == []


def test_an_export_with_a_slice_that_cannot_be_read_has_no_copy(tmp_path: Path) -> None:
    event = '{"ph": "X", "name": "%s", "pid": 1, "tid": 1, "ts": "10.5", "dur": 2, "args": {}}'
    for number, text in enumerate(("junk", f"[{event % 'kept'}]")):
        (tmp_path / f"msprof_slice_{number}_20250101000000.json").write_text(text)
    path = tmp_path / "msprof_slice_0_20250101000000.json"
    for _ in range(2):
        trace = Opening(path).trace()
        time.sleep(0.2)
        assert json_args(trace).event(0)["name"] == "kept"
    assert cache.copies() == []


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux only")
def test_writing_a_copy_lets_others_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    def note(*_: object) -> None:
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    monkeypatch.setattr(cache, "keep", note)
    before = os.getpriority(os.PRIO_PROCESS, 0)
    cache.Keeper(load("fixtures/healthy"), "key").finish(5)
    assert found == [max(before, 10)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_a_copy_of_another_trace_is_not_taken_under_its_name() -> None:
    _, key = kept("fixtures/healthy")
    other = cache.key_of(find_source(Path("fixtures/dispatch_bound")))
    assert other is not None
    os.rename(cache.directory() / f"{key}.columns", cache.directory() / f"{other}.columns")
    assert found("fixtures/dispatch_bound", other) is None
    assert not cache.copies()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_not_trusted(mode: int) -> None:
    trace, key = kept("fixtures/healthy")
    cache.directory().chmod(mode)
    assert found("fixtures/healthy", key) is None
    assert cache.copies()
    with pytest.raises(PermissionError, match="others may write"):
        cache.keep(trace, key, lambda: True)
    cache.directory().chmod(0o755)
    assert found("fixtures/healthy", key) is not None


def test_a_copy_of_another_user_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    _, key = kept("fixtures/healthy")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert found("fixtures/healthy", key) is None


def test_a_program_that_ends_while_a_copy_is_written_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*_: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    told: list[object] = []
    monkeypatch.setattr(cache, "keep", ended)
    monkeypatch.setattr(threading, "excepthook", told.append)
    cache.Keeper(load("fixtures/healthy"), "key").finish(5)
    assert len(told) == 1
    with monkeypatch.context() as patched:
        patched.setattr(threading.main_thread(), "is_alive", lambda: False)
        cache.Keeper(load("fixtures/healthy"), "key").finish(5)
    assert len(told) == 1


def test_ctrl_c_while_a_copy_is_finished_ends_it_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever presses it waits no longer, and again while the last piece is given up."""

    def keep(trace: Trace, key: str, go_on: Callable[[], bool]) -> None:
        while go_on():
            time.sleep(0.001)
        for _ in range(2):
            time.sleep(0.1)  # the main thread waits, and is interrupted once more
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.1)
        ended.set()

    ended = threading.Event()
    monkeypatch.setattr(cache, "keep", keep)
    keeper = cache.Keeper(load("fixtures/healthy"), "key")
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    keeper.finish(60)
    assert ended.is_set()
