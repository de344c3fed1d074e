"""An answer in JSON, read as it stands or not at all: no default, no clamp, no repair. What all forms share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from stillme.judges import Fault, Reading

_FENCED = re.compile(r"```(?:json)?[ \t]*\r?\n(.*)\n[ \t]*```", re.DOTALL)
_LONGEST_SHOWN = 60  # characters


class UnreadableError(ValueError):
    """What is wrong with an answer."""


def read(text: str, names: tuple[str, ...], reading: Callable[[Mapping[str, Any]], Reading]) -> Reading | Fault:
    """What an answer says that is one object with these fields; `reading` raises UnreadableError for the rest."""
    try:
        said = json.loads(unfenced(text), object_pairs_hook=once, parse_constant=no_number)
        return reading(fields(said, "the answer", names))
    except RecursionError:
        return Fault("the answer is nested too deeply")
    except json.JSONDecodeError as error:
        return Fault(f"the answer is no JSON object: {error.msg} at character {error.pos}")
    except UnreadableError as error:
        return Fault(str(error))
    except ValueError:  # what is left: digits without end
        return Fault("the answer holds a number that is too long")


def an_object(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields),
        "additionalProperties": False,
    }


def unfenced(text: str) -> str:
    """Without the one fence that models like to put around JSON."""
    bare = text.strip()
    fenced = _FENCED.fullmatch(bare)
    return fenced[1] if fenced else bare


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys stand there once: of two answers none is the right one."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnreadableError(f"{shown(twice)} stands there twice")
    return fields


def no_number(word: str) -> None:
    raise UnreadableError(f"{word} is no number of JSON")


def fields(said: Any, where: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    """An object with exactly these keys."""
    if not isinstance(said, dict):
        raise UnreadableError(f"{where} is {shown(said)}, not an object")
    missing = [name for name in names if name not in said]
    if missing:
        raise UnreadableError(f"{where} lacks {', '.join(missing)}")
    extra = next((name for name in said if name not in names), None)
    if extra is not None:
        raise UnreadableError(f"{where} has {shown(extra)}, which was not asked for")
    return said


def words(name: str, value: Any) -> str:
    """Text that can be stored: half of a character pair is none."""
    if not isinstance(value, str):
        raise UnreadableError(f"{name} is {shown(value)}, not a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnreadableError(f"{name} holds half a character") from None
    return value


def shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return ascii(value)[:_LONGEST_SHOWN]
