from __future__ import annotations

from pathlib import Path

import pytest

from stillme.core.records import JudgeReply, JudgeRequest, Status
from stillme.engine.backends import BackendContext
from stillme.judges.planted import Planted, Settings, prepare
from stillme.protocol import Protocol

AXES = ("edit_success", "skin_tone", "race_drift")
TRUTH = {"score.edit_success": 4.8, "score.skin_tone": 3.0, "score.race_drift": 1.0}


def ask(judge: Planted, number: int, **changes: object) -> JudgeReply:
    fields = {"planted": TRUTH, "planted_labels": {"race": "black"}, **changes}
    return judge.judge(JudgeRequest(f"key {number}", b"", b"", "Do it.", AXES, **fields))  # type: ignore[arg-type]


def test_without_noise_it_reads_the_truth(protocol: Protocol) -> None:
    judge = Planted(Settings(noise=0), protocol)
    assert ask(judge, 1).scores == {"edit_success": 5, "skin_tone": 3, "race_drift": 1}


def test_the_same_request_gets_the_same_answer_and_another_draw_another(protocol: Protocol) -> None:
    one, other = Planted(Settings(noise=1), protocol), Planted(Settings(noise=1, draw=7), protocol)
    first = [ask(one, n).scores for n in range(50)]
    assert first == [ask(one, n).scores for n in range(50)]
    assert first != [ask(other, n).scores for n in range(50)]


def test_missing_answers_come_at_the_declared_rate_and_carry_no_score(protocol: Protocol) -> None:
    judge = Planted(Settings(refused=0.2, malformed=0.1), protocol)
    replies = [ask(judge, n) for n in range(3000)]
    shares = {s: sum(r.status is s for r in replies) / len(replies) for s in Status}
    assert shares[Status.REFUSED] == pytest.approx(0.2, abs=0.03)
    assert shares[Status.MALFORMED] == pytest.approx(0.1, abs=0.03)
    assert all(not r.scores for r in replies if r.status is not Status.OK)


def test_a_group_conditioned_error_touches_that_group_only(protocol: Protocol) -> None:
    settings = Settings.model_validate(
        {"noise": 0, "shifts": [{"axis": "skin_tone", "points": 1, "where": {"race": ["black"]}}]}
    )
    judge = Planted(settings, protocol)
    assert ask(judge, 1).scores["skin_tone"] == 4
    assert ask(judge, 1, planted_labels={"race": "white"}).scores["skin_tone"] == 3


def test_it_never_scores_an_edit_without_planted_truth(protocol: Protocol) -> None:
    reply = ask(Planted(Settings(), protocol), 1, planted={})
    assert reply.status is Status.REJECTED and not reply.scores


def test_scores_stay_on_the_scale(protocol: Protocol) -> None:
    judge = Planted(Settings(noise=5, lapse=0.1), protocol)
    assert {score for n in range(500) for score in ask(judge, n).scores.values()} == {1, 2, 3, 4, 5}


def test_it_is_marked_simulated_and_says_its_errors(protocol: Protocol) -> None:
    prepared = prepare(Settings(noise=0.25, lapse=0.01, refused=0.02), BackendContext(Path(), protocol))
    assert prepared.simulated
    assert prepared.description == (
        "Simulated: reads the planted truth with noise of 0.25 points, answers at random on 1.0% of the axes, "
        "gives no usable answer to 2.0% of the pairs."
    )
