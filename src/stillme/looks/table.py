"""Reads looks.yaml strictly: every row complete, every key known, every fault a sentence."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from stillme.looks.brush import Colour

REQUIRED = frozenset({"id", "garment", "colours", "scene", "props", "notes"})
OPTIONAL = frozenset({"marks", "posture"})


@dataclass(frozen=True)
class Look:
    """What one prompt changes; the words name painting functions."""

    id: str
    garment: str
    colours: tuple[tuple[Colour, Colour, Colour], ...]
    scene: str
    props: tuple[str, ...]
    marks: tuple[str, ...]
    posture: str | None
    notes: str


class _Loader(yaml.SafeLoader):
    """Safe types only, and no key given twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        if twice:
            raise ValueError(f"looks.yaml line {node.start_mark.line + 1}: {', '.join(twice)} is given twice.")
        return super().construct_mapping(node, deep)


def parse(text: str) -> Mapping[str, Look]:
    """The looks by prompt id, in the order of the file."""
    data = yaml.load(text, _Loader)
    if not isinstance(data, dict) or set(data) != {"looks"} or not isinstance(data["looks"], list):
        raise ValueError("looks.yaml: the only key at the top is 'looks', a list of rows.")
    rows = [_look(row) for row in data["looks"]]
    table = {row.id: row for row in rows}
    if len(table) != len(rows):
        raise ValueError("looks.yaml: two rows have the same id.")
    return table


@functools.cache
def table() -> Mapping[str, Look]:
    return parse(resources.files("stillme.looks").joinpath("looks.yaml").read_text("utf-8"))


def _look(row: Any) -> Look:
    if not isinstance(row, dict):
        raise ValueError(f"looks.yaml: a row is a mapping, not {row!r}.")
    _check_keys(row)
    return Look(
        id=_word(row, "id"),
        garment=_word(row, "garment"),
        colours=_colourways(row),
        scene=_word(row, "scene"),
        props=_words(row, "props"),
        marks=_words(row, "marks"),
        posture=_word(row, "posture") if "posture" in row else None,
        notes=_word(row, "notes"),
    )


def _check_keys(row: Mapping[str, Any]) -> None:
    name = row.get("id", "a row without id")
    unknown = sorted(map(str, set(row) - REQUIRED - OPTIONAL))
    if unknown:
        known = ", ".join(sorted(REQUIRED | OPTIONAL))
        raise ValueError(f"looks.yaml, {name}: {', '.join(unknown)} is not a known key; known: {known}.")
    missing = sorted(REQUIRED - set(row))
    if missing:
        raise ValueError(f"looks.yaml, {name}: {', '.join(missing)} is missing.")


def _word(row: Mapping[str, Any], key: str) -> str:
    value = row[key]
    if not isinstance(value, str) or not value:
        raise ValueError(f"looks.yaml, {row.get('id')}: {key} is a word, not {value!r}.")
    return value


def _words(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = row.get(key, [])
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"looks.yaml, {row.get('id')}: {key} is a list of words, not {value!r}.")
    return tuple(value)


def _colourways(row: Mapping[str, Any]) -> tuple[tuple[Colour, Colour, Colour], ...]:
    try:
        ways = tuple((_colour(a), _colour(b), _colour(c)) for a, b, c in row["colours"])
    except (TypeError, ValueError, AttributeError):
        ways = ()
    if not 1 <= len(ways) <= 4:
        raise ValueError(f"looks.yaml, {row['id']}: colours is one to four rows of three '#rrggbb'.")
    return ways


def _colour(text: str) -> Colour:
    if len(text) != 7 or text[0] != "#":
        raise ValueError(text)
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)
