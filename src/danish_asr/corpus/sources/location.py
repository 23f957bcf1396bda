"""Where a corpus's Parquet files are: a local folder, or a dataset on the Hugging Face hub.

huggingface_hub is imported only where a source needs it: it takes most of a worker's start.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from danish_asr.base.errors import SourceError
from danish_asr.base.folders import walk

_HUB: Final = r"hf:([\w.-]+/[\w.-]+)(?::([\w.-]+))?(?:@([\w./-]+))?"

PARQUET_SUFFIXES: Final = (".parquet", ".pq")
"""In lower case."""


def source_of_dataset(name: str) -> str | None:
    """Return the source of a dataset that is named after CoRal, such as ``coral_v2_danish``."""
    coral = re.match(r"coral_v([23])", name)
    return f"hf:CoRal-project/coral-v{coral[1]}" if coral else None


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
        """The names below the root of the Parquet files, sorted; hidden folders are left out."""
        if self.file is not None:
            return [self.file]
        if self.local:
            root = Path(self.root)
            files = [Path(folder, name) for folder, names in walk(root) for name in names]
            names = sorted(file.relative_to(root).as_posix() for file in files)
        else:
            with self._explained(self.root):
                paths = sorted(self.fs.find(self.root))
            names = [path.removeprefix(f"{self.root}/") for path in paths]
        shown = (name for name in names if "/." not in f"/{name}")
        return [name for name in shown if name.lower().endswith(PARQUET_SUFFIXES)]

    def fingerprint(self, name: str) -> str:
        """A text that changes with a file: the hub has a digest of the content, else its size."""
        status = self.fs.info(f"{self.root}/{name}")
        return str(status.get("blob_id") or status["size"])

    @contextmanager
    def open_parquet(self, name: str) -> Iterator[pq.ParquetFile]:
        """Open a file for streaming; faults of it are `SourceError`."""
        path = f"{self.root}/{name}"
        # Arrow's own reader of local files avoids a copy and the GIL, and streams pages. Elsewhere
        # every read is a request, so it fetches the parts of a row group in a few large ones.
        with self._explained(path):
            stream: Any = path if self.local else self.fs.open(path, "rb", cache_type="none")
            with pq.ParquetFile(
                stream,
                buffer_size=1 << 20 if self.local else 0,
                pre_buffer=not self.local,
                page_checksum_verification=True,
            ) as parquet:
                yield parquet

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            if not self.local and not isinstance(error, pa.ArrowException):
                raise _hub_error(error, path.removeprefix("datasets/")) from error
            reason = " ".join(str(error).split())
            raise SourceError(
                f"{path}: not a complete Parquet file without a key ({reason}); download it again"
            ) from error


def locate(location: str) -> Location:
    """Resolve a folder, a file or a revision on the hub, whose cache is read without a network."""
    if not location.startswith("hf:"):
        path = Path(location).resolve()
        if path.is_file():
            return Location(fs=LocalFileSystem(), root=str(path.parent), file=path.name)
        if not path.exists():
            raise SourceError(f"{location}: no such file or folder")
        return Location(fs=LocalFileSystem(), root=str(path))
    import huggingface_hub as hub  # noqa: PLC0415
    from huggingface_hub import errors  # noqa: PLC0415

    match = re.fullmatch(_HUB, location)
    if match is None:
        raise SourceError(f"{location}: expected hf:OWNER/NAME[:SUBSET][@REVISION]")
    repo, subset, revision = match.groups()
    try:
        commit = hub.HfApi().dataset_info(repo, revision=revision).sha
        return Location(fs=hub.HfFileSystem(), root=f"datasets/{repo}@{commit}", subset=subset)
    except errors.HfHubHTTPError as error:
        raise _hub_error(error, f"{repo}@{revision}") from error
    except OSError:
        pass
    try:
        root = hub.snapshot_download(
            repo, repo_type="dataset", revision=revision, local_files_only=True
        )
    except errors.LocalEntryNotFoundError:
        raise SourceError(
            f"hf:{repo}: the hub cannot be reached and its cache holds no copy; where there is a "
            f"network, run `hf download --repo-type dataset {repo}`"
        ) from None
    return Location(fs=LocalFileSystem(), root=root, subset=subset)


def _hub_error(error: Exception, name: str) -> SourceError:
    """What to do; the terms of a gated repository are checked when a file of it is read."""
    from huggingface_hub import constants, errors  # noqa: PLC0415

    if isinstance(error, errors.GatedRepoError):
        repo = name.partition("@")[0]
        return SourceError(
            f"hf:{repo} is gated: accept its terms at {constants.ENDPOINT}/datasets/{repo}, then "
            "log in with `hf auth login` or set HF_TOKEN"
        )
    reason = " ".join(str(error).split())
    return SourceError(f"hf:{name}: cannot be read ({reason}); check the name and the revision")
