from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from stillme import editors, judges, pipeline, sources
from stillme.analysis.frames import tidy
from stillme.core import images
from stillme.core.errors import IncompleteError, InputError
from stillme.core.records import EditReply, JudgeReply, JudgeRequest, Portrait, Status
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan.config import Config
from stillme.plan.design import load_design, make_design
from stillme.steps.forecast import look_ahead
from tests.conftest import page
from tests.core.test_images import png_without_palette
from tests.scripted import ACTORS, Editor, Judge, Source

Load = Callable[..., Config]


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch, without_page: None) -> None:
    """The test backends, beside the real ones; what they did is in the run's rows."""
    for part in (editors, judges, sources):
        monkeypatch.setitem(part.BACKENDS, "scripted", "tests.scripted")


def few(load: Load, editor: Editor | None = None, judge: Judge | None = None, **changes: object) -> Config:
    """One portrait, three prompts, one editor, one judge, one thread."""
    ACTORS.update(editor=editor, judge=judge)
    groups = {"race": ["white"], "gender": ["female"], "age": ["20s"]}
    planted = {"kind": "planted", "settings": {"truth": "even"}}
    acting = {"kind": "scripted", "settings": {"actor": "editor"}}
    watching = {"kind": "scripted", "settings": {"actor": "judge"}}
    return load(
        **{
            "sources": [{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}],
            "editors": [{"id": "e", **(acting if editor else planted)}],
            "judges": [{"id": "a", "role": "primary", **(watching if judge else {"kind": "planted"})}],
            "engine": {"workers": 1},
            **changes,
        }
    )


def statuses(config: Config) -> dict[str, int]:
    return dict(pipeline.status(config.run)["edits"])


def threes(request: JudgeRequest) -> JudgeReply:
    return JudgeReply(Status.OK, dict.fromkeys(request.axes, 3))


def fine(shade: int = 0) -> EditReply:
    picture = images.black(16)
    picture[::2] = 200 + shade
    return EditReply(Status.OK, images.encode(picture))


def test_what_an_editor_may_return(load_audit: Load) -> None:
    replies = [
        EditReply(Status.OK, b"<html>sorry</html>"),
        EditReply(Status.OK, images.encode(images.black(16))),
        EditReply(Status.REFUSED, detail="I can't help with that"),
    ]
    config = few(load_audit, Editor(replies))
    pipeline.run(config, Progress())
    assert statuses(config) == {"corrupt": 2, "refused": 1}
    with Run.open_readonly(config.run) as seen:
        details = sorted(row[0] for row in seen.query("SELECT detail FROM edit"))
        assert details == [
            "I can't help with that",
            "the image is not an image file",
            "the image is one flat colour",
        ]
        kept = [seen.image(row[0]) for row in seen.query("SELECT image FROM edit WHERE image IS NOT NULL")]
        assert b"<html>sorry</html>" in kept, "what came back is kept, whatever it is"


def test_a_picture_that_its_reader_stumbles_over_costs_one_edit_and_not_the_run(load_audit: Load) -> None:
    broken = EditReply(Status.OK, png_without_palette(), cost_usd=0.5)
    config = few(load_audit, Editor([broken, fine(), fine()]), Judge(threes))
    pipeline.run(config, Progress())
    assert statuses(config) == {"corrupt": 1, "ok": 2}


def test_a_picture_made_on_the_way_that_is_none_costs_the_edit_nothing(load_audit: Load) -> None:
    config = few(load_audit, Editor([replace(fine(), extras={"picture_2": b"cut off"})] * 3), Judge(threes))
    pipeline.run(config, Progress())
    assert statuses(config) == {"ok": 3}
    with Run.open_readonly(config.run) as seen:
        ((image,),) = seen.query("SELECT DISTINCT image FROM extra")
        assert seen.image(image) == b"cut off"


def test_a_failing_call_is_tried_again_on_the_next_run_and_a_refusal_is_not(load_audit: Load) -> None:
    config = few(load_audit, Editor([fine(), EditReply(Status.REFUSED), RuntimeError("boom")]), Judge(threes))
    with pytest.raises(
        IncompleteError, match=r"edits missing: 1, verdicts missing: 0\) because some calls failed"
    ):
        pipeline.run(config, Progress())
    again = Editor([fine(1)])
    pipeline.run(few(load_audit, again, Judge(threes)), Progress())
    assert len(again.requests) == 1
    assert statuses(config) == {"ok": 2, "refused": 1}
    with Run.open_readonly(config.run) as seen:
        assert ("RuntimeError: boom",) in seen.query("SELECT detail FROM attempt")


def test_a_judge_that_fails_leaves_its_verdicts_to_the_next_run(load_audit: Load) -> None:
    def broken(request: JudgeRequest) -> JudgeReply:
        raise ZeroDivisionError("oops")

    edits = [fine(n) for n in range(3)]
    with pytest.raises(IncompleteError, match="edits missing: 0, verdicts missing: 3"):
        pipeline.run(few(load_audit, Editor(edits), Judge(broken)), Progress())
    config = few(load_audit, Editor([]), Judge(threes))
    pipeline.run(config, Progress())
    assert pipeline.status(config.run)["verdicts"] == {"a": {"ok": 3}}


def test_editors_are_never_told_who_the_person_is(load_audit: Load) -> None:
    editor = Editor([fine(n) for n in range(3)])
    pipeline.run(few(load_audit, editor, Judge(threes)), Progress())
    for request in editor.requests:
        said = f"{request.instruction} {request.key}".casefold()
        assert not any(word in said.split() for word in ("white", "female", "20s"))


@pytest.mark.parametrize(("preset", "disclosed"), [("default", ("age",)), ("paper", ("race", "gender", "age"))])
def test_a_real_judge_is_never_sent_the_truth_and_sees_what_the_preset_discloses(
    load_audit: Load, preset: str, disclosed: tuple[str, ...]
) -> None:
    judge = Judge(threes)
    pipeline.run(few(load_audit, judge=judge, preset=preset), Progress())
    assert judge.requests
    assert all(not r.planted and not r.planted_labels for r in judge.requests)
    assert {tuple(r.disclosed) for r in judge.requests} == {disclosed}


@pytest.mark.parametrize("wrong", [{"edit_success": 6}, {"edit_success": 0}, {"charm": 3}, None])
def test_scores_that_are_not_scores_are_never_guessed(load_audit: Load, wrong: dict[str, int] | None) -> None:
    def answer(request: JudgeRequest) -> JudgeReply:
        return JudgeReply(Status.OK, {} if wrong is None else dict.fromkeys(request.axes, 3) | wrong)

    config = few(load_audit, Editor([fine(n) for n in range(3)]), Judge(answer))
    pipeline.run(config, Progress())
    with Run.open_readonly(config.run) as seen:
        found = tidy(seen, load_design(seen))
        judged, ensemble = found.judged, found.scores
        assert seen.query("SELECT count(*) FROM score") == [(0,)]
    assert set(judged["status"]) == {"malformed"}
    assert judged["score"].null_count() == judged.height
    assert all(frame["score"].null_count() == frame.height for frame in ensemble.values())


def test_every_request_asks_the_prompts_own_axes(load_audit: Load) -> None:
    judge = Judge(threes)
    pipeline.run(few(load_audit, Editor([fine(n) for n in range(3)]), judge), Progress())
    asked = {r.instruction: len(r.axes) for r in judge.requests}
    assert sorted(asked.values()) == [5, 5, 6]


def test_adding_an_editor_keeps_what_is_done(load_audit: Load) -> None:
    one = load_audit(editors=[{"id": "even", "kind": "planted", "settings": {"truth": "even"}}])
    pipeline.run(one, Progress())
    with Run.open_readonly(one.run) as seen:
        first = set(seen.query("SELECT * FROM edit")) | set(seen.query("SELECT * FROM attempt"))
    pipeline.run(load_audit(), Progress())
    with Run.open_readonly(one.run) as seen:
        later = set(seen.query("SELECT * FROM edit")) | set(seen.query("SELECT * FROM attempt"))
        subjects = [row[0] for row in seen.query("SELECT subject FROM attempt")]
    assert first < later
    assert len(subjects) == len(set(subjects)), "no call is made twice"


def test_a_setting_changed_leaves_the_old_rows_out_of_the_tables(load_audit: Load) -> None:
    for draw in (1, 9):
        judges_ = [{"id": "a", "kind": "planted", "role": "primary", "settings": {"noise": 0.4, "draw": draw}}]
        config = few(load_audit, judges=judges_)
        pipeline.run(config, Progress())
    with Run.open_readonly(config.run) as seen:
        assert seen.query("SELECT count(DISTINCT settings) FROM verdict") == [(2,)]
        judged = tidy(seen, load_design(seen)).judged
    assert judged.select("trial", "judge", "axis").is_duplicated().sum() == 0


def ensemble_scores(config: Config) -> pl.DataFrame:
    with Run.open_readonly(config.run) as seen:
        return tidy(seen, load_design(seen)).scores["half_even"]


def test_another_preset_in_the_same_run_asks_judges_anew_and_shows_their_new_answers(load_audit: Load) -> None:
    pipeline.run(load_audit(), Progress())
    first = pipeline.status(load_audit().run)
    config = load_audit(preset="paper")
    pipeline.run(config, Progress())
    second = pipeline.status(config.run)
    assert second["edits"] == first["edits"] and second["verdicts_done"] == first["verdicts_done"]
    assert second["attempts"] == first["attempts"] + first["verdicts_done"], "edits are not made again"
    assert ensemble_scores(config)["score"].null_count() < ensemble_scores(config).height / 4


def test_a_renamed_judge_keeps_its_verdicts(load_audit: Load) -> None:
    config = few(load_audit)
    pipeline.run(config, Progress())
    before = ensemble_scores(config)
    attempts = pipeline.status(config.run)["attempts"]
    renamed = few(load_audit, judges=[{"id": "new-name", "role": "primary", "kind": "planted"}])
    pipeline.run(renamed, Progress())
    assert pipeline.status(renamed.run)["attempts"] == attempts
    assert ensemble_scores(renamed).equals(before)


def test_judges_with_equal_settings_share_their_verdicts(load_audit: Load) -> None:
    twins = [
        {"id": name, "kind": "planted", "role": role} for name, role in (("a", "primary"), ("b", "secondary"))
    ]
    config = few(load_audit, judges=twins)
    pipeline.run(config, Progress())
    found = pipeline.status(config.run)
    assert found["verdicts"]["a"] == found["verdicts"]["b"]
    assert ensemble_scores(config)["spread"].drop_nulls().sum() == 0


def test_an_audit_without_judges_edits_and_says_that_nothing_was_judged(load_audit: Load) -> None:
    config = few(load_audit, judges=[])
    pipeline.run(config, Progress())
    frame = ensemble_scores(config)
    assert frame.height == 5 + 5 + 6 and frame["score"].null_count() == frame.height
    assert "No edit of this editor was judged" in page(config.run)


def test_nothing_is_missing_after_a_run_although_some_edits_were_refused(load_audit: Load) -> None:
    config = few(load_audit, Editor([fine(), EditReply(Status.REFUSED), fine(2)]), Judge(threes))
    assert look_ahead(config).verdicts_missing == 3
    pipeline.run(config, Progress())
    outlook = look_ahead(config)
    assert (outlook.edits_missing, outlook.verdicts_done, outlook.verdicts_missing) == (0, 2, 0)


def test_a_run_remembers_its_whole_configuration(load_audit: Load) -> None:
    config = load_audit()
    pipeline.run(config, Progress())
    with Run.open_readonly(config.run) as seen:
        recalled = load_design(seen)
    fresh = make_design(config, recalled.portraits)
    assert recalled.trials == fresh.trials
    assert recalled.editors == fresh.editors and recalled.judges == fresh.judges


def test_an_audit_that_asks_for_nothing_is_refused(load_audit: Load) -> None:
    with pytest.raises(InputError, match="asks for no edits"):
        pipeline.run(load_audit(experiments={"diagnose": {"prompts": []}}), Progress())


def test_two_editors_with_equal_settings_share_edits_and_both_get_scores(load_audit: Load) -> None:
    twins = [{"id": name, "kind": "planted", "settings": {"truth": "even"}} for name in ("one", "two")]
    config = load_audit(editors=twins)
    pipeline.run(config, Progress())
    with Run.open_readonly(config.run) as seen:
        assert seen.query("SELECT count(*) FROM edit") == [(12,)]
        found = tidy(seen, load_design(seen))
        edits, ensemble = found.edits, found.scores
    assert edits.height == 24
    frame = ensemble["half_even"]
    assert (
        frame.filter(pl.col("editor") == "one")["score"].to_list()
        == frame.filter(pl.col("editor") == "two")["score"].to_list()
    )


@pytest.mark.parametrize(
    ("content", "said"), [(b"not a picture", "is not an image file"), (b"", "is not an image file")]
)
def test_a_portrait_that_cannot_be_read_is_named(load_audit: Load, content: bytes, said: str) -> None:
    labels = {"race": "white", "gender": "female", "age": "20s"}
    ACTORS["source"] = Source([(Portrait.of("mine", "photo 7.jpg", "hash", labels), content)])
    rows = [{"id": "mine", "kind": "scripted", "settings": {"actor": "source"}}]
    with pytest.raises(InputError, match=rf"The portrait photo 7.jpg of the source mine {said}") as raised:
        pipeline.run(few(load_audit, sources=rows), Progress())
    assert raised.value.exit_code == 2


def test_progress_lines(load_audit: Load, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline.run(few(load_audit), Progress("plain"))
    out = capsys.readouterr().out
    assert "Portraits: 1" in out and ": 3 of 3" in out and "Report: the page is written" in out


def test_a_report_can_be_made_from_the_run_alone(finished: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(finished / "run", tmp_path / "elsewhere")
    (tmp_path / "elsewhere/report.html").unlink()
    path = pipeline.rebuild_report(tmp_path / "elsewhere", Progress(), whole=False)
    assert path.read_bytes() == (finished / "run/report.html").read_bytes()


def test_exported_edits_say_where_they_were_refused_and_in_whose_words(load_audit: Load, tmp_path: Path) -> None:
    replies = [
        EditReply(Status.INPUT_BLOCKED, code="moderation_blocked", request_id="req_1"),
        EditReply(Status.TIMEOUT, code="deadline"),
        fine(),
    ]
    config = few(load_audit, Editor(replies), Judge(threes))
    with pytest.raises(IncompleteError):
        pipeline.run(config, Progress())
    pipeline.export(config.run, tmp_path / "tables", "parquet")
    edits = pl.read_parquet(tmp_path / "tables/edits.parquet").select("status", "last_status", "stage", "code")
    assert edits.rows() == [
        ("input_blocked", "input_blocked", "input", "moderation_blocked"),
        ("pending", "timeout", "", "deadline"),
        ("ok", "ok", "", ""),
    ]
    columns = (tmp_path / "tables/columns.md").read_text()
    assert "| stage | String | where a refusal happened" in columns and "| code |" in columns
    assert "stage" not in pl.read_parquet(tmp_path / "tables/scores.parquet").columns
    report = page(config.run)
    assert "moderation_blocked" in report and "refused on the way in" in report
