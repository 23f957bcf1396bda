from __future__ import annotations

from pathlib import Path

import pytest
import requests
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from danish_asr.errors import SourceError
from danish_asr.sources import open_source
from danish_asr.sources.location import locate
from tests.builders import build_source

REPO = "CoRal-project/coral-v2"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a network whose hub cache holds one revision of CoRal."""
    repo = tmp_path / "hub" / "datasets--CoRal-project--coral-v2"
    blobs = build_source(repo / "blobs")
    snapshot = repo / "snapshots" / COMMIT
    for blob in sorted(blobs.rglob("*.parquet")):
        link = snapshot / blob.relative_to(blobs)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize("revision", ["", "@main", f"@{COMMIT}"])
@pytest.mark.parametrize(
    ("subset", "corpora"),
    [
        ("", {"coral_read_aloud", "coral_conversation"}),
        (":read_aloud", {"coral_read_aloud"}),
        (":conversation", {"coral_conversation"}),
    ],
)
def test_the_hubs_cache_is_read_without_a_network(
    revision: str, subset: str, corpora: set[str]
) -> None:
    source = open_source(f"hf:{REPO}{subset}{revision}")
    assert {file.corpus for file in source.files} == corpora
    assert {file.split for file in source.files} == {"train", "dev", "test"}
    assert source.files[0].name.startswith(("conversation/", "read_aloud/"))


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hf:CoRal-project/coral-v3", "cannot be reached, and .* holds no copy; .*hf download"),
        (f"hf:{REPO}@v9", "holds no copy"),
        (f"hf:{REPO}:radio", "CoRal has no subset 'radio'; expected read_aloud, conversation"),
        ("hf:coral", r"expected hf:OWNER/NAME\[:SUBSET\]\[@REVISION\]"),
    ],
)
def test_a_place_that_does_not_exist_is_refused(spec: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        open_source(spec)


@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        (GatedRepoError, 403, "is gated: accept its terms .* `hf auth login` or set HF_TOKEN"),
        (RepositoryNotFoundError, 404, "no such dataset, or it is private and needs HF_TOKEN"),
        (RevisionNotFoundError, 404, "has no revision 'v9'"),
        (HfHubHTTPError, 503, "the hub returned an error"),
    ],
)
def test_an_error_of_the_hub_says_what_to_do(
    kind: type[HfHubHTTPError],
    status: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the network is replaced: the exceptions are the library's own."""
    response = requests.Response()
    response.status_code = status

    def refuse(*_: object, **__: object) -> None:
        raise kind("refused", response=response)

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", refuse)
    with pytest.raises(SourceError, match=message):
        locate(f"hf:{REPO}@v9")


def test_no_answer_falls_back_to_the_cache(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise requests.ConnectionError

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", no_network)
    assert locate(f"hf:{REPO}").root.startswith(str(hub_cache))
