"""Publishing: the wage and the cost before anything, one draft whatever happens, what Prolific is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from stillme.core.errors import ConfigIssuesError, InputError
from stillme.study.bundle import Pay
from stillme.study.db import seats
from stillme.study.db.tables import submission
from stillme.study.prolific import marks, overview, publish, wage
from tests.study.prolific.stage import PUBLIC, Stage


def poor(**changes: Any) -> Pay:
    return Pay(**{"currency": "USD", "reward": 3.0, "bonus": 1.0, "bonus_above": 0.9, "per_hour": 12.0, **changes})


def test_a_draft_says_everything_that_prolific_needs(stage: Stage) -> None:
    study = stage.publish(go=False, filters=({"filter_id": "age", "selected_range": {"lower": 18, "upper": 99}},))
    made = stage.world.studies[study]
    assert made["status"] == "UNPUBLISHED"
    assert (made["reward"], made["total_available_places"]) == (600, 6)
    assert made["external_study_url"] == (
        f"{PUBLIC}/p/start?PROLIFIC_PID={{{{%PROLIFIC_PID%}}}}&STUDY_ID={{{{%STUDY_ID%}}}}"
        "&SESSION_ID={{%SESSION_ID%}}"
    )
    assert made["is_external_study_url_secure"] is True
    assert made["prolific_id_option"] == "url_parameters"
    assert made["device_compatibility"] == ["desktop"]
    assert made["filters"][0]["filter_id"] == "age"
    assert (made["estimated_completion_time"], made["maximum_allowed_time"]) == (30, 120)
    codes = {one["code_type"]: one for one in made["completion_codes"]}
    assert {kind: one["actions"][0]["action"] for kind, one in codes.items()} == {
        "COMPLETED": "MANUALLY_REVIEW",
        "FAILED_ATTENTION_CHECK": "MANUALLY_REVIEW",
        "INCOMPATIBLE_DEVICE": "REQUEST_RETURN",
        "NO_CONSENT": "REQUEST_RETURN",
    }
    assert codes["COMPLETED"]["code"] == stage.do(lambda c: seats.code(c, "COMPLETED"))
    assert codes["NO_CONSENT"]["actions"][0]["return_reason"]


def test_nothing_is_published_without_being_told_so(stage: Stage) -> None:
    study = stage.publish(go=False)
    assert stage.said[-1].startswith("Nobody sees it yet.")
    assert stage.publish(go=True) == study
    assert stage.world.studies[study]["status"] == "ACTIVE"
    assert stage.publish(go=True) == study
    assert "nothing was published again" in stage.said[-1]
    assert len(stage.world.studies) == 1


def test_the_wage_and_the_cost_are_said_before_anything_is_made(stage: Stage) -> None:
    stage.publish()
    assert stage.said[0] == ("6.00 USD for 30 minutes (as estimated) is 12.00 USD an hour; the floor is 12.00.")
    assert stage.said[1] == "6 places × 6.00 USD cost 48.00 with fees and taxes."
    assert "up to 8.00 more with fees; in all at most 56.00 USD" in stage.said[2]


def test_a_study_below_the_floor_does_not_start_unless_told_so(staged: Callable[..., Stage]) -> None:
    stage = staged(pay=poor())
    with pytest.raises(InputError, match=r"6\.00 USD an hour; the floor is 12\.00") as said:
        stage.publish()
    assert "Pay 6.00 USD (--reward)" in said.value.next_step
    assert stage.world.studies == {}
    stage.publish(reward=6.0)
    assert stage.world.studies[stage.study]["reward"] == 600


def test_below_the_floor_can_be_meant(staged: Callable[..., Stage]) -> None:
    stage = staged(pay=poor())
    assert stage.publish(below_floor=True)


def test_a_pilot_that_took_longer_stops_the_study_from_growing(stage: Stage) -> None:
    """The median of those who finished counts, not what was estimated."""
    stage.publish(places=3)
    raters = [stage.finished() for _ in range(3)]
    stage.run(lambda c: overview.overview(stage.store, c, stage.bundle, stage.clock, stage.say))
    for rater, minutes in zip(raters, (20, 40, 90), strict=True):
        slow = update(submission).where(submission.c.id == rater.submission).values(seconds=minutes * 60)
        stage.do(lambda c, slow=slow: c.execute(slow))  # type: ignore[misc]

    def grow(below_floor: bool = False) -> None:
        stage.run(lambda c: publish.set_places(stage.store, c, stage.bundle, 6, stage.say, below_floor))

    with pytest.raises(InputError, match=r"40 minutes \(the median of 3 people\) is 9\.00 USD an hour"):
        grow()
    assert stage.world.studies[stage.study]["total_available_places"] == 3
    grow(below_floor=True)
    assert stage.world.studies[stage.study]["total_available_places"] == 6


def test_two_people_are_no_measurement(stage: Stage) -> None:
    stage.publish()
    stage.finished(), stage.finished()
    assert stage.do(lambda c: wage.measured(c, stage.bundle)).people == 0


def test_the_least_reward_that_is_enough_is_enough() -> None:
    for minutes in (7, 25, 29.99, 30, 31, 43):
        found = wage.Wage("USD", 0.01, minutes, 12.0, 0)
        assert wage.Wage("USD", found.enough, minutes, 12.0, 0).is_enough
        assert not wage.Wage("USD", found.enough - 0.02, minutes, 12.0, 0).is_enough


@pytest.mark.parametrize("places", [0, -1, 7])
def test_more_places_than_seats_would_bring_people_in_vain(stage: Stage, places: int) -> None:
    with pytest.raises(InputError, match="6 seats"):
        stage.publish(places=places)


def test_places_only_grow_up_to_the_seats(stage: Stage) -> None:
    stage.publish(places=3)
    for places in (2, 7):
        with pytest.raises(InputError, match="Places can only grow"):
            stage.run(lambda c, places=places: publish.set_places(stage.store, c, stage.bundle, places, stage.say))  # type: ignore[misc]
    stage.run(lambda c: publish.set_places(stage.store, c, stage.bundle, 5, stage.say))
    assert stage.world.studies[stage.study]["total_available_places"] == 5


def test_with_taskflow_prolific_spreads_people_over_the_tasks(stage: Stage) -> None:
    stage.publish(taskflow=True)
    details = stage.world.studies[stage.study]["access_details"]
    assert [(one["external_url"][-9:], one["total_allocation"]) for one in details] == [
        ("&task=t00", 3),
        ("&task=t01", 3),
    ]
    came = [stage.world.arrive(stage.study)["url"][-3:] for _ in range(6)]
    assert came == ["t00"] * 3 + ["t01"] * 3
    with pytest.raises(InputError, match="exactly as many places"):
        stage.publish(taskflow=True, places=3)


def test_people_are_only_sent_to_https(stage: Stage) -> None:
    options = publish.Options(public="http://study.example.org")
    with pytest.raises(InputError, match="address with https"):
        stage.run(lambda c: publish.publish(stage.store, c, stage.bundle, options, stage.say))


def test_another_currency_than_the_account_has_is_refused(staged: Callable[..., Stage]) -> None:
    stage = staged(pay=poor(currency="GBP", reward=9.0))
    with pytest.raises(InputError, match="pays in GBP, this account at Prolific in USD"):
        stage.publish()


def test_filters_come_from_a_file_and_their_faults_are_named(tmp_path: Path) -> None:
    path = tmp_path / "filters.json"
    path.write_text(json.dumps([{"filter_id": "age", "selected_range": {"lower": 18, "upper": 65}}]))
    assert publish.read_filters(path)[0]["filter_id"] == "age"
    for text, fault in (("{", "is not JSON"), ("{}", "not a list of filters"), ('[{"id": 1}]', "filter_id")):
        path.write_text(text)
        with pytest.raises(ConfigIssuesError, match=fault):
            publish.read_filters(path)
    with pytest.raises(ConfigIssuesError, match="cannot be read"):
        publish.read_filters(tmp_path / "none.json")


def test_a_study_is_paused_started_and_stopped(stage: Stage) -> None:
    stage.publish()
    for what, status in (("pause", "PAUSED"), ("start", "ACTIVE"), ("stop", "AWAITING REVIEW")):
        stage.run(lambda c, what=what: publish.move(stage.store, c, what, stage.say))  # type: ignore[misc]
        assert stage.world.studies[stage.study]["status"] == status


def test_the_overview_names_nobody(stage: Stage) -> None:
    stage.publish()
    rater = stage.finished()
    stage.said.clear()
    stage.run(lambda c: overview.overview(stage.store, c, stage.bundle, stage.clock, stage.say))
    said = "\n".join(stage.said)
    assert "1 of 6 places are taken" in said
    assert "1 awaiting review" in said
    assert rater.pid not in said


def test_a_draft_that_was_deleted_at_prolific_is_made_again(stage: Stage) -> None:
    first = stage.publish(go=False)
    stage.world.studies.clear()
    second = stage.publish(go=False)
    assert first != second
    assert stage.do(lambda c: marks.study(c)) == second
