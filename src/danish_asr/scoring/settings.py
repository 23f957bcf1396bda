"""Scoring settings, and the row filters that select the rows of a split that are scored."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from danish_asr.base.errors import ConfigError
from danish_asr.metrics import DENOMINATORS, Denominator, Metric, find_metrics
from danish_asr.scoring.predictions import Prediction
from danish_asr.text.profiles import Normalizer, normalizer, profile_version

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

LEADERBOARD: Final = "leaderboard.json"
MODEL_INDEX: Final = ".yaml"

SCORE_OUTPUTS: Final[Mapping[str, str]] = {
    "utterances.csv": "a line per scored utterance: all keys of the predictions, both texts "
    "normalised, WER and CER, the counts in words and characters, the alignment",
    "utterances.jsonl": "the same as JSON lines",
    "errors.csv": "all confusions of words and of characters, and the error categories",
    "errors.jsonl": "the same as JSON lines",
    LEADERBOARD: "the result of a model in the keys of RyeAI's leaderboard, in per cent",
    ".json": "all counts, rates, intervals and settings, and the names of the input files",
    ".csv": "a line per group, rates as fractions, with all settings and the numbers of rows",
    ".md": "a section for a model card",
    ".html": "the page: one file that needs no network",
    MODEL_INDEX: "the metadata of a Hugging Face model card: WER and CER per corpus and split",
    ".trn": "NAME.ref.trn and NAME.hyp.trn: the normalised texts, for NIST's sclite",
}
"""Ends of names, the longer ones first, and what such a file gets."""

COMPARE_OUTPUTS: Final[Mapping[str, str]] = {
    ".json": "all numbers",
    ".csv": "a table of all groups and runs",
    ".md": "a section for a model card",
    ".html": "the page",
    ".tex": "a table for LaTeX",
    ".svg": "a forest plot",
    ".pdf": "the forest plot",
}

DEFAULT_BY: Final = ("dialect", "age_group", "gender")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How rows are scored; every score carries all of it. Raises `ConfigError`."""

    profile: str = "coral"  # of text normalisation
    remove_fillers: bool = False  # profile rye
    row_filter: str = "all"
    denominator: Denominator = "standard"
    resamples: int = 0  # of the utterances, for utterance-level intervals; 0: none
    seed: int = 0  # of the resampling

    metrics: Sequence[str] = ()  # besides WER and CER, each ``package.module:Name``
    all_metrics: tuple[Metric, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        faults: list[str] = []
        try:
            self.normalizer()
        except ConfigError as error:
            faults += error.faults
        try:
            object.__setattr__(self, "all_metrics", find_metrics(self.metrics))
        except ConfigError as error:
            faults += error.faults
        if self.denominator not in DENOMINATORS:
            names = ", ".join(DENOMINATORS)
            faults.append(f"denominator: expected one of {names}; found '{self.denominator}'")
        if self.row_filter not in ROW_FILTERS:
            names = ", ".join(ROW_FILTERS)
            faults.append(f"row filter: expected one of {names}; found '{self.row_filter}'")
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
        normalize, reason_to_skip = self.normalizer(), ROW_FILTERS[self.row_filter]
        for row in predictions:
            reference = normalize(row.reference)
            if not reason_to_skip(row, reference):
                yield row, reference, normalize(row.hypothesis)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with the profile's version; metrics only if there are others."""
        names = [part.name for part in fields(self) if part.init and part.name != "metrics"]
        settings = {name: getattr(self, name) for name in names}
        settings["profile_version"] = profile_version(self.profile)
        if self.metrics:
            settings["metrics"] = ", ".join(self.metrics)
        return settings
