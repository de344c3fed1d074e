"""The form that judges fill in: the protocol's template and rubric as one text, and its answer read strictly.

Pure. Knows no service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from stillme.core.records import digest
from stillme.core.yaml import StrictModel
from stillme.engine import hosted
from stillme.judges import PICTURES, ParsedAnswer, ParseError, answer
from stillme.judges.answer import UnreadableError, quote, require_fields, require_text, unique_keys
from stillme.protocol import Protocol
from stillme.protocol.schema import Axis

VERSION = 1  # raise when the same protocol gives another text, schema or reading
TEMPLATE = "judge_structure"
ALIASES = Path(__file__).with_name("aliases.yaml")
MAX_TARGET_AGE = 95  # years
OBSERVATIONS, SCORES, EVIDENCE = "observations", "scores", "evidence_summary"
SYSTEM = (
    "You compare two pictures of a person with great care. The first picture is the SOURCE, the second is the "
    "EDITED picture. Describe what you see before you score it. Judge only what is visible in the two pictures, "
    "and say in the observations where you are not sure. Answer with one JSON object and with nothing else."
)
_SLOT = re.compile(r"\{(\w+)\}")
_OBSERVATION_LINE = re.compile(r"^\d+\.\d+ ([^:\n]+):", re.MULTILINE)
_SCORE_LINES = re.compile(r'(?:^[ \t]*"\w+": \d+-\d+,?\n)+', re.MULTILINE)


class Aliases(StrictModel):
    """aliases.yaml."""

    aliases: dict[str, tuple[str, ...]]


def aliases() -> dict[str, str]:
    """Other spellings of axes that judges use -> the axis."""
    spellings = hosted.table(ALIASES, Aliases).aliases
    return {alias: axis for axis, others in spellings.items() for alias in others}


class DriftForm:
    """One protocol's form on what changed between two pictures."""

    system = SYSTEM
    pictures = PICTURES

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.template = protocol.templates[TEMPLATE]
        # 'Skin Tone Comparison' -> 'skin_tone_comparison'
        self.observations = tuple(
            "_".join(re.findall(r"[a-z0-9]+", name.lower())) for name in _OBSERVATION_LINE.findall(self.template)
        )
        _check_template(self.template, self.observations)
        self.aliases = aliases()
        self.hash = digest("form", version=VERSION, system=SYSTEM, **_hashed_parts(protocol))
        self.schema = lru_cache(maxsize=16)(self._schema)

    def text(self, prompt: str, instruction: str, axes: tuple[str, ...], disclosed: Mapping[str, str]) -> str:
        """The template, filled in one go, so that nothing in an instruction is taken for a slot."""
        labels = {name: self.protocol.groups.labels(name).get(group, group) for name, group in disclosed.items()}
        values = {"prompt": instruction, "rubrics": self._rubric(prompt, axes, disclosed), **labels}
        scores = _json_lines("    ", {axis: _range(self.protocol.axes[axis]) for axis in axes}) + "\n"
        observations = _json_lines("    ", dict.fromkeys(self.observations, '"..."'))
        template = _SCORE_LINES.sub(lambda _: scores, _fit_person_line(self.template, labels), count=1)
        template = template.replace(f'"{OBSERVATIONS}": {{...}}', f'"{OBSERVATIONS}": {{\n{observations}\n  }}', 1)
        return _SLOT.sub(lambda slot: values.get(slot[1], slot[0]), template)

    def _schema(self, axes: tuple[str, ...]) -> dict[str, Any]:
        """The answer as JSON Schema. The order is intended: described first, scored after that."""
        observations = {name: {"type": "string"} for name in self.observations}
        # the points one by one: some servers refuse minimum and maximum, or ignore them
        points = {axis: {"type": "integer", "enum": sorted(self.protocol.axes[axis].scale)} for axis in axes}
        return answer.object_schema(
            {
                OBSERVATIONS: answer.object_schema(observations),
                SCORES: answer.object_schema(points),
                EVIDENCE: {"type": "string"},
            }
        )

    def read(self, text: str, axes: tuple[str, ...]) -> ParsedAnswer | ParseError:
        """The scores of an answer that has everything that was requested and nothing else."""
        return answer.read(text, (OBSERVATIONS, SCORES, EVIDENCE), lambda fields: self._reading(fields, axes))

    def _reading(self, fields: Mapping[str, Any], axes: tuple[str, ...]) -> ParsedAnswer:
        observations = require_fields(fields[OBSERVATIONS], OBSERVATIONS, self.observations)
        points = require_fields(self._resolve_aliases(fields[SCORES], axes), SCORES, axes)
        return ParsedAnswer(
            scores={axis: self._point(axis, points[axis]) for axis in axes},
            observations={name: require_text(name, observations[name]) for name in self.observations},
            evidence=require_text(EVIDENCE, fields[EVIDENCE]),
        )

    def _resolve_aliases(self, points: Any, axes: tuple[str, ...]) -> Any:
        """The scores under the protocol's names of the axes."""
        if not isinstance(points, dict) or not self.aliases.keys() & points.keys():
            return points
        axis_by_alias: dict[Any, str] = {alias: axis for alias, axis in self.aliases.items() if axis in axes}
        return unique_keys([(axis_by_alias.get(name, str(name)), value) for name, value in points.items()])

    def _point(self, axis: str, value: Any) -> int:
        """A point of the scale. True is not 1; 4.0 and "4" are not 4."""
        scale = self.protocol.axes[axis].scale
        if type(value) is not int or value not in scale:
            raise UnreadableError(f"{axis} is {quote(value)}, no whole number from {min(scale)} to {max(scale)}")
        return value

    def _rubric(self, prompt: str, axes: tuple[str, ...], disclosed: Mapping[str, str]) -> str:
        rows = (self.protocol.axes[axis] for axis in axes)
        return "SCORES:\n" + "\n".join("\n".join(self._axis(axis, prompt, disclosed)) for axis in rows)

    def _axis(self, axis: Axis, prompt: str, disclosed: Mapping[str, str]) -> Iterator[str]:
        yield f"{axis.id} ({axis.label}), {_range(axis)}:"
        trial_prompt = self.protocol.prompt.get(prompt)
        shift = trial_prompt.age_shift_years if trial_prompt else None
        if shift is not None and prompt in (axis.only_prompts or ()):
            yield f"  Target age: {self._target_age(shift, disclosed)}"
        yield from (f"  {point} = {meaning}" for point, meaning in sorted(axis.scale.items()))

    def _target_age(self, shift: int, disclosed: Mapping[str, str]) -> str:
        """The requested age: in years where the source's age is disclosed, else relative to how it looks."""
        dimensions = self.protocol.groups.dimensions
        groups = (group for name, value in disclosed.items() for group in dimensions[name] if group.id == value)
        source = next((group for group in groups if group.years), None)
        if source is None:
            return f"{shift} years older than the person in the source appears, at most {MAX_TARGET_AGE}"
        low, high = source.years or (0, None)
        oldest = MAX_TARGET_AGE if high is None else min(MAX_TARGET_AGE, high + shift)
        youngest = min(MAX_TARGET_AGE, low + shift)
        ages = f"{youngest}–{oldest}" if youngest < oldest else f"{oldest}"
        return f"source {source.label} plus {shift} years = {ages}"


def _check_template(template: str, observations: tuple[str, ...]) -> None:
    """A custom protocol may reword the template; these parts have to be in it."""
    lacks = [f"{{{slot}}}" for slot in ("prompt", "rubrics") if slot not in _SLOT.findall(template)]
    lacks += [] if observations else ["lines such as '1.1 Edit Analysis: …'"]
    lacks += [] if _SCORE_LINES.search(template) else ["lines such as '\"edit\": 1-5,'"]
    if lacks:
        raise ValueError(f"templates/{TEMPLATE}.txt lacks {' and '.join(lacks)}, which judges are asked by")


def _hashed_parts(protocol: Protocol) -> dict[str, Any]:
    """Everything of a protocol that is in the form. Part of every verdict's key: do not change."""
    return {
        "template": protocol.templates[TEMPLATE],
        "axes": [axis.model_dump(mode="json", include={"id", "label", "scale"}) for axis in protocol.rubrics.axes],
        "groups": {name: protocol.groups.labels(name) for name in protocol.groups.dimensions},
    }


def _fit_person_line(template: str, labels: Mapping[str, str]) -> str:
    """The template with the line on the person cut down to what is disclosed; without it where nothing is."""

    def fit(line: str) -> str:
        if not set(_SLOT.findall(line)) - {"prompt", "rubrics"}:
            return line
        head, _, parts = line.partition(": ")
        disclosed = [part for part in parts.strip().split(", ") if set(_SLOT.findall(part)) & labels.keys()]
        return f"{head}: {', '.join(disclosed)} (as annotators perceived the person)\n" if disclosed else ""

    return "".join(fit(line) for line in template.splitlines(keepends=True))


def _range(axis: Axis) -> str:
    return f"{min(axis.scale)}-{max(axis.scale)}"


def _json_lines(indent: str, values: Mapping[str, str]) -> str:
    return ",\n".join(f'{indent}"{name}": {value}' for name, value in values.items())
