"""A headless Chromium for tests of pages, spoken to over two pipes; no server, no driver.

Chromium reads commands from descriptor 3 and writes answers and events to descriptor 4, each a JSON
text that ends with a zero byte.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
# What a page says on its console, what it throws, and what it asks of the outside.
TOLD = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}


class Tab:
    """One page. `faults` are what it logged or threw, `fetched` every address it asked for."""

    def __init__(self, commands: int, answers: int) -> None:
        self.commands, self.answers = commands, answers
        self.unread = b""
        self.number = 0
        self.session: dict[str, str] = {}
        self.loaded = False
        self.faults: list[str] = []
        self.fetched: list[str] = []
        page = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=page, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a command; events that come before it are noted."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": params, **self.session}
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while (message := self.read()).get("id") != self.number:
            self.note(message)
        assert "error" not in message, message["error"]
        return message["result"]

    def open(self, address: str) -> None:
        """Load a page; returns when its load event has fired."""
        self.loaded = False
        self.ask("Page.navigate", url=address)
        while not self.loaded:
            self.note(self.read())

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives; a promise is waited for."""
        told = self.ask(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        """Make the window this large, in CSS pixels, and let the page settle into it."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.value(
            "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
        )

    def read(self) -> dict[str, Any]:
        """The next message."""
        while b"\0" not in self.unread:
            more = os.read(self.answers, 1 << 20)
            assert more, "the browser has ended"
            self.unread += more
        text, _, self.unread = self.unread.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def note(self, event: dict[str, Any]) -> None:
        """Keep what an event tells."""
        method, params = event.get("method", ""), event.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Network.requestWillBeSent":
            self.fetched.append(params["request"]["url"])
        elif method in TOLD:
            self.faults.append(json.dumps(params))


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """A tab of a browser of its own, which ends with the block."""
    to_browser, commands = os.pipe()
    answers, from_browser = os.pipe()
    process = subprocess.Popen(
        [
            *("bash", "-c", f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}', str(BROWSER)),
            *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--remote-debugging-pipe", f"--user-data-dir={profile}"),
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        pass_fds=(to_browser, from_browser),
    )  # fmt: skip
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Tab(commands, answers)
    finally:
        process.kill()
        process.wait()
        os.close(commands)
        os.close(answers)
