"""Odd lines to one server for agents: whatever a client writes, the server answers what comes next.

python tests/attack/lines.py [--mutants 300] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from typing import Any

from asked import FIXTURES, VALUES

from npu_tui.mcp.tools import TOOLS

SECONDS = 120
ODD = (
    b"", b"{", b"[]", b"null", b"\xff\xfe", b"{}" * 50, b'"x"', b"1e999", b'{"jsonrpc":"2.0"}', b"\0" * 100, b"nan",
    b'{"jsonrpc":"1.0","id":1}', b"{" * 3000, b"[" * 100_000,
)  # fmt: skip
IDS: tuple[Any, ...] = (None, 1.5, -1, 10**40, "s", "\ud800", [1], {}, True, "")
NUMBERS = (b"1e400", b"NaN", b"-0", b"1" * 5000, b"Infinity", b"0.1e-999")
PLACES: tuple[Any, ...] = (
    "npu-tui://picture/1", "npu-tui://schema/x", "npu-tui://../../etc/passwd", "file:///etc/passwd", "", "\x1b", 5,
    "npu-tui://picture/" + "9" * 5000,
)  # fmt: skip


def line(number: int, draw: random.Random) -> list[bytes]:
    """What a client writes."""
    name = draw.choice(sorted(TOOLS))
    fields = TOOLS[name].arguments.__struct_fields__
    given = {field: draw.choice(VALUES) for field in draw.sample(fields, draw.randrange(len(fields) + 1))}
    given |= {"path": "dispatch_bound"} if draw.random() < 0.6 else {}
    given |= {"output": "/dev/full"} if "output" in given else {}
    call: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
    call["params"] = {"name": name, "arguments": given}
    kind = draw.choice(["call", "call", "call", "odd", "cancel", "id", "params", "place", "number", "long"])
    if kind == "odd":
        return [draw.choice(ODD)]
    if kind == "id":
        call["id"] = draw.choice(IDS)
    elif kind == "params":
        call["params"] = draw.choice([None, [], 5, {"name": None}, {"name": name, "arguments": []}, {"name": "\ud800"}])
    elif kind == "place":
        call |= {"method": "resources/read", "params": {"uri": draw.choice(PLACES)}}
    elif kind == "long":
        call["params"]["arguments"] = {"path": "a" * 1_000_000}
    written = json.dumps(call).encode()
    if kind == "number":
        return [written[:-2] + b',"limit":' + draw.choice(NUMBERS) + b"}}"]
    given_up = {"requestId": draw.choice([number, 10**30, None, [1]]), "reason": draw.choice(["x", 5, "\x1b[2J"])}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": given_up}
    return [written, *([json.dumps(cancel).encode()] if kind == "cancel" else [])]


def attack(mutants: int, seed: int) -> list[str]:
    """What went wrong."""
    command = [sys.executable, "-m", "npu_tui", "mcp", "--root", str(FIXTURES)]
    answers: dict[object, Any] = {}
    wrong: list[str] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def listen() -> None:
            for text in server.stdout or ():
                answer = json.loads(text)
                answers[str(answer.get("id"))] = answer
                if "internal error" in text.decode() or b"\x1b" in text:
                    wrong.append(f"{text!r:.300}")

        def ask(number: int, method: str, **params: Any) -> None:
            send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())
            began = time.monotonic()
            while str(number) not in answers and time.monotonic() - began < SECONDS and server.poll() is None:
                time.sleep(0.01)
            if str(number) not in answers:
                wrong.append(f"no answer to {number}, exit {server.poll()}")

        def send(data: bytes) -> None:
            server.stdin.write(data + b"\n")  # type: ignore[union-attr]
            server.stdin.flush()  # type: ignore[union-attr]

        threading.Thread(target=listen, daemon=True).start()
        client = {"name": "attack", "version": "1"}
        ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        for number in range(mutants):
            for data in line(1000 + number, random.Random(f"{seed} {number}")):
                send(data)
            if number % 25 == 24 and not wrong:
                ask(100_000 + number, "ping")
        ask(2, "tools/call", name="query", arguments={"path": "dispatch_bound", "sql": "SELECT 7 AS n"})
        if "[[7]]" not in str(answers.get("2")):
            wrong.append(f"{answers.get('2')!s:.300}")
        server.stdin.close()
        if server.wait(SECONDS):
            wrong.append(f"exit {server.returncode}")
    return wrong


def main() -> int:
    """The command; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wrong = attack(options.mutants, options.seed)
    print("\n".join(wrong) or f"{options.mutants} lines, the server answers")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
