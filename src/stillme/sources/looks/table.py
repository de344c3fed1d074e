"""The table of looks: one row a prompt, read strictly from looks.yaml."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Annotated

from pydantic import BeforeValidator, Field

from stillme.core.errors import ConfigIssuesError
from stillme.core.yaml import Document, StrictModel

Colour = tuple[int, int, int]

FILE = "looks.yaml"


def _colour(text: object) -> Colour:
    if not isinstance(text, str) or len(text) != 7 or text[0] != "#":
        raise ValueError("a colour is written '#rrggbb'")
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


Written = Annotated[Colour, BeforeValidator(_colour)]
Word = Annotated[str, Field(min_length=1)]


class Look(StrictModel):
    """What one prompt changes; the words name layers and, for marks and postures, functions."""

    id: Word
    garment: Word
    colours: tuple[tuple[Written, Written, Written], ...] = Field(min_length=1, max_length=4)
    scene: Word
    props: tuple[Word, ...]
    marks: tuple[Word, ...] = ()
    posture: Word | None = None
    notes: Word


class Looks(StrictModel):
    """looks.yaml."""

    looks: tuple[Look, ...]


def parse(text: str) -> Mapping[str, Look]:
    """The looks by prompt id, in the order of the file."""
    document = Document(FILE, text)
    content = document.read_as(Looks)
    if content is None:
        raise ConfigIssuesError(document.faults)
    rows = {look.id: look for look in content.looks}
    if len(rows) != len(content.looks):
        raise ConfigIssuesError([document.fault(("looks",), "two rows have the same id")])
    return rows


@functools.cache
def table() -> Mapping[str, Look]:
    return parse(resources.files("stillme.sources.looks").joinpath(FILE).read_text("utf-8"))
