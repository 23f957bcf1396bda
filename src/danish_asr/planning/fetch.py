"""Get the weights and the tokenizer of a configuration into fairseq2's cache, before a run."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urlparse

from fairseq2.assets import AssetDownloadError
from fairseq2.utils.uri import Uri
from rich.console import Console

from danish_asr.base.download import download
from danish_asr.base.errors import ConfigError, DownloadError, UnreachableError
from danish_asr.base.fairseq2_private import download_folder
from danish_asr.base.files import take
from danish_asr.base.progress import Progress
from danish_asr.recipe.config.load import load
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.entry import Request, read_configuration
from danish_asr.recipe.models.cards import Assets, tokenizer_of, with_named_model

_HINT: Final = (
    "\nRun the command where there is internet access (on a cluster: a login node), with the same "
    "$FAIRSEQ2_CACHE_DIR as the training; or give a model of your own as model.path"
)


class Download(NamedTuple):
    """What a card says of a file that has to be downloaded."""

    name: str
    kind: str  # "model" or "tokenizer"
    uri: Uri

    @property
    def url(self) -> str:
        """The address without fairseq2's own parameters."""
        return urlparse(str(self.uri))._replace(params="").geturl()


def fetch_configured(request: Request) -> None:
    """Fetch what a configuration names; of its values only names and paths of cards are used."""
    config = load({"dataset": {"name": ""}} | read_configuration(request), where=request.where)
    fetch(with_named_model(config), where=request.where)


def fetch(config: AsrConfig, *, where: str) -> None:
    """Download what the cards of a configuration name, and print where it is.

    Raises:
        ConfigError: A name is unknown, or there is nothing to fetch.
        DownloadError: A file cannot be downloaded. What has arrived is kept.
    """
    assets = Assets(config.common.assets)
    try:
        downloads = list(_downloads(assets, config))
    except ConfigError as error:
        raise ConfigError(error.faults, where=where) from None
    if not downloads:
        fault = "neither model.name nor tokenizer.name names a card with something to download"
        raise ConfigError([fault], where=where)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for wanted in downloads:
        try:
            if wanted.uri.scheme != "hg" and not _is_cached(assets, wanted):
                _fetch(assets, wanted, console)
            path = assets.download(wanted.kind, wanted.uri, wanted.name)
        except (DownloadError, AssetDownloadError, OSError) as error:
            hint = _HINT if isinstance(error, UnreachableError | AssetDownloadError) else ""
            reason = error.__cause__ or error
            raise DownloadError(f"{wanted.name} cannot be downloaded: {reason}{hint}") from None
        console.print(f"{wanted.name}: {path}")


def missing(config: AsrConfig) -> list[str]:
    """Return the names of what a configuration needs and fairseq2's cache does not have."""
    assets = Assets(config.common.assets)
    downloads = _downloads(assets, config)
    return [wanted.name for wanted in downloads if not _is_cached(assets, wanted)]


def _is_cached(assets: Assets, wanted: Download) -> bool:
    """Whether fairseq2 has it. What the hub has is in another cache, which asks it each time."""
    folder = download_folder(wanted.url, assets.cache)
    return folder.exists() or folder.with_suffix(".download").exists()


def _downloads(assets: Assets, config: AsrConfig) -> Iterator[Download]:
    names = {
        "model.name": config.model.name,
        "pretrained_encoder.name": config.pretrained_encoder.name,
    }
    cards = {key: assets.find(key, name) for key, name in names.items() if name}
    tokenizer = config.tokenizer.name
    if not tokenizer and config.tokenizer.path is None:
        tokenizer = tokenizer_of(cards.get("model.name"))
        if tokenizer is None and config.dataset.name:
            with suppress(ConfigError):  # it may be made later
                tokenizer = tokenizer_of(assets.find("dataset.name", config.dataset.name))
    if tokenizer:
        cards["tokenizer.name"] = assets.find("tokenizer.name", tokenizer)
    for key, card in cards.items():
        kind, field = ("model", "checkpoint")
        if key == "tokenizer.name":
            kind, field = ("tokenizer", "tokenizer")
        if card.has_field(field) and (uri := card.field(field).as_uri()).scheme != "file":
            yield Download(card.name, kind, uri)


def _fetch(assets: Assets, wanted: Download, console: Console) -> None:
    folder = download_folder(wanted.url, assets.cache)
    work = folder.with_suffix(".fetch")
    console.print(f"downloading {wanted.url}; what has arrived is kept when it is interrupted")
    lease = take(work, error=DownloadError, advice="Wait for it, or end it", work="download")

    def show(done: int, total: int | None) -> None:
        bar.update(done, text=f"{wanted.name} {done / 1e6:,.1f} MB", total=total)

    try:
        with Progress(wanted.name, console=console) as bar:
            download(wanted.url, work / "part", show)
        (work / "part").rename(folder.with_suffix(".download"))
    finally:
        lease.release()
        for folder_left in (work / "part", work):
            with suppress(OSError):  # it is not empty
                folder_left.rmdir()
