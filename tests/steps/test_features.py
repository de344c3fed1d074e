"""Features read off portraits: by a real service on loopback and by the simulated one, into a real run on disk."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from stillme.core.records import DIAGNOSE, MITIGATE, Feature, Portrait, Status
from stillme.engine.progress import Progress
from stillme.engine.threads import StopEvent
from stillme.judges.feature_form import AGAIN, SENTENCE
from stillme.ledger import Run
from stillme.plan.config import Config
from stillme.plan.design import feature_keys
from stillme.protocol import builtin
from stillme.steps import features as extract
from stillme.steps.budget import Budget
from stillme.steps.portraits import gather
from tests.editors.providers import Seen, Server, Turn, openai_error
from tests.judges.asking import completion

Load = Callable[..., Config]
KEY = "STILLME_TEST_KEY"
RULES = builtin().mitigation
assert RULES is not None
DIMENSIONS = tuple(RULES.dimensions)
CLEAN = {name: f"plain {number}" for number, name in enumerate(DIMENSIONS)}
CLEAN[SENTENCE] = "Maintain the person's brown eyes, oval face, and short black hair."
GROUPS = {"race": ["white", "black"], "gender": ["female"], "age": ["20s", "60s"]}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "sk-test-0123456789")


def answers(first: dict[str, Any] | str, second: dict[str, Any] | str | None = None) -> Turn:
    """One answer to whoever asks for the first time, another to whoever asks again."""

    async def turn(request: web.Request, seen: Seen) -> web.StreamResponse:
        said = second if second is not None and AGAIN.strip() in json.dumps(seen.json) else first
        text = said if isinstance(said, str) else json.dumps(said)
        return web.json_response(completion(text))

    return turn


def audit(load: Load, server: Server | None = None, select: str = "stratified", **more: Any) -> Config:
    """Four portraits, of which features are read by a service, else by a simulated judge."""
    settings = {"model": "gpt-5-mini", "backoff_s": 0.01, "attempts": 2, "reasks": 0, **more.pop("asked", {})}
    url = {"base_url": server.url} if server else {}
    service = {"kind": "openai", "key_env": KEY, "settings": {**settings, **url}}
    extractor = service if server else {"kind": "planted", "settings": {"draw": 3}}
    wanted = {
        "sample": more.pop("sample", 24),
        "select": select,
        "prompts": ["O-01", "V-02", "V-03"],
        "extractor": extractor,
    }
    sources = [{"id": "heads", "kind": "synthetic", "settings": {"groups": GROUPS}}]
    return load(**{"sources": sources, "experiments": {"diagnose": {}, "mitigate": wanted}, **more})


def read(config: Config, only: Sequence[str] = ()) -> list[Portrait]:
    """One session of reading."""
    with Run.open_for_writing(config.run, config.protocol) as held:
        portraits = gather(held, config, Progress())
        purse = Budget(config, held.spent_usd())
        extract.extract_features(held, config, portraits, Progress(), StopEvent(), purse, only)
        return list(portraits)


def found(config: Config, portraits: Sequence[Portrait]) -> list[Feature]:
    with Run.open_readonly(config.run) as seen:
        return list(seen.features(feature_keys(config, portraits).values()).values())


def standing(config: Config, portraits: Sequence[Portrait]) -> dict[str, Any]:
    with Run.open_readonly(config.run) as seen:
        assert (
            len(extract.portraits_without_features(seen, config, portraits))
            == extract.count_features(seen, config, portraits)["missing"]
        )
        return extract.count_features(seen, config, portraits)


def attempts(config: Config) -> list[tuple[Any, ...]]:
    with Run.open_readonly(config.run) as seen:
        return seen.query("SELECT subject, status, http, raw, cost_usd FROM attempt ORDER BY id")


def test_every_portrait_is_read_once_and_every_exchange_is_kept(load_audit: Load) -> None:
    with Server(answers(CLEAN)) as server:
        config = audit(load_audit, server)
        portraits = read(config)
        read(config)
        assert len(server.seen) == len(portraits) == 4
    features = found(config, portraits)
    assert [(one.status, dict(one.features), one.leaks, one.detail) for one in features] == [
        (Status.OK, CLEAN, (), "")
    ] * 4
    kept = attempts(config)
    assert {subject for subject, *_ in kept} == {one.key for one in features}
    assert all(http == 200 and json.loads(zlib.decompress(raw))["choices"] for _, _, http, raw, _ in kept)
    assert all(cost > 0 for *_, cost in kept)
    assert standing(config, portraits) == {"wanted": 4, "missing": 0, "ok": 4, "marked": 0, "statuses": {"ok": 4}}


def test_only_the_portrait_is_sent_and_nothing_is_said_of_the_person(load_audit: Load) -> None:
    with Server(answers(CLEAN)) as server:
        portraits = read(audit(load_audit, server))
        bodies = [seen.json for seen in server.seen]
    for body in bodies:
        parts = [
            part
            for message in body["messages"]
            if isinstance(message["content"], list)
            for part in message["content"]
        ]
        assert sum(part["type"] == "image_url" for part in parts) == 1
        told = " ".join(part.get("text", "") for part in parts).lower()
        assert not any(portrait.labels["age"] in told for portrait in portraits)


BLACK = {**CLEAN, "hair": "typical of a Black woman"}
LEAKING = {**BLACK, SENTENCE: "Maintain the person's youthful look."}
UNOPENED = {**CLEAN, SENTENCE: "Keep the brown eyes."}
NOTHING = {**dict.fromkeys(DIMENSIONS, "none"), SENTENCE: CLEAN[SENTENCE]}
ASIAN, WORSE = {**CLEAN, "eyes": "Asian eyes"}, {**CLEAN, "eyes": "a young girl's eyes"}
UNASKED = "the sentence does not start with “Maintain the person's”"


@pytest.mark.parametrize(
    ("first", "second", "asked", "kept", "leaks", "detail"),
    [
        pytest.param(BLACK, CLEAN, 8, CLEAN, (), "", id="names a group and is asked for again"),
        pytest.param(LEAKING, None, 8, LEAKING, ("Black", "woman", "youthful"), "", id="names one again: marked"),
        pytest.param(UNOPENED, None, 8, UNOPENED, (), UNASKED, id="does not open as asked: marked"),
        pytest.param(UNOPENED, WORSE, 8, UNOPENED, (), UNASKED, id="the better of two is kept"),
        pytest.param(
            ASIAN, "I would rather not.", 8, ASIAN, ("Asian",), "the second answer: malformed", id="no second"
        ),
        pytest.param("no idea", None, 4, {}, (), None, id="cannot be read: final"),
        pytest.param(NOTHING, None, None, {}, (), None, id="describes nothing: no answer"),
    ],
)
def test_what_is_made_of_an_answer(
    load_audit: Load, first: Any, second: Any, asked: int | None, kept: Any, leaks: Any, detail: str | None
) -> None:
    with Server(answers(first, second)) as server:
        config = audit(load_audit, server)
        portraits = read(config)
        before = len(server.seen)
        read(config)
        assert len(server.seen) == before and (asked is None or before == asked), "nothing is asked a third time"
    status = Status.OK if kept else Status.MALFORMED
    for one in found(config, portraits):
        assert (one.status, dict(one.features), one.leaks) == (status, kept, leaks)
        assert detail is None or one.detail == detail
    assert len(attempts(config)) == before
    told = standing(config, portraits)
    assert told["statuses"] == {status.value: 4} and told["marked"] == (4 if leaks or detail else 0)


def test_what_may_pass_is_asked_for_again_on_the_next_run(load_audit: Load) -> None:
    with Server(openai_error(500, "server_error", "server_error", "Later.")) as server:
        config = audit(load_audit, server)
        portraits = read(config)
        assert standing(config, portraits)["missing"] == 4 and found(config, portraits) == []
        tried = len(attempts(config))
        assert tried == len(server.seen) == 8
        server.turns.clear()
        server.turns.append(answers(CLEAN))
        read(config)
    assert standing(config, portraits)["ok"] == 4 and len(attempts(config)) == tried + 4


def test_many_are_asked_at_once(load_audit: Load) -> None:
    async def after_another(request: web.Request, seen: Seen) -> web.StreamResponse:
        while server.most_under_way < 2:
            await asyncio.sleep(0.01)
        return web.json_response(completion(json.dumps(CLEAN)))

    with Server(after_another) as server:
        read(audit(load_audit, server, asked={"concurrency": 4, "starts_at": None}))
    assert len(server.seen) == 4


def test_nothing_is_asked_that_the_budget_does_not_allow(load_audit: Load) -> None:
    with Server(answers(CLEAN)) as server:
        config = audit(load_audit, server, budgets={"cost_usd": 0.0})
        portraits = read(config)
        assert server.seen == []
    assert standing(config, portraits)["missing"] == 4


def test_nothing_is_asked_for_an_experiment_that_is_not_run(load_audit: Load) -> None:
    with Server(answers(CLEAN)) as server:
        config = audit(load_audit, server)
        read(config, [DIAGNOSE])
        assert server.seen == []
        read(config, [DIAGNOSE, MITIGATE])
        assert len(server.seen) == 4


def test_nothing_is_asked_before_the_cases_are_drawn(load_audit: Load) -> None:
    with Server(answers(CLEAN)) as server:
        config = audit(load_audit, server, select="drifted")
        portraits = read(config)
        assert server.seen == []
    with Run.open_readonly(config.run) as seen:
        assert (
            extract.count_features(seen, config, portraits) == {}
            and extract.portraits_without_features(seen, config, portraits) == []
        )


def test_a_used_up_account_is_said_to_be_so(load_audit: Load) -> None:
    with Server(openai_error(429, "insufficient_quota", "insufficient_quota", "No more.")) as server:
        config = audit(load_audit, server, asked={"concurrency": 1, "attempts": 1})
        with Run.open_for_writing(config.run, config.protocol) as held:
            portraits = gather(held, config, Progress())
            purse = Budget(config, 0.0)
            extract.extract_features(held, config, portraits, Progress(), StopEvent(), purse)
            assert "the account of 'extractor' is used up" in purse.reason
        assert len(server.seen) == 1


def test_a_bug_in_a_backend_costs_an_attempt_and_not_the_run(load_audit: Load) -> None:
    config = audit(load_audit)
    assert config.extractor is not None

    class Broken:
        def judge(self, request: object) -> None:
            raise ZeroDivisionError("oh")

    object.__setattr__(config.extractor, "make", Broken)
    portraits = read(config)
    assert {(status, raw) for _, status, _, raw, _ in attempts(config)} == {("crashed", None)}
    assert standing(config, portraits)["missing"] == 4


def test_the_simulated_judge_reads_every_portrait_and_mends_what_it_named(load_audit: Load) -> None:
    config = audit(load_audit, sample=600, sources=[{"id": "heads", "kind": "synthetic", "settings": {}}])
    portraits = read(config)
    told = {"wanted": 84, "missing": 0, "ok": 84, "marked": 0, "statuses": {"ok": 84}}
    assert standing(config, portraits) == told
    assert (
        84 < len(attempts(config)) < 100
    )  # about one in twenty names a group when it is asked for the first time


KILLED = """
import sys
from pathlib import Path
from stillme.plan import config
from stillme.steps import features as extract
from stillme.engine.threads import StopEvent
from stillme.steps.portraits import gather
from stillme.ledger import Run
from stillme.engine.progress import Progress
from stillme.steps.budget import Budget
one = config.load(Path(sys.argv[1]))
with Run.open_for_writing(one.run, one.protocol) as held:
    portraits = gather(held, one, Progress())
    extract.extract_features(held, one, portraits, Progress(), StopEvent(), Budget(one, held.spent_usd()))
"""


def committed(config: Config) -> int:
    with Run.open_readonly(config.run) as seen:
        return int(seen.query("SELECT count(*) FROM feature")[0][0])


def test_killed_while_it_waits_it_goes_on_where_it_was(load_audit: Load, tmp_path: Path) -> None:
    arrived: list[float] = []

    async def two_then_silence(request: web.Request, seen: Seen) -> web.StreamResponse:
        arrived.append(time.monotonic())
        if len(arrived) > 2:
            await asyncio.sleep(60)
        return web.json_response(completion(json.dumps(CLEAN)))

    with Server(two_then_silence) as server:
        config = audit(load_audit, server, asked={"concurrency": 1})
        command = [sys.executable, "-c", KILLED, str(tmp_path / "audit.yaml")]
        child = subprocess.Popen(command, env={**os.environ})
        while (len(arrived) < 3 or committed(config) < 2) and child.poll() is None:
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
        child.wait()
        server.turns.clear()
        server.turns.append(answers(CLEAN))
        before = len(server.seen)
        portraits = read(config)
        assert (before, len(server.seen)) == (3, 5)  # two were kept; the one under way is asked for again
    assert standing(config, portraits)["ok"] == 4
    assert len(found(config, portraits)) == 4
