"""Asks a server over HTTP or over a socket, and nobody else: no redirects, no proxies, answers of a bounded size."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Timer
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from npu_tui.record.progress import RecordError
from npu_tui.trace.message import message

_MOST_BYTES = 64 << 10
ANSWER_SECONDS = 10.0
"""A server that is well answers a question about itself in so many seconds."""


_WHOLE_TIMES = 2
"""How many times the seconds of silence that are waited for a whole answer may take, however it trickles."""


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
        """The object that it is, empty where it is none."""
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
        """What the server answers within ``seconds`` of silence. Raises ``RecordError`` where it does not."""
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
