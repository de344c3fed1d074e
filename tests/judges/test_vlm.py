from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stillme.core import images
from stillme.core.yaml import Document
from stillme.judges import RemoteJudge, call_key, gemini, models, openai
from stillme.judges.vlm import Base64Cache, media_type
from stillme.sources import heads
from tests.editors.providers import png
from tests.judges.asking import PLACE, PROTOCOL, request

ADDRESS = "http://127.0.0.1:9/v1"


def made(**settings: Any) -> RemoteJudge:
    return openai.prepare(
        openai.Settings.model_validate({"model": "m", "base_url": ADDRESS, **settings}), PLACE
    ).make()


def made_gemini() -> RemoteJudge:
    return gemini.prepare(gemini.Settings(model="m", base_url=ADDRESS), PLACE).make()


@pytest.mark.parametrize("judge", [made, made_gemini])
def test_a_stored_question_replays_the_very_request(judge: Any) -> None:
    """What is stored has the pictures by name; with the pictures put in, it is what was sent."""
    asked = judge().question(request(instruction='Say "{prompt}" – ü'))
    body = json.loads(asked.body(b"iVBORw0KGgoSOURCE", b"/9j/EDITED"))
    stored = json.loads(json.dumps(asked.content["body"]))
    assert "SOURCE:" in str(stored) and "iVBOR" not in str(stored)
    if judge is made:
        parts = [part["image_url"] for part in stored["messages"][1]["content"] if "image_url" in part]
        assert [part["url"] for part in parts] == ["source", "edited"]
        urls = ("data:image/png;base64,iVBORw0KGgoSOURCE", "data:image/jpeg;base64,/9j/EDITED")
        for part, url in zip(parts, urls, strict=True):
            part["url"] = url
    else:
        parts = [part["inlineData"] for part in stored["contents"][0]["parts"] if "inlineData" in part]
        assert [part["data"] for part in parts] == ["source", "edited"]
        files = (("image/png", "iVBORw0KGgoSOURCE"), ("image/jpeg", "/9j/EDITED"))
        for part, (kind, data) in zip(parts, files, strict=True):
            part |= {"mimeType": kind, "data": data}
    assert stored == body


def test_the_same_question_is_made_once_and_named_the_same_by_everybody() -> None:
    judge = made()
    first = judge.question(request())
    assert judge.question(request()) is first
    assert made().question(request()).hash == first.hash
    assert call_key(first, "a", "b", 0) != call_key(first, "a", "b", 1) != call_key(first, "b", "a", 1)


def test_whatever_changes_an_answer_changes_the_question() -> None:
    plain = made().question(request()).hash
    others = [
        made().question(request("V-03")),
        made().question(request(instruction="Add a hat.")),
        made().question(request(disclosed={"race": "black"})),
        made(temperature=0.5).question(request()),
        made(effort="high").question(request()),
        made(detail="low").question(request()),
        made(service="other").question(request()),
        made(service="other", configuration={"dtype": "fp8"}).question(request()),
    ]
    assert len({plain, *(one.hash for one in others)}) == len(others) + 1
    assert made(base_url="http://127.0.0.1:10/v1", concurrency=2, mode="batch").question(request()).hash == plain


def test_the_order_in_which_groups_are_disclosed_makes_no_difference() -> None:
    judge = made()
    told = {"race": "black", "age": "30s"}
    again = dict(reversed(told.items()))
    assert judge.question(request(disclosed=told)) is judge.question(request(disclosed=again))


def test_pictures_say_what_they_are() -> None:
    photograph = heads.photograph(heads.load(heads.keys()[0]))
    for content, kind in (
        (images.encode(photograph), b"image/jpeg"),
        (png(), b"image/png"),
        (images.thumbnail(png(), 8), b"image/webp"),
        (b"<html>", b"application/octet-stream"),
    ):
        assert media_type(base64.b64encode(content)) == kind


def test_encoded_sources_are_kept_up_to_a_limit_and_no_further() -> None:
    encoded = Base64Cache(max_bytes=3000)
    pictures = [bytes([n]) * 600 for n in range(8)]
    for picture in pictures:
        assert base64.b64decode(encoded(picture)) == picture
        assert encoded.size <= 3000
    assert encoded(pictures[-1]) is encoded(pictures[-1])
    assert Base64Cache(max_bytes=10)(pictures[0]) == base64.b64encode(pictures[0])


def test_the_table_is_dated_and_its_prices_and_parameters_hold_together() -> None:
    table = models.table()
    assert table.date >= "2026-11-16" and all(row.seen for row in table.models)
    for row in table.models:
        assert row.service in table.batch_share and list(row.tokens.thoughts) == sorted(row.tokens.thoughts)
        assert row.usd.cached is not None and row.usd.cached <= row.usd.input <= row.usd.output
    judges = [row.model for row in PROTOCOL.editors.judges]
    assert all(any(model in row.names for row in table.models) for model in judges), judges


def test_the_form_fits_what_is_expected_of_it() -> None:
    """Four characters a token, which is what English takes; the schema is read as well."""
    asked = made_gemini().question(request("V-03", disclosed={"race": "southeast_asian", "age": "70plus"}))
    tokens = len(b"".join(asked.pieces)) / 4
    assert tokens == pytest.approx(models.table().usual.text, rel=0.6)


def test_every_judge_that_the_page_sets_up_can_be_set_up() -> None:
    page = (Path(__file__).parents[2] / "docs/judges.md").read_text(encoding="utf-8")
    rows = [row for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) for row in _judges(text)]
    assert len(rows) == 4
    for row in rows:
        module: Any = {"openai": openai, "gemini": gemini}[row["kind"]]
        place = replace(PLACE, key_env=row.get("key_env"))
        made = module.prepare(module.Settings.model_validate(row["settings"]), place)
        assert (made.price is None) == (row["settings"].get("service") == "other")


def _judges(text: str) -> list[dict[str, Any]]:
    document = Document("docs/judges.md", text)
    assert not document.faults
    rows: list[dict[str, Any]] = document.data["judges"]
    return rows
