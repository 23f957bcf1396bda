"""Tables of scores as text, and as HTML for notebooks."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from html import escape
from math import isnan
from typing import Any

import pandas as pd

from danish_asr.scoring.settings import Settings


def p_value(p: float | None) -> str:
    """A p-value to four places; empty if there is none."""
    if p is None or isnan(p):
        return ""
    return f"{p:.4f}" if p >= 1e-4 else "<0.0001"


def as_table(
    table: pd.DataFrame,
    columns: Mapping[str, str],
    settings: Settings,
    rows: Sequence[str],
    *,
    html: bool,
) -> str:
    """Return columns of a table under other names; fractions but p-values in per cent.

    Above it are the settings and what is said about the ``rows``, without empty lines.
    """
    shown = table[list(columns)].rename(columns=dict(columns))
    values = [name for name, kind in shown.dtypes.items() if kind == "object"]
    for name in set(values) - {"grouping", "group", "run"}:
        shown[name] = shown[name].astype(float)  # None becomes an empty cell
    p_values: dict[Hashable, Callable[[Any], str]] = {
        name: p_value for name in columns.values() if name.startswith("p ")
    }
    form: dict[str, Any] = {"index": False, "na_rep": "", "formatters": p_values}
    form["float_format"] = lambda rate: f"{100 * rate:.2f}"
    about = ", ".join(f"{name} {value}" for name, value in settings.to_dict().items())
    lines = [about, *filter(None, rows)]
    if html:
        head = "<br>".join(map(escape, lines))
        return f"<p>{head}</p>\n{shown.to_html(border=0, **form)}"
    return "\n".join([*lines, shown.to_string(**form)])
