"""Scoring settings, and the row filters that select the rows of a split that are scored."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from danish_asr.base.errors import ConfigError
from danish_asr.metrics import DENOMINATORS, Denominator
from danish_asr.scoring.predictions import Prediction
from danish_asr.text.profiles import PROFILE_VERSIONS, Normalizer, normalizer

SHORTEST: Final = 0.5
LONGEST: Final = 10.0
"""Bounds of CoRal's official evaluation in seconds; a row of exactly that length is excluded."""


def _coral(row: Prediction, _reference: str) -> str | None:
    """CoRal's official filter; ``validated`` is an extra key of CoRal's own rows."""
    if row.duration is None:
        return "duration unknown"
    if row.duration <= SHORTEST:
        return f"{SHORTEST:g} s or shorter"
    if row.duration >= LONGEST:
        return f"{LONGEST:g} s or longer"
    if not row.reference.strip():
        return "empty reference"
    if (row.extra.get("validated") or "").lower() == "rejected":
        return "rejected by the corpus's validators"
    return None


def _rye(_row: Prediction, reference: str) -> str | None:
    """RyeAI's leaderboard leaves out what nothing can be recognised in."""
    return None if reference.strip() else "empty reference after normalisation"


ROW_FILTERS: Final[Mapping[str, Callable[[Prediction, str], str | None]]] = {
    "all": lambda _row, _reference: None,
    "coral": _coral,
    "rye": _rye,
}
"""Each takes a row and its normalised reference, and returns the reason why the row is excluded, or
None for a row that is scored."""

DEFAULT_BY: Final = ("dialect", "age_group", "gender")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How rows are scored; every score carries all of it. Raises `ConfigError`."""

    profile: str = "coral"  # of text normalisation
    remove_fillers: bool = False  # profiles rye and rye-2026-06
    row_filter: str = "all"
    denominator: Denominator = "standard"
    resamples: int = 0  # of the utterances, for utterance-level intervals; 0: none
    seed: int = 0  # of the resampling

    def __post_init__(self) -> None:
        faults: list[str] = []
        try:
            self.normalizer()
        except ConfigError as error:
            faults += error.faults
        for name, value, known in (
            ("denominator", self.denominator, DENOMINATORS),
            ("row filter", self.row_filter, ROW_FILTERS),
        ):
            if value not in known:
                faults.append(f"{name}: expected one of {', '.join(known)}; found '{value}'")
        if self.resamples and not 100 <= self.resamples <= 1_000_000:
            faults.append(f"resamples: expected 0, or 100 to 1000000; found {self.resamples}")
        if self.seed < 0:
            faults.append(f"seed: expected 0 or more; found {self.seed}")
        if faults:
            raise ConfigError(faults)

    def normalizer(self) -> Normalizer:
        """Return the text normalisation."""
        return normalizer(self.profile, remove_fillers=self.remove_fillers)

    def scored(self, predictions: Iterable[Prediction]) -> Iterator[tuple[Prediction, str, str]]:
        """Yield the rows that are scored, each with its normalised reference and hypothesis."""
        normalize, reason_of = self.normalizer(), ROW_FILTERS[self.row_filter]
        for row in predictions:
            reference = normalize(row.reference)
            if not reason_of(row, reference):
                yield row, reference, normalize(row.hypothesis)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with the profile's version."""
        return asdict(self) | {"profile_version": PROFILE_VERSIONS[self.profile]}
