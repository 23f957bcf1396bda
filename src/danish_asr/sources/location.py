"""Where a corpus's Parquet files are: a local folder, or a dataset on the Hugging Face hub.

huggingface_hub is imported only where a source needs it: it takes most of a worker's start.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import requests
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from danish_asr.errors import SourceError

_HUB: Final = re.compile(
    r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<subset>[\w.-]+))?(?:@(?P<revision>[\w./-]+))?"
)


@dataclass(frozen=True, kw_only=True)
class Location:
    """A directory of a file system, and the part of it to read.

    Attributes:
        fs: The file system.
        root: The directory.
        subset: Name of the wanted subset, or None for all.
    """

    fs: AbstractFileSystem
    root: str
    subset: str | None = None

    @property
    def local(self) -> bool:
        """Whether the files are on this machine."""
        return isinstance(self.fs, LocalFileSystem)


def locate(where: str) -> Location:
    """Resolve a local folder or a place on the hub (``hf:OWNER/NAME[:SUBSET][@REVISION]``).

    A revision of the hub is resolved to its commit once, so that a conversion reads one version.
    Without a network, the hub's local cache is read.

    Raises:
        SourceError: It does not exist, or reading it is not permitted.
    """
    if where.startswith("hf:"):
        return _locate_on_hub(where)
    if not Path(where).is_dir():
        raise SourceError(
            f"{where}: no such folder; `danish-asr convert --list` shows the kinds of sources"
        )
    return Location(fs=LocalFileSystem(), root=str(Path(where).resolve()))


def _locate_on_hub(where: str) -> Location:
    from huggingface_hub import HfApi, HfFileSystem, constants  # noqa: PLC0415
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled  # noqa: PLC0415

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
        raise explain_hub_error(error, repo, revision) from error
    return Location(fs=HfFileSystem(), root=f"datasets/{repo}@{commit}", subset=subset)


def _in_cache(repo: str, subset: str | None, revision: str | None) -> Location:
    from huggingface_hub import constants, snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415

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


def explain_read_error(error: Exception, path: str) -> SourceError:
    """What to do about a Parquet file that cannot be read.

    Gated repositories can be listed by anyone; their terms are checked when a file is read.
    """
    if isinstance(error, requests.RequestException):
        repo, _, rest = path.removeprefix("datasets/").partition("@")
        return explain_hub_error(error, repo, rest.split("/")[0])
    reason = " ".join(str(error).split())
    return SourceError(f"{path}: not a complete Parquet file ({reason}); download it again")


def explain_hub_error(error: Exception, repo: str, revision: str | None) -> SourceError:
    """What to do about an error of the hub."""
    from huggingface_hub import constants, errors  # noqa: PLC0415

    match error:
        case errors.GatedRepoError():
            message = (
                f" is gated: accept its terms at {constants.ENDPOINT}/datasets/{repo}, then log in "
                "with `hf auth login` or set HF_TOKEN"
            )
        case errors.RevisionNotFoundError():
            message = f" has no revision '{revision}'"
        case errors.RepositoryNotFoundError():
            message = ": the hub has no such dataset, or it is private and needs HF_TOKEN"
        case errors.HfHubHTTPError():
            message = f": the hub returned an error ({error}); try again later"
        case _:
            message = f": the hub cannot be reached ({error}); run the same command again"
    return SourceError(f"hf:{repo}{message}")
