"""The form on what a face looks like (S0 F.3): one text a dimension, and a sentence that asks to keep them.

Pure. Whether such a sentence names race, gender or age is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stillme.core.records import digest
from stillme.judges import Fault, Reading, answer
from stillme.judges.answer import UnreadableError, an_object, words
from stillme.protocol import Protocol

VERSION = 1  # raise when the same protocol gives another text, schema or reading
TEMPLATE = "feature_extraction"
SENTENCE = "identity_prompt"
LONGEST = 1200  # characters of one text
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
        """`instruction`: anything at all where it is asked for the second time; else empty."""
        return self.template + (AGAIN if instruction else "")

    def schema(self, asked: tuple[str, ...]) -> dict[str, Any]:
        return an_object({name: {"type": "string"} for name in (*asked, SENTENCE)})

    def read(self, text: str, asked: tuple[str, ...]) -> Reading | Fault:
        return answer.read(text, (*asked, SENTENCE), lambda said: _reading(said))


def _reading(said: Mapping[str, Any]) -> Reading:
    told = {name: words(name, value).strip() for name, value in said.items()}
    if not told[SENTENCE]:
        raise UnreadableError(f"{SENTENCE} is empty")
    long = next((name for name, text in told.items() if len(text) > LONGEST), None)
    if long is not None:
        raise UnreadableError(f"{long} has {len(told[long]):,} characters, more than {LONGEST:,}")
    return Reading(features=told)
