"""A headless Chromium, controlled over the DevTools protocol."""

import json
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium")
START_S = 30
KEYS = {
    "Enter": ("\r", 13),
    "Tab": ("", 9),
    "ArrowRight": ("", 39),
    "Home": ("", 36),
    "Escape": ("", 27),
    " ": (" ", 32),
}


class Page:
    """A tab. Errors are collected in `complaints`, requested addresses in `asked`."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = count(1)
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self._loaded = False
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to the browser, and return its answer."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            said = json.loads(self._socket.recv(timeout=START_S))
            if said.get("id") == number:
                assert "error" not in said, said
                found: dict[str, Any] = said["result"]
                return found
            self._hear(said.get("method"), said.get("params") or {})

    def _hear(self, method: str | None, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown" or (
            method == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning", "assert"}
        ):
            self.complaints.append(json.dumps(params)[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

    def open(self, address: str) -> None:
        """Open an address, and wait until the page is loaded and drawn: a chart gets its size when it is drawn."""
        self._loaded = False
        self.send("Page.navigate", url=address)
        while not self._loaded:
            said = json.loads(self._socket.recv(timeout=START_S))
            self._hear(said.get("method"), said.get("params") or {})
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true in the page; fail after a timeout."""
        look = f"const look = () => ({script}) ? done(true) : left-- ? setTimeout(look, 20) : done(false)"
        assert self.run(f"new Promise(done => {{ let left = 500; {look}; look(); }})"), script

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        spot = self.run(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            "one.scrollIntoView({block: 'center', behavior: 'instant'}); const box = one.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=spot[0], y=spot[1], button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press and release a key."""
        text, code = KEYS[key]
        about: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
        self.send("Input.dispatchKeyEvent", type="keyDown", **about)
        self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Emulate a screen of this size, a dark or light color scheme, and reduced motion."""
        mobile = width < 600
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.send("Emulation.setEmulatedMedia", features=[scheme, still])

    def picture(self, path: Path) -> None:
        """Save a screenshot as PNG."""
        path.write_bytes(b64decode(self.send("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Start Chromium with a profile in this folder, and stop it later; skip the test if it is not installed."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine: apt-get install chromium")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio"]
    place = ["--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([CHROMIUM, *options, *quiet, *place], stdout=log, stderr=log)
    try:
        port = _port(folder, process)
        with connect(f"ws://127.0.0.1:{port[0]}{port[1]}", max_size=None) as whole:
            whole.send(json.dumps({"id": 1, "method": "Target.createTarget", "params": {"url": "about:blank"}}))
            while "result" not in (said := json.loads(whole.recv(timeout=START_S))):
                pass
            target = said["result"]["targetId"]
            with connect(f"ws://127.0.0.1:{port[0]}/devtools/page/{target}", max_size=None) as tab:
                yield Page(tab)
    finally:
        process.terminate()
        process.wait(timeout=START_S)


def _port(folder: Path, process: subprocess.Popen[bytes]) -> list[str]:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        file = folder / "DevToolsActivePort"
        if file.exists() and len(lines := file.read_text(encoding="utf-8").split()) == 2:
            return lines
        time.sleep(0.05)
    pytest.fail(f"chromium did not start: {(folder / 'log').read_text(errors='replace')[-2000:]}")
