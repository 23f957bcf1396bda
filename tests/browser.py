"""A page in headless Chromium: what a script finds in it, and what the console says."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.parse import unquote

import pytest

_BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--window-size=1400,1000", "--allow-file-access-from-files", "--enable-logging=stderr"),
)

needs_browser = pytest.mark.skipif(
    _BROWSER is None, reason="no Chromium on this machine: apt-get install chromium"
)

# The page is opened as it is, in a frame of the given width: its own policy forbids scripts.
_FRAME = """<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<iframe width="{width}" height="900" style="border: 0" src="{page}"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {{
  const inspect = (document, window) => {{ {script} }};
  const found = inspect(frame.contentDocument, frame.contentWindow);
  document.documentElement.dataset.found = encodeURIComponent(JSON.stringify(found));
}});
</script>
"""

_FAULTS = """
const all = (selector) => [...document.querySelectorAll(selector)];
const target = (node) => node.getAttribute("href") ?? node.getAttribute("src");
const label = (node) => document.getElementById(node.getAttribute("aria-labelledby"));
const ids = all("[id]").map((node) => node.id);
const foreign = /^(?!#|data:|[\\w/]+\\.(html|yaml)$)/;
const faults = {
  links: all("[href], [src]").map(target).filter((link) => foreign.test(link)),
  images: all("img").length,
  nameless: all("table").filter((table) => !label(table)).length
    + all("audio:not([aria-label])").length,
  charts: all("svg:not([role=img], [aria-hidden])").length,
  ids: ids.length - new Set(ids).size,
  beyond: document.documentElement.scrollWidth > window.innerWidth,
};
return Object.entries(faults).filter(([_, found]) => found > 0 || found.length);
"""


def faults_of(page: Path, *, width: int = 390) -> Any:
    """Return what a page has of elsewhere, without a name, or beyond the width of a phone."""
    assert "default-src 'none'" in page.read_text(encoding="utf-8")
    return in_browser(page, _FAULTS, width=width)


def in_browser(page: Path, script: str, *, width: int = 1200) -> Any:
    """Return what the body of a function of ``document`` and ``window`` returns in the page.

    An error or a warning in the console fails the test.
    """
    frame = page.with_name("frame.html")
    text = _FRAME.format(width=width, page=page.as_uri(), script=script)
    frame.write_text(text, encoding="utf-8")
    profile = f"--user-data-dir={page.with_name('profile')}"
    command = [str(_BROWSER), *_FLAGS, profile, "--dump-dom", frame.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "CONSOLE" not in done.stderr, done.stderr
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found, done.stderr
    return json.loads(unquote(found[1]))


def drive(url: str, found: Queue[Any], profile: Path, *flags: str) -> Any:
    """Open a page and return what its own script, a test's, makes its server put into ``found``.

    An error or a warning in the console fails the test.
    """
    command = [str(_BROWSER), *_FLAGS, f"--user-data-dir={profile}", *flags, url]
    with (
        profile.with_suffix(".log").open("w+", encoding="utf-8") as log,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log) as browser,
    ):
        try:
            answer = found.get(timeout=60)
        finally:
            browser.terminate()
            browser.wait()
            log.seek(0)
            printed = log.read()
    assert "CONSOLE" not in printed, printed
    return answer
