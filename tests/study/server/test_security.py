"""Attacks on a study that is served as coordinators serve it, behind TLS by its settings; each is refused."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, select, text

from stillme.study.db import people, seats
from stillme.study.db.deal import questions
from stillme.study.db.store import connect
from stillme.study.db.tables import answer, identity, metadata, participant
from stillme.study.server import coordinators
from stillme.study.server.serve import data_folder
from tests.study import bundles
from tests.study.office import Office
from tests.study.running import Reply, Running, Visitor

PUBLIC = "https://study.example.org"
PID = "5f1a2b3c4d5e6f7a8b9c0d1e"
PASSWORD = "correct horse battery"
HEADERS = {
    "content-security-policy": "default-src 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "strict-transport-security": "max-age=31536000",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("served") / "bundle"
    bundles.write(folder, tasks=2, seats=200)
    running = Running(folder, PUBLIC).start()
    yield running
    running.stop()


@pytest.fixture
def visitor(served: Running) -> Visitor:
    """Somebody who has just come in."""
    made = Visitor(served)
    pid = f"p{uuid4().hex[:20]}"
    assert made.enter(pid, f"s{pid}").status == 303
    return made


@pytest.fixture
def seated(visitor: Visitor) -> Visitor:
    visitor.sit()
    return visitor


def operation(visitor: Visitor, **changes: Any) -> dict[str, Any]:
    """A right answer to the first question of whoever is seated, but for what is changed."""
    server = visitor.server
    person = server.do(lambda c: people.who(c, server.keys, visitor.session, 0.0))
    assert person is not None and person.sitting is not None
    sat = server.do(lambda c: seats.sit(c, str(person.sitting)))
    screen = sat.deal.screens[0]
    name, _, question = next(one for one in questions(server.bundle, screen) if one[0] != "check")
    known = {"id": str(uuid4()), "kind": "answer", "item": screen.item, "field": name}
    return {**known, "value": question.options[0].value, "rev": 1, "ms": 900, "age": 0, **changes}


def send(visitor: Visitor, *operations: Any, headers: Mapping[str, str | None] | None = None) -> Reply:
    own = {"X-Stillme-Token": visitor.form_token}
    return visitor.send("/api/operations", {"operations": list(operations)}, {**own, **(headers or {})})


def stored(visitor: Visitor) -> int:
    server = visitor.server
    person = server.do(lambda c: people.who(c, server.keys, visitor.session, 0.0))
    assert person is not None
    count = select(func.count()).select_from(answer).where(answer.c.sitting == person.sitting)
    return server.do(lambda c: c.scalar(count)) or 0


# Who somebody is


def test_a_known_id_does_not_open_somebodys_session(served: Running) -> None:
    real, thief = Visitor(served), Visitor(served)
    assert real.enter("victim", "s-victim").status == 303
    real.sit()
    for submission in ("s-other", "S-VICTIM", "s-victim2"):
        refused = thief.enter("victim", submission)
        assert refused.status == 409 and thief.cookies == {}
        assert "victim" not in refused.text
    assert thief.get("/items/1").status == 401
    assert real.get("/items/1").status == 200, "whoever was first goes on"


def test_a_submission_of_somebody_else_is_refused(served: Running) -> None:
    assert Visitor(served).enter("first", "s-shared").status == 303
    second = Visitor(served)
    assert second.enter("second", "s-shared").status == 409
    assert second.cookies == {}
    known = select(func.count()).select_from(participant).join(identity).where(identity.c.pid == "second")
    assert served.do(lambda c: c.scalar(known)) == 0


def test_every_login_gives_another_session_and_takes_none_that_is_offered(served: Running) -> None:
    planted = Visitor(served, {"__Host-stillme-study": "planted-by-an-attacker"})
    planted.enter("fixed", "s-fixed")
    first = planted.session
    assert first != "planted-by-an-attacker" and len(first) >= 32
    assert Visitor(served, {"__Host-stillme-study": "planted-by-an-attacker"}).get("/guide").status == 401
    planted.enter("fixed", "s-fixed")
    assert planted.session != first


def test_cookies_are_locked_to_the_host_and_closed_to_scripts(served: Running) -> None:
    coordinators.add(served.engine, "flags", PASSWORD, 1.0)
    rater = Visitor(served).enter("flags", "s-flags").cookies["__Host-stillme-study"]
    admin = Visitor(served).get("/admin/login").cookies["__Host-stillme-admin"]
    for cookie, same_site in ((rater, "lax"), (admin, "strict")):
        assert (cookie["secure"], cookie["httponly"], cookie["path"], cookie["domain"]) == (True, True, "/", "")
        assert cookie["samesite"] == same_site


def test_ids_leave_the_address_at_once_and_come_back_nowhere(served: Running) -> None:
    visitor = Visitor(served)
    reply = visitor.enter(PID, "s-shown-nowhere")
    assert (reply.status, reply.header("location"), reply.body) == (303, "/", b"")
    path, seen = "/", []
    for _ in range(4):
        page = visitor.get(path)
        seen.append(page)
        if not (path := page.header("location")):
            break
    visitor.sit()
    seen += [visitor.get(path) for path in ("/items/1", "/leave", "/guide", "/api/progress")]
    assert [page.status for page in seen if page.status >= 400] == []
    for page in seen:
        whole = page.text + str(page.headers)
        assert PID not in whole and "s-shown-nowhere" not in whole
        assert visitor.session not in page.text


# Requests that others make


@pytest.mark.parametrize(
    "forged",
    [
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": None},
        {"Origin": None, "Sec-Fetch-Site": None},
        {"Origin": "null", "Sec-Fetch-Site": None},
        {"Origin": f"{PUBLIC}.evil.example", "Sec-Fetch-Site": None},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_form_from_elsewhere_is_refused_even_with_its_token(
    visitor: Visitor, forged: Mapping[str, str | None]
) -> None:
    token = visitor.get("/guide").token
    assert visitor.post("/guide", forged, token=token).status == 403
    assert visitor.get("/consent").status == 303, "nothing was changed"


def test_a_form_without_its_token_is_refused(visitor: Visitor, served: Running) -> None:
    other = Visitor(served)
    other.enter("tokens", "s-tokens")
    for token in ("", "x", other.form_token, visitor.session, "\0", "ü" * 10):
        assert visitor.post("/guide", token=token).status == 403
    assert visitor.post("/guide").status == 403
    assert visitor.get("/consent").status == 303
    assert visitor.post("/guide", token=visitor.form_token).status == 303


def test_operations_want_json_a_token_and_our_own_pages(seated: Visitor) -> None:
    right = operation(seated)
    evil = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert send(seated, right, headers=evil).status == 403
    assert send(seated, right, headers={"X-Stillme-Token": None}).status == 403
    assert send(seated, right, headers={"X-Stillme-Token": "x"}).status == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
        assert send(seated, right, headers={"Content-Type": kind}).status == 415
    assert stored(seated) == 0
    assert send(seated, right).json["results"][0]["saved"] is True
    assert stored(seated) == 1


def test_another_host_name_gets_nothing(visitor: Visitor) -> None:
    for host in ("evil.example", "study.example.org.evil.example", "", "study.example.org@evil.example"):
        assert visitor.get("/guide", Host=host).status == 421


# What goes out


def test_every_answer_carries_the_headers(seated: Visitor, served: Running) -> None:
    picture = next(iter(served.bundle.pictures))
    stranger = Visitor(served)
    answers = {
        200: seated.get("/items/1"),
        303: seated.get("/"),
        401: stranger.get("/guide"),
        403: seated.post("/guide", token="x"),
        404: seated.get("/images/nothing"),
        405: seated.ask("DELETE", "/guide"),
        409: stranger.enter("flags", "s-someone-else"),
        413: seated.ask("POST", "/guide", b"x" * 70_000, {"Content-Type": "application/x-www-form-urlencoded"}),
        415: seated.send("/guide", {}),
        421: seated.get("/", Host="evil.example"),
        422: send(seated, {"id": "x"}),
    }
    more = [
        seated.get("/healthz"),
        seated.get(f"/images/{picture}"),
        seated.get("/static/web/base.css"),
        seated.get("/static/web/nothing.css"),
        seated.get("/admin/login"),
        seated.get("/admin"),
        seated.get("/nothing/at/all"),
        seated.ask("POST", "/webhooks/prolific", b"{}"),
        seated.ask("OPTIONS", "/api/operations"),
        seated.ask("HEAD", "/items/1"),
    ]
    assert {status: reply.status for status, reply in answers.items()} == {status: status for status in answers}
    for reply in (*answers.values(), *more):
        for name, value in HEADERS.items():
            assert reply.header(name).startswith(value), (reply.status, name)
        assert "frame-ancestors 'none'" in reply.header("content-security-policy")
        assert "unsafe" not in reply.header("content-security-policy")
        assert reply.header("cache-control") != ""
        assert reply.header("server") == "" and reply.header("access-control-allow-origin") == ""


def test_a_crash_tells_nothing_and_carries_the_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(tmp_path, public=PUBLIC)
    browser = office.browser()
    browser.get("/p/start?PROLIFIC_PID=anna&SESSION_ID=s1")

    async def broken(work: Any) -> Any:
        raise RuntimeError(f"secret of {PID}")

    monkeypatch.setattr(office.study.store, "write", broken)
    reply = browser.post("/guide", data={"token": office.keys.form_token(browser.cookies["__Host-stillme-study"])})
    office.close()
    assert reply.status_code == 500 and "secret" not in reply.text and "Traceback" not in reply.text
    for name, value in HEADERS.items():
        assert reply.headers[name].startswith(value), name


def test_no_page_has_code_or_styles_in_it(seated: Visitor, served: Running) -> None:
    newcomer = Visitor(served)
    newcomer.enter("inline", "s-inline")
    pages = [newcomer.get("/guide"), seated.get("/items/1"), seated.get("/leave"), seated.get("/admin/login")]
    for page in pages:
        assert page.status == 200
        assert not re.search(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)", page.text)
        assert not re.search(r"\son\w+\s*=|\sstyle\s*=|<style|javascript:|data:image", page.text)


# What comes in


@pytest.mark.parametrize(
    "changes",
    [
        {"value": "99"},
        {"value": "\uff11"},
        {"value": ""},
        {"value": "<script>"},
        {"field": "unknown"},
        {"field": "comment"},
        {"field": ""},
        {"item": "i999"},
        {"item": "../i000"},
    ],
)
def test_a_value_that_was_not_offered_is_never_kept(seated: Visitor, changes: dict[str, Any]) -> None:
    reply = send(seated, operation(seated, **changes))
    assert reply.status == 200 and "refused" in reply.json["results"][0]
    assert stored(seated) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"more": 1},
        {"kind": "delete"},
        {"value": 3},
        {"value": "a\0b"},
        {"value": "x" * 2_001},
        {"rev": -1},
        {"rev": 2**63},
        {"rev": "one"},
        {"ms": -5},
        {"age": -1},
        {"id": "x"},
        {"id": "' OR 1=1 --"},
        {"sitting": "somebody"},
    ],
)
def test_an_operation_of_another_shape_is_refused_whole(seated: Visitor, changes: dict[str, Any]) -> None:
    reply = send(seated, operation(seated), operation(seated, **changes))
    assert reply.status == 422 and "refused" in reply.json
    assert stored(seated) == 0, "not even the operation beside it"


def test_bodies_are_limited(seated: Visitor) -> None:
    assert send(seated, *(operation(seated) for _ in range(101))).status in (413, 422)
    huge = seated.ask("POST", "/api/operations", b" " * 1_000_000, {"Content-Type": "application/json"})
    assert huge.status in (403, 413)
    assert send(seated, operation(seated)).status == 200


def test_nobody_writes_into_a_sitting_of_somebody_else(served: Running) -> None:
    mine, theirs = Visitor(served), Visitor(served)
    for visitor, task in ((mine, "t00"), (theirs, "t01")):
        visitor.enter(f"own{task}", f"s-own{task}")
        visitor.sit(task)
    foreign = operation(theirs)
    assert "no such item" in send(mine, foreign).json["results"][0]["refused"]
    own = operation(mine)
    assert send(mine, own).json["results"][0].get("saved")
    again = send(theirs, {**operation(theirs), "id": own["id"]}).json["results"][0]
    assert "somebody else" in again["refused"]
    assert (stored(mine), stored(theirs)) == (1, 0)


# Pictures, and what can be guessed


@pytest.mark.parametrize(
    "path",
    [
        "/images/../bundle.json",
        "/images/..%2fbundle.json",
        "/images/%2e%2e/%2e%2e/bundle-data/secret",
        "/images/..%252f..%252fsecret",
        "/images//etc/passwd",
        "/images/bundle.json",
        "/images/%00",
        "/static/study/../../templates/admin.html",
        "/static/study/%2e%2e/admin.py",
        "/static/web/..%2f..%2fstudy%2fadmin.py",
        "/static/../../../../etc/passwd",
    ],
)
def test_no_path_leads_out_of_the_bundle(seated: Visitor, path: str) -> None:
    reply = seated.get(path)
    assert reply.status in (400, 404)
    assert "There is no such page" in reply.text


def test_pictures_need_a_session(seated: Visitor, served: Running) -> None:
    picture = next(iter(served.bundle.pictures))
    assert seated.get(f"/images/{picture}").body.startswith(b"\x89PNG")
    stranger = Visitor(served)
    known, unknown = stranger.get(f"/images/{picture}"), stranger.get("/images/" + "0" * 64)
    assert known.status == unknown.status == 401 and known.body == unknown.body


def test_what_is_forbidden_looks_like_what_is_not_there(seated: Visitor, served: Running) -> None:
    stranger = Visitor(served)
    strange = [stranger.get(path) for path in ("/items/1", "/items/999", "/complete", "/nothing", "/api/progress")]
    assert {reply.status for reply in strange} == {401}
    missing, beyond = seated.get("/nothing"), seated.get("/items/999")
    assert missing.status == beyond.status == 404 and missing.body == beyond.body
    admin = [stranger.get(path) for path in ("/admin/raters/r000000000000", "/admin/raters/x", "/admin/log")]
    assert {(reply.status, reply.header("location"), reply.body) for reply in admin} == {
        (303, "/admin/login", b"")
    }


def test_a_code_is_shown_to_nobody_who_is_not_done(seated: Visitor, served: Running) -> None:
    code = served.do(lambda c: seats.code(c, "COMPLETED"))
    for path in ("/complete", "/debrief", "/items/1", "/tasks", "/closed", "/declined"):
        assert code not in seated.get(path).text
    assert seated.get("/complete").status == 303
    finished = seated.post("/finish", token=seated.form_token)
    assert finished.status == 409 or not finished.header("location").startswith("/debrief")
    assert code not in finished.text


# Coordinators


def test_raters_and_coordinators_are_not_each_other(seated: Visitor, served: Running) -> None:
    crossed = Visitor(served, {"__Host-stillme-admin": seated.session})
    assert crossed.get("/admin").status == 303
    coordinators.add(served.engine, "crossing", PASSWORD, 1.0)
    boss = Visitor(served)
    token = boss.get("/admin/login").token
    assert boss.post("/admin/login", token=token, name="crossing", password=PASSWORD).status == 303
    assert boss.get("/admin").status == 200
    as_rater = Visitor(served, {"__Host-stillme-study": boss.cookies["__Host-stillme-admin"]})
    assert as_rater.get("/guide").status == 401


def test_a_webhook_that_nobody_signed_is_not_taken(served: Running) -> None:
    event = {"event_type": "submission.status.change", "resource_id": "s-victim", "status": "RETURNED"}
    signed = {"X-Prolific-Request-Signature": "AAAA", "X-Prolific-Request-Timestamp": "1"}
    for headers in ({}, signed):
        assert Visitor(served).send("/webhooks/prolific", event, headers).status in (401, 403, 404)


# How often


def test_too_many_requests_are_told_to_wait(tmp_path: Path) -> None:
    office = Office(tmp_path)

    def until_refused(address: str, path: str, renew: bool = False) -> tuple[int, str]:
        with office.browser(address) as browser:
            for n in range(1, 700):
                if renew:
                    browser.cookies.set("stillme-study", f"invented{n}")
                reply = browser.get(path)
                if reply.status_code == 429:
                    return n, reply.headers["retry-after"]
        return 0, ""

    arriving = until_refused("198.51.100.1", "/welcome")
    inventing = until_refused("198.51.100.2", "/guide", renew=True)
    other = office.browser("198.51.100.3").get("/welcome").status_code
    office.close()
    assert arriving[0] and int(arriving[1]) >= 1
    assert inventing[0] and int(inventing[1]) >= 1, "inventing sessions does not get around the limit"
    assert other == 200


# What is kept, and what is said


def test_ids_are_in_one_table_only_and_secrets_in_no_word_or_page(tmp_path: Path) -> None:
    bundles.write(tmp_path / "bundle")
    running = Running(tmp_path / "bundle", PUBLIC).start()
    coordinators.add(running.engine, "dora", PASSWORD, 1.0)
    visitor, boss = Visitor(running), Visitor(running)
    visitor.enter(PID, "s-searched")
    visitor.enter(PID, "s-other")
    Visitor(running).get(f"/p/start?PROLIFIC_PID={PID}%00%0a&SESSION_ID=s-searched")
    sat = visitor.sit()
    send(visitor, operation(visitor), operation(visitor, kind="comment", field="", value="hello"))
    visitor.ask("POST", "/api/operations", b"\xff\xfe{", {"Content-Type": "application/json"})
    visitor.get("/items/1?PROLIFIC_PID=" + PID)
    token = boss.get("/admin/login").token
    boss.post("/admin/login", token=token, name="dora", password="a wrong password")
    boss.post("/admin/login", token=boss.get("/admin/login").token, name=PASSWORD, password=PASSWORD)
    boss.post("/admin/login", token=boss.get("/admin/login").token, name="dora", password=PASSWORD)
    pages = [boss.get(path) for path in ("/admin", "/admin/log", "/admin/comments")]
    pages += [
        boss.get("/admin/raters/" + running.keys.pseudonym(running.do(lambda c: seats.sit(c, sat)).participant))
    ]
    assert [page.status for page in pages] == [200] * 4
    code = running.do(lambda c: seats.code(c, "COMPLETED"))
    said = running.stop()

    data = data_folder(tmp_path / "bundle")
    secret = (data / "secret").read_text()
    hidden = [PID, "s-searched", "s-other", visitor.session, boss.cookies["__Host-stillme-admin"], code, secret]
    hidden += [PASSWORD, "a wrong password", "127.0.0.1"]
    assert "Listening on" in said and "Traceback" not in said
    assert [one for one in hidden[:-1] if one in said] == []
    assert [one for page in pages for one in hidden if one in page.text] == []
    found = tables_with(f"sqlite:///{data / 'study.db'}", hidden)
    assert found == {PID: {"identity"}, "s-searched": {"identity"}, code: {"meta"}}
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "secret").stat().st_mode) == 0o600


def tables_with(url: str, words: list[str]) -> dict[str, set[str]]:
    """Word -> the tables in which it stands, anywhere."""
    engine = connect(url)
    found: dict[str, set[str]] = {}
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            rows = connection.execute(text(f"SELECT * FROM {table.name}")).all()
            dumped = json.dumps([list(map(str, row)) for row in rows])
            for word in words:
                if word in dumped:
                    found.setdefault(word, set()).add(table.name)
    engine.dispose()
    return found


def test_a_database_error_does_not_say_what_was_written(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path / 'x.db'}")
    with pytest.raises(Exception, match="no such table") as error, engine.begin() as connection:
        connection.execute(identity.insert().values(participant="x", pid=PID, study="s", submission="t"))
    engine.dispose()
    assert PID not in str(error.value)
