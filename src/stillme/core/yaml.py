"""Read YAML strictly: safe types only, no duplicate keys, every fault with file, line and field.

Knows nothing about what the files mean; the schemas are pydantic models that forbid unknown keys.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from stillme.core.errors import ConfigIssue, ConfigIssuesError

Path_ = tuple[str | int, ...]


class StrictModel(BaseModel):
    """Base of every schema: unknown keys are faults, values never change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


Model = TypeVar("Model", bound=BaseModel)


# Above these, a text may be nested deep enough to overflow the stack of the C loader: blocks are no deeper than
# twice their longest line, flows no deeper than their brackets.
MAX_LINE_CHARS = 2_000
MAX_BRACKETS = 2_000


class _Loader(yaml.SafeLoader):
    """YAML 1.2 booleans only: `no` and `on` stay words, `12:30` stays text, dates stay text."""


class _Quick(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The same in a tenth of the time, if PyYAML was built with libyaml; deep texts would overflow its stack."""


for _loader in (_Loader, _Quick):
    _loader.yaml_implicit_resolvers = {
        first: [(tag, rule) for tag, rule in rules if tag.rsplit(":", 1)[1] not in ("bool", "timestamp", "int")]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    _loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|false|False)$"), list("tTfF")
    )
    _loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), list("-+0123456789"))


def _compose(text: str) -> tuple[Any, yaml.Node | None]:
    """The loader and the only node. Errors come from the slow loader, whose messages name the problem."""
    brackets = text.count("[") + text.count("{")
    if brackets <= MAX_BRACKETS and max(map(len, text.splitlines()), default=0) <= MAX_LINE_CHARS:
        try:
            return (quick := _Quick(text)), quick.get_single_node()
        except (yaml.YAMLError, ValueError):  # ValueError: invalid characters
            pass
    return (loader := _Loader(text)), loader.get_single_node()


class Document:
    """One YAML file: its data, and the line of each field."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.data: Any = None
        self.faults: list[ConfigIssue] = []
        self._lines: dict[Path_, int] = {}
        self._nodes: set[int] = set()
        try:
            loader, node = _compose(text)
            if node is not None:
                self._walk(node, ())
                self.data = None if self.faults else loader.construct_document(node)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or str(error).splitlines()[0]
            self.faults.append(
                ConfigIssue(self.name, mark.line + 1 if mark else 0, "", f"is not valid YAML: {problem}")
            )
        except RecursionError:
            self.faults.append(ConfigIssue(self.name, 0, "", "is nested too deeply to be read"))
        except ValueError as error:  # e.g. a number with too many digits
            self.faults.append(ConfigIssue(self.name, 0, "", f"has a value that cannot be read: {error}"))

    def _walk(self, node: yaml.Node, path: Path_) -> None:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if id(node) in self._nodes:
            self.faults.append(self.fault(path, "uses a YAML alias; write the value out instead"))
            return
        self._nodes.add(id(node))
        if isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    self.faults.append(self.fault(path, "has a key that is not a plain word"))
                    continue
                here = (*path, key.value)
                self._lines.setdefault(here, key.start_mark.line + 1)
                if key.value in keys:
                    self.faults.append(
                        ConfigIssue(self.name, key.start_mark.line + 1, dotted(here), "is given twice")
                    )
                keys.add(key.value)
                self._walk(value, here)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._walk(item, (*path, index))

    def line(self, path: Path_) -> int:
        """The line of a field, or of the nearest field around it that is in the file."""
        for length in range(len(path), -1, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return 0

    def fault(self, path: Iterable[str | int], problem: str) -> ConfigIssue:
        steps = tuple(path)
        return ConfigIssue(self.name, self.line(steps), dotted(steps), problem)

    def read_as(self, model: type[Model]) -> Model | None:
        """The file as a model, or None; faults are added to `faults`."""
        if self.faults:
            return None
        try:
            return model.model_validate(self.data if self.data is not None else {})
        except ValidationError as error:
            self.faults += faults_of(error, self, model)
            return None


def dotted(path: Iterable[str | int]) -> str:
    """('editors', 0, 'id') -> 'editors[0].id'."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def faults_of(
    error: ValidationError, document: Document, model: type[BaseModel], at: Path_ = ()
) -> list[ConfigIssue]:
    return [_fault_of(dict(item), document, model, at) for item in error.errors()]


def _fault_of(item: dict[str, Any], document: Document, model: type[BaseModel], at: Path_) -> ConfigIssue:
    path = at + _data_path(item["loc"], document, at)
    kind, given = item["type"], item.get("input")
    if kind == "extra_forbidden":
        return document.fault(path, "is not a known key" + _suggestion(str(path[-1]), model, item["loc"]))
    if kind == "missing":
        return document.fault(path, "is missing")
    if kind in ("model_type", "dict_type", "mapping_type"):
        return document.fault(
            path, f"should be keys with their values (`key: value`), and is {_value_text(given)}"
        )
    message = str(item["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    shown = "" if isinstance(given, dict | list) or kind == "value_error" else f" (given: {given!r})"
    return document.fault(path, message[:1].lower() + message[1:] + shown)


def _value_text(given: object) -> str:
    """A value in words.

    >>> _value_text([1]), _value_text("claims"), _value_text(None)
    ('a list', "'claims'", 'empty')
    """
    return "a list" if isinstance(given, list) else "empty" if given is None else repr(given)


def _data_path(location: tuple[str | int, ...], document: Document, at: Path_) -> Path_:
    """pydantic's location without the steps that are types of a union instead of fields."""
    path: Path_ = ()
    for index, step in enumerate(location):
        last = index == len(location) - 1
        if last or (at + path + (step,)) in document._lines:
            path = (*path, step)
    return path


def _suggestion(word: str, model: type[BaseModel], location: tuple[str | int, ...]) -> str:
    known = _known_keys(model, location[:-1])
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known keys here: {', '.join(known)}" if known else ""


def _known_keys(model: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    """The keys of the sub-model at `location`, from the JSON schema."""
    schema = model.model_json_schema(by_alias=True)
    node = _resolve(schema, schema)
    for step in location:
        values = node.get("additionalProperties")  # of a mapping with free keys
        if isinstance(step, int):
            node = node.get("items", {})
        else:
            node = node.get("properties", {}).get(step) or (isinstance(values, dict) and values) or node
        node = _resolve(node, schema)
    return sorted(node.get("properties", {}))


def _resolve(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    for options in (node.get("anyOf"), node.get("allOf"), node.get("oneOf")):
        chosen = [option for option in options or [] if option.get("type") != "null"]
        if len(chosen) == 1:
            return _resolve(chosen[0], schema)
    reference = node.get("$ref")
    return _resolve(schema["$defs"][reference.rsplit("/", 1)[1]], schema) if reference else node


def unknown(word: str, what: str, known: Iterable[str]) -> str:
    """The fault of a word that is not one of the known ones."""
    article = "an" if what[0] in "aeiou" else "a"
    return f"'{word}' is not {article} {what}; known: {', '.join(known) or 'none in this version'}"


def path_from(file: Path, target: Path) -> str:
    """A path to write into `file`: relative to the file's folder where possible."""
    try:
        return f"./{target.absolute().relative_to(file.parent.absolute())}"
    except ValueError:
        return str(target.absolute())


def read_text(path: Path) -> str:
    """The text of a file, or a fault that names it."""
    name = str(path)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigIssuesError([ConfigIssue(name, 0, "", "does not exist")]) from None
    except UnicodeDecodeError:
        raise ConfigIssuesError([ConfigIssue(name, 0, "", "is not UTF-8 text")]) from None
    except OSError as error:
        raise ConfigIssuesError([ConfigIssue(name, 0, "", f"cannot be read: {error.strerror}")]) from None
