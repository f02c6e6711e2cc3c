"""Records a server of inference over HTTP: vLLM and SGLang.

vLLM has ``POST /start_profile`` and ``/stop_profile`` where it was started with ``--profiler-config``
(https://docs.vllm.ai/en/latest/contributing/profiling.html); stopping lasts until all is written, for many minutes.
SGLang takes the number of steps and the folder, and stops by itself
(https://docs.sglang.io/developer_guide/benchmark_and_profiling.html).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Literal

from npu_tui.record.file_recording import followed
from npu_tui.record.http import HttpAnswer, Server
from npu_tui.record.outputs import outputs_below
from npu_tui.record.progress import POLL, Progress, RecordClock, RecordError, StoppedError
from npu_tui.record.request import RecordRequest
from npu_tui.trace.message import message

Engine = Literal["vllm", "sglang"]

SECONDS = 5.0
"""How long a server that counts no steps is recorded without ``--seconds``."""
_STOP_SECONDS = 3600.0
"""Stopping answers when every worker has written its profile; public reports have more than 20 minutes."""


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
            with suppress(RecordError):  # nobody is there any more to be told
                server.ask("POST", "/stop_profile")
            raise
        yield Progress("recording", message("record.server_stops", url=server.url))
        stopping = _Beside(lambda: server.ask("POST", "/stop_profile", seconds=_STOP_SECONDS))
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


class _Beside:
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
