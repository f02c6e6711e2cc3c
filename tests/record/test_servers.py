"""Recording through servers: vLLM and SGLang over HTTP, the daemon of msMonitor, the file of msServiceProfiler."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.record import Progress, RecordError, RecordRequest
from npu_tui.record.serving import Daemon, Server, record_by_daemon, record_server, record_service
from npu_tui.record.switch import Switch
from tests.record.live import FastClock, daemon, http_server, stages

PROFILE = Path(__file__).resolve().parents[2] / "fixtures" / "dispatch_bound"


def put(out: Path, name: str = "host_1_2026_ascend_pt") -> None:
    """A worker's profile, analysed."""
    shutil.copytree(PROFILE, out / name)
    (out / name / "ASCEND_PROFILER_OUTPUT" / "analyse.done").touch()


class Serving:
    """A server that writes a profile into ``out`` when it stops, or after its steps."""

    def __init__(self, out: Path, engine: str) -> None:
        self.out, self.engine = out, engine
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if method == "GET":
            return (200, b"{}") if self.engine == "sglang" and path == "/get_server_info" else (404, b"")
        self.asked.append((path, json.loads(body) if body else {}))
        if path == ("/start_profile" if self.engine == "sglang" else "/stop_profile"):
            put(self.out)
        return 200, b""


def test_vllm_is_recorded_for_some_seconds(tmp_path: Path) -> None:
    serving = Serving(tmp_path, "vllm")
    with http_server(serving) as url:
        states = list(record_server(url, RecordRequest(tmp_path, seconds=2.0), FastClock()))
    assert [path for path, _ in serving.asked] == ["/start_profile", "/stop_profile"]
    assert states[-1].stage == "complete"
    assert states[-1].profiles == (tmp_path / "host_1_2026_ascend_pt",)


def test_sglang_counts_the_steps_itself(tmp_path: Path) -> None:
    serving = Serving(tmp_path, "sglang")
    with http_server(serving) as url:
        assert stages(record_server(url, RecordRequest(tmp_path, steps=7, stack=True), FastClock()))[-1] == "complete"
    assert [path for path, _ in serving.asked] == ["/start_profile"]
    fields = serving.asked[0][1]
    assert (fields["num_steps"], fields["with_stack"], fields["output_dir"]) == (7, True, str(tmp_path))


def test_whoever_stops_waiting_stops_the_server(tmp_path: Path) -> None:
    serving = Serving(tmp_path, "vllm")
    with (
        http_server(serving) as url,
        closing(record_server(url, RecordRequest(tmp_path, seconds=60.0), FastClock())) as states,
    ):
        next(states)
    assert [path for path, _ in serving.asked] == ["/start_profile", "/stop_profile"]


def refusal(url: str, out: Path) -> str:
    with pytest.raises(RecordError) as told:
        list(record_server(url, RecordRequest(out, seconds=1.0, patience=5.0), FastClock()))
    return told.value.message.code


def test_a_server_that_does_not_record_says_why(tmp_path: Path) -> None:
    with http_server(lambda *_: (404, b"")) as url:
        assert refusal(url, tmp_path) == "record.not_configured.vllm"
    assert refusal(url, tmp_path) == "record.refused"
    with http_server(lambda method, *_: (404 if method == "GET" else 500, b"no \x1b[31mprofiler")) as url:
        assert refusal(url, tmp_path) == "record.bad_status"
    with http_server(lambda *_: None) as url:
        assert refusal(url, tmp_path) == "record.broken_answer"
    with http_server(lambda method, *_: (404 if method == "GET" else 200, b"")) as url:
        assert refusal(url, tmp_path) == "record.nothing_written"
        assert refusal(url, tmp_path / "elsewhere") == "record.server_elsewhere"
    for wrong in ("ftp://host", "host:8000", "http://", "http://host:port", "file:///etc/passwd"):
        assert refusal(wrong, tmp_path) == "record.bad_url"


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    reached = []

    def other(method: str, path: str, body: bytes) -> tuple[int, bytes]:
        reached.append(path)
        return 200, b""

    with http_server(other) as elsewhere, http_server(lambda *_: (302, elsewhere.encode())) as url:
        assert refusal(url, tmp_path) == "record.bad_status"
    assert not reached


def test_an_answer_that_does_not_come_is_given_up() -> None:
    def slow(*_: object) -> tuple[int, bytes]:
        time.sleep(2)
        return 200, b""

    with http_server(slow) as url, pytest.raises(RecordError) as told:
        Server(url).ask("GET", "/", seconds=0.1)
    assert told.value.message.code == "record.no_answer"


class Monitored:
    """A daemon with a job that steps at every question about it."""

    def __init__(self, out: Path, matched: int = 2) -> None:
        self.out, self.matched = out, matched
        self.step, self.first, self.config = 10, 0, {}

    def __call__(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["fn"] == "setKinetOnDemandRequest":
            self.config = dict(line.split("=", 1) for line in asked["config"].splitlines())
            self.first = self.step + 2
            return {"processesMatched": list(range(self.matched)), "commandStatus": "effective"}
        self.step += 1
        last = self.first + int(self.config.get("ACTIVITIES_ITERATIONS", 0))
        if self.first and self.step == last:
            put(self.out)
        running = self.first and self.first <= self.step < last
        state = "Running" if running else "Ready" if self.step < self.first else "Idle"
        return {"current_step": self.step, "nputrace": state, "start_step": self.first, "stop_step": last}


def test_a_job_is_recorded_through_the_daemon(tmp_path: Path) -> None:
    job = Monitored(tmp_path)
    with daemon(job) as address:
        found = list(record_by_daemon(Daemon(address), RecordRequest(tmp_path, steps=3, ranks=(0, 8)), FastClock()))
    assert job.config["ACTIVITIES_ITERATIONS"] == "3"
    assert job.config["PROFILE_RANK_LIST"] == "0,8"
    assert job.config["ACTIVITIES_LOG_FILE"] == str(tmp_path)
    steps = [state.said.args.get("step") for state in found if state.said.code == "record.daemon_records"]
    assert steps == [13, 14, 15]
    assert found[-1].stage == "complete"


def asked_of(answers: Any, out: Path) -> str:
    with daemon(answers) as address, pytest.raises(RecordError) as told:
        list(record_by_daemon(Daemon(address), RecordRequest(out, patience=5.0), FastClock()))
    return told.value.message.code


def test_a_daemon_that_records_nothing_says_why(tmp_path: Path) -> None:
    assert asked_of(Monitored(tmp_path, matched=0), tmp_path) == "record.no_process"
    assert asked_of(lambda _: {"nputrace": "Uninitialized"}, tmp_path) == "record.no_process"
    assert asked_of(lambda _: {"nputrace": "Running"}, tmp_path) == "record.daemon_busy"
    assert asked_of(lambda _: b"", tmp_path) == "record.broken_answer"
    assert asked_of(lambda _: struct.pack("=i", 1 << 30), tmp_path) == "record.broken_answer"
    assert asked_of(lambda _: struct.pack("=i", 4) + b"nope", tmp_path) == "record.broken_answer"
    still = {"current_step": 5, "nputrace": "Idle", "processesMatched": [1]}
    assert asked_of(lambda _: still, tmp_path) == "record.daemon_nothing"
    for wrong in ("", ":", "host:port", "host:0", "host:99999"):
        with pytest.raises(RecordError):
            Daemon(wrong)
    with daemon(lambda _: {}) as address:
        pass
    with pytest.raises(RecordError) as told:
        Daemon(address).ask({})
    assert told.value.message.code == "record.no_daemon"


class ServiceLoop(threading.Thread):
    """Looks at the file as the profiler's thread does; ``limit`` s after it begins it writes enable 0 back itself."""

    def __init__(self, file: Path, limit: float | None = None) -> None:
        super().__init__(daemon=True)
        self.file, self.limit, self.ended = file, limit, threading.Event()

    def run(self) -> None:
        place = Path(json.loads(self.file.read_text())["prof_dir"])
        since = None
        while not self.ended.wait(0.02):
            try:
                settings = json.loads(self.file.read_text())
            except ValueError:
                continue
            if settings["enable"] and since is None:
                since = time.monotonic()
                (place / "0102-0304").mkdir(parents=True)
                (place / "0102-0304" / "ms_service_host-1.db").write_bytes(b"SQLite format 3\0")
            if since is not None and self.limit is not None and time.monotonic() - since > self.limit:
                self.file.write_text(json.dumps(settings | {"enable": 0}))
                return


@pytest.mark.parametrize("limit", [None, 0.2])
def test_a_service_is_recorded_through_its_file(limit: float | None, tmp_path: Path) -> None:
    file = tmp_path / "service.json"
    told = {"enable": 0, "prof_dir": str(tmp_path / "out"), "acl_task_time": 1} | ({"timelimit": 1} if limit else {})
    file.write_text(json.dumps(told))
    loop = ServiceLoop(file, limit)
    loop.start()
    states = list(record_service(file, RecordRequest(tmp_path), FastClock()))
    loop.ended.set()
    assert states[-1] == Progress("raw", states[-1].said, (tmp_path / "out" / "0102-0304",))
    assert json.loads(file.read_text()) == told


def test_a_service_that_does_not_look_is_said_not_to(tmp_path: Path) -> None:
    file = tmp_path / "service.json"
    file.write_text(json.dumps({"enable": 0, "prof_dir": str(tmp_path / "out")}))
    with pytest.raises(RecordError) as told:
        list(record_service(file, RecordRequest(tmp_path, patience=4.0), FastClock()))
    assert told.value.message.code == "record.service_nothing"
    assert json.loads(file.read_text())["enable"] == 0
    for content, code in ((b"{", "record.bad_switch"), (b"{}", "record.no_service_file"),
                          (b'{"enable": 1}', "record.service_busy")):  # fmt: skip
        file.write_bytes(content)
        with pytest.raises(RecordError) as told:
            list(record_service(file, RecordRequest(tmp_path), FastClock()))
        assert told.value.message.code == code


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the daemon and its clients have it."""
    if shutil.which("openssl") is None:
        pytest.skip(reason="openssl is not installed")
    place = tmp_path_factory.mktemp("certs")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-sha256", "-nodes", "-subj", "/CN=any", "-days", "2",
         "-keyout", str(place / "server.key"), "-out", str(place / "server.crt")],
        check=True, capture_output=True,
    )  # fmt: skip
    shutil.copy(place / "server.crt", place / "ca.crt")
    return place


def test_a_daemon_is_asked_over_tls(certificates: Path, tmp_path: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates / "ca.crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
    with daemon(Monitored(tmp_path), context) as address:
        found = list(record_by_daemon(Daemon(address, certificates), RecordRequest(tmp_path, steps=3), FastClock()))
        assert found[-1].stage == "complete"
        with pytest.raises(RecordError) as told:  # who does not speak it is not answered
            Daemon(address).ask({"fn": "getStatus"})
    assert told.value.message.code in ("record.broken_answer", "record.no_answer")
    with pytest.raises(RecordError) as told:
        Daemon("host", tmp_path)
    assert told.value.message.code == "record.bad_certificates"


@pytest.mark.parametrize(
    "pieces", [lambda: itertools.repeat(b"\x16"), lambda: iter([b"\x16\x03\x03\x40\x00"]), lambda: iter(())]
)
def test_a_handshake_that_does_not_end_is_given_up(
    pieces: Callable[[], Iterator[bytes]], certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("npu_tui.record.serving.ANSWER_SECONDS", 0.3)
    begun = time.monotonic()
    with bytes_server(pieces, 0.05) as address:
        with pytest.raises(RecordError):
            Server(f"https://{address}").ask("GET", "/", seconds=0.3)
        with pytest.raises(RecordError):
            Daemon(address, certificates).ask({})
    assert time.monotonic() - begun < 5


@contextmanager
def bytes_server(pieces: Callable[[], Iterator[bytes]], pause: float = 0.0) -> Iterator[str]:
    """A server that answers whatever it is asked with ``pieces``."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                wire, _ = listening.accept()
                with wire, suppress(OSError):
                    wire.recv(1 << 16)
                    for piece in pieces():
                        wire.sendall(piece)
                        time.sleep(pause)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


OK = b"HTTP/1.1 200 OK\r\n"
HOSTILE: dict[str, tuple[Callable[[], Iterator[bytes]], float]] = {
    "one letter at a time": (lambda: itertools.repeat(b"H"), 0.05),
    "a header without an end": (lambda: itertools.chain([OK], itertools.repeat(b"x" * 1000)), 0.0),
    "headers without an end": (lambda: itertools.chain([OK], itertools.repeat(b"a: b\r\n")), 0.02),
    "a body that trickles": (lambda: itertools.chain([OK, b"\r\n"], itertools.repeat(b"{")), 0.05),
    "nothing": (lambda: iter(()), 0.0),
    "noise": (lambda: iter([bytes(range(256)) * 40]), 0.0),
    "a length below 0": (lambda: iter([OK, b"Content-Length: -5\r\n\r\n{}"]), 0.0),
    "a chunk of 2**64": (lambda: iter([OK, b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx"]), 0.0),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_server_is_given_up_in_time(name: str) -> None:
    pieces, pause = HOSTILE[name]
    begun = time.monotonic()
    with bytes_server(pieces, pause) as address, suppress(RecordError):
        answer = Server(f"http://{address}").ask("GET", "/", seconds=0.3)
        assert len(answer.body) <= 1 << 16
        assert answer.fields == {}
    assert time.monotonic() - begun < 5


@given(
    st.sampled_from(
        [
            b"[" * 500_000,
            b'{"nputrace":5,"current_step":"x","processesMatched":5}',
            b"7",
            b'"x"',
            b"{",
            b"",
            b'{"current_step":1e400}',
            b'{"processesMatched":{"a":1},"commandStatus":[]}',
            b"\xff" * 9,
        ]
    ),
    st.sampled_from([None, -1, 0, 1 << 30, 3]),
)
def test_a_hostile_daemon_is_told(tmp_path_factory: pytest.TempPathFactory, body: bytes, length: int | None) -> None:
    said = struct.pack("=i", len(body) if length is None else length) + body
    wanted = RecordRequest(tmp_path_factory.mktemp("out"), 2, 0, (), None, patience=0.1)
    with bytes_server(lambda: iter([said])) as address, pytest.raises(RecordError):
        for _ in record_by_daemon(Daemon(address), wanted, FastClock()):
            pass


@given(st.sampled_from([b"[" * 100_000, b"{}", b'{"start_step":1e400,"active":"x"}', b'{"stop_step":[]}', b"\xff", b"",
                        b'{"prof_dir":7,"experimental_config":[1]}', b'{"a":' * 300 + b"1" + b"}" * 300]),
       st.booleans())  # fmt: skip
def test_a_hostile_switch_is_told_or_written(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, hole: bool
) -> None:
    folder = tmp_path_factory.mktemp("switch")
    path = folder / "profiler_config.json"
    path.write_bytes(content)
    if hole:
        os.truncate(path, 1 << 40)
    with suppress(RecordError):
        switch = Switch(folder)
        switch.on(RecordRequest(folder / "out", 2, 0, (), 5))
        assert isinstance(json.loads(path.read_bytes()), dict)
