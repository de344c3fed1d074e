"""Answers of raters, taken into a run and out of it again. `stillme study import`.

In: an export of the study and the key that says what its outputs are; every fault is said at once, nothing is
overwritten, and importing again adds what is new. Out: ratings on the axes of the rubric, choices between two
arms, and the other answers, as frames for the analysis. Whoever left before the end is kept in the run
and is in no frame.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from stillme.core.errors import ConfigIssue, ConfigIssuesError, InputError, disk
from stillme.core.records import canonical, digest
from stillme.core.table_files import DamagedError, read_parquet
from stillme.ledger import Run, frames
from stillme.ledger.run import now
from stillme.ledger.writer import RowInsert
from stillme.protocol import Protocol
from stillme.study.builder import key as keys
from stillme.study.builder.key import Key, KeyQuestion

SCORED, CHOSEN, CANNOT, SKIPPED = "scored", "chosen", "cannot_determine", "skipped"
COMPLETE = "complete"
OPEN = ("active", "timed_out")  # how the task of a rater stands who may still go on with it
PLACES = ("left", "right")  # an export says which output was meant, never where it stood
BY_HAND = "by_hand"
MOST = 2**53  # of a count
MOST_FAULTS = 50  # that are told; the rest is counted
RATINGS: tuple[str, ...] = (
    "study",
    "rater",
    "sitting_state",
    "task",
    "item",
    "output",
    "question",
    "answer",
    "value",
    "shown",
)
RATINGS += ("place", "position", "rev", "ms", "at_seconds", "complete")
CHECKS = ("rater", "check", "passed", "item")
EXCLUSIONS = ("rater", "rule", "why", "by")

Row = Mapping[str, str | None]


@dataclass(frozen=True)
class Taken:
    """What an import did. `waiting`: raters who may still go on; theirs is taken in when they are done."""

    study: str
    name: str
    added: int
    known: int
    raters: int
    waiting: int
    checks: int
    exclusions: int

    def words(self) -> str:
        said = f"Study '{self.name}' ({self.study[:12]}): {self.added:,} answers added, {self.known:,} were known"
        said += f"; raters: {self.raters:,}; attention checks added: {self.checks:,}"
        said += f"; changes of exclusions: {self.exclusions:,}." if self.exclusions else "."
        if self.waiting:
            said += f" {self.waiting:,} raters may still go on: export and import again when they are done."
        return said


def take(run: Path, export: Path, key: Path, say: Callable[[str], None] = lambda _: None) -> Taken:
    """Takes the answers of an export into the run, all that is new of them or nothing."""
    held = keys.read(key)
    told = _told(export, held)
    ratings, checks = _table(export, "ratings", RATINGS, told), _table(export, "checks", CHECKS, told)
    exclusions = _table(export, "exclusions", EXCLUSIONS, told)
    say(f"Checking {len(ratings.rows):,} answers")
    if faults := [*_misfits(ratings, held), *_odd_checks(checks)]:
        raise _refused(faults)
    with Run.join(run) as joined:
        _check_run(joined, held, run)
        return _append(joined, held, ratings, checks, exclusions)


# The files


@dataclass(frozen=True)
class Sheet:
    """A table as text. `first`: the number that people see beside its first row."""

    name: str
    rows: list[dict[str, str | None]]
    first: int

    def fault(self, place: int, column: str, said: str) -> ConfigIssue:
        return ConfigIssue(self.name, place + self.first, column, said)


def _told(export: Path, key: Key) -> Mapping[str, str]:
    """Checks that the export is of the key's study; file -> the hash that it had when it was written."""
    path = export / "export.json"
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        bundle, hashes = str(told["bundle"]), dict(told.get("sha256", {}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        step = "Give the folder that stillme study export wrote."
        raise InputError(f"{export} is not an export: it has no export.json that can be read.", step) from None
    if bundle != key.bundle:
        raise InputError(
            f"{export} has the answers to the bundle {bundle[:12]}; the key is that of {key.bundle[:12]}.",
            "Give the key that was built with the bundle that raters saw.",
        )
    return hashes


def _table(export: Path, name: str, columns: tuple[str, ...], hashes: Mapping[str, str]) -> Sheet:
    path = next((p for p in (export / f"{name}.parquet", export / f"{name}.csv") if p.is_file()), None)
    if path is None:
        raise InputError(f"{export} has no table of {name}.", "Export the study again.")
    with disk(path):
        content = path.read_bytes()
    if path.name in hashes and hashlib.sha256(content).hexdigest() != hashes[path.name]:
        raise InputError(f"{path} was changed after it was exported.", "Export the study again.")
    frame = _parsed(path, content)
    lacking = [column for column in columns if column not in frame.columns]
    if lacking:
        raise ConfigIssuesError(
            [ConfigIssue(str(path), 0, column, "there is no such column") for column in lacking]
        )
    try:
        text = frame.select(pl.col(column).cast(pl.String).replace("", None) for column in columns)
    except pl.exceptions.PolarsError:
        raise InputError(
            f"{path} has a column that holds no words or numbers.", "Export the study again."
        ) from None
    return Sheet(str(path), text.to_dicts(), 1 if path.suffix == ".parquet" else 2)


def _parsed(path: Path, content: bytes) -> pl.DataFrame:
    try:
        if path.suffix == ".parquet":
            return read_parquet(content)
        return pl.read_csv(content, infer_schema=False)
    except (pl.exceptions.PolarsError, DamagedError, OSError, UnicodeDecodeError) as error:
        said = str(error).strip().split("\n")[0]
        raise InputError(f"{path} cannot be read as a table: {said}.") from error


def _check_run(run: Run, key: Key, path: Path) -> None:
    if run.id != key.run:
        raise InputError(
            f"The key belongs to another run than {path} ({key.run[:12]}, not {run.id[:12]}).",
            "Give the run that the study was built from.",
        )
    if run.meta()["protocol_hash"] != key.protocol:
        raise InputError(f"The study was built with another protocol than that of {path}.")


def _refused(faults: list[ConfigIssue]) -> ConfigIssuesError:
    shown = sorted(set(faults))
    more = len(shown) - MOST_FAULTS
    step = f"And {more:,} more. " if more > 0 else ""
    return ConfigIssuesError(shown[:MOST_FAULTS], f"{step}Export the study again; nothing was taken in.")


# What is wrong


def _misfits(sheet: Sheet, key: Key) -> Iterator[ConfigIssue]:
    """Whatever the key does not know, and values that a question does not have."""
    questions = {question.id: question for question in key.questions}
    seen: dict[tuple[str | None, ...], int] = {}
    for place, row in enumerate(sheet.rows):
        for column, said in _misfit(row, key, questions):
            yield sheet.fault(place, column, said)
        first = seen.setdefault(_about(row), place)
        if first != place:
            yield sheet.fault(place, "question", f"is answered in row {first + sheet.first} already")


def _about(row: Row) -> tuple[str | None, ...]:
    return tuple(row[name] for name in ("study", "rater", "item", "output", "question"))


def _misfit(row: Row, key: Key, questions: Mapping[str, KeyQuestion]) -> Iterator[tuple[str, str]]:
    if row["study"] != key.bundle:
        yield "study", f"'{row['study']}' is not the study of the key"
    if not row["rater"]:
        yield "rater", "is empty"
    task, item, output = (row[name] or "" for name in ("task", "item", "output"))
    if task not in key.tasks:
        yield "task", f"the study has no task '{task}'"
    elif item not in key.tasks[task].items:
        yield "item", f"'{item}' is not in the task '{task}'"
    if output and (output not in key.outputs or key.outputs[output].item != item):
        yield "output", f"'{output}' is not an output of the item '{item}'"
    question = questions.get(row["question"] or "")
    if question is None:
        yield "question", f"the study does not ask '{row['question']}'"
    else:
        yield from _odd_value(row, key, question)
    for name in ("position", "rev", "ms", "at_seconds"):
        if not _is_number(row[name], name):
            yield name, f"'{row[name]}' is not a number"


def _is_number(text: str | None, name: str) -> bool:
    if text is None:
        return name != "position"
    try:
        return math.isfinite(float(text)) if name == "at_seconds" else abs(int(text)) <= MOST
    except ValueError:
        return False


def _odd_value(row: Row, key: Key, question: KeyQuestion) -> Iterator[tuple[str, str]]:
    answer, value = row["answer"], row["value"]
    own = {SCORED: "scale", CHOSEN: "choice"}
    if answer not in (*own, CANNOT, SKIPPED):
        yield "answer", f"'{answer}' is no kind of answer"
    elif answer in own and own[answer] != question.kind:
        yield "answer", f"'{question.id}' cannot be {answer}"
    elif answer in (CANNOT, SKIPPED) and value is not None:
        yield "value", f"'{value}' stands beside an answer that has none"
    elif answer == CANNOT and CANNOT not in question.values:
        yield "answer", f"'{question.id}' does not offer it"
    elif answer in own and value not in _possible(row, key, question):
        yield "value", f"'{value}' is not an answer to '{question.id}'"


def _possible(row: Row, key: Key, question: KeyQuestion) -> set[str]:
    words = set(question.values) - {CANNOT}
    if question.kind == "scale":
        return words
    return (words - set(PLACES)) | key.outputs_of.get(row["item"] or "", set())


def _odd_checks(sheet: Sheet) -> Iterator[ConfigIssue]:
    for place, row in enumerate(sheet.rows):
        if (row["passed"] or "").lower() not in ("true", "false"):
            yield sheet.fault(place, "passed", f"'{row['passed']}' is neither true nor false")
        if not row["rater"] or not row["check"]:
            yield sheet.fault(place, "check", "has no rater, or no name")


# Into the run


def _append(run: Run, key: Key, ratings: Sheet, checks: Sheet, exclusions: Sheet) -> Taken:
    """Only raters who are done: theirs does not change any more."""
    waiting = {row["rater"] for row in ratings.rows if row["sitting_state"] in OPEN}
    rows = {_name(row): row for row in ratings.rows if row["rater"] not in waiting}
    held = _held(run, key.bundle)
    _refuse_changes(ratings, rows, held)
    fresh = [_rating(name, row, key) for name, row in rows.items() if name not in held]
    looked = [*_new_checks(run, checks, key.bundle, waiting)]
    left = [*_new_exclusions(run, _excluded(run, ratings, exclusions, key.bundle), key.bundle)]
    study = [] if key.bundle in run.studies() else [_study(key)]
    if study or fresh or looked or left:
        run.add_ratings([*study, *fresh, *looked, *left])
    raters = {row["rater"] for row in rows.values()}
    known = len(rows) - len(fresh)
    return Taken(key.bundle, key.name, len(fresh), known, len(raters), len(waiting), len(looked), len(left))


def _name(row: Row) -> str:
    return digest("rating", of=list(_about(row)))


def _held(run: Run, study: str) -> dict[str, tuple[str, str | None]]:
    rows = run.query("SELECT key, answer, value FROM rating WHERE study = ?", (study,))
    return {name: (answer, value) for name, answer, value in rows}


def _refuse_changes(sheet: Sheet, rows: Mapping[str, Row], held: Mapping[str, tuple[str, str | None]]) -> None:
    """An answer that is in the run is never overwritten."""
    places = {id(row): place for place, row in enumerate(sheet.rows)}
    faults = [
        sheet.fault(
            places[id(row)],
            "value",
            f"rater {row['rater']}, item {row['item']}, {row['question']}: the run has {_said(*held[name])}, "
            f"this export has {_said(row['answer'] or '', row['value'])}",
        )
        for name, row in rows.items()
        if name in held and held[name] != (row["answer"], row["value"])
    ]
    if faults:
        raise _refused(faults)


def _said(answer: str, value: str | None) -> str:
    return answer if value is None else f"'{value}'"


def _study(key: Key) -> RowInsert:
    content = key.model_dump(mode="json", exclude={"secret"})
    return RowInsert("study", (key.bundle, now(), key.name, key.preset, canonical(content)))


def _rating(name: str, row: Row, key: Key) -> RowInsert:
    output = row["output"] or ""
    trial = key.outputs[output].trial if output else ""
    about = (row["rater"], row["sitting_state"] or "", row["task"], row["item"], output, trial, row["question"])
    said = (row["answer"], row["value"], row["shown"], row["place"])
    whole = tuple(None if row[part] is None else int(row[part] or 0) for part in ("position", "rev", "ms"))
    at = None if row["at_seconds"] is None else float(row["at_seconds"])
    complete = int((row["complete"] or "").lower() == "true")
    return RowInsert("rating", (name, key.bundle, *about, *said, *whole, at, complete))


def _new_checks(run: Run, sheet: Sheet, study: str, waiting: set[str | None]) -> Iterator[RowInsert]:
    rows = run.query("SELECT rater, name, passed FROM rating_check WHERE study = ?", (study,))
    known = {(rater, name): bool(passed) for rater, name, passed in rows}
    for place, row in enumerate(sheet.rows):
        about, passed = (row["rater"] or "", row["check"] or ""), (row["passed"] or "").lower() == "true"
        if about in known and known[about] != passed:
            raise _refused([sheet.fault(place, "passed", f"the run has {known[about]} of rater {about[0]}")])
        if about not in known and row["rater"] not in waiting:
            known[about] = passed
            yield RowInsert("rating_check", (study, *about, row["item"] or "", int(passed)))


def _excluded(run: Run, ratings: Sheet, exclusions: Sheet, study: str) -> dict[str, tuple[str, str]]:
    """Rater -> why, and by whom: left out by a coordinator, gone after they had finished, or erased.

    What the rules for raters say is not taken in: the analysis computes it anew.
    """
    states = {row["rater"]: row["sitting_state"] for row in ratings.rows}
    rows = run.query("SELECT DISTINCT rater FROM rating WHERE study = ? AND sitting = ?", (study, COMPLETE))
    gone = {
        rater: (f"is '{states[rater]}' since" if rater in states else "is in the export no more", "")
        for (rater,) in rows
        if states.get(rater) != COMPLETE
    }
    by_hand = {r["rater"] or "": (r["why"] or "", r["by"] or "") for r in exclusions.rows if r["rule"] == BY_HAND}
    return gone | by_hand


def _new_exclusions(run: Run, given: Mapping[str, tuple[str, str]], study: str) -> Iterator[RowInsert]:
    known = run.exclusions(study)
    for rater, (why, who) in given.items():
        if known.get(rater) != why:
            yield RowInsert("rating_exclusion", (None, study, rater, why, who, 0, now()))
    for rater in sorted(known.keys() - given.keys()):
        yield RowInsert("rating_exclusion", (None, study, rater, "", "", 1, now()))


# Out of the run


@dataclass(frozen=True)
class Imported:
    """What people said of a run. What nobody was asked is None.

    ratings: one row a rater, output and axis. choices: one row a rater, case and question; `chosen`: the arm whose
    output was chosen, or the word. answers: on scales that are no axis, with what the key says of the item.
    """

    ratings: pl.DataFrame | None = None
    checks: pl.DataFrame | None = None
    choices: pl.DataFrame | None = None
    answers: pl.DataFrame | None = None
    notes: tuple[str, ...] = field(default=())


def imported(run: Run, protocol: Protocol) -> Imported:
    """The answers of everybody who finished and was not left out by a coordinator."""
    studies = run.studies()
    if not studies:
        return Imported()
    every = frames.ratings_frame(run)
    kept = _finished(run, every, studies)
    checks = frames.rating_checks(run).join(kept.select("study", "rater").unique(), on=["study", "rater"])
    asked = kept.join(_questions(studies), on=["study", "question"], how="inner", maintain_order="left")
    on_axes = asked.filter(pl.col("axis").is_in(list(protocol.axes)) & (pl.col("trial") != ""))
    inattentive = _inattentive(checks, protocol)
    others = asked.filter(~pl.col("rater").is_in(inattentive)).join(_items(studies), on=["study", "item"])
    chosen = others.filter(pl.col("kind") == "choice")
    scales = others.filter((pl.col("kind") == "scale") & ~pl.col("axis").is_in(list(protocol.axes)))
    return Imported(
        ratings=_ratings(on_axes) if on_axes.height else None,
        checks=checks.select("rater", "check", "passed") if checks.height else None,
        choices=_choices(chosen, studies) if chosen.height else None,
        answers=scales if scales.height else None,
        notes=tuple(_notes(every, kept, inattentive if chosen.height or scales.height else [])),
    )


def _finished(run: Run, every: pl.DataFrame, studies: Mapping[str, object]) -> pl.DataFrame:
    out = [(study, rater) for study in studies for rater in run.exclusions(study)]
    schema = {"study": pl.String, "rater": pl.String}
    left = pl.DataFrame(out, schema=schema, orient="row")
    done = every.filter(pl.col("sitting") == COMPLETE)
    return done.join(left, on=["study", "rater"], how="anti", maintain_order="left")


def _questions(studies: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    rows = [(study, q["id"], q["kind"], q["axis"]) for study, key in studies.items() for q in key["questions"]]
    schema = dict.fromkeys(("study", "question", "kind", "axis"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _items(studies: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    """What the key says of every item: whom it shows, what was asked of whom."""
    names = ("study", "item", "person", "prompt", "editor", "category", "stereotype", "source_gender")
    rows = [
        (study, name, item["portrait"], *(item[word] for word in names[3:6]), *_scene(item["about"]))
        for study, key in studies.items()
        for name, item in key["items"].items()
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def _scene(about: Mapping[str, Any]) -> tuple[str | None, str | None]:
    return about.get("stereotype"), about.get("source")


def _ratings(rows: pl.DataFrame) -> pl.DataFrame:
    score = pl.when(pl.col("answer") == SCORED).then(pl.col("value")).cast(pl.Int64).alias("score")
    seconds = (pl.col("ms") / 1000).alias("seconds")
    return rows.select("rater", "task", "trial", "axis", score, "answer", seconds)


def _choices(rows: pl.DataFrame, studies: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    """With the arm of the output that was chosen, and the arms that there were."""
    arms = {name: output["arm"] for key in studies.values() for name, output in key["outputs"].items()}
    plain, treated = ({s: key["arms"][place] for s, key in studies.items()} for place in (0, -1))
    chosen = pl.col("value").fill_null(pl.col("answer")).replace(arms).alias("chosen")
    against = pl.col("study").replace_strict(plain, return_dtype=pl.String).alias("against")
    arm = pl.col("study").replace_strict(treated, return_dtype=pl.String).alias("arm")
    about = ("study", "rater", "task", "item", "person", "prompt", "editor", "category", "question")
    return rows.select(*about, chosen, arm, against)


def _inattentive(checks: pl.DataFrame, protocol: Protocol) -> list[str]:
    """Raters who failed the attention checks: ⌈share · k⌉ of k have to be right."""
    share = protocol.study_rules.attention_checks.pass_share
    each = checks.group_by("rater", maintain_order=True).agg(pl.col("passed").sum().alias("right"), pl.len())
    needed = (pl.col("len") * share - 1e-9).ceil()
    return each.filter(pl.col("right") < needed)["rater"].to_list()


def _notes(every: pl.DataFrame, kept: pl.DataFrame, inattentive: list[str]) -> Iterator[str]:
    raters, stayed = every["rater"].n_unique(), kept["rater"].n_unique()
    yield f"{stayed:,} raters were taken in from the run's studies."
    if raters > stayed:
        said = "left before the end, or were left out by a coordinator, and are in no table"
        yield f"{raters - stayed:,} raters {said}."
    if inattentive:
        said = "failed the attention checks; choices and answers that are no axis of the rubric are without them"
        yield f"{len(inattentive):,} raters {said}."
