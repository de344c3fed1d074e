"""The form on visible features of a face (S0 F.3): one text per dimension, and a sentence that asks to keep them.

Pure. Whether such a sentence names race, gender or age is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stillme.core.records import digest
from stillme.judges import ParsedAnswer, ParseError, answer
from stillme.judges.answer import UnreadableError, object_schema, require_text
from stillme.protocol import Protocol

VERSION = 1  # raise when the same protocol gives another text, schema or reading
TEMPLATE = "feature_extraction"
SENTENCE = "identity_prompt"
MAX_FEATURE_CHARS = 1200
SYSTEM = (
    "You describe the visible features of one face, so that an editor can keep them. Name colours, shapes and "
    "textures. Never name a race, an ethnicity, a nationality, a gender or an age. Answer with one JSON object "
    "and with nothing else."
)
AGAIN = (
    "\n\nAn earlier answer named what must not be named. Describe only visible features: no word for race, "
    "ethnicity, nationality, gender or age, and no pronoun that tells a gender."
)


class FeatureForm:
    """`asked`: the dimensions."""

    system = SYSTEM
    pictures = ("source",)

    def __init__(self, protocol: Protocol) -> None:
        self.template = protocol.templates[TEMPLATE]
        self.hash = digest("feature form", version=VERSION, system=SYSTEM, again=AGAIN, template=self.template)

    def text(self, prompt: str, instruction: str, asked: tuple[str, ...], disclosed: Mapping[str, str]) -> str:
        """`instruction`: not empty where the features are requested for the second time."""
        return self.template + (AGAIN if instruction else "")

    def schema(self, asked: tuple[str, ...]) -> dict[str, Any]:
        return object_schema({name: {"type": "string"} for name in (*asked, SENTENCE)})

    def read(self, text: str, asked: tuple[str, ...]) -> ParsedAnswer | ParseError:
        return answer.read(text, (*asked, SENTENCE), _reading)


def _reading(fields: Mapping[str, Any]) -> ParsedAnswer:
    features = {name: require_text(name, value).strip() for name, value in fields.items()}
    if not features[SENTENCE]:
        raise UnreadableError(f"{SENTENCE} is empty")
    for name, text in features.items():
        if len(text) > MAX_FEATURE_CHARS:
            raise UnreadableError(f"{name} has {len(text):,} characters, more than {MAX_FEATURE_CHARS:,}")
    return ParsedAnswer(features=features)
