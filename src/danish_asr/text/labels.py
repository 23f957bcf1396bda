"""Labels of speakers and groups that may be one, written in several ways."""

import re
from collections.abc import Callable, Iterable
from unicodedata import normalize


def similar_labels(
    labels: Iterable[str | None],
    *,
    names: bool = False,
    meaning: Callable[[str], str | None] = str,
) -> list[list[str]]:
    """Return labels that differ only in capitals, width, spaces, hyphens, underscores, or å as aa.

    In the ``names`` of speakers aa is another one: they may be codes. Labels of one ``meaning``
    are the same, too.
    """
    spellings: dict[str, list[str]] = {}
    for label in labels:
        if label is not None:
            key = " ".join(
                re.sub("[-_]", " ", normalize("NFKC", meaning(label) or "").casefold()).split()
            )
            spellings.setdefault(key if names else key.replace("aa", "å"), []).append(label)
    return [same for same in spellings.values() if len(same) > 1]
