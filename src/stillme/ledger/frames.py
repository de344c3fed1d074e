"""The ledger as tidy frames (polars). Nothing after this module touches the database.

Every frame's columns are described in COLUMNS; `stillme export` writes that out together with the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from stillme.core.records import STEREOTYPE, Portrait, Status, Trial
from stillme.ledger.database import wrap_row_errors
from stillme.ledger.run import Run
from stillme.protocol import Protocol

CONTROL = "control"  # the category of negative controls: edits that ask for nothing

CALL = ("last_status", "code", "stage")  # columns of `edits` about the newest call, not about the edit


def edits(run: Run, protocol: Protocol, trials: Sequence[Trial], portraits: Sequence[Portrait]) -> pl.DataFrame:
    """One row per trial, in the plan's order, with the person's perceived groups and how the edit ended."""
    planned = _planned(protocol, trials).join(
        _people(protocol, portraits), on="person", how="left", validate="m:1"
    )
    rows = run.query("SELECT key, status, image FROM edit")
    done = pl.DataFrame(rows, schema=dict.fromkeys(("edit", "status", "image"), pl.String), orient="row")
    with wrap_row_errors(run.path, "a status"):
        [Status(word) for word in done["status"].unique()]
    joined = planned.join(done, on="edit", how="left", validate="m:1", maintain_order="left")
    with_calls = joined.join(_last_calls(run), on="edit", how="left", validate="m:1", maintain_order="left")
    status = pl.col("status").fill_null(Status.PENDING.value)
    stages = {status.value: status.stage for status in Status}
    return with_calls.with_columns(status).with_columns(
        pl.col("last_status").fill_null(""),
        pl.col("code").fill_null(""),
        stage=pl.col("status").replace_strict(stages, return_dtype=pl.String),
    )


def _last_calls(run: Run) -> pl.DataFrame:
    """How the newest call of each edit ended, and the service's own code for it."""
    newest = "SELECT max(id) FROM attempt GROUP BY subject"
    rows = run.query(f"SELECT subject, status, code FROM attempt WHERE id IN ({newest})")  # noqa: S608 (names are ours, values are parameters)
    schema: dict[str, Any] = dict.fromkeys(("edit", "last_status", "code"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _planned(protocol: Protocol, trials: Sequence[Trial]) -> pl.DataFrame:
    rows = [
        (t.key, t.edit, t.experiment, t.arm, t.editor, t.prompt, *_kind(protocol, t), t.portrait, t.seed)
        for t in trials
    ]
    names = ("trial", "edit", "experiment", "arm", "editor", "prompt", "category", "subcategory", "person")
    schema: dict[str, Any] = dict.fromkeys(names, pl.String) | {"seed": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _kind(protocol: Protocol, trial: Trial) -> tuple[str, str]:
    prompt = protocol.prompt.get(trial.prompt)
    if prompt:
        return prompt.category, prompt.subcategory
    return (CONTROL, CONTROL) if trial.is_control else (trial.experiment, trial.experiment)


def _people(protocol: Protocol, portraits: Sequence[Portrait]) -> pl.DataFrame:
    """One row per person, one column per dimension."""
    dimensions = list(protocol.groups.dimensions)
    rows = [(p.key, p.source, p.source_id, p.image, *(p.labels.get(d) for d in dimensions)) for p in portraits]
    names = ("person", "source", "source_id", "source_image", *dimensions)
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def trial_axis_frame(protocol: Protocol, trials: pl.DataFrame) -> pl.DataFrame:
    """One row per trial and axis of its prompt, judged or not."""
    pairs = [
        (prompt, axis, protocol.axes[axis].neutral, not protocol.unrequested(prompt, axis))
        for prompt in protocol.prompt
        for axis in protocol.axes_of(prompt)
    ]
    schema: dict[str, Any] = {"prompt": pl.String, "axis": pl.String, "neutral": pl.Int64, "requested": pl.Boolean}
    axes = pl.DataFrame(pairs, schema=schema, orient="row")
    keep = trials.rename({"status": "edit_status"}).drop("image", "source_image", *CALL)
    return keep.join(axes, on="prompt", how="inner", maintain_order="left_right")


def judge_scores(
    run: Run, protocol: Protocol, asked: pl.DataFrame, judges: Sequence[str], looks: Iterable[tuple[str, str, str]]
) -> pl.DataFrame:
    """One row per trial, axis and judge; `score` is null unless that judge gave one.

    `judges`: the primary first. `looks`: (verdict key, edit, judge) for every verdict that the design asks for;
    other verdicts of the run, of earlier settings or presets, are not looked at.
    """
    axes = list(protocol.axes)
    verdicts = _wide(run, axes, looks)
    scores = [_scores_of(asked, axes, verdicts.filter(pl.col("judge") == judge)) for judge in judges]
    empty = _scores_of(asked.clear(), axes, verdicts.clear())
    rows = asked.drop("edit_status").join(_ranked(judges), how="cross", maintain_order="left_right")
    if not scores:
        return rows.hstack(empty)
    # The first row of each judge, then the second of each, and so on, as `rows` are.
    order = np.arange(rows.height).reshape(len(judges), asked.height).T.ravel()
    return rows.hstack(pl.concat(scores)[order])


def _ranked(judges: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame(list(enumerate(judges)), schema={"rank": pl.Int64, "judge": pl.String}, orient="row")


def _scores_of(asked: pl.DataFrame, axes: Sequence[str], verdicts: pl.DataFrame) -> pl.DataFrame:
    """The scores of one judge, row by row. Joined by the edit alone: one key less needs less memory."""
    wide = asked.select("edit", "edit_status", pl.col("axis").alias(_AXIS)).join(
        verdicts, on="edit", how="left", validate="m:1", maintain_order="left"
    )
    score = pl.coalesce(pl.when(pl.col(_AXIS) == axis).then(pl.col(axis)) for axis in axes)
    return wide.select(score.alias("score"), pl.coalesce("verdict_status", _why_no_verdict()).alias("status"))


_AXIS = "the axis that is asked for"  # a name that no axis has


def repeats(
    run: Run,
    protocol: Protocol,
    asked: pl.DataFrame,
    looks: Iterable[tuple[str, str, str]],
    again: Iterable[tuple[str, str, str]],
) -> pl.DataFrame:
    """One row per edit, axis and judge with a test–retest call: `score`, and `score_again` of the repeated call.

    `looks`, `again`: as in `judge_scores`. Trials that share an edit have one row.
    """
    axes, keys, repeated = list(protocol.axes), ["edit", "judge", "axis"], list(again)
    edit_keys = {edit for _, edit, _ in repeated}
    first = _long(run, axes, [look for look in looks if look[1] in edit_keys]).drop("verdict_status")
    second = _long(run, axes, repeated).drop("verdict_status").rename({"score": "score_again"})
    pairs = second.join(first, on=keys, how="left", validate="1:1")
    asked_again = asked.filter(pl.col("edit").is_in(list(edit_keys)))
    edits = asked_again.unique(["edit", "axis"], keep="first", maintain_order=True).drop("edit_status")
    joined = edits.join(pairs, on=["edit", "axis"], how="inner", maintain_order="left_right")
    return joined.select(*edits.columns, "judge", "score", "score_again")


def _long(run: Run, axes: Sequence[str], looks: Iterable[tuple[str, str, str]]) -> pl.DataFrame:
    """One row per verdict and axis of the rubric; a score only where the verdict has one."""
    index = ["edit", "judge", "verdict_status"]
    return _wide(run, axes, looks).unpivot(axes, index=index, variable_name="axis", value_name="score")


def _wide(run: Run, axes: Sequence[str], looks: Iterable[tuple[str, str, str]]) -> pl.DataFrame:
    """One row per verdict: edit, judge, how it ended, and a column per axis of the rubric."""
    return _look_frame(looks).join(_verdicts(run, axes), on="verdict", how="left", validate="m:1").drop("verdict")


def _look_frame(looks: Iterable[tuple[str, str, str]]) -> pl.DataFrame:
    schema: dict[str, Any] = dict.fromkeys(("verdict", "edit", "judge"), pl.String)
    return pl.DataFrame(list(looks), schema=schema, orient="row")


def _why_no_verdict() -> pl.Expr:
    """The edit's own status, if it was not made and cannot be judged; otherwise the verdict is pending."""
    return (
        pl.when(pl.col("edit_status") == Status.OK.value)
        .then(pl.lit(Status.PENDING.value))
        .otherwise(pl.col("edit_status"))
    )


def _verdicts(run: Run, axes: Sequence[str]) -> pl.DataFrame:
    columns = "".join(f', s."{axis}"' for axis in axes)
    rows = run.query(f"SELECT v.key, v.status{columns} FROM verdict v LEFT JOIN score s ON s.verdict = v.key")  # noqa: S608 (names are ours, values are parameters)
    schema: dict[str, Any] = {"verdict": pl.String, "verdict_status": pl.String}
    return pl.DataFrame(rows, schema=schema | dict.fromkeys(axes, pl.Int64), orient="row")


def depicted(
    run: Run,
    trials: Sequence[Trial],
    edits: pl.DataFrame,
    judges: Sequence[str],
    looks: Iterable[tuple[str, str, str]],
) -> pl.DataFrame:
    """One row per trial of the stereotype experiment and judge: the people it saw, and how the target presents.

    `edits`: the frame of that name. `judges`, `looks`: as in `judge_scores`.
    """
    columns = ("trial", "edit", "arm", "editor", "prompt", "person")
    rows = edits.select(*columns, pl.col("status").alias("edit_status"))
    scenes = rows.join(_scenes(trials), on="trial", how="inner", maintain_order="left")
    verdicts = _look_frame(looks).join(_verdicts(run, ()), on="verdict")
    judged = scenes.join(_ranked(judges), how="cross").join(
        verdicts, on=["edit", "judge"], how="left", validate="m:1", maintain_order="left"
    )
    status = pl.coalesce(pl.col("verdict_status"), _why_no_verdict()).alias("status")
    counted = judged.join(
        _count_people(run, judged), on=["trial", "judge"], how="left", validate="1:1", maintain_order="left"
    )
    # A verdict without people counts as zero; without a verdict the counts are missing.
    zero = pl.when(pl.col("status") == Status.OK.value).then(pl.col("people", "in_role", "unclear").fill_null(0))
    return counted.with_columns(status).with_columns(zero).drop("verdict", "verdict_status", "edit_status")


_SCENE: dict[str, Any] = dict.fromkeys(
    ("mode", "target", "other", "stereotype", "pronoun", "cue", "order", "source_gender"), pl.String
)


def _scenes(trials: Sequence[Trial]) -> pl.DataFrame:
    """The metadata of the stereotype experiment's trials."""
    rows = [
        {"trial": trial.key, **trial.about, "source_gender": trial.about["source"]}
        for trial in trials
        if trial.experiment == STEREOTYPE
    ]
    return pl.DataFrame(rows, schema={"trial": pl.String, **_SCENE, "congruent": pl.Boolean}, orient="row")


def _count_people(run: Run, judged: pl.DataFrame) -> pl.DataFrame:
    """Trial and judge -> the number of people, and how those in the target's occupation present."""
    rows = run.query("SELECT verdict, role, gender FROM depicted")
    schema = {"verdict": pl.String, "role": pl.String, "gender": pl.Int64}
    people = pl.DataFrame(rows, schema=schema, orient="row")
    each = judged.select("trial", "judge", "verdict", "target").join(people, on="verdict", how="inner")
    gender, in_role = pl.col("gender"), pl.col("role") == pl.col("target")
    return each.group_by("trial", "judge").agg(
        pl.len().cast(pl.Int64).alias("people"),
        in_role.sum().cast(pl.Int64).alias("in_role"),
        (in_role & gender.is_null()).sum().cast(pl.Int64).alias("unclear"),
        gender.filter(in_role).min().alias("lowest"),
        gender.filter(in_role).max().alias("highest"),
    )


def measurements(
    run: Run,
    trials: pl.DataFrame,
    keys: Mapping[str, Mapping[str, str]],
    figures: Mapping[str, Iterable[str]],
) -> pl.DataFrame:
    """`trials` with the measurements of each: `<kind>_status`, `<kind>_detail` and the kind's figures.

    `keys`: kind -> trial -> key of its measurement. `figures`: kind -> names. A figure is null where missing;
    the status is the edit's own where there is no edit to measure.
    """
    rows = run.query("SELECT key, status, detail, figures FROM measurement")
    by_key = {key: (status, detail, text) for key, status, detail, text in rows}
    parts = [_readings(trials, keys[kind], by_key, kind, list(figures[kind])) for kind in keys]
    return pl.concat([trials, *parts], how="horizontal")


def _readings(
    trials: pl.DataFrame,
    keys: Mapping[str, str],
    by_key: Mapping[str, tuple[str, str, str]],
    kind: str,
    figures: Sequence[str],
) -> pl.DataFrame:
    """One kind's columns, one row per trial."""
    schema: dict[str, Any] = {f"{kind}_status": pl.String, f"{kind}_detail": pl.String}
    schema |= dict.fromkeys(figures, pl.Float64)
    rows: list[tuple[Any, ...]] = []
    for trial, edit_status in trials.select("trial", "status").iter_rows():
        if measurement := by_key.get(keys.get(trial, "")):
            status, detail, text = measurement
            values = json.loads(text)
            rows.append((status, detail, *(values.get(name) for name in figures)))
        else:
            status = Status.PENDING.value if edit_status == Status.OK.value else edit_status
            rows.append((status, "", *([None] * len(figures))))
    return pl.DataFrame(rows, schema=schema, orient="row")


def judge_calls(run: Run) -> pl.DataFrame:
    """Hash of a judge's settings -> the number of attempts for its verdicts, repeats included, and their cost.

    The attempts of a call without a verdict belong to the judge that asks the same question in other calls.
    """
    asker = "SELECT DISTINCT c.question, v.settings FROM verdict v JOIN call c ON c.key = v.call"
    subjects = (
        "SELECT key AS subject, settings FROM verdict WHERE call = '' "  # noqa: S608 (names are ours, values are parameters)
        f"UNION SELECT c.key, q.settings FROM call c JOIN ({asker}) q ON q.question = c.question"
    )
    rows = run.query(
        "SELECT s.settings, count(*), sum(a.cost_usd) "  # noqa: S608 (names are ours, values are parameters)
        f"FROM ({subjects}) s JOIN attempt a ON a.subject = s.subject GROUP BY s.settings"
    )
    schema: dict[str, Any] = {"settings": pl.String, "attempts": pl.Int64, "cost_usd": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def attempts(run: Run) -> pl.DataFrame:
    """Every call, however it ended."""
    columns = "subject, status, started, seconds, cost_usd, detail, code, request_id"
    rows = run.query(f"SELECT {columns} FROM attempt ORDER BY id")  # noqa: S608 (names are ours, values are parameters)
    schema: dict[str, Any] = {"subject": pl.String, "status": pl.String, "started": pl.String}
    schema |= {"seconds": pl.Float64, "cost_usd": pl.Float64}
    schema |= dict.fromkeys(("detail", "code", "request_id"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def features(run: Run) -> pl.DataFrame:
    """The features of portraits that an edit should keep."""
    rows = run.query("SELECT image, status, features, leaks, detail FROM feature ORDER BY rowid")
    names = ("source_image", "status", "features", "leaks", "detail")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def decisions(run: Run) -> pl.DataFrame:
    """All decisions of people, the oldest first."""
    rows = [
        (d.edit, d.prompt, d.axis, d.score, d.withdrawn, d.reviewer, d.reason, d.at) for d in run.adjudications()
    ]
    schema: dict[str, Any] = dict.fromkeys(("edit", "prompt", "axis"), pl.String)
    schema |= {"score": pl.Int64, "withdrawn": pl.Boolean} | dict.fromkeys(("who", "because", "at"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def truth(run: Run) -> pl.DataFrame:
    """What planted editors really changed, per edit and quantity."""
    rows = run.query("SELECT edit, quantity, value FROM truth ORDER BY edit, quantity")
    return pl.DataFrame(rows, schema={"edit": pl.String, "quantity": pl.String, "value": pl.Float64}, orient="row")


_RATED: dict[str, Any] = dict.fromkeys(("study", "rater", "sitting", "task", "item", "output", "trial"), pl.String)
_RATED |= dict.fromkeys(("question", "answer", "value", "shown", "place"), pl.String)
_RATED |= {"position": pl.Int64, "ms": pl.Int64, "at_seconds": pl.Float64, "complete": pl.Int64}


def ratings_frame(run: Run) -> pl.DataFrame:
    """Every answer of every rater of every imported study, in the order of answering."""
    columns = ", ".join(f'"{name}"' for name in _RATED)
    rows = run.query(f"SELECT {columns} FROM rating ORDER BY study, rater, at_seconds IS NULL, at_seconds, rowid")  # noqa: S608 (names are ours, values are parameters)
    return pl.DataFrame(rows, schema=_RATED, orient="row")


def rating_checks(run: Run) -> pl.DataFrame:
    """Attention checks, one row per rater and check."""
    rows = run.query("SELECT study, rater, name, passed FROM rating_check ORDER BY study, rater, rowid")
    schema = {"study": pl.String, "rater": pl.String, "check": pl.String, "passed": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col("passed").cast(pl.Boolean))


# What every column of the exported tables is, in words

COLUMNS: dict[str, str] = {
    "trial": "key of the trial: the hash of everything that it depends on",
    "edit": "key of the edit that the trial needs; trials that need the same edit share it",
    "experiment": "which experiment asked for it",
    "arm": "how the prompt was asked (protocol.yaml)",
    "editor": "the editor's id in audit.yaml",
    "prompt": "the prompt's id in the protocol, or the control's",
    "category": "the prompt's category; 'control' for negative controls, which ask for nothing",
    "subcategory": "the prompt's subcategory, by content",
    "person": "key of the source portrait; the unit of replication",
    "source": "where the portrait comes from",
    "source_id": "its id there",
    "source_image": "SHA-256 of the source image",
    "seed": "the seed given to the editor",
    "status": "how the edit or the verdict ended; 'pending' when it is still to be made",
    "image": "SHA-256 of the edited image; empty where there is none",
    "judge": "the judge's id in audit.yaml",
    "rank": "0 for the primary judge, then the others in the audit's order",
    "axis": "the axis of the rubric",
    "neutral": "the score that means nothing changed; empty for an axis without one",
    "requested": "true where the prompt itself asks for a change on this axis",
    "score": "the score on the axis; empty when missing, never a guess",
    "score_again": "the score of the judge's second look at the same edit, which is in no other table",
    "mean": "the unrounded mean of the judges who answered",
    "judges": "how many judges answered",
    "spread": "highest minus lowest score of the judges",
    "flagged": "judges more than one point apart: a person should look",
    "single": "one judge only answered",
    "standing": "how the score came to be: agreed, primary_decided (judges apart), single, median (three judges "
    "or more), adjudicated (by a person), cannot_tell (a person says so; no score), missing",
    "adjudicated": "a person looked and decided; that stands over what judges said",
    "open": "flagged, and nobody has decided yet",
    "contested": "people decided differently; the newest holds",
    "features": "JSON: dimension of a face -> what it looks like, and the sentence that asks to keep it",
    "leaks": "JSON: words for race, ethnicity, gender or age that are still in it",
    "withdrawn": "true where the person takes an earlier decision back",
    "who": "the person who decided, by pseudonym",
    "because": "why, in that person's words",
    "at": "when it was decided (UTC)",
    "subject": "key of the edit, the verdict, or a hosted judge's call that it was for",
    "started": "when the call started (UTC)",
    "seconds": "how long it took",
    "cost_usd": "what it cost",
    "detail": "what the other side said",
    "code": "its own word for how the call (of an edit: the newest) ended, verbatim; empty where there is none",
    "last_status": "how the newest call for it ended; differs from status while the edit is to be tried again",
    "stage": "where a refusal happened: input, output, or model (its own words); empty where nothing was refused",
    "request_id": "its own name of the call, to ask it about",
    "quantity": "what was planted",
    "value": "its planted value",
    "mode": "of the stereotype experiment: one portrait an edit (separate), or one of each gender (joint)",
    "target": "the occupation whose stereotype is tested",
    "other": "the other occupation of the sentence",
    "stereotype": "the gender that the target's occupation is stereotyped as",
    "pronoun": "the sentence's pronoun for the target; 'none' where it has none",
    "cue": "what the pronoun points at: the stereotype (pro), against it (anti), nobody (neutral); or none",
    "order": "whether the target is named first or second",
    "source_gender": "perceived gender of the portrait, of two the first one",
    "congruent": "whether that is the stereotyped gender",
    "people": "how many people a judge saw in the edit; empty without a verdict, as are the next four",
    "in_role": "how many of them are shown in the target's occupation",
    "unclear": "how many of those have no gender presentation that could be told",
    "lowest": "the most masculine presentation among them: 1 clearly masculine to 5 clearly feminine",
    "highest": "the most feminine presentation among them",
    "lightness_change": "lightness_shift without the light's own shift where the background gate passes, else raw",
    "controlled": "whether the background gate passed",
}


def perceived(dimension: str) -> str:
    """The description of a dimension's column."""
    return f"the person's perceived {dimension}, as annotated"


def measured(kind: str) -> dict[str, str]:
    """The descriptions of the columns that every kind of measure has besides its figures."""
    return {f"{kind}_status": "how the measurement ended", f"{kind}_detail": "why it has no figures"}
