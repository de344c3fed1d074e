"""Damage: a good input with some things done to it. All chance comes from one generator, so hypothesis can shrink it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import yaml

Input = Callable[[random.Random], bytes]

NUMBERS = (0, -1, 1, 5, 6, 2**31, 2**63, -(2**63) - 1, 10**30, 4.0, 0.5, 1e300, -1e308, float("nan"), float("inf"))
WORDS = (
    *(
        "",
        " ",
        "\0",
        "a\0b",
        "\u202e",
        "😀",
        "é",
        "null",
        "true",
        "1",
        "-1",
        "4/5",
        "1e999",
        "NaN",
        "../../etc/passwd",
    ),
    *("/etc/passwd", "C:\\x", "=1+1", "@x", "<script>alert(1)</script>", "'; DROP TABLE edit; --", '"', "{{7*7}}"),
    *(
        "{x}",
        "%s%n",
        "2026-02-30",
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59-23:59",
        "x" * 300,
        "\ufeff",
        "٤",
        "file:///",
    ),
)
SCRAPS = (
    *(word.encode() for word in WORDS),
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b"\n",
        b"\r\n",
        b"\t",
        b"- ",
        b"? ",
        b"&a ",
        b"*a",
        b"!!int ",
        b"!!bool ",
    ),
    *(
        b"!!timestamp ",
        b"!!binary ",
        b"!!set ",
        b"!!python/object:os.system ",
        b"<<: ",
        b"|",
        b">",
        b"%",
        b"#",
        b"'",
    ),
    *(
        b"\xff",
        b"\xfe\xff",
        b"\xed\xa0\x80",
        b"\x80",
        b"\\ud800",
        b"\\u0000",
        b"9" * 400,
        b"[" * 400,
        b'{"a":' * 300,
    ),
    *(b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff", b"1e400", b".inf", b".nan", b"~", b"1_000"),
)
TYPES: tuple[tuple[Any, ...], ...] = (
    (None, True, False),
    NUMBERS,
    WORDS,
    ([], [None], [[[]]], ["a"], [1]),
    ({}, {"": 1}, {"a": {"b": []}}),
)
ODD: tuple[Any, ...] = tuple(value for values in TYPES for value in values)


def bytes_of(*seeds: bytes) -> Input:
    """One of the seeds with some bytes changed, cut, doubled, put in, or joined with another seed."""

    def made(chance: random.Random) -> bytes:
        content = bytearray(chance.choice(seeds))
        for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
            chance.choice((_flip, _flip, _set, _cut, _drop, _double, _scrap, _splice))(content, chance, seeds)
        return bytes(content)

    return made


def _place(content: bytearray, chance: random.Random) -> int:
    """Often near one of the ends, where headers and indices stand."""
    size = len(content)
    near = chance.choice((size, size, 64, 16))
    at = chance.randrange(min(near, size) + 1) if size else 0
    return at if chance.random() < 0.7 else max(0, size - 1 - at)


def _flip(content: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    if content:
        content[_place(content, chance) % len(content)] ^= 1 << chance.randrange(8)


def _set(content: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    if content:
        content[_place(content, chance) % len(content)] = chance.choice(
            (0, 1, 127, 128, 255, chance.randrange(256))
        )


def _cut(content: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    del content[_place(content, chance) :]


def _drop(content: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    at = _place(content, chance)
    del content[at : at + chance.choice((1, 2, 4, 8, 64))]


def _double(content: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    at, length = _place(content, chance), chance.choice((1, 4, 16, 256))
    content[at:at] = content[at : at + length] * chance.choice((1, 2, 20))


def _scrap(content: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    at = _place(content, chance)
    content[at : at + chance.choice((0, 0, 1, 4))] = chance.choice(SCRAPS)


def _splice(content: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    other = chance.choice(seeds)
    content[_place(content, chance) :] = other[_place(bytearray(other), chance) :]


def tree(found: Any, chance: random.Random) -> Any:
    """A tree of plain values in which one to three places hold something else, or nothing, or more."""
    found = copy.deepcopy(found)
    for _ in range(chance.choice((1, 1, 2, 3))):
        found = _spoiled(found, chance)
    return found


def _spoiled(found: Any, chance: random.Random) -> Any:
    places = list(_places(found))
    if not places or chance.random() < 0.03:
        return _odd(chance)
    _change(*chance.choice(places), chance)
    return found


def _places(found: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a tree: what holds it, and its name there."""
    names = list(found) if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else ()
    for name in names:
        yield found, name
        yield from _places(found[name])


def _odd(chance: random.Random) -> Any:
    """Of each type as often as of another: what is of the wrong type breaks most."""
    return copy.deepcopy(chance.choice(chance.choice(TYPES)))


def _change(where: Any, name: Any, chance: random.Random) -> None:
    kind = chance.randrange(6)
    if kind == 0:
        del where[name]
    elif kind == 1 and isinstance(where, dict):
        where[chance.choice(WORDS)] = where.pop(name)
    elif kind == 2 and isinstance(where, dict):
        where[chance.choice(WORDS)] = _odd(chance)
    elif kind == 3 and isinstance(where, list):
        where.append(copy.deepcopy(where[name]))
    elif kind == 4:
        where[name] = [copy.deepcopy(where[name])]
    else:
        where[name] = _odd(chance)


def json_of(*seeds: Any) -> Input:
    """JSON whose tree is spoiled; now and then its text too."""
    plain = bytes_of(*(as_json(seed) for seed in seeds))

    def made(chance: random.Random) -> bytes:
        return plain(chance) if chance.random() < 0.3 else as_json(tree(chance.choice(seeds), chance))

    return made


def as_json(found: Any) -> bytes:
    return json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")


def yaml_of(*texts: str) -> Input:
    """YAML whose tree is spoiled; as often its text."""
    trees = [yaml.safe_load(text) for text in texts]
    plain = bytes_of(*(text.encode() for text in texts))

    def made(chance: random.Random) -> bytes:
        if chance.random() < 0.4:
            return plain(chance)
        spoiled = tree(chance.choice(trees), chance)
        return yaml.dump(spoiled, Dumper=_Plain, sort_keys=False, allow_unicode=True).encode("utf-8", "replace")

    return made


class _Plain(yaml.SafeDumper):
    """Values that are shared are written out."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def lines_of(*texts: str) -> Input:
    """A table as text: cells spoiled, rows doubled, gone or of another length; as often its bytes."""
    plain = bytes_of(*(text.encode() for text in texts))

    def made(chance: random.Random) -> bytes:
        if chance.random() < 0.4:
            return plain(chance)
        rows = [line.split(",") for line in chance.choice(texts).splitlines()]
        for _ in range(chance.choice((1, 2, 3))):
            row = chance.choice(rows) if rows else []
            if row and chance.random() < 0.6:
                row[chance.randrange(len(row))] = str(chance.choice(ODD))
            elif chance.random() < 0.5:
                rows.append(list(row))
            elif chance.random() < 0.5:
                row.append(str(chance.choice(ODD)))
            else:
                rows = rows[: chance.randrange(len(rows) + 1)]
        return "\n".join(",".join(row) for row in rows).encode("utf-8", "replace")

    return made
