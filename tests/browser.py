"""A browser without a window for tests of pages: Chromium, spoken to over the pipes that it has for that."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_SWITCHES = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
    "--remote-debugging-pipe", "--window-size=1000,700",
)  # fmt: skip


class Tab:
    """A page that is open; ``events`` are what it has told so far, by the names that Chromium gives them."""

    def __init__(self, wire: Wire, session: str) -> None:
        self._wire, self._session = wire, session
        self.events = wire.events

    def call(self, method: str, **params: object) -> Any:
        """What Chromium answers to a method of its protocol."""
        return self._wire.call(method, params, self._session)

    def value(self, script: str) -> Any:
        """What ``script`` is on the page; a promise is waited for."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def frame(self) -> None:
        """Wait until what was asked for is drawn."""
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def key(self, key: str) -> None:
        """Press ``key``, which types itself."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")
        self.frame()

    def mouse(self, kind: str, x: float, y: float, **more: object) -> None:
        """One event of the mouse, such as ``mouseMoved`` or ``mouseWheel``."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
        self.frame()


class Wire:
    """The two pipes: messages are JSON, each ended by a zero byte."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = os.fdopen(to, "wb", buffering=0), os.fdopen(back, "rb", buffering=0)
        self._number, self._rest = 0, b""
        self.events: list[tuple[str, dict[str, Any]]] = []

    def call(self, method: str, params: dict[str, object], session: str = "") -> Any:
        """Send one message and return what answers it; events before it are kept."""
        self._number += 1
        sent: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if session:
            sent["sessionId"] = session
        self._to.write(json.dumps(sent).encode() + b"\0")
        while True:
            told = self._read()
            if told.get("id") == self._number:
                assert "error" not in told, told
                return told["result"]
            if "method" in told:
                self.events.append((told["method"], told.get("params", {})))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = self._back.read(1 << 16)
            assert more, "Chromium has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def close(self) -> None:
        """Close both ends."""
        self._to.close()
        self._back.close()


@contextmanager
def opened_page(page: Path, profile: Path) -> Iterator[Tab]:
    """``page`` in a browser of its own, whose settings lie in the folder ``profile``."""
    assert CHROMIUM is not None
    read, to = os.pipe()
    back, write = os.pipe()
    command = [CHROMIUM, *_SWITCHES, f"--user-data-dir={profile}"]
    shell = ["bash", "-c", f'exec "$0" "$@" 3<&{read} 4>&{write}', *command]
    browser = subprocess.Popen(shell, pass_fds=(read, write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(read)
    os.close(write)
    wire = Wire(to, back)
    try:
        target = wire.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        tab = Tab(wire, wire.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"])
        for domain in ("Page", "Network", "Log", "Runtime"):
            tab.call(f"{domain}.enable")
        tab.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        tab.call("Page.navigate", url=page.as_uri())
        tab.value(
            "new Promise((done) => document.readyState === 'complete' ? done(1) : addEventListener('load', done))"
        )
        yield tab
    finally:
        browser.terminate()
        browser.wait(30)
        wire.close()
