"""What all pages are built from: templates, charts as inline SVG, and the curves that they show.

A page is one HTML file without external links, for screens, phones, paper and dark mode. Jinja
escapes every text from the data. A ``Content-Security-Policy`` allows the page's own script by its
hash and no other script or request. The macros in ``components.html`` are tiles, tables, charts and
players.

matplotlib draws charts in the placeholder colours below; the SVG gets CSS variables in their place,
which follow the reader's light or dark mode.
"""

import base64
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final, NamedTuple, TypeAlias

import matplotlib as mpl
import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from danish_asr import __version__
from danish_asr.report.tables import bounds, count, percent, sentence, short
from danish_asr.scoring.intervals import FloatArray

_COLOURS: Final = {
    f"#0102{number:02x}": f"var(--{name})"
    for number, name in enumerate(("ink", "muted", "line", "accent", "second", "third"))
}
_INK, _MUTED, _LINE, _ACCENT, _SECOND, _THIRD = _COLOURS
_STYLE: Final[Any] = {
    "svg.fonttype": "none",  # text stays text: it can be searched, copied and read aloud
    "font.size": 10,
    "text.color": _INK,
    "text.parse_math": False,  # a "$" in a label is a dollar
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _MUTED,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "grid.color": _LINE,
    "grid.linewidth": 0.6,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "legend.frameon": False,
}
_WIDTH: Final = 3.9  # inches. About the width of a phone, so that the text stays readable there
_SMOOTHED_FROM: Final = 50  # noisy curves with so many points have a smoothed one over them
_SMOOTHING: Final = 0.9  # of an exponential average is of the points before, as in TensorBoard
_DOTTED_BELOW: Final = 40  # curves with fewer points have a dot at each

Curve: TypeAlias = "pd.Series[Any]"
"""Values; the index holds steps, in order."""


class Panel(NamedTuple):
    """Curves with common axes."""

    title: str
    unit: str
    curves: Mapping[str, Curve]
    logarithmic: bool = False
    noisy: bool = False


def render_template(template: str, /, **values: Any) -> str:
    """Return the page of a template, which extends ``layout.html``."""
    environment = Environment(
        loader=PackageLoader("danish_asr", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (percent, bounds, count, sentence, short, sha256):
        environment.filters[function.__name__] = function
    return environment.get_template(template).render(version=__version__, **values)


def sha256(text: str) -> str:
    """Return the hash of a script as a ``Content-Security-Policy`` has it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def audio_url(flac: bytes) -> str:
    """Return a ``data:`` URL that holds a FLAC file."""
    return "data:audio/flac;base64," + base64.b64encode(flac).decode()


def left_out_lines(reasons: Iterable[str]) -> list[str]:
    """Return a line per reason for which clips are left out of a page, the most frequent first."""
    lines = []
    for reason, number in Counter(reasons).most_common():
        clips = "1 clip is" if number == 1 else f"{count(number)} clips are"
        lines.append(f"{clips} left out of the page: {reason}")
    return lines


def curves_chart(panel: Panel) -> str:
    """Return curves in one pair of axes, as SVG; colours repeat after four curves."""
    colours, description = (_ACCENT, _SECOND, _THIRD, _MUTED), []
    with mpl.rc_context(_STYLE | {"svg.hashsalt": panel.title}):
        figure = Figure(figsize=(_WIDTH, 3.1), layout="constrained")
        axes = figure.add_subplot()
        for number, (name, curve) in enumerate(panel.curves.items()):
            colour = colours[number % len(colours)]
            marker, shown, label = "o" if len(curve) < _DOTTED_BELOW else "", curve, name
            if panel.noisy and len(curve) >= _SMOOTHED_FROM:
                axes.plot(curve.index, curve, color=colour, linewidth=0.5)
                shown, label = curve.ewm(alpha=1 - _SMOOTHING).mean(), f"{name}, smoothed"
            axes.plot(shown.index, shown, color=colour, label=label, marker=marker, ms=3)
            description.append(
                f"{name}: {curve.iloc[0]:.4g} at step {curve.index[0]}, lowest {curve.min():.4g}, "
                f"highest {curve.max():.4g}, {curve.iloc[-1]:.4g} at step {curve.index[-1]}"
            )
        if panel.logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("")
        else:
            axes.set_ylim(bottom=0)
        axes.set_xlabel("step")
        axes.set_ylabel(panel.unit)
        axes.grid(axis="y")
        # Above the axes, because a curve may be anywhere inside.
        figure.legend(loc="outside upper left", ncols=2, fontsize=9, labelcolor=_INK)
        return _to_svg(figure, panel.title, "; ".join(description))


def histogram_chart(title: str, values: FloatArray, unit: str) -> str:
    """Return shares of rows over a measure; the outer bars hold the extreme 0.5 % too."""
    low, middle, high = np.quantile(values, [0.005, 0.5, 0.995])
    edges = np.linspace(low, high if high > low else low + 1, 41)
    rows, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    with mpl.rc_context(_STYLE | {"svg.hashsalt": title}):
        figure = Figure(figsize=(_WIDTH, 2.4), layout="constrained")
        axes = figure.add_subplot()
        axes.stairs(100 * rows / len(values), edges, fill=True, color=_ACCENT)
        beyond = values.max() > edges[-1]
        axes.set_xlabel(f"{unit} (last bar: up to {values.max():.4g})" if beyond else unit)
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylabel("% of the rows")
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        description = (
            f"{len(values)} rows: lowest {values.min():.4g}, median {middle:.4g}, highest "
            f"{values.max():.4g} {unit}"
        )
        return _to_svg(figure, title, description)


def _to_svg(figure: Figure, title: str, description: str) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", transparent=True)
    head, _, body = stream.getvalue().partition("</metadata>")
    # Groups have numbered ids, which would repeat when several figures are on one page.
    body = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", body)
    body = re.sub(r"'DejaVu Sans'(?:, [^;\"]*)?", "system-ui, sans-serif", body)
    for colour, variable in _COLOURS.items():
        body = body.replace(colour, variable)
    (box,) = re.findall(r'viewBox="[^"]+"', head)
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    label = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    return f'<svg {box} role="img" {spaces}>{label}{body.rstrip()}'
