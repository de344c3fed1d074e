"""Read an answer in JSON strictly: no default, no clamp, no repair. Shared by all forms."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from stillme.judges import ParsedAnswer, ParseError

_FENCED = re.compile(r"```(?:json)?[ \t]*\r?\n(.*)\n[ \t]*```", re.DOTALL)
_MAX_QUOTED_CHARS = 60


class UnreadableError(ValueError):
    """An answer does not have the form; the message says where."""


def read(
    text: str, names: tuple[str, ...], reading: Callable[[Mapping[str, Any]], ParsedAnswer]
) -> ParsedAnswer | ParseError:
    """Parse an answer that is one object with these fields; `reading` raises UnreadableError for the rest."""
    try:
        value = json.loads(strip_code_fence(text), object_pairs_hook=unique_keys, parse_constant=reject_constant)
        return reading(require_fields(value, "the answer", names))
    except RecursionError:
        return ParseError("the answer is nested too deeply")
    except json.JSONDecodeError as error:
        return ParseError(f"the answer is no JSON object: {error.msg} at character {error.pos}")
    except UnreadableError as error:
        return ParseError(str(error))
    except ValueError:  # what is left: digits without end
        return ParseError("the answer holds a number that is too long")


def object_schema(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields),
        "additionalProperties": False,
    }


def strip_code_fence(text: str) -> str:
    """Without the one fence that models like to put around JSON."""
    bare = text.strip()
    fenced = _FENCED.fullmatch(bare)
    return fenced[1] if fenced else bare


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which no key occurs twice: of two answers neither is the right one."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise UnreadableError(f"{quote(repeated)} stands there twice")
    return fields


def reject_constant(word: str) -> None:
    raise UnreadableError(f"{word} is no number of JSON")


def require_fields(value: Any, label: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    """An object with exactly these keys."""
    if not isinstance(value, dict):
        raise UnreadableError(f"{label} is {quote(value)}, not an object")
    missing = [name for name in names if name not in value]
    if missing:
        raise UnreadableError(f"{label} lacks {', '.join(missing)}")
    extra = next((name for name in value if name not in names), None)
    if extra is not None:
        raise UnreadableError(f"{label} has {quote(extra)}, which was not asked for")
    return value


def require_text(name: str, value: Any) -> str:
    """A text that can be stored: half of a surrogate pair cannot."""
    if not isinstance(value, str):
        raise UnreadableError(f"{name} is {quote(value)}, not a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnreadableError(f"{name} holds half a character") from None
    return value


def quote(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return ascii(value)[:_MAX_QUOTED_CHARS]
