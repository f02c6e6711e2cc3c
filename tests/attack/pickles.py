"""Damaged and hostile memory snapshots: each is read, with what is damaged counted, or refused in one line.

    python tests/attack/pickles.py [--megabytes 40]

Prints what became of each kind; with ``--megabytes`` also how much memory large ones take beside their size.
"""

from __future__ import annotations

import argparse
import pickle
import pickletools
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "fixtures")]

from snapshot import CAUSES, simulate  # noqa: E402 - its folder is no package

NEVER = "/tmp/npu-tui-never"
HEAD = b"\x80\x04"
_ADMITTED = set("}])(\x8c\x58KMJ\x8ahj\x94qr\x85\x86\x87tN\x89\x88Gusae.\x95\x80)\x8d")


def _text(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _snapshot(events: bytes, segments: bytes = b"]") -> bytes:
    """A pickle of a snapshot with the opcodes of its first trace and of its segments."""
    return HEAD + b"}(" + _text("segments") + segments + _text("device_traces") + b"](" + events + b"eu."


def _laughs(depth: int, width: int, atom: bytes = b"]") -> bytes:
    """A list of ``width`` references to a list of ``width`` references, ``depth`` times: pickled in a few bytes."""
    data = atom + b"q\x00"
    for level in range(depth):
        data += b"](" + b"h" + bytes((level,)) + (b"h" + bytes((level,))) * (width - 1) + b"eq" + bytes((level + 1,))
    return b"](" + data + b"e"


def crafted() -> dict[str, bytes]:
    """Pickles that no writer makes, by what is wrong with them."""
    found: dict[str, bytes] = {}
    for code in pickletools.opcodes:
        if code.code not in _ADMITTED:
            found[f"opcode {code.name}"] = HEAD + b"}" + code.code.encode("latin-1") + b"cos\nsystem\n(Vtouch\ntR." * 2
    system = b"cos\nsystem\n(X" + struct.pack("<I", len(NEVER) + 6) + b"touch " + NEVER.encode() + b"tR."
    found |= {
        "GLOBAL runs": system, "STACK_GLOBAL runs": pickle.dumps(_Evil(), 4), "in a frame": HEAD + b"}(" + system,
        "in an event": _snapshot(b"](}(" + _text("frames") + system[:-1] + b"ue"),
        "list in itself": _snapshot(b"]q\x00(h\x00h\x00e"),
        "dict in itself": _snapshot(b"](}q\x00(" + _text("frames") + b"h\x00ue"),
        "root in itself": HEAD + b"}q\x00(" + _text("segments") + b"h\x00" + _text("device_traces") + b"](h\x00eu.",
        "laughs of lists": _snapshot(_laughs(30, 100)), "laughs of traces": _snapshot(_laughs(3, 250)),
        "laughs of dicts": _snapshot(_laughs(20, 100, b"}")),
        "laughs of texts": _snapshot(_laughs(20, 100, _text("x" * 60_000))),
        "marks": HEAD + b"(" * 1_000_000, "lists in lists": HEAD + b"](" * 500_000,
        "dicts in dicts": HEAD + b"}" * 2_000_000,
        "tuples in tuples": HEAD + b")" + b"\x85" * 1_000_000 + b".", "memo far away": HEAD + b"}r\xff\xff\xff\x7f.",
        "memo of nothing": HEAD + b"\x94.", "get of nothing": HEAD + b"j\xff\xff\xff\xff.",
        "stack of nothing": HEAD + b"u.",
        "appends to a dict": HEAD + b"}(K\x01e.", "items of a list": HEAD + b"](X\x01\0\0\0aK\x01u.",
        "append to a number": HEAD + b"K\x01K\x01a.",
        "odd items": HEAD + b"}(K\x01u.", "number as key": HEAD + b"}(K\x01K\x02u.",
        "list as key": HEAD + b"}(]K\x02u.",
        "stop at once": HEAD + b".", "empty": HEAD, "two roots": HEAD + b"}}.",
        "mark as value": HEAD + b"}(" + _text("segments") + b"(u.",
        "LONG1 of 255 bytes": HEAD + b"\x8a\xff" + b"\x7f" * 255 + b".",
        "LONG4 of 2 GB": HEAD + b"\x8b\xff\xff\xff\x7f\x01.",
        "LONG4 negative": HEAD + b"\x8b\xff\xff\xff\xff.", "text of 4 GB": HEAD + b"X\xff\xff\xff\xff.",
        "text of 2**63": HEAD + b"\x8d" + b"\xff" * 8,
        "bytes of 4 GB": HEAD + b"B\xff\xff\xff\xff.",
        "bytearray of 2**60": HEAD + b"\x96" + struct.pack("<Q", 1 << 60),
        "frame of 2**63": HEAD + b"\x95" + b"\xff" * 8 + b"}.",
        "frame over the end": HEAD + b"\x95\x10\0\0\0\0\0\0\0}.",
        "protocol 255": b"\x80\xff}.", "no text": _snapshot(b"](}(" + b"X\x02\0\0\0\xff\xfeK\x01u" + b"e"),
        "devices without end": HEAD + b"}(" + _text("device_traces") + b"](" + b"]" * 1_000_000 + b"eu.",
    }  # fmt: skip
    return found


def damaged() -> dict[str, bytes]:
    """Snapshots with a wrong value, cut or with a wrong byte."""
    found: dict[str, bytes] = {}
    for name, change in _CHANGES.items():
        content = simulate(CAUSES["healthy"], 1).snapshot()
        change(content["device_traces"][0], content["segments"])
        for protocol in (2, 4):
            found[f"{name}, protocol {protocol}"] = pickle.dumps(content, protocol)
    whole = pickle.dumps(simulate(CAUSES["healthy"], 1).snapshot(), 4)
    found |= {f"cut at {part} of 16": whole[: len(whole) * part // 16] for part in range(1, 16)}
    found |= {
        f"byte {at} flipped": whole[:at] + bytes((whole[at] ^ 0xFF,)) + whole[at + 1 :]
        for at in range(3, len(whole), len(whole) // 12)
    }
    return found


class _Evil:
    def __reduce__(self) -> Any:
        import os

        return os.system, (f"touch {NEVER}",)


def _set(**fields: Any) -> Callable[[list[Any], list[Any]], None]:
    return lambda events, segments: events[5].update(fields)


def _held(**fields: Any) -> Callable[[list[Any], list[Any]], None]:
    return lambda events, segments: segments[0]["blocks"][0].update(fields)


_CHANGES: dict[str, Callable[[list[Any], list[Any]], None]] = {
    "negative size": _set(size=-(1 << 40)), "size of 2**64": _set(size=1 << 64),
    "size of 2**2000": _set(size=1 << 2000),
    "size as text": _set(size="12"), "size as float": _set(size=1e300), "address below 0": _set(addr=-5),
    "address of 2**64": _set(addr=1 << 64), "address as a list": _set(addr=[1]), "no action": _set(action=None),
    "action as a number": _set(action=3), "frames as text": _set(frames="abc"),
    "frames of numbers": _set(frames=[1, 2]),
    "frame without a line": _set(frames=[{"name": "f", "filename": "g"}]),
    "line of 2**70": _set(frames=[{"name": "f", "filename": "g", "line": 1 << 70}]),
    "stream as text": _set(stream="main"), "time below 0": _set(time_us=-1),
    "entry is a number": lambda events, segments: events.__setitem__(5, 7),
    "trace is a dict": lambda events, segments: events.__setitem__(slice(None), [{}] * 50),
    "block overlaps": _held(address=1, size=1 << 49),
    "block of 2**63": _held(size=1 << 63), "unknown state": _held(state="gone"),
    "blocks as text": lambda events, segments: segments[0].update(blocks="x"),
    "segment of nothing": lambda events, segments: segments.append(None),
    "device of 2**40": lambda events, segments: segments[0].update(device=1 << 40),
    "terminal codes in a name": _set(frames=[{"name": "\x1b[2J", "filename": "\x1b]0;x\x07.py", "line": 1}]),
}  # fmt: skip


def large(megabytes: int) -> dict[str, bytes]:
    """Hostile pickles of so many megabytes each."""
    size = megabytes << 20
    entry = b"}(" + _text("action") + _text("alloc") + b"u"
    return {
        "empty lists": HEAD + b"}(" + _text("segments") + b"](" + b"]" * size + b"eu.",
        "empty dicts": HEAD + b"}(" + _text("segments") + b"](" + b"}" * size + b"eu.",
        "tuples": HEAD + b"}(" + _text("segments") + b"](" + b"K\x01\x85" * (size // 3) + b"eu.",
        "numbers": _snapshot(b"](" + b"J\x01\x02\x03\x04" * (size // 5) + b"e"),
        "references": _snapshot(b"](" + entry + b"q\x00" + b"h\x00" * (size // 2) + b"e"),
        "entries": _snapshot(b"](" + entry * (size // len(entry)) + b"e"),
        "texts": _snapshot(b"](" + b"".join(_text(f"{number:06}") for number in range(size // 11)) + b"e"),
        "memo": HEAD + b"}" + b"\x94" * size + b".",
        "a real one": pickle.dumps(simulate(CAUSES["large"], 1).snapshot(), 4),
    }


def outcome(path: Path) -> tuple[int, str, int]:
    """Exit code, what stderr says, and the most memory in kB of a report about ``path``."""
    run = (
        "import sys; from pathlib import Path; from npu_tui.cli.main import main; code = main(sys.argv[1:]);"
        "print(next(x for x in Path('/proc/self/status').read_text().split('\\n') if x[:5] == 'VmHWM').split()[1],"
        "file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", run, "report", str(path), "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    *words, peak = done.stderr.splitlines() or ["0"]
    return done.returncode, "\n".join(words), int(peak) if peak.isdecimal() else 0


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=0)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pkl"
        everything = large(options.megabytes) if options.megabytes else crafted() | damaged()
        path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[]]}))
        _, _, least = outcome(path)
        bad = 0
        for name, data in everything.items():
            if options.names and name not in options.names:
                continue
            path.write_bytes(data)
            code, words, peak = outcome(path)
            wrong = code not in (0, 3) or words.count("\n") or "Traceback" in words or (code == 3) != bool(words)
            bad += bool(wrong)
            more = f"  {(peak - least) * 1024 / len(data):.2f} x" if options.megabytes else ""
            print(f"{'WRONG ' if wrong else ''}{name}: {code} {words[-90:]}{more}")
        print(f"{len(everything)} pickles, {bad} wrong; code was {'' if Path(NEVER).exists() else 'never '}run")


if __name__ == "__main__":
    main()
