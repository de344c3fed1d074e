"""terms.yaml, and the names of terms alone, for completion in a shell: nothing heavy is loaded for it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field, RootModel, model_validator

from stillme.core.yaml import Document, Frozen, read_text
from stillme.ledger.frames import COLUMNS
from stillme.measures import FIGURES
from stillme.protocol import Protocol

FILE = Path(__file__).parent / "terms.yaml"


class Meaning(Frozen):
    """`also`: other spellings under which it is looked for. `page`: where it is told, if not where its kind is."""

    means: str = Field(alias="is")
    also: tuple[str, ...] = ()
    page: str = ""

    @model_validator(mode="before")
    @classmethod
    def _a_sentence_alone(cls, data: Any) -> Any:
        return {"is": data} if isinstance(data, str) else data


class Shelf(Frozen):
    """Terms of one kind."""

    title: str
    page: str
    terms: dict[str, Meaning]


class Terms(RootModel[dict[str, Shelf]]):
    pass


@lru_cache(maxsize=1)
def shelves() -> dict[str, Shelf]:
    """Kind -> the terms of terms.yaml."""
    read = Document(str(FILE), read_text(FILE)).read_as(Terms)
    assert read is not None, "terms.yaml comes with the package and is tested"
    return read.root


def names(protocol: Protocol) -> list[str]:
    """Terms that can be explained, as they are written; the rarer ones are left to who knows them."""
    dimensions = protocol.groups.dimensions
    own = [*protocol.rubrics.outcomes, *protocol.axes, *protocol.presets, *(a.id for a in protocol.manifest.arms)]
    own += [word for d in dimensions for word in (d, *protocol.groups.ids(d))]
    tables = [*COLUMNS, *(figure for figures in FIGURES.values() for figure in figures)]
    written = [name for shelf in shelves().values() for name in shelf.terms]
    return list(dict.fromkeys([*own, *written, *tables]))
