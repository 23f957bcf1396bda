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

from danish_asr.base.errors import SourceError

_HUB: Final = r"hf:([\w.-]+/[\w.-]+)(?::([\w.-]+))?(?:@([\w./-]+))?"

PARQUET_SUFFIXES: Final = (".parquet", ".pq")
"""In lower case."""


@dataclass(frozen=True, kw_only=True)
class Location:
    """A directory of a file system, and the subset or the file in it to read, or None for all."""

    fs: AbstractFileSystem
    root: str
    subset: str | None = None
    file: str | None = None

    @property
    def local(self) -> bool:
        """Whether the files are on this machine."""
        return isinstance(self.fs, LocalFileSystem)

    def parquet_files(self) -> list[str]:
        """The paths of the Parquet files, sorted; those in hidden folders are left out."""
        if self.file is not None:
            return [f"{self.root}/{self.file}"]
        names = (path.removeprefix(f"{self.root}/") for path in self.fs.find(self.root))
        return sorted(
            f"{self.root}/{name}"
            for name in names
            if name.lower().endswith(PARQUET_SUFFIXES)
            and not any(part.startswith(".") for part in name.split("/"))
        )


def locate(where: str) -> Location:
    """Resolve a folder, a file or a revision on the hub, whose cache is read without a network."""
    if not where.startswith("hf:"):
        path = Path(where).resolve()
        if path.is_file():
            return Location(fs=LocalFileSystem(), root=str(path.parent), file=path.name)
        if not path.exists():
            raise SourceError(f"{where}: no such file or folder{hub_hint(where)}")
        return Location(fs=LocalFileSystem(), root=str(path))
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


def hub_hint(where: str) -> str:
    """A question, if a place looks like the name of a dataset on the hub."""
    return f"; did you mean hf:{where}?" if re.fullmatch(_HUB, f"hf:{where}") else ""


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
