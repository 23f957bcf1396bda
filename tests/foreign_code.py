"""A module of code that a file may name, which leaves a trace when it is imported."""

import sys
from pathlib import Path

import pytest

NAME = "foreign_code_of_data:Foreign"


class ForeignCode:
    """The module `NAME`, on Python's path for a test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._trace = folder / "ran"
        module = NAME.partition(":")[0]
        (folder / f"{module}.py").write_text(
            f"open({str(self._trace)!r}, 'w').close()\nForeign = str\n"
        )
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, module, raising=False)

    @property
    def ran(self) -> bool:
        """Whether it was imported; asking forgets it."""
        found = self._trace.exists()
        self._trace.unlink(missing_ok=True)
        sys.modules.pop(NAME.partition(":")[0], None)
        return found
