"""Add pages and tables from outside of a page to the site, and point links to their places."""

import csv
import html
import inspect
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.main import get_command

from danish_asr.cli.app import app
from danish_asr.recipe.config.keys import table
from danish_asr.recipe.data.transforms import TRANSFORMS
from danish_asr.report import SCORE_OUTPUTS
from danish_asr.text.profiles import PROFILES

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "data/README.md": "data.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"(?<=\]\()[^)#:\s]+(?=[)#])")
_CODE = re.compile(r"<code>[^<\n]*</code>")
_HYPHENS = re.compile(r"(?<![^\s>])[\w.]*-[\w-]{1,20}(?=[\s<,.])")
_GENERATED = re.compile(r"<!-- generated: (\S+)([^>]*) -->")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for path, uri in PAGES.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write generated tables, and point links between files of the repository to pages.

    Other files become downloads.
    """
    uri = page.file.src_uri
    here = next((path for path, of_page in PAGES.items() if of_page == uri), f"docs/{uri}")

    def on_site(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), link[0]))
        place = PAGES.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(place) is None and (ROOT / path).is_file():
            files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
        return posixpath.relpath(place, posixpath.dirname(uri) or ".")

    def generated(name: re.Match[str]) -> str:
        if name[1] == "api":  # mkdocstrings reads these lines
            return "\n\n".join(f"::: {path}" for path in name[2].split())
        parts = {
            "keys": _keys,
            "transforms": _transforms,
            "commands": _commands,
            "profiles": _profiles,
            "outputs": _outputs,
        }
        lines = parts[name[1]]() if name[1] in parts else _file((ROOT / here).parent / name[1])
        return "\n".join(lines)

    return _LINK.sub(on_site, _GENERATED.sub(generated, markdown))


def on_page_content(content: str, **_: object) -> str:
    """Keep options and names with hyphens on one line."""
    return _CODE.sub(lambda code: _HYPHENS.sub(r"<nobr>\g<0></nobr>", code[0]), content)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _head(*names: str) -> list[str]:
    return ["", _row(names), "|---" * len(names) + "|"]


def _file(path: Path) -> Iterator[str]:
    """A TSV file as a table for each value of its first column."""
    group = None
    with path.open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    for first, *cells in rows:
        if first != group:
            group = first
            yield from ("", f"## {group}", *_head(*names[1:]))
        yield _row(cells)


def _keys() -> Iterator[str]:
    """What ``danish-asr train --help-keys`` prints, section by section."""
    for row in table():
        if "." not in row.key:
            yield from ("", f"## {row.key}", "", row.effect)
            yield from _head("key", "default", "values", "effect")
        else:
            name = row.key.partition(".")[2].replace(".", ".<wbr>").replace("_", "_<wbr>")
            yield _row((f"<code>{name}</code>", row.default, row.values, row.effect))


def _transforms() -> Iterator[str]:
    """The transforms, their settings, and the first sentence about each."""
    yield from _head("name", "settings", "what it does")
    for name, kind in TRANSFORMS.items():
        settings = inspect.signature(kind).parameters.values()
        texts = [
            setting.name
            if setting.default is setting.empty
            else f"{setting.name}: {setting.default}"
            for setting in settings
        ]
        about = str(inspect.getdoc(kind)).partition("\n")[0]
        yield _row((f"`{name}`", ", ".join(texts), about))


def _profiles() -> Iterator[str]:
    yield from _head("profile", "what it does")
    yield from (_row((f"`{name}`", profile.about)) for name, profile in PROFILES.items())


def _outputs() -> Iterator[str]:
    """What the files of ``danish-asr score`` hold."""
    yield from _head("end of the name", "what it holds")
    yield from (_row((f"`{end}`", about)) for end, about in SCORE_OUTPUTS.items())


def _commands(group: Any = None, path: str = "danish-asr") -> Iterator[str]:
    """The help of each command."""
    program: Any = group or get_command(app)
    for name, command in program.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path} {name}")
            continue
        about, *rest = (command.help or "").split("\n\n")
        yield from ("", f"## {path} {name}", "", about, "", *rest)
        yield from _head("argument or option", "what it is")
        for parameter in command.params:
            about, value = html.escape(parameter.help or "", quote=False), parameter.metavar or ""
            if parameter.param_type_name == "option":
                names = f"{', '.join(parameter.opts)} {value}".strip()
            else:
                names = value or parameter.name.upper()
            if isinstance(parameter.default, str | int) and str(parameter.default) not in about:
                about += "" if parameter.is_flag else f" Default: {parameter.default}."
            yield _row((f"<code>{names}</code>", about))
