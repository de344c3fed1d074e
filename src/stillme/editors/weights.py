"""Which weights lie in a folder: a fingerprint that is the same wherever the folder lies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

INDEX = "model_index.json"
PART = 65536  # bytes at the beginning, middle and end of a large file that tell it from another of its size
SMALL = 1 << 20  # files up to this size count whole


def fingerprint(folder: Path) -> str:
    """Tells the weights in a folder from others, wherever it lies, without reading a hundred gigabytes.

    Names, sizes and content of what the index names: small files whole, of large ones three parts. A change of a
    large file that touches none of them is not seen; training changes them all.
    """
    index = folder / INDEX
    if not index.is_file():
        raise ValueError(f"source: {folder} holds no pipeline: {INDEX} is missing")
    summed = hashlib.sha256()
    for path in (index, *_component_files(folder, index)):
        name = path.relative_to(folder).as_posix()
        summed.update(json.dumps([name, path.stat().st_size, _content(path)]).encode())
    return summed.hexdigest()


def _component_files(folder: Path, index: Path) -> Iterator[Path]:
    try:
        named = sorted(
            name for name, value in json.loads(index.read_text("utf-8")).items() if _is_component(value)
        )
    except (ValueError, AttributeError):
        raise ValueError(f"source: {index} cannot be read as an index of a pipeline") from None
    for name in named:
        yield from sorted(p for p in (folder / name).rglob("*") if p.is_file() and not p.name.startswith("."))


def _is_component(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _content(path: Path) -> str:
    size = path.stat().st_size
    summed = hashlib.sha256()
    with path.open("rb") as file:
        if size <= SMALL:
            summed.update(file.read())
        else:
            for start in (0, (size - PART) // 2, size - PART):
                file.seek(start)
                summed.update(file.read(PART))
    return summed.hexdigest()
