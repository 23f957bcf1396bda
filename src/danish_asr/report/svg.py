"""A matplotlib figure as inline SVG that takes its colours from the page.

matplotlib draws well-set static charts without a line of JavaScript, so that the page needs no
network and prints; interactive libraries would embed megabytes of script for a dot and a bar. It
draws in fixed colours, so figures use the stand-in colours below and the SVG gets CSS variables in
their place, which follow the reader's light or dark mode.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

INK: Final = "#010203"
MUTED: Final = "#040506"
LINE: Final = "#070809"
ACCENT: Final = "#0a0b0c"
SECOND: Final = "#0d0e0f"
PAPER: Final = "#101112"

_VARIABLES: Final = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    ACCENT: "var(--accent)",
    SECOND: "var(--second)",
    PAPER: "var(--paper)",
}
_STYLE: Final[dict[str, Any]] = {
    "svg.fonttype": "none",  # text stays text: it can be searched, copied and read aloud
    "font.size": 10,
    "text.color": INK,
    "text.parse_math": False,  # a "$" in a label is a dollar
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "grid.color": LINE,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
}
# Groups carry numbered ids that would repeat when several figures stand on one page.
_NUMBERED_ID: Final = re.compile(r' id="[A-Za-z0-9.]+_\d+"')
_FONT: Final = re.compile(r"'DejaVu Sans'(?:, [^;\"]*)?")
_SIZE: Final = re.compile(r'<svg [^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>')


@contextmanager
def figure(width: float, height: float, name: str) -> Iterator[Figure]:
    """Yield an empty figure of that size in inches; use `to_svg` before the block ends.

    ``name`` makes the ids inside the SVG differ from those of other figures, and the same on every
    run.
    """
    style = _STYLE | {"svg.hashsalt": name}
    with mpl.rc_context(style):  # type: ignore[arg-type] # the stubs list every name of a setting
        yield Figure(figsize=(width, height), layout="constrained")


def to_svg(drawn: Figure, title: str, description: str) -> str:
    """Return the figure as an accessible ``<svg>`` element for an HTML page."""
    stream = io.StringIO()
    with warnings.catch_warnings():
        # The text is drawn by the reader's browser, with whatever letters its fonts have.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        drawn.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = _NUMBERED_ID.sub("", text)
    text = _FONT.sub("system-ui, sans-serif", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    head = (
        r'<svg viewBox="0 0 \1 \2" role="img" xmlns="http://www.w3.org/2000/svg" '
        r'xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    label = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    return _SIZE.sub(lambda match: match.expand(head) + label, text, count=1).rstrip()
