"""A hub on this machine with the part of the Hugging Face hub's API that this project needs."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GATED = "CoRal-project/gated"
_REVISION = f"({COMMIT}|main|refs/convert/parquet)"


class Hub(ThreadingHTTPServer):
    """Serves one folder as the dataset ``repo``, and refuses `GATED` as a gated one.

    Models are uploaded into the folder, except those of the owner ``other``.
    """

    daemon_threads = True

    def __init__(self, repo: str, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repo, self.folder = repo, folder
        self.created: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serve_hub(repo: str, folder: Path) -> Iterator[Hub]:
    """Run a hub in a thread."""
    with Hub(repo, folder) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        yield hub
        hub.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        repo = self.server.repo
        if f"/datasets/{GATED}/resolve" in path:  # it can be listed, not read
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
            return
        path = path.replace(GATED, repo)
        if match := re.fullmatch(rf"/api/datasets/{repo}/tree/{COMMIT}(?:/(.*))?", path):
            self._send(200, json.dumps(self._tree(match[1] or "")).encode())
        elif re.fullmatch(
            rf"/api/datasets/{repo}(/revision/({COMMIT}|main|refs/convert/parquet))?", path
        ):
            known = {"id": repo, "sha": COMMIT, "private": False, "tags": [], "downloads": 0}
            info = known | {"likes": 0, "gated": False, "disabled": False}
            self._send(200, json.dumps(info).encode())
        elif match := re.fullmatch(rf"/datasets/{repo}/resolve/{COMMIT}/(.*)", path):
            self._send_range((self.server.folder / match[1]).read_bytes())
        else:
            self._send(404, b"{}")

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        path, commit = urlsplit(self.path).path, f"{self.server.url}/m/commit/{COMMIT}"
        if path == "/api/repos/create":
            self.server.created.append(json.loads(content))
            owner, name = (self.server.created[-1].get(key) for key in ("organization", "name"))
            known = {"url": f"{self.server.url}/{owner}/{name}", "id": f"{owner}/{name}"}
            if owner == "other":
                self._send(403, b'{"error": "you may not write there"}')
            else:
                self._send(200, json.dumps(known).encode())
        elif path == "/api/validate-yaml":
            self._send(200, b"{}")
        elif path.endswith("/preupload/main"):
            names = [file["path"] for file in json.loads(content)["files"]]
            files = [{"path": n, "uploadMode": "regular", "shouldIgnore": False} for n in names]
            self._send(200, json.dumps({"files": files}).encode())
        elif path.endswith("/commit/main"):
            for line in map(json.loads, content.splitlines()):
                if line["key"] == "file":
                    file = self.server.folder / line["value"]["path"]
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(base64.b64decode(line["value"]["content"]))
            self._send(200, json.dumps({"commitUrl": commit, "commitOid": COMMIT}).encode())
        else:
            self._send(404, b"{}")

    def _tree(self, below: str) -> list[dict[str, Any]]:
        return [
            {
                "type": "file" if path.is_file() else "directory",
                "path": path.relative_to(self.server.folder).as_posix(),
                "size": path.stat().st_size,
                "oid": hashlib.sha256(path.name.encode()).hexdigest()[:40],
            }
            for path in sorted((self.server.folder / below).rglob("*"))
        ]

    def _send_range(self, content: bytes) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if match is None:
            self._send(200, content)
            return
        first, last = int(match[1]), min(int(match[2]), len(content) - 1)
        part = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        self._send(206, content[first : last + 1], part)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Stay silent."""
