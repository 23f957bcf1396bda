"""States of a run hold values, and cannot run code."""

import io
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch

from danish_asr.base import values_pickle


@pytest.mark.parametrize(
    "value",
    [
        OrderedDict(step=4, rates=[0.5, None, "å"]),
        {"dtype": torch.bfloat16, "size": torch.Size([2]), "device": torch.device("cpu")},
    ],
)
def test_plain_values_are_read_in_any_protocol(value: Any) -> None:
    for protocol in (2, 5):
        assert values_pickle.load(io.BytesIO(pickle.dumps(value, protocol))) == value


class Runs:
    """Calls a function when it is unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    "harm", [Runs(os.system, "false"), Runs(eval, "1"), Runs(torch.load, "x"), torch.nn.Linear]
)
def test_a_name_of_code_is_refused(harm: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="GLOBAL"):
        values_pickle.load(io.BytesIO(pickle.dumps([harm])))


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("is_zipped", [True, False], ids=["zip", "oldest format"])
def test_a_file_of_pytorch_holds_values_and_no_code(
    protocol: int, is_zipped: bool, tmp_path: Path
) -> None:
    file, weights = tmp_path / "state.pt", torch.arange(3.0)

    def save(values: dict[str, Any]) -> None:
        torch.save(values, file, pickle_protocol=protocol, _use_new_zipfile_serialization=is_zipped)

    save({"step": 4, "weights": weights})
    read = values_pickle.load_values(file)
    assert read["step"] == 4
    assert torch.equal(read["weights"], weights)

    save({"step": Runs(os.mkdir, str(tmp_path / "harm"))})
    with pytest.raises(pickle.UnpicklingError):
        values_pickle.load_values(file)
    assert not (tmp_path / "harm").exists()
