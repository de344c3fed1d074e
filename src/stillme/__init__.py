"""stillme: does the edited portrait still show the same person, whoever the person is?

An audit of instruction-guided image editors. `pipeline.py` tells the whole flow; start there. From Python (see
docs/python.md): `stillme.Audit` runs an audit, `stillme.load_run` reads one, `stillme.analyse` computes tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # whoever only asks for the version, or for `stillme --help`, waits for nothing heavy
    from stillme.api import Analysis as Analysis
    from stillme.api import Audit as Audit
    from stillme.api import LoadedRun as LoadedRun
    from stillme.api import Plan as Plan
    from stillme.api import analyse as analyse
    from stillme.api import load_run as load_run
    from stillme.core.errors import IncompleteError as IncompleteError
    from stillme.core.errors import StillmeError as StillmeError

__version__ = "0.1.0"
__all__ = [
    "Analysis",
    "Audit",
    "IncompleteError",
    "LoadedRun",
    "Plan",
    "StillmeError",
    "__version__",
    "analyse",
    "load_run",
]


if not TYPE_CHECKING:  # a type checker would take every name for one that is there

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'stillme' has no attribute '{name}'")
        from importlib import import_module

        home = "stillme.core.errors" if name.endswith("Error") else "stillme.api"
        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
