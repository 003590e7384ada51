"""Drives a real Chromium with keys and taps: Chrome's DevTools protocol over a pipe, which needs no library."""

import json
import os
import select
import subprocess
import time
from contextlib import contextmanager

from tests.hb_metrics.pages import CHROMIUM

OPTIONS = """
    --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --remote-debugging-pipe --window-size=1200,900
"""
SECONDS = 60  # for an answer; machines that run tests are busy


class Browser:
    """One page of a browser."""

    def __init__(self, commands, answers):
        self._commands, self._answers, self._buffer = commands, answers, b""
        self._number, self._session, self.events = 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None and not method.startswith("Browser."):
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda message: message.get("id") == self._number)
        assert "error" not in answer, answer
        return answer["result"]

    def _until(self, wanted):
        while True:
            while b"\0" not in self._buffer:
                assert select.select([self._answers], [], [], SECONDS)[0], "the browser does not answer"
                part = os.read(self._answers, 1 << 16)
                assert part, "the browser ended"
                self._buffer += part
            text, _, self._buffer = self._buffer.partition(b"\0")
            message = json.loads(text)
            if wanted(message):
                return message
            self.events.append(message)

    def of(self, method):
        """The parameters of all events of a name so far."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def open(self, path):
        self.events = []
        self.call("Page.navigate", url=path.as_uri())
        # Chromium answers before the new page replaces the old one, which scripts would still see.
        if not self.of("Page.loadEventFired"):
            self.events.append(self._until(lambda message: message.get("method") == "Page.loadEventFired"))
        self.wait("document.readyState === 'complete'")

    def run(self, script):
        """The value of a JavaScript expression."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait(self, script):
        """Waits until a JavaScript expression is true."""
        end = time.monotonic() + SECONDS
        while not self.run(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)

    def press(self, key, **more):
        """Presses a key and lets go of it."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def tap(self, selector):
        """Taps the middle of an element with a finger, as far as it is on the screen."""
        script = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{script}.scrollIntoView({{block: 'center'}})")
        box = json.loads(self.run(f"JSON.stringify({script}.getBoundingClientRect())"))
        point = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[point])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")


@contextmanager
def open_browser(folder, downloads):
    """A browser with a profile of its own, which saves files to `downloads`."""
    downloads.mkdir(exist_ok=True)
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    # The browser reads from 3 and writes to 4; the shell can put a pipe there, whatever its number is here.
    shell = 'exec "$@" 3<&"$IN" 4>&"$OUT"'
    words = [CHROMIUM, *OPTIONS.split(), f"--user-data-dir={folder}"]
    process = subprocess.Popen(
        ["bash", "-c", shell, "bash", *words],
        pass_fds=[read_commands, write_answers],
        env={**os.environ, "IN": str(read_commands), "OUT": str(write_answers)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for end in (read_commands, write_answers):
        os.close(end)
    try:
        browser = Browser(commands, answers)
        browser.kill = lambda: (process.kill(), process.wait())
        browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
        yield browser
        if process.poll() is None:
            browser.call("Browser.close")
            process.wait(timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
        for end in (commands, answers):
            os.close(end)
