"""Coordinators: accounts, logging in, what they see and what they can do; never who a rater is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from sqlalchemy import select, update

from stillme.core.errors import InputError
from stillme.study.db import people, seats
from stillme.study.db.tables import admin, admin_session, audit, bonus, identity, participant, payment, sitting
from stillme.study.server import coordinators, overview
from stillme.study.server.overview import Comment
from tests.study.office import NAME, PASSWORD, Office, log_in, op, token_of, varied

PAGES = ("/admin", "/admin/comments", "/admin/log", "/admin/raters/r0123456789ab", "/admin/raters/{rater}")
ACTIONS = ("/admin/logout", "/admin/pause", "/admin/raters/{rater}/exclude", "/admin/raters/{rater}/release")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    made.close()


def act(browser: Any, address: str, **fields: str) -> Any:
    """Sends a form of a page of this session."""
    token = token_of(browser.get("/admin").text)
    return browser.post(address, data={"token": token, **fields})


def log_of(office: Office) -> list[tuple[str, str, str, str]]:
    rows = office.do(lambda c: c.execute(select(audit).order_by(audit.c.id)).all())
    return [(row.who, row.what, row.about, row.detail) for row in rows]


def test_an_account_is_made_listed_and_removed(office: Office) -> None:
    engine = office.study.store.engine
    coordinators.add(engine, "bea@example.org", PASSWORD, office.now)
    coordinators.add(engine, NAME, PASSWORD, office.now)
    assert office.do(coordinators.names) == [NAME, "bea@example.org"]
    kept = office.do(lambda c: c.scalar(select(admin.c.password).where(admin.c.name == NAME)))
    assert kept is not None and kept.startswith("$argon2id$") and PASSWORD not in kept
    with pytest.raises(InputError, match="11 characters"):
        coordinators.add(engine, "carl", "x" * 11, office.now)
    with pytest.raises(InputError, match="cannot be"):
        coordinators.add(engine, "carl\0", PASSWORD, office.now)
    with pytest.raises(InputError, match="no coordinator"):
        coordinators.remove(engine, "nobody", office.now)


def test_a_new_password_ends_what_the_old_one_opened(office: Office) -> None:
    browser = office.coordinator()
    coordinators.add(office.study.store.engine, NAME, "another password", office.now)
    assert browser.get("/admin").status_code == 303
    assert log_in(browser).status_code == 401
    assert log_in(browser, NAME, "another password").status_code == 303
    assert [what for _, what, *_ in log_of(office)][:3] == ["add coordinator", "login", "new password"]


def test_whoever_is_removed_is_out_at_once(office: Office) -> None:
    browser = office.coordinator()
    assert browser.get("/admin").status_code == 200
    coordinators.remove(office.study.store.engine, NAME, office.now)
    assert browser.get("/admin").headers["location"] == "/admin/login"
    assert log_in(browser).status_code == 401


def test_nobody_sees_anything_without_logging_in(office: Office) -> None:
    rater = office.rater(office.seat("anna"))
    browser = office.browser()
    for page in PAGES:
        answer = browser.get(page.format(rater=rater))
        assert (answer.status_code, answer.headers["location"], answer.text) == (303, "/admin/login", "")
    for action in ACTIONS:
        assert browser.post(action.format(rater=rater), data={"reason": "x", "token": "x"}).status_code == 403
    assert [what for _, what, *_ in log_of(office)] == []


def test_a_wrong_password_and_an_unknown_name_are_answered_alike(office: Office) -> None:
    coordinators.add(office.study.store.engine, NAME, PASSWORD, office.now)
    browser = office.browser()
    wrong, unknown = log_in(browser, NAME, "not the password"), log_in(browser, "nobody", "not the password")
    assert (wrong.status_code, unknown.status_code) == (401, 401)
    assert wrong.text == unknown.text and "not right" in wrong.text
    assert log_of(office)[1:] == [
        (NAME, "failed login", "", log_of(office)[1][3]),
        ("unknown name", "failed login", "", log_of(office)[1][3]),
    ]


def test_unknown_names_cost_the_same_work(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def verify(self: PasswordHasher, known: str, given: str) -> bool:
        checked.append(known)
        return True

    monkeypatch.setattr(PasswordHasher, "verify", verify)
    assert coordinators.check(None, "whatever") == (False, "")
    assert len(checked) == 1 and checked[0].startswith("$argon2id$"), "a hash is checked for nobody, too"


def test_a_hash_of_other_parameters_is_made_anew(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    office.coordinator()
    weak = office.do(lambda c: c.scalar(select(admin.c.password)))
    monkeypatch.undo()
    assert log_in(office.browser()).status_code == 303
    kept = office.do(lambda c: c.scalar(select(admin.c.password)))
    assert kept is not None and weak is not None
    assert PasswordHasher().check_needs_rehash(weak) and not PasswordHasher().check_needs_rehash(kept)
    assert log_in(office.browser()).status_code == 303


def test_guessing_is_slowed_down_by_address_and_by_name(office: Office) -> None:
    coordinators.add(office.study.store.engine, NAME, PASSWORD, office.now)
    office.do(lambda c: c.execute(update(admin).values(password="$argon2id$broken")))  # quick to refuse
    guessing = office.browser()
    answers = [log_in(guessing, NAME, f"guess number {n}") for n in range(11)]
    assert [one.status_code for one in answers] == [401] * 10 + [429]
    assert answers[-1].headers["retry-after"] == "30" and "30 seconds" in answers[-1].text
    elsewhere = [log_in(office.browser(f"198.51.100.{n}"), NAME, "a guess").status_code for n in range(21)]
    assert elsewhere == [401] * 20 + [429], "many addresses do not help against one name"
    assert log_in(office.browser("198.51.100.99"), "bea", "a guess").status_code == 401
    office.now += 31
    assert log_in(guessing, NAME, "another guess").status_code == 401


def test_a_session_is_another_one_after_logging_in_and_ends(office: Office) -> None:
    coordinators.add(office.study.store.engine, NAME, PASSWORD, office.now)
    browser = office.browser()
    browser.get("/admin/login")
    before = browser.cookies["stillme-admin"]
    log_in(browser)
    after = browser.cookies["stillme-admin"]
    assert before != after
    stored = office.do(lambda c: c.scalars(select(admin_session.c.token_hash)).all())
    assert stored == [office.keys.token_hash(after)], "only the hash of a session is kept"
    office.now += 8 * 3600 - 1
    assert browser.get("/admin").status_code == 200
    office.now += 2
    assert browser.get("/admin").status_code == 303


def test_logging_out_ends_the_session_for_good(office: Office) -> None:
    browser = office.coordinator()
    kept = browser.cookies["stillme-admin"]
    assert act(browser, "/admin/logout").headers["location"] == "/admin/login"
    thief = office.browser()
    thief.cookies.set("stillme-admin", kept)
    assert thief.get("/admin").status_code == 303


def test_forms_of_other_sessions_change_nothing(office: Office) -> None:
    browser, other = office.coordinator(), office.coordinator()
    foreign = token_of(other.get("/admin").text)
    rater = office.rater(office.seat("anna"))
    for token in ("", "x", foreign, "ü"):
        for address in ("/admin/pause", "/admin/logout", f"/admin/raters/{rater}/exclude"):
            answer = browser.post(address, data={"token": token, "entry": "paused", "reason": "x"})
            assert answer.status_code == 403
    evil = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    token = token_of(browser.get("/admin").text)
    assert browser.post("/admin/pause", data={"token": token, "entry": "paused"}, headers=evil).status_code == 403
    assert office.do(lambda c: c.scalar(select(participant.c.excluded))) is None
    assert "Entry is paused" not in browser.get("/admin").text


def test_a_login_form_of_somebody_else_logs_nobody_in(office: Office) -> None:
    coordinators.add(office.study.store.engine, NAME, PASSWORD, office.now)
    attacker, victim = office.browser(), office.browser()
    token = token_of(attacker.get("/admin/login").text)
    victim.get("/admin/login")
    answer = victim.post("/admin/login", data={"token": token, "name": NAME, "password": PASSWORD})
    assert answer.status_code == 403


def test_the_overview_counts_what_there_is(tmp_path: Path, database: str) -> None:
    office = Office(tmp_path, database)
    complete = office.seat("complete")
    office.rate(complete, varied)
    office.finish(complete)
    at_work = office.seat("working")
    office.rate(at_work, varied, items=2)
    returned = office.seat("returned")
    office.do(lambda c: seats.free(c, returned, "returned", office.now))
    office.enter("waiting")
    declined = office.enter("declined")
    office.do(lambda c: c.execute(update(participant).where(participant.c.id == declined).values(consented=None)))
    office.do(lambda c: people.decline(c, declined, office.now))
    for _ in range(3):  # a person who looks again is still one person
        office.do(lambda c: coordinators.turned_away(c, office.keys, declined, office.now))
    office.do(lambda c: c.execute(payment.insert().values(id="p1", state="planned", at=office.now)))
    person = office.do(lambda c: seats.sit(c, complete)).participant
    paid = {"participant": person, "payment": "p1", "amount": 100, "reason": "3 of 3"}
    office.do(lambda c: c.execute(bonus.insert().values(paid)))

    seen = office.do(lambda c: overview.overview(c, office.bundle, office.keys, office.now))
    assert [(card.complete, card.held, card.free) for card in seen.cards] == [(1, 1, 1), (0, 0, 3)]
    assert {place: n for place, n in seen.places.items() if n} == {
        "complete": 1,
        "active": 1,
        "returned": 1,
        "tutored": 1,
        "declined": 1,
    }
    assert (seen.entered, seen.turned_away, seen.complete, seen.of) == (5, 1, 1, 6)
    assert (seen.cost.rewards, seen.cost.bonuses, seen.cost.total) == (6.0, {"planned": 1.0}, 7.0)
    assert [(one.rater, one.done, one.of) for one in seen.seats] == [
        (office.rater(complete), 4, 4),
        (office.rater(at_work), 2, 4),
    ]
    page = office.coordinator().get("/admin").text
    office.close()
    for said in ("1 of 6", "7.00 USD", "2 of 4", "Found no free place", seen.seats[1].rater, "not Krippendorff"):
        assert said in page


def test_pay_below_the_floor_is_said_in_words(office: Office) -> None:
    sittings = [office.seat(f"p{n}") for n in range(3)]
    for sat in sittings:
        office.rate(sat, varied)
    office.now += 3600
    for sat in sittings:
        office.finish(sat)
    page = office.coordinator().get("/admin").text
    assert "Pay is below the floor." in page and "the floor is 12.00" in page


def test_pages_show_neither_ids_nor_markup(office: Office) -> None:
    pid = "5f0000000000000000000abc"
    sat = office.seat(pid)
    item = office.do(lambda c: seats.sit(c, sat)).deal.screens[0].item
    text = "<script>alert(1)</script> & <b>I know this person</b>"
    office.send(sat, [op("comment", item, value=text)])
    browser, rater = office.coordinator(), office.rater(sat)
    secrets = [
        pid,
        f"s-{pid}",
        sat,
        office.do(lambda c: seats.code(c, "COMPLETED")),
        browser.cookies["stillme-admin"],
    ]
    for page in (*PAGES[:3], f"/admin/raters/{rater}"):
        answer = browser.get(page)
        assert answer.status_code == 200
        assert [secret for secret in secrets if secret in answer.text] == []
        assert "<script>alert" not in answer.text and " style=" not in answer.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in browser.get("/admin/comments").text
    assert (NAME, "view comments", "", "") in log_of(office)


def test_comments_come_latest_first(office: Office) -> None:
    for pid in ("one", "two"):
        sat = office.seat(pid)
        item = office.do(lambda c, s=sat: seats.sit(c, s)).deal.screens[0].item  # type: ignore[misc]
        office.now += 10
        office.send(sat, [op("comment", item, value=f"by {pid}")])
    found: list[Comment] = office.do(lambda c: overview.comments(c, office.keys))
    assert [one.text for one in found] == ["by two", "by one"]


def test_a_rater_is_excluded_and_included_with_reasons(office: Office) -> None:
    sat = office.seat("anna")
    browser, rater = office.coordinator(), office.rater(sat)
    assert act(browser, f"/admin/raters/{rater}/exclude", reason=" ").status_code == 422
    assert act(browser, f"/admin/raters/{rater}/exclude", reason="x" * 501).status_code == 422
    assert act(browser, f"/admin/raters/{rater}/exclude", reason="wrote that\0 she guessed").status_code == 303
    assert "wrote that she guessed" in browser.get(f"/admin/raters/{rater}").text
    assert "left out" in browser.get("/admin").text
    assert act(browser, f"/admin/raters/{rater}/include", reason="a mix-up").status_code == 303
    assert [line for line in log_of(office) if line[1] in ("exclude", "include")] == [
        (NAME, "exclude", rater, "wrote that she guessed"),
        (NAME, "include", rater, "a mix-up"),
    ]
    state = office.do(
        lambda c: c.execute(
            select(participant.c.excluded, sitting.c.state).select_from(participant.join(sitting))
        ).one()
    )
    assert tuple(state) == (None, "active"), "marks change nothing else"


def test_a_seat_is_released_for_somebody_else_but_never_a_complete_one(office: Office) -> None:
    sat, done = office.seat("anna"), office.seat("bea")
    office.rate(done, varied)
    office.finish(done)
    browser = office.coordinator()
    assert act(browser, f"/admin/raters/{office.rater(done)}/release", reason="x").status_code == 409
    assert act(browser, f"/admin/raters/{office.rater(sat)}/release", reason="asked for it").status_code == 303
    assert act(browser, f"/admin/raters/{office.rater(sat)}/release", reason="again").status_code == 409
    card = office.do(lambda c: seats.board(c, office.bundle))["t00"]
    assert (card.complete, card.held, card.free) == (1, 0, 2)
    assert log_of(office)[-1] == (NAME, "release seat", office.rater(sat), "t00: asked for it")


@pytest.mark.parametrize("address", ["/admin/raters/nobody/exclude", "/admin/raters/{rater}/promote"])
def test_what_is_not_there_is_not_done(office: Office, address: str) -> None:
    browser, rater = office.coordinator(), office.rater(office.seat("anna"))
    assert act(browser, address.format(rater=rater), reason="x").status_code == 404
    assert browser.get("/admin/raters/nobody").status_code == 404


def test_entry_is_paused_for_new_people_only(office: Office) -> None:
    known = office.browser()
    assert known.get("/p/start?PROLIFIC_PID=early&SESSION_ID=s1").status_code == 303
    browser = office.coordinator()
    assert act(browser, "/admin/pause", entry="maybe").status_code == 422
    assert act(browser, "/admin/pause", entry="paused").status_code == 303
    assert "Entry is paused" in browser.get("/admin").text
    late = office.browser().get("/p/start?PROLIFIC_PID=late&SESSION_ID=s2")
    assert late.status_code == 409 and "stillme-study" not in late.cookies
    assert office.browser().get("/p/start?PROLIFIC_PID=early&SESSION_ID=s1").status_code == 303
    assert act(browser, "/admin/pause", entry="open").status_code == 303
    assert office.browser().get("/p/start?PROLIFIC_PID=late&SESSION_ID=s2").status_code == 303


def test_the_log_is_shown(office: Office) -> None:
    browser = office.coordinator()
    page = browser.get("/admin/log").text
    assert "add coordinator" in page and "login" in page and "command line" in page


def test_whoever_finds_no_place_is_counted_once(tmp_path: Path) -> None:
    office = Office(tmp_path, tasks=1, seats=1)
    office.seat("first")
    browser = office.browser()
    browser.get("/p/start?PROLIFIC_PID=late&SESSION_ID=s-late")
    late = office.do(lambda c: c.scalars(select(identity.c.participant).where(identity.c.pid == "late")).one())
    office.do(lambda c: people.note(c, late, "guided", office.now))
    office.do(lambda c: people.consent(c, late, "c1", office.now))
    office.do(lambda c: people.note(c, late, "tutored", office.now))
    for _ in range(3):
        assert "All places are taken" in browser.get("/tasks").text
    counted = office.do(coordinators.surplus)
    office.close()
    assert counted == 1
