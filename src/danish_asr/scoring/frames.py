"""Tables of scores as text, and as HTML for notebooks."""

from collections.abc import Callable, Hashable, Mapping
from math import isnan
from typing import Any

import pandas as pd

from danish_asr.scoring.settings import Settings


def as_table(
    table: pd.DataFrame, columns: Mapping[str, str], settings: Settings, *, html: bool
) -> str:
    """Return columns of a table under other names; fractions but p-values in per cent."""
    shown = table[list(columns)].rename(columns=dict(columns))
    values = [name for name, kind in shown.dtypes.items() if kind == "object"]
    for name in set(values) - {"grouping", "group", "run"}:
        shown[name] = shown[name].astype(float)  # None becomes an empty cell
    p_values: dict[Hashable, Callable[[Any], str]] = {
        name: lambda p: "" if isnan(p) else f"{p:.4f}"
        for name in columns.values()
        if name.startswith("p ")
    }
    form: dict[str, Any] = {"index": False, "na_rep": "", "formatters": p_values}
    form["float_format"] = lambda rate: f"{100 * rate:.2f}"
    about = ", ".join(f"{name} {value}" for name, value in settings.to_dict().items())
    if html:
        return f"<p>{about}</p>\n{shown.to_html(border=0, **form)}"
    return f"{about}\n{shown.to_string(**form)}"
