"""What a value of the configuration may be, and what all sections share."""

from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from annotated_types import Ge, Gt, Le
from pydantic import BeforeValidator, ConfigDict, PlainSerializer, Strict

# Strict: without it pydantic takes "5" for a number, and 1 for true.
Bool = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Ge(0)]
AtLeastOne = Annotated[int, Strict(), Ge(1)]
AboveZero = Annotated[float, Strict(), Gt(0)]
Share = Annotated[float, Strict(), Ge(0), Le(1)]
SpeedFactor = Annotated[float, Strict(), Ge(0.5), Le(2)]
File = Annotated[Path, PlainSerializer(str)]


def _without_module(value: object) -> object:
    """Upstream's YAML files write ``torch.bfloat16``."""
    return value.removeprefix("torch.") if isinstance(value, str) else value


DataType = Annotated[Literal["float32", "float16", "bfloat16"], BeforeValidator(_without_module)]

FULL: Final = "full"
ADAMW_8BIT: Final = "adamw_8bit"
ADAMW_OFFLOAD: Final = "adamw_offload"


class Section:
    """Pydantic refuses keys that a section does not have."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)
