"""How a selection starts: a commented selection.yaml that fits the data set in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from itertools import islice
from pathlib import Path

from stillme.core.errors import InputError, disk
from stillme.core.yaml import path_from

LOOKED_AT = 200  # files: enough to tell a layout
PICTURES = (".jpg", ".jpeg", ".png", ".webp")
_UTKFACE = re.compile(r"^\d+_[01]_[0-4]_\d+\.")  # [age]_[gender]_[race]_[date].jpg

FAIRFACE = """\
  - id: fairface
    kind: fairface              # fairface_label_*.csv beside image folders or zips
    settings: {{folder: {folder}}}
"""
PARQUET = """\
  - id: fairface
    kind: fairface_parquet      # Hugging Face shards: images and class ids
    settings: {{folder: {folder}}}
"""
UTKFACE = """\
  - id: faces
    kind: folder
    settings:
      folder: {folder}
      naming: utkface           # [age]_[gender]_[race]_[date].jpg
      licence: ""               # say here under which licence the portraits are yours to use
      # aliases: {{race: {{Asian: east_asian}}}}   # where the data set's words name a group of the design
"""
LABELLED = """\
  - id: faces
    kind: folder
    settings:
      folder: {folder}
      labels: {labels}          # CSV, TSV or Parquet
      columns: {{file: file, race: race, gender: gender, age: age}}   # its columns
      licence: ""               # say here under which licence the portraits are yours to use
"""


def init(data: Path, file: Path) -> Path:
    """Writes a commented selection for the data set in `data`. Never overwrites anything."""
    if file.exists():
        raise InputError(f"{file} exists already.", "Give another name with --file, or move it away.")
    if not data.exists():
        raise InputError(f"There is no {data}.", "Give the folder that holds the data set.")
    text = (
        resources.files("stillme.sources.selection")
        .joinpath("templates/selection.yaml")
        .read_text(encoding="utf-8")
    )
    readers = _readers(data, path_from(file, data))
    name, work = _quoted(file.stem), _quoted(f"{file.stem}-work")
    with disk(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = text.format(file=file, name=name, folder=work, readers=readers)
        file.write_text(whole, encoding="utf-8")
    return file


def _quoted(text: str) -> str:
    """Text as YAML reads it wherever it stands."""
    return json.dumps(text, ensure_ascii=False)


def _readers(data: Path, shown: str) -> str:
    names = [path.name for path in islice(_files(data), LOOKED_AT)]
    if any(re.fullmatch(r"fairface_label_\w+\.csv", name) for name in names):
        return FAIRFACE.format(folder=_quoted(shown))
    if any(_UTKFACE.match(name) for name in names):
        return UTKFACE.format(folder=_quoted(shown))
    tables = [name for name in names if name.endswith((".csv", ".tsv"))]
    if not tables and any(name.endswith(".parquet") for name in names):
        return PARQUET.format(folder=_quoted(shown))
    return LABELLED.format(
        folder=_quoted(shown), labels=_quoted(f"{shown}/{tables[0]}" if tables else "labels.csv")
    )


def _files(data: Path) -> Iterator[Path]:
    """What lies in the folder itself first: label tables do, pictures may lie deeper."""
    if data.is_file():
        yield data
        return
    with disk(data):
        yield from sorted(path for path in data.iterdir() if path.is_file() and path.suffix not in PICTURES)
        yield from (path for path in data.rglob("*") if path.is_file())
