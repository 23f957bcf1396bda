"""What holds for all tests."""

from __future__ import annotations

import random
import signal
import sys
from typing import Any

import pytest
from hypothesis import settings

import danish_asr  # noqa: F401 - before a test imports fairseq2, which then finds libsndfile
from tests.foreign_code import ForeignCode

# How long an example takes says something about the machine, and nothing about the code. The
# examples are the same each time, so that no test fails by chance.
settings.register_profile("any machine", deadline=None, derandomize=True)
settings.load_profile("any machine")


# A shell that starts the tests in the background lets them and their processes ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What a test and its fixtures draw does not depend on the tests before."""
    random.seed(1)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(1)


@pytest.fixture(scope="session", autouse=True)
def _cards_of_packages_are_parsed_once() -> None:
    """fairseq2 parses the YAML of fairseq2 and omnilingual-asr, 0.1 s, for each asset store."""
    if module := sys.modules.get("fairseq2.assets.metadata_provider"):
        loader, found = module.StandardPackageAssetMetadataLoader, dict[str, Any]()
        load = loader.load

        def load_once(self: Any, package: str) -> Any:
            if package not in found:
                found[package] = load(self, package)
            return found[package]

        loader.load = load_once


@pytest.fixture
def foreign_code(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> ForeignCode:
    """Code that a file of data may name, `tests.foreign_code.NAME`."""
    return ForeignCode(tmp_path_factory.mktemp("foreign"), monkeypatch)
