"""Records a job through msMonitor's daemon, dynolog (https://gitcode.com/Ascend/msmonitor).

It listens on TCP port 1778: four bytes of length in the order of the machine, then JSON, both ways. ``getStatus`` names
the current step and the state of a recording, ``setKinetOnDemandRequest`` asks for one. With TLS a folder holds
``ca.crt`` and the certificate and key of the client.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from npu_tui.record.file_recording import followed
from npu_tui.record.outputs import outputs_below
from npu_tui.record.progress import POLL, Deadline, Progress, RecordClock, RecordError, RecordRequest
from npu_tui.record.serving import ANSWER_SECONDS, connected
from npu_tui.trace.message import message
from npu_tui.trace.text import whole_number

PORT = 1778
_MOST_BYTES = 1 << 20
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
                if not 0 <= length <= _MOST_BYTES:
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
    """Whether the steps are over although nobody was seen recording: they may be shorter than a look."""
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
