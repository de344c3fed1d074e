"""Calls that travel in batches: brought home whole, paid once, whatever happens on the way."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from bench.judges.server import ROOT, Server, serving
from bench.judges.switches import Switches

from stillme import pipeline
from stillme.core.errors import SetupError
from stillme.engine.http import Client
from stillme.engine.progress import Progress
from stillme.judges.gemini import tags_in_name
from stillme.ledger import Run
from stillme.ledger.batches import Shard, Step, shards
from stillme.ledger.run import settings_hash
from stillme.plan.config import Config
from stillme.protocol import Protocol
from stillme.steps import batch
from tests.judges.shipping import JUDGE, Session, files_of, items
from tests.judges.wire import Wire, through

FORMS = ("openai", "gemini")
SETTINGS = settings_hash("judge", {"model": "m"})


def url(server: Server, form: str) -> str:
    return server.gemini_url if form == "gemini" else server.openai_url


def tags(row: dict[str, Any]) -> dict[str, str]:
    return tags_in_name(row["tags"]) if isinstance(row["tags"], str) else dict(row["tags"])


def made(server: Server, run: Run) -> list[dict[str, Any]]:
    """The run's batches, from the service's journal."""
    return [row for row in server.journal("batch") if tags(row).get("run") == run.id]


def recorded(run: Run) -> Counter[tuple[str, str]]:
    return Counter(run.query("SELECT subject, status FROM attempt"))


def known(run: Run) -> list[Shard]:
    return shards(run, JUDGE, SETTINGS)


def paid(server: Server, run: Run) -> Counter[str]:
    mine = {row["batch"] for row in made(server, run)}
    return Counter(row["body"] for row in server.journal("line") if row["batch"] in mine)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "FIRST_POLL_S", 0.05)
    monkeypatch.setattr(batch, "STOP_POLL_S", 0.05)


@pytest.fixture
def run(tmp_path: Path, protocol: Protocol) -> Iterator[Run]:
    with Run.open_for_writing(tmp_path / "run", protocol) as held:
        yield held


def check(server: Server, run: Run, count: int = 4) -> None:
    """Every shard's batch was made once; every call was answered once and recorded once; nothing is left over."""
    per_shard = Counter(tags(row)["shard"] for row in made(server, run))
    assert per_shard
    assert set(per_shard.values()) == {1}
    assert sorted(paid(server, run).values()) == [1] * count
    assert recorded(run) == {(f"call-{number}", "ok"): 1 for number in range(count)}
    assert not [shard for shard in known(run) if shard.is_open]
    assert files_of(run) == []


@pytest.mark.parametrize("form", FORMS)
def test_every_call_is_answered_once_in_shards_of_the_size_that_is_allowed(run: Run, form: str) -> None:
    with serving() as server:
        session = Session(run, form, url(server, form), items(form, 5))
        assert session.ship() == set()
        check(server, run, 5)
        assert [len(shard.calls) for shard in known(run)] == [2, 2, 1]
        assert len(made(server, run)) == 3
        assert not batch.is_open(run, JUDGE, SETTINGS)
        assert "judge: a batch of 2 calls is under way" in session.said
        assert "judge: 2 of 2 answers of a batch have come" in session.said


def test_a_shard_holds_as_many_bytes_as_are_allowed(run: Run) -> None:
    with serving() as server:
        wanted = items("openai", 6)
        size = len(next(iter(wanted.values())).body())
        session = Session(run, "openai", url(server, "openai"), wanted, most_bytes=4 * size, most_requests=100)
        session.ship()
        assert [row["bytes"] <= 4 * size for row in server.journal("upload")] == [True, True]
        check(server, run, 6)


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", FORMS)
def test_killed_between_any_two_steps_nothing_is_made_or_paid_for_twice(
    tmp_path: Path, protocol: Protocol, form: str, every: int
) -> None:
    """Between any two, and in every run of the tests between some."""
    with serving() as server:
        told = [form, url(server, form), str(tmp_path), str(every)]
        command = [sys.executable, "-m", "tests.judges.shipping", *told]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert said["last"] + every > 40  # or the way has become shorter than it was
        assert said["kills"] > 3
        runs = [path for path in tmp_path.iterdir() if path.name.startswith("dies-")]
        assert len(runs) == said["died"] + 2
        for path in runs:
            with Run.open_for_writing(path, protocol) as run:
                check(server, run)


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_that_was_made_without_an_answer_is_found_and_not_made_again(run: Run, form: str) -> None:
    with serving(Switches(creations_unheard=1)) as server:
        assert Session(run, form, url(server, form), items(form)).ship() == set()
        assert [row["heard"] for row in made(server, run)] == [False, True]
        check(server, run)


def test_batches_of_other_runs_are_left_alone(tmp_path: Path, protocol: Protocol) -> None:
    with serving(Switches(batch_after_s=3600, page=1)) as server:
        for name in ("one", "two"):
            with Run.open_for_writing(tmp_path / name, protocol) as run:
                session = Session(run, "openai", url(server, "openai"), items("openai"), wait_s=0)
                assert session.ship() == set(items("openai"))
                assert len(made(server, run)) == 2
        assert recorded_in(tmp_path / "one", protocol) == recorded_in(tmp_path / "two", protocol) == 0


def recorded_in(path: Path, protocol: Protocol) -> int:
    with Run.open_for_writing(path, protocol) as run:
        return len(recorded(run))


@pytest.mark.parametrize("form", FORMS)
def test_what_has_not_ended_is_still_under_way_and_is_brought_home_later(run: Run, form: str) -> None:
    with serving(Switches(batch_after_s=3600)) as server:
        session = Session(run, form, url(server, form), items(form), wait_s=0.1)
        assert session.ship() == set(items(form))
        assert batch.is_open(run, JUDGE, SETTINGS)
        server.turn(batch_after_s=0)
        assert session.ship() == set()
        check(server, run)


@pytest.mark.parametrize(("form", "ends"), [("openai", {"ok", "timeout"}), ("gemini", {"ok"})])
def test_calls_that_an_expired_batch_did_not_get_to_are_left_to_be_asked_live(
    run: Run, form: str, ends: set[str]
) -> None:
    with serving(Switches(batch_expires=0.5, seed=1)) as server:
        assert Session(run, form, url(server, form), items(form, 12), most_requests=12).ship() == set()
        answered = [row for row in server.journal("line") if row["paid"]]
        assert 0 < len(answered) < 12
        assert sum(status == "ok" for _, status in recorded(run)) == len(answered)
        assert {status for _, status in recorded(run)} == ends
        assert [shard.step for shard in known(run)] == [Step.IMPORTED]


@pytest.mark.parametrize("form", FORMS)
def test_answers_that_are_malformed_or_errors_are_recorded_as_such(run: Run, form: str) -> None:
    with serving(Switches(batch_malformed=0.3, rejected=0.3, seed=3)) as server:
        assert Session(run, form, url(server, form), items(form, 12), most_requests=12).ship() == set()
        assert {status for _, status in recorded(run)} == {"ok", "malformed", "rejected"}
        assert len(recorded(run)) == 12


@pytest.mark.parametrize("form", FORMS)
def test_a_service_that_does_not_take_the_batch_stops_the_run_and_nothing_is_asked_live(
    run: Run, form: str
) -> None:
    with serving(Switches(batches_fail=1)) as server:
        with pytest.raises(SetupError) as caught:
            Session(run, form, url(server, form), items(form)).ship()
        assert "does not take its calls as a batch: The file is not valid. " in str(caught.value)
        assert "mode: live" in str(caught.value)
        assert Session(run, form, url(server, form), items(form)).ship() == set()
        assert {call for call, _ in recorded(run)} == set(items(form))


def test_no_more_calls_are_sent_than_the_budget_allows(run: Run) -> None:
    with serving(Switches(batch_after_s=3600)) as server:
        wanted = items("openai", 8)
        session = Session(run, "openai", url(server, "openai"), wanted, room=3, wait_s=0)
        assert session.ship() == {"call-0", "call-1", "call-2"}
        session.room = 4  # one more than are under way
        assert session.ship() == {"call-0", "call-1", "call-2", "call-3"}
        session.room = 0
        assert len(session.ship()) == 4
        assert len(made(server, run)) == 3


def test_a_shard_that_was_never_sent_is_given_up_when_nothing_may_be_sent(run: Run) -> None:
    with serving() as server:
        session = Session(run, "openai", url(server, "openai"), items("openai"))
        with pytest.raises(KilledError):
            session.tick = dies_after(lambda: len(known(run)) == 2)
            session.ship()
        session.tick, session.room = lambda: None, 0
        assert session.ship() == set()
        assert made(server, run) == []
        assert files_of(run) == []
        assert not batch.is_open(run, JUDGE, SETTINGS)


class KilledError(BaseException):
    """Stands for the end of a process where its disk alone matters."""


def dies_after(is_time: Any) -> Any:
    def tick() -> None:
        if is_time():
            raise KilledError

    return tick


def test_a_shard_whose_file_is_gone_is_written_again(run: Run) -> None:
    with serving() as server:
        session = Session(run, "openai", url(server, "openai"), items("openai"))
        with pytest.raises(KilledError):
            session.tick = dies_after(lambda: len(known(run)) == 2)
            session.ship()
        for path in (run.path / "batches").rglob("*.jsonl"):
            path.unlink()
        session.tick = lambda: None
        assert session.ship() == set()
        check(server, run)


def test_calls_that_are_not_wanted_any_more_are_not_sent_and_not_lost_once_they_are_paid_for(run: Run) -> None:
    with serving(Switches(batch_after_s=3600)) as server:
        every = items("openai", 2)
        session = Session(run, "openai", url(server, "openai"), every, wait_s=0)
        session.ship()
        server.turn(batch_after_s=0)
        session.wanted = {"call-0": every["call-0"]}
        assert session.ship() == set()
        assert recorded(run) == {("call-0", "ok"): 1}
        session.wanted = {"call-1": every["call-1"]}  # wanted again, in a later audit of the same run
        assert session.ship() == set()
        assert recorded(run) == {("call-0", "ok"): 1, ("call-1", "ok"): 1}
        assert len(made(server, run)) == 1
        assert len(server.journal("download")) == 1


def test_a_batch_that_the_service_does_not_know_is_told_once_before_its_calls_are_asked_anew(run: Run) -> None:
    with serving(Switches(batch_after_s=3600)) as server:
        Session(run, "openai", url(server, "openai"), items("openai", 2), wait_s=0).ship()
    with serving() as other:
        session = Session(run, "openai", url(other, "openai"), items("openai", 2))
        with pytest.raises(SetupError, match="does not know its batch openai-batch-0"):
            session.ship()
        assert batch.is_open(run, JUDGE, SETTINGS)
        assert session.ship() == set()
        assert [shard.step for shard in known(run)] == [Step.FAILED]
        assert session.ship() == set()
        check(other, run, 2)


GOES_ON = ("in_progress", "in_progress", "completed")


def answer_line(key: str) -> bytes:
    body = {"choices": [{"message": {"content": '{"first": 1, "second": 2}'}}]}
    response = {"status_code": 200, "request_id": "r", "body": body}
    return json.dumps({"custom_id": key, "response": response}).encode() + b"\n"


def test_what_a_full_service_did_not_take_is_sent_when_there_is_room_again(run: Run) -> None:
    """Two batches; the second is not taken before the first has ended."""
    full = {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}]}
    files: list[str] = []

    def output(number: int) -> Any:
        async def answers(request: web.Request) -> web.StreamResponse:
            calls = (f"call-{2 * number}", f"call-{2 * number + 1}")
            return web.Response(body=b"".join(map(answer_line, calls)), content_type="application/jsonl")

        return answers

    async def create(request: web.Request) -> web.StreamResponse:
        files.append(json.loads(await request.read())["input_file_id"])
        return web.json_response({"id": f"b{len(files)}", "status": "validating"})

    wire = Wire(
        {
            "POST /v1/files": [{"id": "f1"}, {"id": "f2"}],
            "POST /v1/batches": [create],
            "GET /v1/batches/b1": [{"id": "b1", "status": s, "output_file_id": "o1"} for s in GOES_ON],
            "GET /v1/batches/b2": [{"id": "b2", "status": "failed", "errors": full}],
            "GET /v1/batches/b3": [{"id": "b3", "status": "completed", "output_file_id": "o2"}],
            "GET /v1/files/o1/content": [output(0)],
            "GET /v1/files/o2/content": [output(1)],
        }
    )
    session = Session(run, "openai", "", items("openai"))

    async def ship(client: Client) -> set[str]:
        session.url = client.base
        return await session.shipped()

    assert through(wire, "/v1", ship) == set()
    assert recorded(run) == {(f"call-{number}", "ok"): 1 for number in range(4)}
    assert files == ["f1", "f2", "f2"]
    assert any("the service is full" in line for line in session.said)


def test_stopping_ends_the_wait_and_leaves_what_is_under_way(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = batch._BatchSubmitter._wait

    async def stopped(self: batch._BatchSubmitter, until: float) -> None:
        session.stop.set("interrupted")
        await wait(self, until)

    monkeypatch.setattr(batch, "FIRST_POLL_S", 90)
    monkeypatch.setattr(batch._BatchSubmitter, "_wait", stopped)
    with serving(Switches(batch_after_s=3600)) as server:
        session = Session(run, "openai", url(server, "openai"), items("openai"), wait_s=90)
        started = time.monotonic()
        assert session.ship() == set(items("openai"))
        assert time.monotonic() - started < 60


def test_a_service_that_is_away_for_a_while_is_asked_again(run: Run) -> None:
    with serving() as server:
        address = url(server, "openai")
        session = Session(run, "openai", address, items("openai"), wait_s=0.5)
    assert session.ship() == set(items("openai"))  # nobody listens there any more
    assert any("its batches wait" in line for line in session.said)
    with serving() as server:
        assert Session(run, "openai", url(server, "openai"), items("openai")).ship() == set()
        check(server, run)


def judges(server: Server) -> list[dict[str, Any]]:
    """Two judges that are asked in batches."""
    ask = {"mode": "batch", "batch_wait_s": 120}
    openai = {"model": "gpt-5-mini-2025-08-07", "base_url": server.openai_url, **ask}
    gemini = {"model": "gemini-3-flash-preview", "base_url": server.gemini_url, **ask}
    return [
        {"id": "a", "kind": "openai", "role": "primary", "key_env": "STILLME_TEST_KEY", "settings": openai},
        {"id": "b", "kind": "gemini", "role": "secondary", "key_env": "STILLME_TEST_KEY", "settings": gemini},
    ]


def test_an_audit_is_judged_in_batches_at_half_the_price_and_only_leftovers_are_asked_live(
    load_audit: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STILLME_TEST_KEY", "sk-test-0123456789")
    with serving(Switches(malformed=0.2, output_blocked=0.1, batch_expires=0.1, seed=4)) as server:
        audit = load_audit(judges=judges(server))
        pipeline.run(audit, Progress())
        with Run.open_readonly(audit.run) as run:
            ended = Counter(status for (status,) in run.query("SELECT status FROM verdict"))
            edits = len(run.query("SELECT 1 FROM edit WHERE status = 'ok'"))
            costs = {cost for (cost,) in run.query("SELECT cost_usd FROM attempt WHERE usage <> ''")}
        lines, calls = server.journal("line"), server.journal("call")
        assert sum(ended.values()) == 2 * edits
        assert set(ended) == {"ok", "output_blocked"}
        assert sorted(costs)[2:] == pytest.approx([2 * half for half in sorted(costs)[:2]])  # of both judges
        left = {row["body"] for row in lines if row["outcome"] in ("malformed", "expired")}
        assert {row["body"] for row in calls} == left
        assert 0 < len(left) < len(lines)
        assert len(server.journal("batch")) == 2
        pipeline.run(audit, Progress())
        assert len(server.journal("batch")) == 2 and len(server.journal("call")) == len(calls)
        assert not list((audit.run / "batches").rglob("*.jsonl"))
