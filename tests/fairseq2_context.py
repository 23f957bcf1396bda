"""fairseq2 can be initialised once per process, and many tests need it."""

from __future__ import annotations

from fairseq2 import init_fairseq2  # isort: skip
from fairseq2.error import InvalidOperationError  # isort: skip
from fairseq2.runtime.dependency import DependencyResolver, get_dependency_resolver  # isort: skip


def fairseq2_context() -> DependencyResolver:
    """Initialise fairseq2 if no test of this process has done so."""
    try:
        return get_dependency_resolver()
    except InvalidOperationError:
        return init_fairseq2()
