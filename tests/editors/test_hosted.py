from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from stillme.core import images
from stillme.core.errors import SetupError
from stillme.core.records import Status
from stillme.editors import hosted
from stillme.engine.http import HttpAttempt, RemoteError
from stillme.plan import config as configs
from stillme.plan.config import Config
from stillme.sources import heads
from tests.editors.providers import png

Load = Callable[..., Config]
PAGE = Path(__file__).parents[2] / "docs/hosted-editors.md"


def rows_on_the_page() -> list[dict[str, object]]:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    rows: list[dict[str, object]] = yaml.safe_load(block)["editors"]
    return rows


def test_the_rows_on_the_page_can_be_used(load_audit: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_audit(editors=rows_on_the_page())
    assert set(config.editors) == {"gpt", "gemini", "flux-pro", "qwen-served"}
    assert config.editors["qwen-served"].effective["extra"]["negative_prompt"] == " "
    with pytest.raises(SetupError, match="OPENAI_API_KEY"):
        configs.check_keys(config)
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "BFL_API_KEY"):
        monkeypatch.setenv(name, "a key")
    configs.check_keys(config)


def test_without_the_extra_the_command_that_installs_it_is_named(
    load_audit: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    config = load_audit(editors=rows_on_the_page()[-1:])
    with pytest.raises(SetupError, match=r"pip install 'stillme\[hosted\]'"):
        configs.check_keys(config)


def test_preparing_loads_no_client() -> None:
    code = "import sys, stillme.editors.openai, stillme.editors.gemini, stillme.editors.bfl\nprint('aiohttp' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_prices_are_in_order_and_say_where_they_were_seen() -> None:
    table = hosted.prices()
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", table.date)
    assert len({(row.service, row.model) for row in table.prices}) == len(table.prices)
    for row in table.prices:
        assert 0 < row.low <= row.expected <= row.high, row.model
        assert row.seen.startswith("https://")


def test_a_cost_is_what_was_counted_or_else_what_is_expected() -> None:
    row = hosted.PriceRow(service="s", model="m", low=1, expected=2, high=3, tokens={"output": 30.0}, seen="")
    assert hosted.cost_usd(row, {"output": 1_000_000, "unheard_of": 5}) == 30.0
    assert hosted.cost_usd(row, {}) == 2
    assert hosted.cost_usd(None, {"output": 9}) == 0


@pytest.mark.parametrize("text", ["", "§", "abc", None, 7, {"a": 1}])
def test_what_is_no_base64_is_no_picture(text: object) -> None:
    assert hosted.picture(text) is None


def test_a_failure_keeps_the_providers_code_and_says_how_often_it_was_tried() -> None:
    tries = (
        HttpAttempt(Status.RATE_LIMITED, 429, 0.1),
        HttpAttempt(Status.NETWORK, 0, 0.1),
        HttpAttempt(Status.SERVER_ERROR, 500, 0.1),
    )
    error = RemoteError(Status.SERVER_ERROR, "boom", 500, request_id="r", attempts=tries)
    reply = hosted.failed(error)
    assert (reply.code, reply.request_id, reply.detail) == ("500", "r", "boom (after 3 attempts)")
    assert reply.notes == {"earlier_attempts": "1 × rate limited 429, 1 × network"}
    assert hosted.failed(error, "overloaded").code == "overloaded"


def test_pictures_are_sent_as_what_they_are() -> None:
    picture = heads.photograph(heads.load(heads.keys()[0]))
    assert hosted.media_type(images.encode(picture)) == "image/jpeg"
    assert hosted.media_type(png()) == "image/png"
    assert hosted.media_type(images.thumbnail(png(), 8)) == "image/webp"
    assert hosted.media_type(b"<html>") == "application/octet-stream"
