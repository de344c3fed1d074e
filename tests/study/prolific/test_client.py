"""The client against a Prolific that really listens: what goes over the wire, and refusals as sentences."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillme.core.errors import InputError, SetupError, StillmeError
from stillme.study.prolific.client import Prolific, ProlificError, Submission, bonus_rows, connect, listed, single
from stillme.study.rehearsal.fake.app import Fault
from tests.study.prolific.stage import LIMITS, TOKEN, Stage


def sent(stage: Stage) -> tuple[str, str, Any]:
    """The last call, as it came over the wire."""
    assert stage.options.log
    method, path, body = stage.options.log[-1]
    return method, path.removeprefix("/api/v1"), body


def test_every_call_goes_over_the_wire_as_prolific_documents_it(stage: Stage) -> None:
    study = stage.publish()
    one = stage.finished().submission
    stage.run(lambda c: c.calculate(600, 6))
    assert sent(stage) == ("POST", "/study-cost-calculator/", {"reward": 600, "total_available_places": 6})
    stage.run(lambda c: c.update_study(study, {"total_available_places": 7}))
    assert sent(stage) == ("PATCH", f"/studies/{study}/", {"total_available_places": 7})
    stage.run(lambda c: c.transition_study(study, "PAUSE"))
    assert sent(stage) == ("POST", f"/studies/{study}/transition/", {"action": "PAUSE"})
    stage.run(lambda c: c.request_return(one, ["No data came."]))
    asked = {"request_return_reasons": ["No data came."]}
    assert sent(stage) == ("POST", f"/submissions/{one}/request-return/", asked)
    stage.run(lambda c: c.bulk_approve([one]))
    assert sent(stage) == ("POST", "/submissions/bulk-approve/", {"submission_ids": [one]})
    made = stage.run(lambda c: c.prepare_bonus(study, [(one, 100)]))
    body = {"study_id": study, "csv_bonuses": f"{one},1.00"}
    assert sent(stage) == ("POST", "/submissions/bonus-payments/", body)
    assert (made.amount, made.total) == (100, 133)
    stage.run(lambda c: c.pay_bonus(made.id))  # answered with 202 and nothing else
    assert sent(stage) == ("POST", f"/bulk-bonus-payments/{made.id}/pay/", {})
    assert stage.paid()[one] == [100]


def test_both_shapes_of_a_submission_are_understood(stage: Stage) -> None:
    study = stage.publish()
    rater = stage.finished()

    async def both(client: Prolific) -> tuple[list[Submission], Submission]:
        return [one async for one in client.submissions(study)], await client.submission(rater.submission)

    (in_list,), alone = stage.run(both)
    for found in (in_list, alone):
        assert (found.id, found.pid, found.study) == (rater.submission, rater.pid, study)
        assert found.status == "AWAITING REVIEW"
        assert found.code == stage.world.submissions[rater.submission]["entered_code"]
        assert found.started is not None
    assert in_list.seconds is not None
    assert rater.pid not in repr(in_list), "whoever prints a submission prints no person"


def test_what_prolific_leaves_out_is_missing_and_not_zero() -> None:
    found = listed({"id": "a", "status": "ACTIVE"}, "s")
    assert (found.seconds, found.started, found.code) == (None, None, "")
    assert single({"id": "a", "status": "timed out", "study_id": "s"}).status == "TIMED-OUT"
    with pytest.raises(ProlificError, match="lacks what it documents: status"):
        single({"id": "a"})


def test_pages_are_read_to_the_end(stage: Stage) -> None:
    study = stage.publish()
    for _ in range(230):
        stage.world.arrive(study, surplus=True)

    async def ids(client: Prolific) -> list[str]:
        return [one.id async for one in client.submissions(study)]

    assert sorted(stage.run(ids)) == sorted(stage.world.submissions)


def test_calls_that_are_turned_away_are_made_again(stage: Stage) -> None:
    stage.options.turn_away = 2
    study = stage.publish()
    assert [one["id"] for one in stage.world.studies.values()] == [study], "made once, though calls were refused"


def test_what_may_have_happened_is_not_asked_again(stage: Stage) -> None:
    study = stage.publish()
    one = stage.finished().submission
    made = stage.run(lambda c: c.prepare_bonus(study, [(one, 100)]))
    stage.options.faults.append(Fault("/pay/", 502, after=True))
    with pytest.raises(ProlificError, match="fault of its own") as found:
        stage.run(lambda c: c.pay_bonus(made.id))
    assert found.value.is_open
    assert stage.paid()[one] == [100], "once, and not again because the answer was lost"


@pytest.mark.parametrize(
    ("status", "said", "is_open"),
    [
        (400, "As asked for", False),
        (401, "token", False),
        (404, "does not know", False),
        (503, "of its own", True),
    ],
)
def test_refusals_are_sentences(stage: Stage, status: int, said: str, is_open: bool) -> None:
    study = stage.publish()
    stage.options.faults.append(Fault("/transition/", status, times=9))
    with pytest.raises(ProlificError, match=said) as found:
        stage.run(lambda c: c.transition_study(study, "PAUSE"))
    assert found.value.next_step
    assert found.value.is_open == is_open
    assert TOKEN not in str(found.value)


def test_prolifics_own_words_are_passed_on(stage: Stage) -> None:
    with pytest.raises(ProlificError, match="name: This field is required"):
        stage.run(lambda c: c.create_study({"reward": 1}))


def test_a_wrong_token_and_a_prolific_that_is_not_there_are_told_apart(stage: Stage) -> None:
    async def me(base: str, token: str) -> None:
        client = Prolific(token, base, LIMITS)
        try:
            await client.me()
        finally:
            await client.close()

    with pytest.raises(ProlificError, match="does not accept this token"):
        asyncio.run(me(f"{stage.base}/api/v1", "another"))
    with pytest.raises(ProlificError, match="does not answer"):
        asyncio.run(me("http://127.0.0.1:1/api/v1", TOKEN))


@pytest.mark.parametrize("value", ["", "../studies", "a/b", "a?b", "a b", "=cmd()", "a,1.00\nb", "ä", "a" * 65])
def test_nothing_but_an_id_gets_into_a_path_or_a_row(value: str) -> None:
    client = Prolific(TOKEN)
    with pytest.raises(InputError, match="no submission"):
        asyncio.run(client.submission(value))
    with pytest.raises(InputError, match="no submission"):
        bonus_rows([(value, 100)])


def test_bonus_rows_are_in_major_units() -> None:
    assert bonus_rows([("a1", 100), ("b2", 5), ("c3", 12345)]) == "a1,1.00\nb2,0.05\nc3,123.45"


def test_the_token_comes_from_the_environment_or_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("secret-token\n")
    path.chmod(0o644)
    with pytest.raises(SetupError, match="can be read by others") as found:
        connect({"PROLIFIC_TOKEN_FILE": str(path)})
    assert "secret-token" not in str(found.value)
    path.chmod(0o600)
    assert connect({"PROLIFIC_TOKEN_FILE": str(path)}).base == "https://api.prolific.com/api/v1"
    with pytest.raises(SetupError, match="no token"):
        connect({})
    with pytest.raises(StillmeError, match="more than one word"):
        connect({"PROLIFIC_TOKEN": "two words"})


def test_the_token_is_never_sent_unencrypted_to_another_machine() -> None:
    with pytest.raises(InputError, match="only asked over https"):
        connect({"PROLIFIC_TOKEN": "t", "PROLIFIC_API": "http://api.example.org/api/v1"})


def test_people_are_sent_to_prolific_and_in_rehearsals_to_the_fake() -> None:
    assert Prolific(TOKEN).site == "https://app.prolific.com"
    assert Prolific(TOKEN, "http://127.0.0.1:8641/api/v1").site == "http://127.0.0.1:8641"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "id",
    "status",
    "participant",
    "participant_id",
    "study_id",
    "study_code",
    "entered_code",
    "started_at",
    "completed_at",
    "time_taken",
    "return_requested",
    "bonus_payments",
]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
@settings(max_examples=100, deadline=None)
def test_an_answer_of_another_shape_is_a_sentence_and_no_crash(found: dict[str, Any]) -> None:
    for read in (single, lambda one: listed(one, "s")):
        try:
            assert isinstance(read(found), Submission)
        except ProlificError as error:
            assert "lacks what it documents" in error.sentence
