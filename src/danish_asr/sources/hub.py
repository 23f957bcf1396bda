"""The Hugging Face hub, or the hub's cache on this machine.

A place on the hub is written ``hf:OWNER/NAME[:SUBSET][@REVISION]``.
"""

from __future__ import annotations

import re
from typing import Final

import requests
from fsspec.implementations.local import LocalFileSystem
from huggingface_hub import HfApi, HfFileSystem, constants, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from danish_asr.errors import SourceError
from danish_asr.sources.location import Location

_HUB: Final = re.compile(
    r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<subset>[\w.-]+))?(?:@(?P<revision>[\w./-]+))?"
)


def locate_on_hub(where: str) -> Location:
    """Resolve a place on the hub, or in its cache if there is no network.

    A revision is resolved to its commit once, so that a conversion reads one version.

    Raises:
        SourceError: There is nothing there, or no right to read it.
    """
    match = _HUB.fullmatch(where)
    if match is None:
        raise SourceError(f"{where}: expected hf:OWNER/NAME[:SUBSET][@REVISION]")
    repo, subset, revision = match["repo"], match["subset"], match["revision"]
    if constants.HF_HUB_OFFLINE:
        return _in_cache(repo, subset, revision)
    try:
        commit = HfApi().dataset_info(repo, revision=revision).sha
    except (requests.ConnectionError, requests.Timeout, OfflineModeIsEnabled):
        return _in_cache(repo, subset, revision)
    except HfHubHTTPError as error:
        raise explain(error, repo, revision) from error
    return Location(fs=HfFileSystem(), root=f"datasets/{repo}@{commit}", subset=subset)


def explain(error: Exception, repo: str, revision: str | None) -> SourceError:
    """What an answer of the hub means, and what mends it."""
    match error:
        case GatedRepoError():
            return SourceError(
                f"hf:{repo} is gated: accept its terms at {constants.ENDPOINT}/datasets/{repo}, "
                "then log in with `hf auth login` or set HF_TOKEN"
            )
        case RevisionNotFoundError():
            return SourceError(f"hf:{repo} has no revision '{revision}'")
        case RepositoryNotFoundError():
            return SourceError(
                f"hf:{repo}: the hub has no such dataset, or it is private and needs HF_TOKEN"
            )
        case HfHubHTTPError():
            return SourceError(f"hf:{repo}: the hub refuses ({error}); try again later")
        case _:
            return SourceError(
                f"hf:{repo}: the hub cannot be reached ({error}); run the same command again"
            )


def explain_path(error: Exception, path: str) -> SourceError | None:
    """`explain` for a path of the hub's file system, or None if it was not the hub that failed.

    Gated repositories can be listed by anyone; their terms are checked when a file is read.
    """
    if not isinstance(error, requests.RequestException):
        return None
    repo, _, rest = path.removeprefix("datasets/").partition("@")
    return explain(error, repo, rest.split("/")[0])


def _in_cache(repo: str, subset: str | None, revision: str | None) -> Location:
    try:
        folder = snapshot_download(
            repo, repo_type="dataset", revision=revision, local_files_only=True
        )
    except LocalEntryNotFoundError:
        raise SourceError(
            f"hf:{repo}: the hub cannot be reached, and {constants.HF_HUB_CACHE} holds no copy; "
            f"where there is a network, run `hf download --repo-type dataset {repo}`"
        ) from None
    return Location(fs=LocalFileSystem(), root=folder, subset=subset)
