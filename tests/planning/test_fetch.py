"""Weights and tokenizers get into fairseq2's cache, whatever happens to the connection."""

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import ConfigError, DownloadError
from danish_asr.base.files import to_yaml
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.planning.fetch import fetch
from danish_asr.recipe.config.schema import AssetsConfig, TokenizerSection
from danish_asr.recipe.entry import Request
from danish_asr.recipe.models.cards import Assets

WEIGHTS = bytes(range(256)) * 20_000  # 5.1 MB


class Server(ThreadingHTTPServer):
    """Serves files by name; a connection ends after as many bytes as ``cuts`` say, in turn."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = {"model.pt": WEIGHTS, "t.model": build_char_tokenizer("abcæøå")}
        self.cuts: list[int] = []
        self.type = "application/octet-stream"
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        content = self.server.files.get(self.path[1:])
        if content is None:
            self.send_error(404)
            return
        wanted = self.headers.get("Range", "")
        self.server.asked.append(f"{self.path[1:]} {wanted}".strip())
        first = int(re.findall(r"\d+", wanted)[0]) if wanted else 0
        self.send_response(206 if first else 200)
        self.send_header("Content-Type", self.server.type)
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        cut = self.server.cuts.pop(0) if self.server.cuts else len(content)
        self.wfile.write(content[first : first + cut])

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture
def cards(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAIRSEQ2_CACHE_DIR", str(tmp_path / "cache"))
    model = {"name": "far", "model_family": "wav2vec2_asr", "model_arch": "300m"}
    model |= {"checkpoint": f"{server.url}/model.pt", "tokenizer_ref": "far_tokenizer"}
    tokenizer = {"name": "far_tokenizer", "tokenizer_family": "char_tokenizer"}
    tokenizer |= {"tokenizer": f"{server.url}/t.model"}
    (tmp_path / "cards").mkdir()
    for card in (model, tokenizer):
        (tmp_path / "cards" / f"{card['name']}.yaml").write_text(to_yaml(card))
    return tmp_path / "cards"


def fetch_far(cards: Path) -> None:
    values = ["model.name=far", f"common.assets.extra_paths=['{cards}']"]
    fetch(Request(output_dir=None, overrides=values))


def weights(cards: Path) -> bytes:
    """What fairseq2 finds, without a network."""
    assets = Assets(AssetsConfig(extra_paths=[cards]))
    card = assets.find("model.name", "far")
    assert assets.tokenizer_file(TokenizerSection(name="far_tokenizer"))
    return assets.download("model", card.field("checkpoint").as_uri(), "far").read_bytes()


def test_weights_and_tokenizer_are_fetched_once_and_found_without_a_network(
    cards: Path, server: Server
) -> None:
    fetch_far(cards)
    fetch_far(cards)
    assert server.asked == ["model.pt", "t.model"]
    server.shutdown()
    server.server_close()
    assert weights(cards) == WEIGHTS


def test_a_download_goes_on_where_its_connection_ended(cards: Path, server: Server) -> None:
    server.cuts = [1_000_000, 2_000_000, 0]
    for _ in range(3):
        with pytest.raises(DownloadError, match=r"what has arrived is kept[\s\S]*login node"):
            fetch_far(cards)
    fetch_far(cards)
    begins = [0, 1_000_000, 3_000_000, 3_000_000]
    assert server.asked[:4] == [f"model.pt bytes={n}-" if n else "model.pt" for n in begins]
    assert weights(cards) == WEIGHTS


def test_an_error_and_a_web_page_are_not_kept_as_weights(cards: Path, server: Server) -> None:
    file = server.files.pop("model.pt")
    with pytest.raises(DownloadError, match="404"):
        fetch_far(cards)
    server.files["model.pt"] = file
    server.type = "text/html; charset=utf-8"
    with pytest.raises(DownloadError, match="web page"):
        fetch_far(cards)
    server.type = "application/octet-stream"
    fetch_far(cards)
    assert weights(cards) == WEIGHTS


def test_a_configuration_that_names_nothing_to_download_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.name"):
        fetch(Request(output_dir=None, overrides=["model.arch=tiny"]))
