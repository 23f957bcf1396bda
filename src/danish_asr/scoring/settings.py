"""What a score depends on beside the predictions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from danish_asr.metrics import Denominator
from danish_asr.scoring.intervals import RESAMPLES
from danish_asr.text import PROFILE_VERSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How rows are scored; every score carries all of it.

    Attributes:
        profile: How texts are normalised, see `danish_asr.text`.
        remove_fillers: The option of profile ``rye``.
        row_filter: Which rows are scored, see `danish_asr.scoring.row_filters`.
        denominator: What errors are divided by, see `danish_asr.metrics`.
        resamples: Bootstrap resamples behind an interval.
        seed: Of the resampling.
    """

    profile: str = "coral"
    remove_fillers: bool = False
    row_filter: str = "all"
    denominator: Denominator = "standard"
    resamples: int = RESAMPLES
    seed: int = 0

    @property
    def profile_version(self) -> int:
        """The version of the profile's rules."""
        return PROFILE_VERSIONS[self.profile]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with the profile's version."""
        return asdict(self) | {"profile_version": self.profile_version}
