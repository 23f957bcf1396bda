"""Get the weights and the tokenizer of a configuration into fairseq2's cache, before a run."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fairseq2.assets import AssetDownloadError
from fairseq2.utils.uri import Uri
from rich.console import Console

from danish_asr.base.download import download
from danish_asr.base.errors import ConfigError, DownloadError, UnreachableError
from danish_asr.base.fairseq2_private import download_folder
from danish_asr.base.files import take
from danish_asr.base.progress import Progress, plain_console
from danish_asr.recipe.config.load import load
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.entry import Request, read_configuration
from danish_asr.recipe.models.cards import Assets, tokenizer_of, with_named_model


class Download(NamedTuple):
    """A file that a card names, and where fairseq2 looks for it."""

    name: str
    kind: str  # "model" or "tokenizer"
    uri: Uri
    url: str  # without fairseq2's own parameters
    folder: Path

    @property
    def is_here(self) -> bool:
        """Whether fairseq2 has it. What the hub has is in another cache, which asks each time."""
        return self.folder.exists() or self.folder.with_suffix(".download").exists()


def fetch(request: Request) -> None:
    """Download what the cards of a configuration name, and print where it is.

    Raises:
        ConfigError: A name is unknown, or there is nothing to fetch.
        DownloadError: A file cannot be downloaded. What has arrived is kept.
    """
    tree = {"dataset": {"name": ""}} | read_configuration(request)
    config, placed = with_named_model(load(tree, where=request.where))
    assets = Assets(config.common.assets, placed)
    files = list(downloads(assets, config))
    if not files:
        raise ConfigError(["neither model.name nor tokenizer.name names something to download"])
    console = plain_console(stderr=True)
    for file in files:
        try:
            if not file.is_here and file.uri.scheme != "hg":
                _fetch(file, console)
            path = assets.download(file.kind, file.uri, file.name)
        except (UnreachableError, AssetDownloadError) as error:
            fix = "Run it where there is internet access, on a cluster on a login node"
            fault = f"{file.name} cannot be downloaded: {error.__cause__ or error}\n{fix}"
            raise DownloadError(fault) from None
        console.print(f"{file.name}: {path}")


def downloads(assets: Assets, config: AsrConfig) -> Iterator[Download]:
    """Yield the weights and the tokenizer that a configuration names, if they are elsewhere."""
    names = {
        "model.name": config.model.name,
        "pretrained_encoder.name": config.pretrained_encoder.name,
    }
    cards = {key: assets.find(key, name) for key, name in names.items() if name}
    tokenizer = config.tokenizer.name or tokenizer_of(cards.get("model.name"))
    if tokenizer and config.tokenizer.path is None:  # else it is the dataset's own
        cards["tokenizer.name"] = assets.find("tokenizer.name", tokenizer)
    for key, card in cards.items():
        kind = "tokenizer" if key == "tokenizer.name" else "model"
        field = "tokenizer" if key == "tokenizer.name" else "checkpoint"
        if card.has_field(field) and (uri := card.field(field).as_uri()).scheme != "file":
            url = str(uri).partition(";")[0]
            yield Download(card.name, kind, uri, url, download_folder(url, assets.cache))


def _fetch(file: Download, console: Console) -> None:
    work = file.folder.with_suffix(".fetch")
    console.print(f"downloading {file.url}; what has arrived is kept when it is interrupted")
    lease = take(work, error=DownloadError, advice="Wait for it, or end it", work="download")

    def show(done: int, total: int | None) -> None:
        bar.update(done, text=f"{file.name} {done / 1e6:,.1f} MB", total=total)

    try:
        with Progress(file.name, console=console) as bar:
            download(file.url, work / "part", show)
        (work / "part").rename(file.folder.with_suffix(".download"))
    finally:
        lease.release()
