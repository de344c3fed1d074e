"""Judges behind a network, through the whole judging step: real services on loopback, a real run on disk."""

from __future__ import annotations

import base64
import json
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import polars as pl
import pytest
from bench.judges.server import Server, named, serving
from bench.judges.switches import Switches

from stillme import editors, pipeline, sources
from stillme.analysis.frames import tidy
from stillme.cli.render.run import render_status
from stillme.core import images
from stillme.core.errors import ConfigIssuesError, IncompleteError, SetupError
from stillme.core.records import EditReply, EditRequest, Status
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan.config import Config
from stillme.plan.design import load_design
from tests.conftest import page
from tests.scripted import ACTORS

Load = Callable[..., Config]
KEY, SECRET = "STILLME_TEST_KEY", "sk-test-0123456789"
PROMPTS = ["O-01", "O-02", "V-03"]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)
    for part in (editors, sources):
        monkeypatch.setitem(part.BACKENDS, "scripted", "tests.scripted")
    ACTORS.update(editor=Same())


class Same:
    """Whoever edits: the same instruction gives the same pixels."""

    def edit(self, request: EditRequest) -> EditReply:
        picture = images.black(16)
        picture[::2] = 40 + sum(request.instruction.encode()) % 200
        return EditReply(Status.OK, images.encode(picture))


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as one:
        yield one


def row(server: Server, kind: str = "openai", **more: Any) -> dict[str, Any]:
    url = server.openai_url if kind == "openai" else server.gemini_url
    model = "gpt-5-mini" if kind == "openai" else "gemini-3-flash-preview"
    settings = {"model": model, "base_url": url, "backoff_s": 0.01, **more}
    return {"id": kind, "kind": kind, "key_env": KEY, "settings": settings}


def audit(load: Load, rows: list[dict[str, Any]], makers: int = 1, **changes: Any) -> Config:
    """Two portraits, three prompts; editors that all return the same."""
    groups = {"race": ["white", "black"], "gender": ["female"], "age": ["20s"]}
    roles = ["primary", *["secondary"] * len(rows)]
    settings = [{"actor": "editor", "version": number} for number in range(makers)]
    return load(
        **{
            "sources": [{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}],
            "experiments": {"diagnose": {"prompts": PROMPTS}},
            "editors": [{"id": f"e{n}", "kind": "scripted", "settings": one} for n, one in enumerate(settings)],
            "judges": [{**one, "role": role} for one, role in zip(rows, roles, strict=False)],
            "judging": {"repeats": 0},
            **changes,
        }
    )


def falling(switch: str) -> Switches:
    """This falls on every body."""
    shares: dict[str, Any] = {switch: 1.0}
    return Switches(retry_after_s=0.01, **shares)


def calls(server: Server) -> list[dict[str, Any]]:
    return server.journal("call")


def table(config: Config, sql: str) -> list[tuple[Any, ...]]:
    with Run.open_readonly(config.run) as seen:
        return seen.query(sql)


def test_both_judges_score_every_edit_on_the_axes_of_its_prompt(load_audit: Load, server: Server) -> None:
    config = audit(load_audit, [row(server, "gemini"), row(server)])
    pipeline.run(config, Progress())
    with Run.open_readonly(config.run) as seen:
        judged = tidy(seen, load_design(seen)).judged
    assert judged["status"].unique().to_list() == ["ok"]
    assert judged["score"].is_between(1, 5).all()
    axes = judged.filter(judge="gemini").group_by("prompt").agg(pl.col("axis").n_unique()).sort("prompt")
    assert axes.rows() == [("O-01", 5), ("O-02", 5), ("V-03", 6)]
    assert Counter(call["provider"] for call in calls(server)) == {"gemini": 6, "openai": 6}


def test_a_verdict_takes_few_steps_from_the_pipeline_to_the_service(
    load_audit: Load, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks: list[list[str]] = []
    send = aiohttp.ClientSession._request

    async def traced(*given: Any, **more: Any) -> Any:
        ours = [f for f in traceback.extract_stack() if "/src/stillme/" in f.filename]
        stacks.append([f"{Path(f.filename).stem}.{f.name}" for f in ours])
        return await send(*given, **more)

    monkeypatch.setattr(aiohttp.ClientSession, "_request", traced)
    pipeline.run(audit(load_audit, [row(server)]), Progress())
    assert stacks[0][0] == "pipeline.run"
    assert len(stacks[0]) <= 11, " → ".join(stacks[0])  # ten calls after the first


def test_the_same_pixels_are_paid_for_once(load_audit: Load, server: Server) -> None:
    config = audit(load_audit, [row(server)], makers=3)
    pipeline.run(config, Progress())
    assert len(calls(server)) == 6
    assert table(config, "SELECT count(*), count(DISTINCT call) FROM verdict") == [(18, 6)]


def test_an_editor_that_comes_later_with_the_same_pixels_costs_nothing(load_audit: Load, server: Server) -> None:
    pipeline.run(audit(load_audit, [row(server)]), Progress())
    config = audit(load_audit, [row(server)], makers=2)
    pipeline.run(config, Progress())
    assert len(calls(server)) == 6
    scores = table(config, "SELECT v.call, s.* FROM verdict v JOIN score s ON s.verdict = v.key")
    assert len(scores) == 12
    assert len({(call, *values) for call, _, *values in scores}) == 6


def test_second_looks_are_asked_apart_and_are_in_no_score(load_audit: Load, server: Server) -> None:
    config = audit(load_audit, [row(server)], judging={"repeats": 1})
    pipeline.run(config, Progress())
    assert len(calls(server)) == 12
    assert table(config, "SELECT repeat, count(*) FROM verdict GROUP BY 1") == [(0, 6), (1, 6)]
    with Run.open_readonly(config.run) as seen:
        assert tidy(seen, load_design(seen)).judged["trial"].n_unique() == 6
    found = pipeline.status(config.run)
    assert sum(found["verdicts"]["openai"].values()) == found["verdicts_done"] == found["second_looks_done"] == 6
    assert "second looks" in render_status(found)


def test_a_request_can_be_made_again_from_the_ledger_alone(load_audit: Load, server: Server) -> None:
    config = audit(load_audit, [row(server)])
    pipeline.run(config, Progress())
    with Run.open_readonly(config.run) as seen:
        rows = seen.query(
            "SELECT c.source, c.edited, q.content FROM call c JOIN question q ON q.hash = c.question"
        )
        sent = set()
        for source, edited, content in rows:
            body = json.loads(content)["body"]
            for name, sha256 in (("source", source), ("edited", edited)):
                picture = base64.b64encode(seen.image(sha256)).decode()
                for part in body["messages"][1]["content"]:
                    if part.get("image_url", {}).get("url") == name:
                        kind = "image/png" if picture.startswith("iVBOR") else "image/jpeg"
                        part["image_url"]["url"] = f"data:{kind};base64,{picture}"
            sent.add(named(body))
    assert sent == {call["body"] for call in calls(server)}


def test_every_attempt_is_kept_with_what_was_said(load_audit: Load) -> None:
    with serving(Switches(malformed=1.0)) as server:  # every body once
        config = audit(load_audit, [row(server)])
        pipeline.run(config, Progress())
        assert len(calls(server)) == 12
    found = table(config, "SELECT status, http, cost_usd, usage, raw FROM attempt WHERE http > 0 ORDER BY id")
    assert Counter(status for status, *_ in found) == {"malformed": 6, "ok": 6}
    for _, http, cost, usage, raw in found:
        assert http == 200 and cost > 0
        assert json.loads(usage)["input"] > 0
        assert json.loads(zlib.decompress(raw))["choices"]
    assert pipeline.status(config.run)["cost_usd"] == pytest.approx(sum(cost for _, _, cost, _, _ in found))


FINAL = {"input_blocked": 6, "output_blocked": 6, "truncated": 18, "malformed_always": 18, "rejected": 6}


@pytest.mark.parametrize(
    ("kind", "switch", "asked"),
    [
        ("openai", "refused", 6),  # Gemini has no word for it
        *(("openai", switch, asked) for switch, asked in FINAL.items()),
        *(pytest.param("gemini", switch, asked, marks=pytest.mark.slow) for switch, asked in FINAL.items()),
    ],
)
def test_what_is_no_score_is_a_status_and_final(load_audit: Load, kind: str, switch: str, asked: int) -> None:
    status = switch.removesuffix("_always")
    with serving(falling(switch)) as server:
        config = audit(load_audit, [row(server, kind)])
        pipeline.run(config, Progress())
        pipeline.run(config, Progress())
        assert len(calls(server)) == asked
    assert pipeline.status(config.run)["verdicts"] == {kind: {status: 6}}
    assert table(config, "SELECT count(*) FROM score") == [(0,)]


@pytest.mark.parametrize("kind", ["gemini", pytest.param("openai", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "switch", ["rate_limited", "server_error", "cut", pytest.param("timeout", marks=pytest.mark.slow)]
)
def test_what_may_pass_is_tried_again(load_audit: Load, kind: str, switch: str) -> None:
    with serving(falling(switch)) as server:
        patience = {"timeout_s": 5.0} if switch == "timeout" else {}
        config = audit(load_audit, [row(server, kind, **patience)])
        pipeline.run(config, Progress())
        assert len(calls(server)) == 12
    assert pipeline.status(config.run)["verdicts"] == {kind: {"ok": 6}}


def test_an_account_that_is_used_up_ends_the_asking_and_says_so(load_audit: Load) -> None:
    with serving(Switches(quota=1.0)) as server:
        config = audit(load_audit, [row(server, concurrency=1)])
        with pytest.raises(IncompleteError, match="the account of 'openai' is used up"):
            pipeline.run(config, Progress())
        assert len(calls(server)) == 1
        server.turn(quota=0.0)
        pipeline.run(config, Progress())
    assert pipeline.status(config.run)["verdicts"] == {"openai": {"ok": 6}}


def test_a_budget_holds_for_judges_too(load_audit: Load, server: Server) -> None:
    price = {"input": 100.0, "output": 100.0}
    rows = [row(server, price=price, concurrency=1)]
    config = audit(load_audit, rows, budgets={"cost_usd": 1.0})
    with pytest.raises(IncompleteError, match="the budget of 1 USD is reached"):
        pipeline.run(config, Progress())
    assert 0 < len(calls(server)) < 6
    assert pipeline.status(config.run)["cost_usd"] <= 1.0


def test_no_key_is_in_the_run(load_audit: Load) -> None:
    with serving(Switches(refused=0.5)) as server:
        config = audit(load_audit, [row(server)])
        pipeline.run(config, Progress())
    page(config.run)
    for path in Path(config.run).rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("disclose", "said"),
    [(None, "Estimated age=20–29"), (["race", "gender"], "Race=Black, Gender=Female"), ([], "")],
)
def test_judges_are_told_what_the_audit_says(
    load_audit: Load, server: Server, disclose: list[str] | None, said: str
) -> None:
    config = audit(load_audit, [row(server)], judging={"repeats": 0, "disclose": disclose})
    pipeline.run(config, Progress())
    asked = [text for (text,) in table(config, "SELECT content FROM question")]
    assert any(said in text for text in asked)
    report = page(config.run)
    known = ["age"] if disclose is None else disclose
    assert ("They were told nothing about the person." in report) == (not known)
    assert not known or f"told the source person’s perceived {known[0]}" in report
    for word, dimension in (("Race=", "race"), ("Gender=", "gender"), ("age=", "age")):
        assert any(word in text for text in asked) == (dimension in known)


def test_a_dimension_that_nobody_knows_is_a_fault(load_audit: Load, server: Server) -> None:
    with pytest.raises(ConfigIssuesError, match="'height' is not a dimension; known: race, gender, age"):
        audit(load_audit, [row(server)], judging={"disclose": ["height"]})


def test_a_wrong_key_ends_the_run_with_a_sentence_and_no_verdict(load_audit: Load) -> None:
    from tests.editors.providers import Server as Turns
    from tests.editors.providers import openai_error

    with Turns(openai_error(401, "invalid_api_key", "invalid_request_error", "Incorrect API key")) as turns:
        settings = {"model": "gpt-5-mini", "base_url": turns.url}
        config = audit(load_audit, [{"id": "o", "kind": "openai", "key_env": KEY, "settings": settings}])
        with pytest.raises(SetupError, match="Incorrect API key"):
            pipeline.run(config, Progress())
    assert table(config, "SELECT count(*) FROM verdict") == [(0,)]


def test_a_batch_under_way_is_not_asked_live_and_comes_home_with_the_next_run(load_audit: Load) -> None:
    with serving(Switches(batch_after_s=3600)) as server:
        config = audit(load_audit, [row(server, mode="batch", batch_wait_s=0)])
        with pytest.raises(IncompleteError, match="verdicts missing: 6"):
            pipeline.run(config, Progress())
        server.turn(batch_after_s=0)
        live = audit(load_audit, [row(server)])  # in live mode: what is paid for is fetched first
        pipeline.run(live, Progress())
        assert calls(server) == []
        assert len(server.journal("batch")) == 1
    assert pipeline.status(config.run)["verdicts"] == {"openai": {"ok": 6}}
