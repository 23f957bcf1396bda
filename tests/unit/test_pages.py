"""The pages of the documentation: their place in the site, and the tables that they show."""

import csv
import re
from pathlib import Path

import pytest

from tests.documented import PAGES, ROOT


def test_the_site_lists_each_page() -> None:
    listed = set(re.findall(r"- (\S+/\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}


@pytest.mark.parametrize("file", sorted(ROOT.glob("docs/**/*.tsv")), ids=lambda file: file.name)
def test_a_table_has_equal_rows_and_a_page(file: Path) -> None:
    with file.open(encoding="utf-8", newline="") as opened:
        widths = {len(row) for row in csv.reader(opened, delimiter="\t", quoting=csv.QUOTE_NONE)}
    assert len(widths) == 1
    shown = f"<!-- generated: {file.name} -->"
    assert any(shown in page.read_text(encoding="utf-8") for page in file.parent.glob("*.md"))
