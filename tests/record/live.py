"""A clock that runs faster than that of the wall, live jobs, and servers that answer what a test tells them to."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from npu_tui.record import Progress, RecordClock

LIVE_JOB = Path(__file__).resolve().parents[2] / "fixtures" / "live_job.py"
FASTER = 40.0


class FastClock(RecordClock):
    """Its seconds are a fortieth of those of the wall."""

    def now(self) -> float:
        return time.monotonic() * FASTER

    def wait(self, seconds: float) -> None:
        super().wait(seconds / FASTER)


@contextmanager
def live_job(folder: Path, *words: str) -> Iterator[int]:
    """A job that watches ``folder``; it runs inside. Its process group."""
    logs = set((folder / "log").glob("*"))
    process = subprocess.Popen(
        [sys.executable, str(LIVE_JOB), str(folder), "--seconds", "60", *words], start_new_session=True
    )
    try:
        until = time.monotonic() + 30
        begun = "profiler_config.json" if "--mindspore" in words else "log/monitor_*"
        while not set(folder.glob(begun)) - logs and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.1)
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def stages(states: Iterator[Progress]) -> list[str]:
    """The stages that ``states`` come through, each once in a row."""
    found: list[str] = []
    for state in states:
        if found[-1:] != [state.stage]:
            found.append(state.stage)
    return found


Answers = Callable[[str, str, bytes], tuple[int, bytes] | None]
"""What a server answers to (method, path, body): status and body; None: half of an answer."""


@contextmanager
def http_server(answers: Answers) -> Iterator[str]:
    """A server on this host, by its address."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found = answers(self.command, self.path, body)
            if found is None:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
                return
            status, content = found
            with suppress(BrokenPipeError):  # whoever asked has given up
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST = _answer  # noqa: N815 - as http.server asks for them

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def daemon(
    answers: Callable[[dict[str, Any]], dict[str, Any] | bytes], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """A daemon of msMonitor, by its address: a length, then JSON; bytes are sent as they are."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                wire, _ = listening.accept()
            except OSError:
                return
            with wire, suppress(ssl.SSLError):
                if tls is not None:
                    wire = tls.wrap_socket(wire, server_side=True)
                length = struct.unpack("=i", wire.recv(4))[0]
                content = b""
                while len(content) < length:
                    content += wire.recv(length - len(content))
                found = answers(json.loads(content))
                if isinstance(found, dict):
                    content = json.dumps(found).encode()
                    found = struct.pack("=i", len(content)) + content
                wire.sendall(found)
                wire.close()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
