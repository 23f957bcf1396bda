"""What holds for all tests."""

from __future__ import annotations

import gc
import random
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

import danish_asr  # noqa: F401 - before a test imports fairseq2, which then finds libsndfile
from tests.foreign_code import ForeignCode

if TYPE_CHECKING:
    from fairseq2.data.tokenizers import Tokenizer

    from danish_asr.inference.model import Model

# How long an example takes says something about the machine, and nothing about the code. The
# examples are the same each time, so that no test fails by chance.
settings.register_profile("any machine", deadline=None, derandomize=True)
settings.load_profile("any machine")


# A shell that starts the tests in the background lets them and their processes ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONGEST = ("commands", "recipe", "planning", "inference")
"""Rooms whose files take long come first, so that two workers end together."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not {*LONGEST} & {*item.path.parts})


def pytest_collection_finish() -> None:
    """What each process does once, before a test has begun."""
    if module := sys.modules.get("fairseq2.assets.metadata_provider"):
        _parse_cards_of_packages_once(module)
    # Garbage is looked for among what tests make: what is imported would take each run 0.4 s.
    gc.freeze()


def _parse_cards_of_packages_once(module: Any) -> None:
    """fairseq2 parses the YAML of fairseq2 and omnilingual-asr, 0.1 s, for each asset store."""
    loader, found = module.StandardPackageAssetMetadataLoader, dict[str, Any]()
    load = loader.load

    def load_once(self: Any, package: str) -> Any:
        if package not in found:
            found[package] = load(self, package)
        return found[package]

    loader.load = load_once


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What a test and its fixtures draw, and their threads, do not depend on the tests before."""
    random.seed(1)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(1)
        torch.set_num_threads(1)  # two workers on two cores


@pytest.fixture
def foreign_code(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> ForeignCode:
    """Code that a file of data may name, `tests.foreign_code.NAME`."""
    return ForeignCode(tmp_path_factory.mktemp("foreign"), monkeypatch)


# What these fixtures build is shared by the tests of a process; their imports take seconds.


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted dataset. Not to be changed."""
    from tests.spoiled import build  # noqa: PLC0415

    return build(tmp_path_factory.mktemp("pristine") / "ds")


@pytest.fixture
def root(pristine: Path, tmp_path: Path) -> Path:
    """A converted dataset to spoil."""
    from tests.spoiled import copied  # noqa: PLC0415

    return copied(pristine, tmp_path / "ds")


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer of the characters that `tests.shards` writes."""
    from tests.shards import char_tokenizer  # noqa: PLC0415

    return char_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built dataset of a few tones, named ``tiny``."""
    from tests.builders import build_dataset  # noqa: PLC0415

    root = tmp_path_factory.mktemp("dataset") / "tiny"
    build_dataset(root, name="tiny", train=24, dev=6, test=8)
    return root


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    """A run of four steps, validated and saved at steps 2 and 4. Not to be changed."""
    from tests.running import train  # noqa: PLC0415

    run = tmp_path_factory.mktemp("runs") / "finished"
    assert train(run, dataset) == 0
    return run


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the card, the random weights and the tokenizer of a tiny model."""
    from tests.random_models import build_tiny_model  # noqa: PLC0415

    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny_model")


@pytest.fixture(scope="session")
def model(model_directory: Path) -> Model:
    """The model of `model_directory`."""
    from danish_asr.inference.model import load_model  # noqa: PLC0415

    return load_model(model_directory, device="cpu")
