"""What is said of raters, on both databases; and how often somebody may ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillme.stats import raters as analysis
from stillme.study.bundle import Checks
from stillme.study.db import attention, seats
from stillme.study.db.deal import Screen
from stillme.study.server import coordinators, quality
from stillme.study.server.limits import Buckets
from stillme.study.server.quality import Agreement, Quality
from tests.study.office import Office, op, varied


@pytest.fixture
def office(tmp_path: Path, database: str) -> Iterator[Office]:
    made = Office(tmp_path, database, checks=Checks(count=(3, 3), pass_share=0.8))
    yield made
    made.close()


def found(office: Office, sitting: str) -> Quality:
    everybody = office.do(lambda c: quality.raters(c, office.bundle, office.keys))
    return next(one for one in everybody if one.sitting == sitting)


def rules(one: Quality) -> set[str]:
    return {flag.rule for flag in one.flags}


def test_a_careful_rater_is_not_marked(office: Office) -> None:
    sat = office.seat("anna")
    office.rate(sat, varied)
    office.finish(sat)
    one = found(office, sat)
    assert (one.passed, one.checks, one.unchecked) == (3, 3, 0)
    assert (one.answers, one.asked, one.unanswered_share) == (24, 24, 0)
    assert (one.median_seconds, one.quick_share, one.cannot_share) == (5.0, 0.0, 0.0)
    assert one.minutes == pytest.approx(80 / 60)
    assert one.rater == office.rater(sat) and "anna" not in str(one)
    assert (one.flags, one.reasons, one.is_removed) == ((), "", False)


def test_every_rule_says_what_it_found(office: Office) -> None:
    quick = office.seat("quick")
    office.rate(quick, lambda screen, field: "2", ms=1_500, attentive=False)
    office.finish(quick)
    one = found(office, quick)
    assert rules(one) == {quality.FAST, quality.QUICK, quality.STRAIGHT, quality.ATTENTION}
    assert "median of 1.5 s an answer, below 3 s" in one.reasons
    assert "100% of all answers are the same (more than 80%)" in one.reasons
    assert "0 of 3 attention checks passed, 3 needed" in one.reasons
    assert one.is_removed and one.attention_share == 0


def test_straight_lines_and_quick_answers_are_for_a_person_to_judge(office: Office) -> None:
    sat = office.seat("same")
    office.rate(sat, lambda screen, field: "1")
    office.finish(sat)
    one = found(office, sat)
    assert rules(one) == {quality.STRAIGHT} and not one.is_removed


def test_cannot_determine_is_an_answer_and_no_straight_line(office: Office) -> None:
    sat = office.seat("blind")
    office.rate(sat, lambda screen, field: varied(screen, field) if "success" in field else "cannot_determine")
    one = found(office, sat)
    assert one.cannot_share == pytest.approx(2 / 3)
    assert one.unanswered_share == 0
    assert quality.STRAIGHT not in rules(one)


def test_who_is_still_at_work_is_not_called_incomplete_or_inattentive_too_early(office: Office) -> None:
    sat = office.seat("slow")
    office.rate(sat, varied, items=1)
    assert rules(found(office, sat)) == set()
    office.do(lambda c: seats.free(c, sat, "returned", office.now))
    one = found(office, sat)
    assert rules(one) == {quality.INCOMPLETE} and "75% of questions not answered (more than 10%)" in one.reasons


def test_a_check_that_cannot_be_made_up_for_is_said_at_once(office: Office) -> None:
    sat = office.seat("careless")
    office.rate(sat, varied, items=3, attentive=False)
    assert quality.ATTENTION in rules(found(office, sat))


def test_a_shared_address_marks_both_and_bars_nobody(office: Office) -> None:
    sittings = [office.seat(pid, address="198.51.100.4") for pid in ("one", "two")]
    alone = office.seat("three", address="198.51.100.5")
    for sat in sittings:
        one = found(office, sat)
        assert rules(one) == {quality.SHARED_ADDRESS} and not one.is_removed
        assert one.reasons == "1 other person came from the same address"
    assert found(office, alone).alike == 0


def test_loss_of_focus_is_counted(office: Office) -> None:
    sat = office.seat("away")
    item = office.do(lambda c: seats.sit(c, sat)).deal.screens[0].item
    office.send(sat, [op("away", item, ms=30_000) for _ in range(quality.MANY_AWAY)])
    one = found(office, sat)
    assert rules(one) == {quality.AWAY}
    assert one.reasons == "the page lost the focus 10 times, 5.0 minutes in all"


def test_an_exclusion_only_marks(office: Office) -> None:
    sat = office.seat("anna")
    office.rate(sat, varied)
    person = found(office, sat).participant
    office.do(lambda c: coordinators.exclude(c, office.keys, person, "wrote so", "bea", office.now))
    one = found(office, sat)
    assert (one.excluded, one.excluded_by, one.is_removed, one.answers) == ("wrote so", "bea", True, 24)
    office.do(lambda c: coordinators.include(c, office.keys, person, "a mistake", "bea", office.now))
    assert not found(office, sat).is_removed


def test_agreement_counts_pairs_about_the_same_picture(office: Office) -> None:
    first, second, third = (office.seat(pid) for pid in ("one", "two", "three"))
    office.rate(first, lambda screen, field: "2")
    office.rate(second, lambda screen, field: "3" if "tone" in field else "2")
    office.rate(third, lambda screen, field: "cannot_determine" if "age" in field else "5", items=2)
    by_question = {one.question: one for one in office.do(lambda c: quality.agreement(c, office.bundle))}
    # 8 outputs by two raters, 4 of them by a third
    assert by_question["success"] == Agreement("success", pairs=8 + 2 * 4, same=8, near=8)
    assert by_question["tone"] == Agreement("tone", pairs=8 + 2 * 4, same=0, near=8)
    assert by_question["age"] == Agreement("age", pairs=8, same=8, near=8)


def test_who_gave_the_seat_back_or_is_excluded_is_not_in_the_agreement(office: Office) -> None:
    sittings = [office.seat(pid) for pid in ("one", "two", "three")]
    for sat in sittings:
        office.rate(sat, lambda screen, field: "2")
    office.do(lambda c: seats.free(c, sittings[0], "returned", office.now))
    person = found(office, sittings[1]).participant
    office.do(lambda c: coordinators.exclude(c, office.keys, person, "x", "bea", office.now))
    assert [one.pairs for one in office.do(lambda c: quality.agreement(c, office.bundle))] == [0, 0, 0]


def test_left_and_right_are_compared_by_what_was_shown_there(tmp_path: Path) -> None:
    office = Office(tmp_path, layout="triplet", items=8, tasks=1)
    chosen = {item.id: item.outputs[0].id for item in office.bundle.items}

    def same_output(screen: Screen, field: str) -> str:
        return screen.place[chosen[screen.item]]

    sittings = [office.seat(pid) for pid in ("one", "two")]
    for sat in sittings:
        office.rate(sat, same_output)
    one, other = (office.do(lambda c, of=of: seats.sit(c, of)).deal for of in sittings)  # type: ignore[misc]
    agreed = office.do(lambda c: quality.agreement(c, office.bundle))
    office.close()
    shown = [{screen.item: screen.order for screen in deal.screens} for deal in (one, other)]
    assert shown[0] != shown[1], "they saw the pictures at different sides"
    assert agreed == [Agreement("identity", 8, 8, None), Agreement("age", 8, 8, None)]


@pytest.mark.parametrize("checks", [0, 1, 2, 3, 4, 5])
def test_the_analysis_asks_for_as_many_checks(checks: int) -> None:
    assert attention.needed(checks, 0.8) == analysis.needed(checks, 0.8)
    assert quality.MANY_QUICK == analysis.MANY_QUICK


def test_a_bucket_gives_a_burst_then_makes_one_wait() -> None:
    buckets = Buckets(rate=0.5, burst=3)
    assert [buckets.take("a", 0.0) for _ in range(4)] == [0, 0, 0, 2.0]
    assert buckets.take("b", 0.0) == 0, "another key has a bucket of its own"
    assert buckets.take("a", 1.0) == pytest.approx(1.0)
    assert buckets.take("a", 2.0) == 0
    buckets.forget("a")
    assert buckets.take("a", 2.0) == 0


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(-10, 10)), max_size=80))
def test_a_bucket_never_gives_more_than_it_may_and_stays_small(asked: list[tuple[str, float]]) -> None:
    buckets = Buckets(rate=1, burst=2, most=8)
    now, taken = 0.0, dict.fromkeys("abcdefgh", 0)
    passed = 0.0
    for key, step in asked:
        now += step  # clocks are set back, too
        passed += max(step, 0)
        taken[key] += buckets.take(key, now) == 0
    assert len(buckets) <= 8
    assert all(count <= 2 + passed + 1e-6 for count in taken.values())


def test_buckets_forget_whoever_was_silent_longest() -> None:
    buckets = Buckets(rate=1, burst=1, most=100)
    for n in range(1_000):
        buckets.take(str(n), 0.0)
    assert len(buckets) == 100
