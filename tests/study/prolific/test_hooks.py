"""Webhooks: only signed, fresh and new ones do anything; and what they do, they do once."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import func, select
from starlette.applications import Starlette
from starlette.testclient import TestClient

from stillme.study.db.tables import hook, submission
from stillme.study.prolific import hooks
from stillme.study.prolific.client import Prolific
from stillme.study.rehearsal.fake.app import Fake, Fault, Options
from stillme.study.rehearsal.fake.deliver import signed
from tests.study.prolific.stage import LIMITS, TOKEN, Stage, listening

SECRET = "a-secret-of-the-workspace"
Delivery = tuple[bytes, dict[str, str]]


def delivery(rater: str, event: str = "e1", at: float | None = None, secret: str = SECRET) -> Delivery:
    body = {"event_type": hooks.EVENT, "resource_id": rater, "participant_id": "-", "status": "RETURNED"}
    return signed(secret, {"id": event, "body": body}, int(time.time() if at is None else at))


def deliver(stage: Stage, given: Delivery) -> int:
    """As it comes in over HTTP: the status that Prolific gets."""

    async def close(client: Prolific) -> None:
        await client.close()

    client = Prolific(TOKEN, f"{stage.base}/api/v1", LIMITS)
    app = Starlette(routes=hooks.routes(stage.store, client, SECRET.encode))
    with TestClient(app) as browser:
        status = browser.post(hooks.PATH, content=given[0], headers=given[1]).status_code
        assert browser.portal is not None
        browser.portal.call(close, client)
    return int(status)


def events(stage: Stage) -> int:
    return stage.do(lambda c: c.scalar(select(func.count()).select_from(hook))) or 0


def test_a_return_frees_the_seat(stage: Stage) -> None:
    stage.publish()
    rater = stage.seated()
    stage.world.move(rater.submission, "RETURN")
    assert stage.free_seats() == 5
    assert deliver(stage, delivery(rater.submission)) == 200
    assert (stage.free_seats(), stage.state(rater)) == (6, "returned")


def test_what_a_webhook_says_is_not_believed(stage: Stage) -> None:
    stage.publish()
    rater = stage.seated()
    assert deliver(stage, delivery(rater.submission)) == 200
    assert stage.state(rater) == "active", "Prolific says otherwise when it is asked"


def test_the_same_event_is_taken_once(stage: Stage) -> None:
    stage.publish()
    rater = stage.seated()
    given = delivery(rater.submission)
    assert [deliver(stage, given) for _ in range(3)] == [200, 200, 200]
    assert events(stage) == 1
    asked = [path for _, path, _ in stage.options.log or [] if path.endswith(f"/submissions/{rater.submission}/")]
    assert len(asked) == 1


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda rater: delivery(rater, secret="another"),
        lambda rater: delivery(rater, at=time.time() - 301),
        lambda rater: delivery(rater, at=time.time() + 600),
        lambda rater: (delivery(rater)[0] + b" ", delivery(rater)[1]),
        lambda rater: (delivery("0" * 24)[0], delivery(rater)[1]),
        lambda rater: (delivery(rater)[0], {**delivery(rater)[1], "X-Prolific-Request-Timestamp": "1"}),
        lambda rater: (delivery(rater)[0], {**delivery(rater)[1], "X-Prolific-Request-Signature": ""}),
        lambda rater: (delivery(rater)[0], {**delivery(rater)[1], "X-Prolific-Request-Signature": "not base64!"}),
        lambda rater: (delivery(rater)[0], {}),
    ],
)
def test_forged_changed_and_stale_deliveries_do_nothing(stage: Stage, spoiled: Callable[[str], Delivery]) -> None:
    stage.publish()
    rater = stage.seated()
    stage.world.move(rater.submission, "RETURN")
    assert deliver(stage, spoiled(rater.submission)) == 401
    assert (events(stage), stage.state(rater)) == (0, "active")


def test_nothing_is_taken_before_a_secret_is_known(stage: Stage) -> None:
    body, headers = delivery("a", secret="")
    assert not hooks.is_genuine(b"", {name.lower(): value for name, value in headers.items()}, body, time.time())


def test_a_delivery_that_failed_is_taken_when_it_comes_again(stage: Stage) -> None:
    stage.publish()
    rater = stage.seated()
    stage.world.move(rater.submission, "RETURN")
    stage.options.faults.append(Fault(f"/submissions/{rater.submission}/", 500, times=4))
    given = delivery(rater.submission)
    assert deliver(stage, given) == 503, "so Prolific tries again"
    assert (events(stage), stage.state(rater)) == (0, "active")
    assert deliver(stage, given) == 200
    assert (events(stage), stage.state(rater)) == (1, "returned")


def test_submissions_of_other_studies_are_none_of_ours(stage: Stage) -> None:
    stage.publish()
    fields = {name: value for name, value in stage.world.studies[stage.study].items() if name != "id"}
    other = stage.world.create(fields)
    stage.world.move_study(other["id"], "PUBLISH")
    came = stage.world.arrive(other["id"])
    assert deliver(stage, delivery(came["id"])) == 200
    assert deliver(stage, delivery("0" * 24, event="e2")) == 200, "nor those that Prolific does not know"
    assert stage.do(lambda c: c.scalar(select(func.count()).select_from(submission))) == 0


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'{"event_type": "study.status.change"}', b"\xff"])
def test_other_events_are_acknowledged_and_leave_everything_as_it_is(stage: Stage, body: bytes) -> None:
    stage.publish()
    at = str(int(time.time()))
    headers = {
        "X-Prolific-Request-Timestamp": at,
        "X-Prolific-Request-Signature": hooks.signature(SECRET.encode(), at, body),
        "X-Event-ID": "e1",
    }
    assert deliver(stage, (body, headers)) == 200
    assert deliver(stage, (body, {**headers, "X-Event-ID": ""})) == 400


def test_more_than_any_event_is_not_read(stage: Stage) -> None:
    stage.publish()
    assert deliver(stage, (b"x" * (hooks.LARGEST + 1), {})) == 413


def test_times_are_read_in_the_ways_they_are_written() -> None:
    assert hooks.moment("1700000000") == hooks.moment("1700000000000") == hooks.moment("2023-11-14T22:13:20+00:00")
    assert hooks.moment("soon") is None


def test_prolific_is_asked_once_to_tell_us_and_tells_us(stage: Stage) -> None:
    """The command, twice; then a return that arrives here by itself, delivered twice as Prolific may."""
    stage.publish()
    rater = stage.seated()
    client = Prolific(TOKEN, f"{stage.base}/api/v1", LIMITS)

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        yield
        await client.close()

    routes = hooks.routes(stage.store, client, lambda: hooks.secret(stage.folder))
    fake = Fake(stage.world, Options(twice=True)).app()
    with listening(Starlette(routes=routes, lifespan=life)) as public, listening(fake):
        for _ in range(2):
            stage.run(lambda c: hooks.subscribe(stage.store, c, stage.folder, public, "", stage.say))
        stage.world.move(rater.submission, "RETURN")
        ends = time.monotonic() + 60
        while (stage.state(rater) != "returned" or stage.world.events) and time.monotonic() < ends:
            time.sleep(0.02)
    assert (stage.state(rater), events(stage)) == ("returned", 1)
    assert [one["is_enabled"] for one in stage.world.subscriptions.values()] == [True]
    assert (stage.folder / hooks.SECRET).stat().st_mode & 0o777 == 0o600
    assert stage.world.secret not in "\n".join(stage.said)


def test_a_secret_that_the_workspace_has_is_kept(stage: Stage) -> None:
    """A new one would silence whatever else listens in the workspace."""
    stage.world.secret = "in use elsewhere"
    stage.run(lambda c: hooks.subscribe(stage.store, c, stage.folder, "https://s.example.org", "", stage.say))
    assert hooks.secret(stage.folder) == b"in use elsewhere"
    assert json.loads((stage.folder / "fake.json").read_text())["secret"] == "in use elsewhere"
