"""Where a corpus's Parquet files are: a local folder, or a dataset on the Hugging Face hub.

huggingface_hub is imported only where a source needs it: it takes most of a worker's start.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import requests
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from danish_asr.errors import SourceError

_HUB: Final = r"hf:([\w.-]+/[\w.-]+)(?::([\w.-]+))?(?:@([\w./-]+))?"


@dataclass(frozen=True, kw_only=True)
class Location:
    """A directory of a file system, and the name of the subset to read, or None for all."""

    fs: AbstractFileSystem
    root: str
    subset: str | None = None

    @property
    def local(self) -> bool:
        """Whether the files are on this machine."""
        return isinstance(self.fs, LocalFileSystem)


def locate(where: str) -> Location:
    """Resolve a folder or a revision on the hub; without a network, the hub's cache is read."""
    if not where.startswith("hf:"):
        return Location(fs=LocalFileSystem(), root=str(Path(where).resolve()))
    import huggingface_hub as hub  # noqa: PLC0415
    from huggingface_hub import constants, errors  # noqa: PLC0415

    match = re.fullmatch(_HUB, where)
    if match is None:
        raise SourceError(f"{where}: expected hf:OWNER/NAME[:SUBSET][@REVISION]")
    repo, subset, revision = match.groups()
    try:
        commit = hub.HfApi().dataset_info(repo, revision=revision).sha
        return Location(fs=hub.HfFileSystem(), root=f"datasets/{repo}@{commit}", subset=subset)
    except errors.HfHubHTTPError as error:
        raise explain_read_error(error, f"datasets/{repo}@{revision}") from error
    except (requests.ConnectionError, requests.Timeout, errors.OfflineModeIsEnabled):
        pass
    try:
        root = hub.snapshot_download(
            repo, repo_type="dataset", revision=revision, local_files_only=True
        )
    except errors.LocalEntryNotFoundError:
        raise SourceError(
            f"hf:{repo}: the hub cannot be reached, and {constants.HF_HUB_CACHE} holds no copy; "
            f"where there is a network, run `hf download --repo-type dataset {repo}`"
        ) from None
    return Location(fs=LocalFileSystem(), root=root, subset=subset)


def explain_read_error(error: Exception, path: str) -> SourceError:
    """What to do; the terms of a gated repository are checked when a file of it is read."""
    reason = " ".join(str(error).split())
    if not isinstance(error, requests.RequestException):
        return SourceError(f"{path}: not a complete Parquet file ({reason}); download it again")
    from huggingface_hub import constants, errors  # noqa: PLC0415

    repo = path.removeprefix("datasets/").partition("@")[0]
    if isinstance(error, errors.GatedRepoError):
        return SourceError(
            f"hf:{repo} is gated: accept its terms at {constants.ENDPOINT}/datasets/{repo}, then "
            "log in with `hf auth login` or set HF_TOKEN"
        )
    return SourceError(
        f"hf:{path.removeprefix('datasets/')}: the hub cannot be read ({reason}); check the name "
        "and the revision, or run the same command again later"
    )
