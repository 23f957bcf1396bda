"""What a score depends on beside the predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from danish_asr.errors import ConfigError
from danish_asr.scoring.counts import Denominator, denominator_named
from danish_asr.scoring.intervals import RESAMPLES
from danish_asr.scoring.row_filters import row_filter_reason
from danish_asr.text.profiles import PROFILE_VERSIONS, normalizer

_RESAMPLES: Final = range(100, 1_000_001)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How rows are scored; every score carries all of it.

    Attributes:
        profile: How texts are normalised, see `danish_asr.text.profiles`.
        remove_fillers: The option of profile ``rye``.
        row_filter: Which rows are scored, see `danish_asr.scoring.row_filters`.
        denominator: What errors are divided by, see `danish_asr.scoring.counts`.
        resamples: Bootstrap resamples behind an interval.
        seed: Of the resampling.

    Raises:
        ConfigError: A value is none that there is; all such are named.
    """

    profile: str = "coral"
    remove_fillers: bool = False
    row_filter: str = "all"
    denominator: Denominator = "standard"
    resamples: int = RESAMPLES
    seed: int = 0

    def __post_init__(self) -> None:
        faults = [
            *_faults(lambda: normalizer(self.profile, remove_fillers=self.remove_fillers)),
            *_faults(lambda: row_filter_reason(self.row_filter)),
            *_faults(lambda: denominator_named(self.denominator)),
        ]
        if self.resamples not in _RESAMPLES:
            bounds = f"{_RESAMPLES[0]} to {_RESAMPLES[-1]}"
            faults.append(f"resamples: expected {bounds}; found {self.resamples}")
        if self.seed < 0:
            faults.append(f"seed: expected 0 or more; found {self.seed}")
        if faults:
            raise ConfigError(faults)

    @property
    def profile_version(self) -> int:
        """The version of the profile's rules."""
        return PROFILE_VERSIONS[self.profile]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with the profile's version."""
        return asdict(self) | {"profile_version": self.profile_version}


def _faults(check: Callable[[], object]) -> tuple[str, ...]:
    try:
        check()
    except ConfigError as error:
        return error.faults
    return ()
