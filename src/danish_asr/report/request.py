"""What is scored and how: the options that `score`, `compare` and their commands have in common."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import AnyPath
from danish_asr.metrics import Denominator
from danish_asr.scoring.predictions import Loaded, Source, load
from danish_asr.scoring.settings import DEFAULT_BY, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options, as `danish_asr.score` describes them.

    Raises ConfigError if an element of ``by`` names no column.
    """

    by: Sequence[str] = DEFAULT_BY
    dataset: AnyPath | None = None
    split: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    profile: str | None = None  # None is that of the run
    row_filter: str = "all"
    denominator: Denominator = "standard"

    def __post_init__(self) -> None:
        if not all(name.strip() for name in self.by):
            fault = "by: expected names of columns; found an empty one"
            raise ConfigError([fault], where="the call")

    def settings(self, profile: str) -> Settings:
        """Return how rows are scored, with a profile that was chosen."""
        own = {field.name: getattr(self, field.name) for field in fields(Settings)}
        return Settings(**own | {"profile": profile})

    def load(self, sources: Iterable[Source], settings: Settings) -> Loaded:
        """Read the rows of sources."""
        return load(
            [*sources],
            columns=self.columns,
            dataset=self.dataset,
            split=self.split,
            normalize=settings.normalizer(),
        )


def listed(by: str | Sequence[str] | None) -> list[str]:
    """Return the groupings of an argument."""
    return [by] if isinstance(by, str) else [*(by or ())]
