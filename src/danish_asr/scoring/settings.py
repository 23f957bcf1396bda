"""How rows are scored: text profile, row filter and denominator. Every score carries all three."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from danish_asr.base.errors import ConfigError
from danish_asr.metrics import Denominator
from danish_asr.text.profiles import Normalizer, normalizer, profile_version

if TYPE_CHECKING:  # help and completion read this module: it must be light
    import pandas as pd

    Reasons: TypeAlias = Mapping[str, "pd.Series[bool]"]

DEFAULT_PROFILE: Final = "coral"
DEFAULT_BY: Final = ("dialect", "age_group", "gender")


def _coral(table: pd.DataFrame) -> Reasons:
    """CoRal's official filter, by seconds; ``validated`` is a column of CoRal's own rows."""
    seconds = table["duration"]
    reasons = {
        "duration unknown": seconds.isna(),
        "0.5 s or shorter": seconds <= 0.5,
        "10 s or longer": seconds >= 10,
        "empty reference": table["reference"].str.strip() == "",
    }
    if "validated" in table:
        rejected = table["validated"].str.lower() == "rejected"
        reasons["rejected by the corpus's validators"] = rejected
    return reasons


def _rye(table: pd.DataFrame) -> Reasons:
    """RyeAI's leaderboard leaves out what nothing can be recognised in."""
    empty = table["reference_normalised"].str.strip() == ""
    return {"empty reference after normalisation": empty}


ROW_FILTERS: Final[Mapping[str, Callable[[pd.DataFrame], Reasons]]] = {
    "all": lambda _: {},
    "coral": _coral,
    "rye": _rye,
}
"""Each takes the rows with ``reference_normalised``, and returns reasons to leave rows out, each
with the rows that it holds for; the first reason of a row counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How rows are scored. Raises `ConfigError` with all faults."""

    profile: str = DEFAULT_PROFILE  # of text normalisation
    row_filter: str = "all"
    denominator: Denominator = "standard"

    def __post_init__(self) -> None:
        faults: list[str] = []
        try:
            self.normalizer()
        except ConfigError as error:
            faults += error.faults
        for name, choices in (("denominator", get_args(Denominator)), ("row_filter", ROW_FILTERS)):
            value = getattr(self, name)
            if value not in choices:
                faults.append(f"{name}: expected one of {', '.join(choices)}; found '{value}'")
        if faults:
            raise ConfigError(faults, where="the call")

    def normalizer(self) -> Normalizer:
        """Return the text normalisation."""
        return normalizer(self.profile)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with the profile's version."""
        return asdict(self) | {"profile_version": profile_version(self.profile)}

    def in_words(self) -> str:
        """Return how rows are scored, for people."""
        version = profile_version(self.profile)
        profile = self.profile if version is None else f"{self.profile} v{version}"
        return f"profile {profile}, filter {self.row_filter}, denominator {self.denominator}"
