"""The form of the documentation: kinds of pages, lengths, and tables from files."""

import csv
import re
from collections.abc import Iterator

import pytest

from tests.documented import PAGES, ROOT

SENTENCE = 30  # words, outside of background pages
TASK = 80  # lines of a how-to page, without its code


def sentences(page: str) -> Iterator[str]:
    """The sentences of a page's paragraphs, list items and cells; code and links are a word."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"(?ms)^```.*?^```|^    .*?$|<!--.*?-->", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", text))
    for paragraph in re.split(r"\n\s*\n|\n(?=- |\d+\. |\|)", text):
        for cell in paragraph.split("|"):
            yield from re.split(r"(?<=[.!?:;])\s+", " ".join(cell.split()))


@pytest.mark.parametrize("page", [page for page in PAGES if "/background/" not in page])
def test_a_sentence_has_at_most_thirty_words(page: str) -> None:
    lengths = {text: sum(any(map(str.isalnum, word)) for word in text.split())
               for text in sentences(page)}  # fmt: skip
    assert not [text for text, words in lengths.items() if words > SENTENCE]


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/howto")])
def test_a_how_to_page_is_one_short_task(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    prose = re.sub(r"(?ms)^```python.*?^```\n", "", text)
    assert prose.count("\n") < TASK


def test_each_page_of_the_four_kinds_is_in_the_site() -> None:
    listed = set(re.findall(r"- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    kinds = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    assert {page.split("/")[0] for page in kinds} == {"start", "howto", "reference", "background"}
    assert kinds <= listed


@pytest.mark.parametrize("file", sorted(ROOT.glob("docs/**/*.tsv")), ids=lambda file: file.name)
def test_a_table_of_a_page_has_equal_rows_and_a_page(file: object) -> None:
    path = ROOT / str(file)
    with path.open(encoding="utf-8", newline="") as opened:
        widths = {len(row) for row in csv.reader(opened, delimiter="\t", quoting=csv.QUOTE_NONE)}
    assert len(widths) == 1
    shown = f"<!-- generated: {path.name} -->"
    assert any(shown in page.read_text(encoding="utf-8") for page in path.parent.glob("*.md"))
