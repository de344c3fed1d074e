"""Data as classic script files, which a page may load from a folder as from a server: each is one call.

Whatever judges, prompts and providers wrote is only ever a string in JSON. Everything beyond ASCII is escaped, and
so is `<`: no text can end a script. Untrusted names are never keys of an object, where `__proto__` would be none.
No text names a folder of this machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

ELSEWHERE = "…"


@dataclass(frozen=True)
class Scripts:
    """Writes into one folder. `private`: folders that are named nowhere."""

    folder: Path
    private: tuple[str, ...] = ()

    def write(self, name: str, call: str, *arguments: Any) -> int:
        """The size of the file in bytes."""
        text = ",".join(encoded(one) for one in arguments)
        content = f"{call}({unnamed(text, self.private)});\n".encode("ascii")
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return len(content)


def encoded(value: Any) -> str:
    """JSON that is also a safe script."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def unnamed(text: str, names: Iterable[str]) -> str:
    """The text without these folders; it may be JSON."""
    for name in names:
        text = text.replace(encoded(name)[1:-1], "...")
    return text


def private(run: Path) -> tuple[str, ...]:
    """The folders of this machine that texts might name, the longest first."""
    near = {run.absolute(), run.resolve(), Path.cwd(), Path.home()}
    return tuple(sorted((str(path) for path in near if len(path.parts) > 1), key=len, reverse=True))


def without_paths(value: Any) -> Any:
    """Settings with the last part only of every path that begins at a root."""
    if isinstance(value, dict):
        return {name: without_paths(one) for name, one in value.items()}
    if isinstance(value, list):
        return [without_paths(one) for one in value]
    if isinstance(value, str) and _is_rooted(value):
        return f"{ELSEWHERE}/{(PureWindowsPath(value) if value[1:2] == ':' else PurePath(value)).name}"
    return value


def _is_rooted(text: str) -> bool:
    return (
        len(text) > 1 and "\n" not in text and (PurePath(text).is_absolute() or PureWindowsPath(text).drive != "")
    )


def clear(folder: Path, names: Iterable[str]) -> None:
    """Takes away files of an earlier state that nothing has written anew. `names`: those that stay."""
    kept = set(names)
    for path in folder.rglob("*.js"):
        if path.relative_to(folder).as_posix() not in kept:
            path.unlink()
