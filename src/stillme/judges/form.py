"""The form that judges fill in: the protocol's template and rubric as one text, and its answer read strictly.

Pure. Knows no service. An answer is read as it stands or not at all: no default, no clamp, no repair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from stillme.core.records import digest
from stillme.core.yaml import Frozen
from stillme.engine import hosted
from stillme.judges import PICTURES, Fault, Reading, answer
from stillme.judges.answer import UnreadableError, fields, once, shown, words
from stillme.protocol import Protocol
from stillme.protocol.schema import Axis, Group

VERSION = 1  # raise when the same protocol gives another text, schema or reading
TEMPLATE = "judge_structure"
ALIASES = Path(__file__).with_name("aliases.yaml")
OLDEST = 95  # years: no target age lies above
OBSERVATIONS, SCORES, EVIDENCE = "observations", "scores", "evidence_summary"
SYSTEM = (
    "You compare two pictures of a person with great care. The first picture is the SOURCE, the second is the "
    "EDITED picture. Describe what you see before you score it. Judge only what is visible in the two pictures, "
    "and say in the observations where you are not sure. Answer with one JSON object and with nothing else."
)
_SLOT = re.compile(r"\{(\w+)\}")
_OBSERVED = re.compile(r"^\d+\.\d+ ([^:\n]+):", re.MULTILINE)
_SCORED = re.compile(r'(?:^[ \t]*"\w+": \d+-\d+,?\n)+', re.MULTILINE)


class Aliases(Frozen):
    """aliases.yaml."""

    aliases: dict[str, tuple[str, ...]]


def aliases() -> dict[str, str]:
    """Other spellings of axes that are met in the wild -> the axis."""
    known = hosted.table(ALIASES, Aliases).aliases
    return {alias: axis for axis, every in known.items() for alias in every}


class DriftForm:
    """One protocol's form on what changed between two pictures."""

    system = SYSTEM
    pictures = PICTURES

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.template = protocol.templates[TEMPLATE]
        self.observed = tuple(_word(name) for name in _OBSERVED.findall(self.template))
        _check(self.template, self.observed)
        self.aliases = aliases()
        self.hash = digest("form", version=VERSION, system=SYSTEM, **_asked_about(protocol))
        self.schema = lru_cache(maxsize=16)(self._schema)

    def text(self, prompt: str, instruction: str, axes: tuple[str, ...], disclosed: Mapping[str, str]) -> str:
        """The template, filled in one go, so that nothing in an instruction is taken for a slot."""
        told = {name: self._label(name, group) for name, group in disclosed.items()}
        filled = {"prompt": instruction, "rubrics": self._rubric(prompt, axes, disclosed), **told}
        template = _SCORED.sub(lambda _: self._scored(axes), _informed(self.template, told), count=1)
        template = template.replace(f'"{OBSERVATIONS}": {{...}}', self._described(), 1)
        return _SLOT.sub(lambda slot: filled.get(slot[1], slot[0]), template)

    def _schema(self, axes: tuple[str, ...]) -> dict[str, Any]:
        """What an answer looks like, as JSON Schema. The order is meant: described first, scored after that."""
        seen = {name: {"type": "string"} for name in self.observed}
        # the points one by one: some servers refuse minimum and maximum, or take no notice of them
        points = {axis: {"type": "integer", "enum": sorted(self.protocol.axes[axis].scale)} for axis in axes}
        return answer.an_object(
            {OBSERVATIONS: answer.an_object(seen), SCORES: answer.an_object(points), EVIDENCE: {"type": "string"}}
        )

    def read(self, text: str, axes: tuple[str, ...]) -> Reading | Fault:
        """The scores that an answer says, where it says all that was asked and nothing else."""
        return answer.read(text, (OBSERVATIONS, SCORES, EVIDENCE), lambda said: self._reading(said, axes))

    def _reading(self, said: Mapping[str, Any], axes: tuple[str, ...]) -> Reading:
        seen = fields(said[OBSERVATIONS], OBSERVATIONS, self.observed)
        points = fields(self._spelled(said[SCORES], axes), SCORES, axes)
        return Reading(
            {axis: self._point(axis, points[axis]) for axis in axes},
            {name: words(name, seen[name]) for name in self.observed},
            words(EVIDENCE, said[EVIDENCE]),
        )

    def _spelled(self, points: Any, axes: tuple[str, ...]) -> Any:
        """The scores under the protocol's own names."""
        if not isinstance(points, dict) or not self.aliases.keys() & points.keys():
            return points
        known: dict[Any, str] = {alias: axis for alias, axis in self.aliases.items() if axis in axes}
        return once([(known.get(name, str(name)), value) for name, value in points.items()])

    def _point(self, axis: str, value: Any) -> int:
        """A point of the scale. True is no 1, 4.0 and "4" are no 4."""
        if type(value) is not int or value not in self.protocol.axes[axis].scale:
            scale = self.protocol.axes[axis].scale
            raise UnreadableError(f"{axis} is {shown(value)}, no whole number from {min(scale)} to {max(scale)}")
        return value

    def _label(self, dimension: str, group: str) -> str:
        return self.protocol.groups.labels(dimension).get(group, group)

    def _scored(self, axes: tuple[str, ...]) -> str:
        return _listed("    ", {axis: _range(self.protocol.axes[axis]) for axis in axes}) + "\n"

    def _described(self) -> str:
        listed = _listed("    ", dict.fromkeys(self.observed, '"..."'))
        return f'"{OBSERVATIONS}": {{\n{listed}\n  }}'

    def _rubric(self, prompt: str, axes: tuple[str, ...], disclosed: Mapping[str, str]) -> str:
        rows = (self.protocol.axes[axis] for axis in axes)
        return "SCORES:\n" + "\n".join("\n".join(self._axis(axis, prompt, disclosed)) for axis in rows)

    def _axis(self, axis: Axis, prompt: str, disclosed: Mapping[str, str]) -> Iterator[str]:
        yield f"{axis.id} ({axis.label}), {_range(axis)}:"
        asked = self.protocol.prompt.get(prompt)
        if asked and asked.age_shift_years is not None and prompt in (axis.only_prompts or ()):
            yield f"  Target age: {self._target(asked.age_shift_years, disclosed)}"
        yield from (f"  {point} = {meaning}" for point, meaning in sorted(axis.scale.items()))

    def _target(self, shift: int, disclosed: Mapping[str, str]) -> str:
        """The age that was asked for: in years where the source's age is disclosed, else from how it looks."""
        groups = self.protocol.groups.dimensions
        told = (group for name, word in disclosed.items() for group in groups[name] if group.id == word)
        source = next((group for group in told if group.years), None)
        if source is None:
            return f"{shift} years older than the person in the source appears, at most {OLDEST}"
        return f"source {source.label} plus {shift} years = {_ages(source, shift)}"


def _check(template: str, observed: tuple[str, ...]) -> None:
    """A protocol of one's own may word the template anew; these parts have to stand in it."""
    lacks = [f"{{{slot}}}" for slot in ("prompt", "rubrics") if slot not in _SLOT.findall(template)]
    lacks += [] if observed else ["lines such as '1.1 Edit Analysis: …'"]
    lacks += [] if _SCORED.search(template) else ["lines such as '\"edit\": 1-5,'"]
    if lacks:
        raise ValueError(f"templates/{TEMPLATE}.txt lacks {' and '.join(lacks)}, which judges are asked by")


def _asked_about(protocol: Protocol) -> dict[str, Any]:
    """Everything of a protocol that stands in the form."""
    return {
        "template": protocol.templates[TEMPLATE],
        "axes": [axis.model_dump(mode="json", include={"id", "label", "scale"}) for axis in protocol.rubrics.axes],
        "groups": {name: protocol.groups.labels(name) for name in protocol.groups.dimensions},
    }


def _informed(template: str, told: Mapping[str, str]) -> str:
    """The template with the line on the person cut down to what is disclosed; without it where nothing is."""
    return "".join(_line(line, told) for line in template.splitlines(keepends=True))


def _line(line: str, told: Mapping[str, str]) -> str:
    slots = [slot for slot in _SLOT.findall(line) if slot not in ("prompt", "rubrics")]
    if not slots:
        return line
    head, _, listed = line.partition(": ")
    kept = [part for part in listed.strip().split(", ") if set(_SLOT.findall(part)) & told.keys()]
    return f"{head}: {', '.join(kept)} (as annotators perceived the person)\n" if kept else ""


def _word(name: str) -> str:
    """'Skin Tone Comparison' -> 'skin_tone_comparison'."""
    return "_".join(re.findall(r"[a-z0-9]+", name.lower()))


def _range(axis: Axis) -> str:
    return f"{min(axis.scale)}-{max(axis.scale)}"


def _listed(indent: str, values: Mapping[str, str]) -> str:
    return ",\n".join(f'{indent}"{name}": {value}' for name, value in values.items())


def _ages(source: Group, shift: int) -> str:
    low, high = source.years or (0, None)
    oldest = OLDEST if high is None else min(OLDEST, high + shift)
    youngest = min(OLDEST, low + shift)
    return f"{youngest}–{oldest}" if youngest < oldest else f"{oldest}"
