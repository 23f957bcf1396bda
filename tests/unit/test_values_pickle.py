"""Files that fairseq2 writes are read as values, whatever the protocol of their pickle."""

import io
import os
from collections import OrderedDict
from pathlib import Path
from pickle import UnpicklingError

import pytest
import torch

from danish_asr.base import values_pickle


class Code:
    """Creates a directory when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def read(content: object, protocol: int, *, zipped: bool = True) -> object:
    """What is read of what PyTorch saves."""
    file = io.BytesIO()
    torch.save(content, file, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    return torch.load(file, pickle_module=values_pickle, weights_only=False)


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_and_plain_values_arrive_and_code_does_not(
    tmp_path: Path, protocol: int, zipped: bool
) -> None:
    values = {
        "step": torch.tensor(3.0),
        "order": torch.arange(4),
        "rates": OrderedDict(a=[1, None]),
    }
    arrived = read({**values, "dtype": torch.bfloat16}, protocol, zipped=zipped)
    assert str(arrived) == str({**values, "dtype": torch.bfloat16})
    for code in (Code(tmp_path / "ran"), OrderedDict(a=Code(tmp_path / "ran")), os.system):
        with pytest.raises(UnpicklingError, match=r"GLOBAL posix\."):
            read({"state": code}, protocol, zipped=zipped)
    assert not (tmp_path / "ran").exists()
