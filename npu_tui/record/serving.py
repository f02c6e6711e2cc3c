"""Records an inference service over HTTP (vLLM, SGLang) or the file of msServiceProfiler, any job through dynolog.

HTTP without redirects or proxies, and answers of a bounded size. vLLM has ``POST /start_profile`` and
``/stop_profile`` where it was started with ``--profiler-config``
(https://docs.vllm.ai/en/latest/contributing/profiling.html); stopping lasts until all is written, for many minutes.
SGLang takes the number of steps and the folder, and stops by itself
(https://docs.sglang.io/developer_guide/benchmark_and_profiling.html).

msServiceProfiler (https://gitcode.com/Ascend/msserviceprofiler): ``SERVICE_PROF_CONFIG_PATH`` names its file. A thread
of each process looks at its time of change: ``enable`` 1 starts, 0 stops. On its own limit of time or of steps the
profiler writes ``enable`` 0 back: then it has ended. A recording is a folder of ``prof_dir`` with a database of each
process, ``ms_service_*.db``: ``msserviceprofiler parse`` makes tables.

dynolog is msMonitor's daemon (https://gitcode.com/Ascend/msmonitor). It listens on TCP port 1778: four bytes of length
in the order of the machine, then JSON, both ways. ``getStatus`` names the current step and the state of a recording,
``setKinetOnDemandRequest`` asks for one. With TLS a folder holds ``ca.crt`` and the certificate and key of the client.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson
from msgspec import Struct

from npu_tui.load.format import Survey
from npu_tui.load.raw import raw_services
from npu_tui.record import (
    POLL,
    Deadline,
    Progress,
    RecordClock,
    RecordError,
    RecordRequest,
    StoppedError,
    surely,
    unreadable,
)
from npu_tui.record.file_recording import followed
from npu_tui.record.outputs import outputs_below
from npu_tui.trace.message import message
from npu_tui.trace.side_file import paths_in, read_regular
from npu_tui.trace.text import whole_number
from npu_tui.whole_file import write_file

_MOST_BYTES = 64 << 10
ANSWER_SECONDS = 10.0
"""A server that is well answers a question about itself in so many seconds."""


# How many times the seconds of silence that are waited for a whole answer may take, however it trickles.
_WHOLE_TIMES = 2


@contextmanager
def connected(place: tuple[str, int], tls: ssl.SSLContext | None, seconds: float) -> Iterator[socket.socket]:
    """A wire to ``place``, over TLS by ``tls`` where that is given.

    Raises ``TimeoutError`` after ``seconds`` of silence, or where not all is heard after twice as many.
    """
    is_over = Event()
    with ExitStack() as held:
        wire = held.enter_context(socket.create_connection(place, seconds))
        if tls is not None:
            wire = held.enter_context(tls.wrap_socket(wire, False, False, server_hostname=place[0]))

        def end() -> None:
            is_over.set()
            with suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)

        timer = Timer(_WHOLE_TIMES * seconds, end)
        timer.daemon = True
        timer.start()
        try:
            if isinstance(wire, ssl.SSLSocket):
                wire.do_handshake()  # it may trickle too
            yield wire
        except (OSError, http.client.HTTPException, ValueError):
            if not is_over.is_set():
                raise
        finally:
            timer.cancel()
    if is_over.is_set():
        raise TimeoutError


class HttpAnswer(Struct, frozen=True):
    """What a server answered: its ``status``, and the beginning of the ``body``."""

    status: int
    body: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """The object that it is, empty if it is something else."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class Server:
    """The server at ``url``. Raises ``RecordError`` for what is no address of one."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            parts = urlsplit(self.url)
            self._host, self._port = parts.hostname, parts.port
        except ValueError:
            self._host = None
        if self._host is None or parts.scheme not in ("http", "https"):
            raise RecordError(message("record.bad_url", url=url))
        self._scheme, self._path = parts.scheme, parts.path

    def ask(
        self, method: str, path: str, fields: dict[str, Any] | None = None, seconds: float = ANSWER_SECONDS
    ) -> HttpAnswer:
        """The answer of the server. Raises ``RecordError`` without one, or after ``seconds`` of silence."""
        kind = http.client.HTTPSConnection if self._scheme == "https" else http.client.HTTPConnection
        connection = kind(self._host or "", self._port)
        body = None if fields is None else json.dumps(fields).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            tls = ssl.create_default_context() if self._scheme == "https" else None
            with connected((connection.host, connection.port), tls, seconds) as connection.sock:
                connection.request(method, self._path + path, body, headers)
                answer = connection.getresponse()
                content = answer.read(_MOST_BYTES)
            if answer.length and len(content) < _MOST_BYTES:
                raise http.client.IncompleteRead(content, answer.length)
            return HttpAnswer(answer.status, content)
        except TimeoutError:
            raise RecordError(message("record.no_answer", url=self.url + path, waited=seconds * 1e9)) from None
        except ConnectionRefusedError:
            raise RecordError(message("record.refused", url=self.url)) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise RecordError(message("record.broken_answer", url=self.url + path, why=why)) from None
        finally:
            connection.close()


Engine = Literal["vllm", "sglang"]

SECONDS = 5.0
"""How long a server that counts no steps is recorded without ``--seconds``."""
# Stopping answers when every worker has written its profile; public reports have more than 20 minutes.
_STOP_SECONDS = 3600.0


def record_server(url: str, wanted: RecordRequest, clock: RecordClock) -> Iterator[Progress]:
    """Record the server at ``url`` into the folder that it was started with, ``wanted.out``.

    It has stopped recording afterwards, also where the iterator is closed early.
    Raises ``RecordError``, ``StoppedError``.
    """
    server = Server(url)
    engine = engine_of(server)
    known = {output.folder for output in outputs_below(wanted.out)}
    by_steps = engine == "sglang" and wanted.seconds is None
    fields = None
    if engine == "sglang":
        fields = {"output_dir": str(wanted.out), "activities": ["CPU", "GPU"], "with_stack": wanted.stack,
                  "record_shapes": wanted.shapes} | ({"num_steps": wanted.steps} if by_steps else {})  # fmt: skip
    if by_steps:
        _accepted(server.ask("POST", "/start_profile", fields), server, engine)
        yield Progress("recording", message("record.server_steps", url=server.url, steps=wanted.steps))
    else:
        seconds = SECONDS if wanted.seconds is None else wanted.seconds
        try:
            _accepted(server.ask("POST", "/start_profile", fields), server, engine)
            yield Progress("recording", message("record.server_seconds", url=server.url, length=seconds * 1e9))
            clock.wait(seconds)
        except (KeyboardInterrupt, StoppedError, GeneratorExit):
            with suppress(RecordError):  # nothing is left to answer
                server.ask("POST", "/stop_profile")
            raise
        yield Progress("recording", message("record.server_stops", url=server.url))
        stopping = _Meanwhile(lambda: server.ask("POST", "/stop_profile", seconds=_STOP_SECONDS))
        while stopping.is_busy:
            clock.wait(POLL)
        _accepted(stopping.answer, server, engine)
    if not wanted.out.is_dir():
        raise RecordError(message("record.server_elsewhere", url=server.url, folder=str(wanted.out)))
    yield from followed(wanted, known, 0, clock)


def engine_of(server: Server) -> Engine:
    """Which of the two ``server`` is. Raises ``RecordError`` where nothing answers."""
    return "sglang" if server.ask("GET", "/get_server_info").status == 200 else "vllm"


def _accepted(answer: HttpAnswer, server: Server, engine: Engine) -> None:
    if answer.status == 404:
        raise RecordError(message(f"record.not_configured.{engine}", url=server.url))
    if answer.status >= 300:
        said = answer.body[:200].decode("utf-8", "replace")
        raise RecordError(message("record.bad_status", url=server.url, status=answer.status, said=said))


class _Meanwhile:
    """A question asked in a thread of its own, as it may last long."""

    def __init__(self, ask: Callable[[], HttpAnswer]) -> None:
        self._answer: HttpAnswer | RecordError | None = None
        self._thread = Thread(target=self._run, args=(ask,), daemon=True)
        self._thread.start()

    def _run(self, ask: Callable[[], HttpAnswer]) -> None:
        try:
            self._answer = ask()
        except RecordError as error:
            self._answer = error

    @property
    def is_busy(self) -> bool:
        """Whether the answer is still waited for."""
        return self._thread.is_alive()

    @property
    def answer(self) -> HttpAnswer:
        """The answer. Raises ``RecordError``."""
        if not isinstance(self._answer, HttpAnswer):
            raise self._answer or RecordError(message("record.broken_answer", url="", why=""))
        return self._answer


_PLACE = "~/.ms_server_profiler"
_LARGEST = 1 << 20
"""Bytes of the file: it holds some settings."""
_QUIET = 5.0  # seconds in which a database of a process that still records has changed


class ServiceSwitch:
    """The ``file`` of a service's profiler. Raises ``RecordError`` if it cannot be read."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.settings = self._read()
        if "enable" not in self.settings:
            raise RecordError(message("record.no_service_file", path=str(file)))

    def _read(self) -> dict[str, Any]:
        try:
            found = orjson.loads(read_regular(self.file, _LARGEST))
            orjson.dumps(found)  # it reads deeper ones than it writes
        except OSError as error:
            raise unreadable(self.file, error) from error
        except (orjson.JSONDecodeError, TypeError):
            found = None
        if not isinstance(found, dict):
            raise RecordError(message("record.bad_switch", path=str(self.file)))
        return found

    @property
    def place(self) -> Path:
        """Where the profiler writes."""
        told = self.settings.get("prof_dir")
        return Path(os.path.expanduser(told if isinstance(told, str) and told else _PLACE))

    @property
    def is_on(self) -> bool:
        """Whether it is asked to record at present; also while the profiler is writing the file."""
        try:
            return self._read().get("enable") == 1
        except RecordError:
            return self.file.exists()

    @property
    def ends_itself(self) -> bool:
        """Whether the settings have a limit of their own."""
        return any(self.settings.get(name) for name in ("timelimit", "profiler_step_num"))

    def off(self) -> None:
        """Let nothing record any more. Raises ``RecordError``."""
        if self.is_on:
            self.write(0)

    def write(self, enable: int, **fields: object) -> None:
        """Write ``enable`` (1 or 0) and ``fields``, all others as the file has them. Raises ``RecordError``."""
        try:
            write_file(self.file, orjson.dumps(self._read() | fields | {"enable": enable}, option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise unreadable(self.file, error) from error


def record_service(file: Path, wanted: RecordRequest, clock: RecordClock) -> Iterator[Progress]:
    """Record the service that watches ``file``: ends with the raw folders, which are to be parsed.

    It has stopped recording afterwards, also where the iterator is closed early.
    Raises ``RecordError``, ``StoppedError``.
    """
    switch = ServiceSwitch(file)
    if switch.is_on:
        raise RecordError(message("record.service_busy", path=str(file)))
    known = set(_recordings(switch.place))
    seconds = wanted.seconds or (None if switch.ends_itself else SECONDS)
    try:
        switch.write(1)
        length = message("record.own_limit") if seconds is None else message("record.length", length=seconds * 1e9)
        yield Progress("waiting", message("record.service_asked", path=str(file), length=length))
        deadline = Deadline(clock, wanted.patience)
        while not (found := [folder for folder in _recordings(switch.place) if folder not in known]):
            clock.wait(POLL)
            if deadline.is_over:
                waited = deadline.seconds * 1e9
                raise RecordError(message("record.service_nothing", path=str(file), folder=str(switch.place),
                                          waited=waited))  # fmt: skip
        yield Progress("recording", message("record.service_records", folder=str(found[0]), length=length))
        deadline = Deadline(clock, wanted.patience if seconds is None else seconds)
        while switch.is_on and not deadline.is_over:
            clock.wait(POLL)
    finally:
        surely(switch.off)
    found = [folder for folder in _recordings(switch.place) if folder not in known]
    while True:
        sizes = _folder_sizes(found)
        clock.wait(_QUIET)
        if sizes == _folder_sizes(found):
            break
        yield Progress("recording", message("record.writing", count=len(found), size=sum(sizes)))
    yield Progress("raw", message("record.raw", count=len(found), size=sum(sizes)), tuple(found))


def _recordings(place: Path) -> list[Path]:
    """The folders that the profiler has made in ``place``."""
    try:
        return [folder for folder in paths_in(place) if folder.is_dir() and raw_services(folder, Survey())]
    except OSError:
        return []


def _folder_sizes(folders: list[Path]) -> list[int]:
    return [path.stat().st_size for folder in folders for path in paths_in(folder) if ".db" in path.name]


PORT = 1778
_LONGEST_ANSWER = 1 << 20
_LENGTH = struct.Struct("=i")
_PROCESSES = 1 << 16
"""How many processes may match: all ranks of a host."""


class Daemon:
    """The daemon at ``address``, HOST or HOST:PORT; with a folder of ``certificates`` over TLS."""

    def __init__(self, address: str, certificates: Path | None = None) -> None:
        host, _, port = address.rpartition(":") if ":" in address else (address, "", str(PORT))
        number = whole_number(port)
        if not host or number is None or not 0 < number < 1 << 16:
            raise RecordError(message("record.bad_address", address=address))
        self.address, self._place = f"{host}:{number}", (host, number)
        self._tls = None if certificates is None else _context(certificates)

    def ask(self, fields: dict[str, Any]) -> dict[str, Any]:
        """What the daemon answers to ``fields``. Raises ``RecordError`` where it does not, or says nothing sensible."""
        content = json.dumps(fields).encode()
        try:
            with connected(self._place, self._tls, ANSWER_SECONDS) as wire:
                wire.sendall(_LENGTH.pack(len(content)) + content)
                length = _LENGTH.unpack(_received(wire, _LENGTH.size))[0]
                if not 0 <= length <= _LONGEST_ANSWER:
                    raise ValueError(f"{length} bytes")
                data = _received(wire, length)
            found = json.loads(data)
        except TimeoutError:
            waited = ANSWER_SECONDS * 1e9
            raise RecordError(message("record.no_answer", url=self.address, waited=waited)) from None
        except ConnectionRefusedError:
            raise RecordError(message("record.no_daemon", address=self.address)) from None
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise RecordError(message("record.broken_answer", url=self.address, why=why)) from None
        if not isinstance(found, dict):
            raise RecordError(message("record.broken_answer", url=self.address, why=str(found)[:80]))
        return found


def _context(folder: Path) -> ssl.SSLContext:
    """TLS by the certificates in ``folder``; the daemon's is made for no name."""
    try:
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        context.check_hostname = False
        own = next((name for name in ("client", "server") if (folder / f"{name}.crt").exists()), None)
        if own is not None:
            context.load_cert_chain(folder / f"{own}.crt", folder / f"{own}.key")
    except (OSError, ssl.SSLError) as error:
        raise RecordError(message("record.bad_certificates", folder=str(folder), why=str(error))) from None
    return context


def _received(wire: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = wire.recv(min(count - len(parts), 1 << 16))
        if not part:
            raise ValueError("the connection ended within the answer")
        parts += part
    return bytes(parts)


def record_by_daemon(daemon: Daemon, wanted: RecordRequest, clock: RecordClock) -> Iterator[Progress]:
    """Record the job that registered with ``daemon``. Raises ``RecordError``, ``StoppedError``."""
    before = _status(daemon)
    step = whole_number(before.get("current_step"))
    if before.get("nputrace") in ("Running", "Ready"):
        raise RecordError(message("record.daemon_busy", address=daemon.address))
    known = {output.folder for output in outputs_below(wanted.out)}
    answer = daemon.ask({
        "fn": "setKinetOnDemandRequest", "config": _config(wanted), "job_id": 0, "pids": [0],
        "process_limit": _PROCESSES,
    })  # fmt: skip
    matched = answer.get("processesMatched")
    if not isinstance(matched, list) or not matched or answer.get("commandStatus") == "ineffective":
        raise RecordError(message("record.no_process", address=daemon.address))
    yield Progress("waiting", message("record.daemon_asked", address=daemon.address, count=len(matched), step=step))
    deadline, begun, told = Deadline(clock, wanted.patience), False, None
    while True:
        clock.wait(POLL)
        status = _status(daemon)
        state = status.get("nputrace")
        now, first = (whole_number(status.get(name)) for name in ("current_step", "start_step"))
        if state == "Running":
            begun = True
            if (line := (now, first)) != told:
                told = line
                deadline.renew()
                yield Progress(
                    "recording",
                    message("record.daemon_records", step=now, first=first, steps=wanted.steps, warmup=wanted.warmup),
                )
        elif begun or (not begun and _has_passed(step, now, wanted)):
            break
        elif (now, None) != told:
            told = (now, None)
            yield Progress("waiting", message("record.daemon_waits", step=now, first=first))
        if deadline.is_over:
            raise RecordError(message("record.daemon_nothing", address=daemon.address, waited=deadline.seconds * 1e9))
    yield from followed(wanted, known, 0, clock)


def _has_passed(begun: int | None, now: int | None, wanted: RecordRequest) -> bool:
    """Whether the steps are over although no rank was seen recording: they may be shorter than a look."""
    if begun is None or now is None:
        return False
    first = begun + 1 if wanted.at is None else wanted.at
    return now > first + wanted.warmup + wanted.steps


def _status(daemon: Daemon) -> dict[str, Any]:
    status = daemon.ask({"fn": "getStatus"})
    if status.get("nputrace") == "Uninitialized":
        raise RecordError(message("record.no_process", address=daemon.address))
    return status


def _config(wanted: RecordRequest) -> str:
    flags = {
        "ACTIVITIES_LOG_FILE": str(wanted.out),
        "PROFILE_START_STEP": -1 if wanted.at is None else wanted.at,
        "ACTIVITIES_ITERATIONS": wanted.steps,
        "WARMUP_ITERATIONS": wanted.warmup,
        "PROFILE_ACTIVITIES": "CPU,NPU",
        "PROFILE_PROFILER_LEVEL": f"Level{wanted.level}",
        "PROFILE_WITH_STACK": wanted.stack,
        "PROFILE_RECORD_SHAPES": wanted.shapes,
        "PROFILE_PROFILE_MEMORY": wanted.memory,
        "PROFILE_ANALYSE": True,
        "PROFILE_ASYNC_MODE": True,
        "PROFILE_IS_RANK": bool(wanted.ranks),
        "PROFILE_RANK_LIST": ",".join(map(str, wanted.ranks)),
    }
    return "\n".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in flags.items()
    )
