"""Judges' answers, damaged in every way that comes to mind: nothing crashes and no score is made up.

A second reader, written apart from ours, says what an answer holds; ours has to say the same of every one.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stillme.core.records import Exchange, Status
from stillme.judges import gemini, openai
from stillme.judges.vlm import NetworkJudge
from tests.judges.asking import AXES, FORM, PLACE, USAGE_METADATA, answered, completion

ANSWERS = 10_000
ADDRESS = "http://127.0.0.1:9/v1"
ODD: tuple[Any, ...] = (6, 0, -1, 4.0, 1e300, "4", "4/5", "", True, False, None, [], {}, [4], {"score": 4}, 10**30)
SCRAPS = (
    *("6", "0", '"4/5"', "4/5", "null", "true", "NaN", "-Infinity", "1e0", "-0", "04", "4.0", "{", "}", "[", "]"),
    *('"', ",", ":", "\\", "\\ud800", "\\u0000", "\x00", "\x7f", "\u202e", "\ufeff", "\u00a0", "٤", "４", "😀"),
    *("```", "```json\n", "\n```", "//", "/* 4 */", "'", '"scores": {}, ', "9" * 5000, "[" * 3000),
)


class Pairs(list[tuple[str, Any]]):
    """An object with everything that stands in it, twice or not."""


def oracle(text: str) -> dict[str, int] | None:
    """The scores that an answer says, by a reader of the test's own; None where it says none."""
    text = text.strip()
    if text.startswith("```"):
        opened, *lines = text.split("\n")
        if not lines or opened.rstrip(" \t\r") not in ("```", "```json") or lines[-1].strip(" \t") != "```":
            return None
        text = "\n".join(lines[:-1])
    try:
        tree = json.loads(text, object_pairs_hook=Pairs, parse_constant=lambda word: Pairs([("a", 1), ("a", 2)]))
        return scores_in(tree)
    except (ValueError, RecursionError):
        return None


def scores_in(tree: Any) -> dict[str, int] | None:
    if any(len({name for name, _ in one}) != len(one) for one in objects(tree)):
        return None
    whole = fields(tree)
    seen, points = fields(whole.get("observations")), fields(whole.get("scores"))
    for alias, axis in FORM.aliases.items():
        if alias in points and axis not in points:
            points[axis] = points.pop(alias)
    if set(whole) != {"observations", "scores", "evidence_summary"} or set(seen) != set(FORM.observations):
        return None
    words = [*seen.values(), whole["evidence_summary"]]
    if not all(isinstance(word, str) and not re.search("[\ud800-\udfff]", word) for word in words):
        return None
    is_right = set(points) == set(AXES) and all(
        repr(value) in ("1", "2", "3", "4", "5") for value in points.values()
    )
    return points if is_right else None


def fields(tree: Any) -> dict[str, Any]:
    return dict(tree) if isinstance(tree, Pairs) else {}


def objects(tree: Any) -> Iterator[Pairs]:
    if isinstance(tree, Pairs):
        yield tree
    for part in tree if isinstance(tree, list) else ():
        yield from objects(part[1] if isinstance(part, tuple) else part)


# Damage


def damaged(chance: random.Random) -> str:
    """A good answer with one to three things done to it."""
    said = answered(
        {axis: chance.randint(1, 5) for axis in AXES}, evidence_summary=chance.choice(("é 😀", "Hat.", ""))
    )
    if chance.random() < 0.4:
        said = chance.choice((odd_value, without, renamed, more))(said, chance)
    text = json.dumps(said, ensure_ascii=chance.random() < 0.5, indent=chance.choice((None, 2)))
    for _ in range(chance.randint(0, 2)):
        text = chance.choice((cut, scrap, flipped, doubled, around, scored, huge))(text, chance)
    return text


def place(said: Any, chance: random.Random) -> tuple[Any, str]:
    """An object somewhere in an answer, and one of its keys."""
    where = chance.choice((said, said["scores"], said["scores"], said["observations"]))
    return where, chance.choice(list(where))


def odd_value(said: Any, chance: random.Random) -> Any:
    where, name = place(said, chance)
    where[name] = chance.choice(ODD)
    return said


def without(said: Any, chance: random.Random) -> Any:
    where, name = place(said, chance)
    del where[name]
    return said


def renamed(said: Any, chance: random.Random) -> Any:
    where, name = place(said, chance)
    where[chance.choice((name.upper(), name + " ", "skin_stone", "", "😀"))] = where.pop(name)
    return said


def more(said: Any, chance: random.Random) -> Any:
    where, _ = place(said, chance)
    where[chance.choice(("total", "age_accuracy", "skin_stone", "\ud800"))] = chance.choice((3, *ODD))
    return said


def cut(text: str, chance: random.Random) -> str:
    return text[: chance.randrange(len(text) + 1)]


def scrap(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(SCRAPS) + text[at + chance.choice((0, 0, 1, 3)) :]


def flipped(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chr(chance.choice((chance.randrange(32, 127), chance.randrange(0xD7FF)))) + text[at + 1 :]


def doubled(text: str, chance: random.Random) -> str:
    """A field or a whole answer that stands there twice."""
    found = list(re.finditer(r'"(\w+)": ("[^"]*"|\d)', text))
    if not found or chance.random() < 0.2:
        return text + text
    one = chance.choice(found)
    return text[: one.start()] + f'"{one[1]}": {chance.choice((one[2], "1", "5"))}, ' + text[one.start() :]


def around(text: str, chance: random.Random) -> str:
    frames = (
        "```json\n{}\n```",
        "```\n{}\n```",
        "```json\n```json\n{}\n```\n```",
        "Sure! {}",
        "{} I hope this helps.",
    )
    return chance.choice((*frames, "[{}]", " \n{}\t", "\ufeff{}", '"{}"', "```json {} ```")).replace("{}", text, 1)


def scored(text: str, chance: random.Random) -> str:
    return re.sub(r": [1-5]\b", lambda _: f": {chance.choice(SCRAPS)}", text, count=chance.randint(1, 2))


def huge(text: str, chance: random.Random) -> str:
    return text.replace("Hat.", chance.choice("aé😀") * 20_000) if chance.random() < 0.3 else text


# Envelopes


def openai_envelope(text: str) -> dict[str, Any]:
    return completion(text)


def gemini_envelope(text: str) -> dict[str, Any]:
    parts = [{"text": "Hm.", "thought": True}, {"text": text}]
    return {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}], "usageMetadata": USAGE_METADATA}


def openai_judge() -> NetworkJudge:
    return openai.prepare(openai.Settings(model="gpt-5-mini", base_url=ADDRESS), PLACE).make()


def gemini_judge() -> NetworkJudge:
    return gemini.prepare(gemini.Settings(model="gemini-3-flash-preview", base_url=ADDRESS), PLACE).make()


PROVIDERS: dict[str, tuple[Callable[[], NetworkJudge], Callable[[str], dict[str, Any]]]] = {
    "openai": (openai_judge, openai_envelope),
    "gemini": (gemini_judge, gemini_envelope),
}


def check_storable(one: Exchange) -> None:
    for text in (one.detail, one.code, one.evidence, *one.observations.values(), *one.observations, *one.scores):
        text.encode()
    assert len(one.detail) <= 500 and one.cost_usd >= 0
    assert all(type(count) is int and count >= 0 for count in one.usage.values())
    assert bool(one.scores) == (one.status is Status.OK)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_damage_to_an_answer_makes_up_a_score(provider: str) -> None:
    make, envelope = PROVIDERS[provider]
    judge, chance = make(), random.Random(f"answers of {provider}")
    read = missed = 0
    for _ in range(ANSWERS):
        text = damaged(chance)
        one, right = judge.read(200, envelope(text), b"{}", AXES), oracle(text)
        check_storable(one)
        if right is None:
            assert one.status is Status.MALFORMED and one.detail, text
            missed += 1
        else:
            assert (one.status, one.scores) == (Status.OK, right), text
            read += 1
    assert read > ANSWERS / 20 and missed > ANSWERS / 2, (read, missed)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_damage_around_an_answer_makes_up_a_score(provider: str) -> None:
    """The service's own part of the answer, with any value anywhere in it and any status before it."""
    make, envelope = PROVIDERS[provider]
    judge, chance = make(), random.Random(f"envelopes of {provider}")
    good = json.dumps(answered())
    ended: set[Status] = set()
    for _ in range(ANSWERS):
        said = spoiled(envelope(good), chance)
        http = chance.choice((200, 200, 200, 201, 0, 302, 400, 401, 429, 500, 999))
        one = judge.read(http, said, b"{}", AXES, chance.choice((1.0, 0.5)))
        check_storable(one)
        ended.add(one.status)
        if one.status is Status.OK:
            assert 200 <= http < 300 and one.scores == answered()["scores"] and good in spelled(said)
    assert {Status.OK, Status.MALFORMED, Status.SERVER_ERROR, Status.REJECTED, Status.RATE_LIMITED} <= ended


def spelled(said: Any) -> str:
    """Every text in an answer."""
    if isinstance(said, dict):
        said = list(said.values())
    return "".join(map(spelled, said)) if isinstance(said, list) else str(said)


def spoiled(said: Any, chance: random.Random) -> Any:
    """One value, somewhere, is another one, or is gone, or an error stands beside it."""
    said = copy.deepcopy(said)
    errors: tuple[Any, ...] = (
        {"message": 4},
        {"code": [], "message": None},
        "no",
        {"details": [1], "status": {}},
        {"code": 429},
    )
    if chance.random() < 0.1:
        return chance.choice((None, [], "text", 4, [said], {"error": chance.choice(errors)}))
    where: Any = said
    while True:
        names = list(where) if isinstance(where, dict) else list(range(len(where)))
        name = chance.choice(names)
        if isinstance(where[name], dict | list) and where[name] and chance.random() < 0.75:
            where = where[name]
            continue
        if chance.random() < 0.2:
            del where[name]
        else:
            where[name] = chance.choice((*ODD, "STOP", "length", "MAX_TOKENS", "SAFETY", "content_filter"))
        return said
