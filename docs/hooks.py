"""Add pages from outside of docs/ to the site, and point the links of all pages to their places."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "data/README.md": "data.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"(?<=\]\()[^)#:\s]+(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for path, uri in PAGES.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links between files of the repository to pages; other files become downloads."""
    uri = page.file.src_uri
    here = next((path for path, of_page in PAGES.items() if of_page == uri), f"docs/{uri}")

    def on_site(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), link[0]))
        place = PAGES.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(place) is None and (ROOT / path).is_file():
            files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
        return posixpath.relpath(place, posixpath.dirname(uri) or ".")

    return _LINK.sub(on_site, markdown)
