"""Everything that the run knows of one trial, ready to be shown: pictures, words, scores, calls, decisions."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from stillme.core.records import TARGET_GENDER, Adjudication, Depicted, Status, Trial
from stillme.measures import FIGURES
from stillme.protocol.schema import Axis
from stillme.report.review.state import State
from stillme.report.review.words import Words

LARGEST_RAW = 200_000  # characters of an answer that are shown

_VERDICT = "SELECT key, status, evidence, detail, observations, call FROM verdict WHERE key = ?"
_ATTEMPT = (
    "SELECT status, started, seconds, cost_usd, detail, code, request_id, http, usage, raw FROM attempt "
    "WHERE subject IN (?, ?) ORDER BY id"
)


@dataclass(frozen=True)
class Call:
    """One attempt, as it ended."""

    status: str
    started: str
    seconds: float
    cost_usd: float
    detail: str
    code: str
    request_id: str
    http: int
    usage: Mapping[str, int]
    raw: str


@dataclass(frozen=True)
class Opinion:
    """What one judge said. `status` in words; empty where it scored."""

    name: str
    status: str
    evidence: str
    observations: Mapping[str, str]
    people: Sequence[Depicted]
    scores: Mapping[str, int]
    calls: Sequence[Call]


@dataclass(frozen=True)
class Said:
    """A score in the rubric's words; or why there is none."""

    score: int | None
    words: str


@dataclass(frozen=True)
class Scored:
    """One axis: each judge's score, what holds, and what people decided. `holding`: who -> a word that counts.

    `untold`: what becomes of it where a person says that it cannot be told.
    """

    axis: Axis
    untold: str
    requested: bool
    judges: Sequence[Said]
    held: Said
    standing: str
    flagged: bool
    open: bool
    contested: bool
    mean: float | None
    decisions: Sequence[Adjudication]
    holding: Mapping[str, Adjudication]


@dataclass(frozen=True)
class Measured:
    name: str
    status: str
    figures: Sequence[tuple[str, str, str]]  # name, value, what it is


@dataclass(frozen=True)
class Item:
    trial: Trial
    about: Mapping[str, Any]  # its row of the trials
    lead: str
    text: str
    facts: Sequence[tuple[str, str]]
    opinions: Sequence[Opinion]
    scores: Sequence[Scored]
    measured: Sequence[Measured]
    calls: Sequence[Call]

    @property
    def flagged(self) -> bool:
        return any(one.open for one in self.scores)


def item(state: State, words: Words, trial: Trial) -> Item:
    about = state.trials.row(state.row[trial.key], named=True)
    opinions = [_opinion(state, words, *look) for look in state.looks.get(trial.edit, ())]
    lead, text = split(state, trial)
    return Item(
        trial,
        about,
        lead,
        text,
        list(_facts(state, words, trial, about)),
        opinions,
        list(_scores(state, words, trial, opinions)),
        list(_measured(state, trial)),
        list(_calls(state, trial.edit, trial.edit)),
    )


def split(state: State, trial: Trial) -> tuple[str, str]:
    """The sentence that an arm puts before the prompt, and the prompt."""
    prompt = state.protocol.prompt.get(trial.prompt)
    if prompt and trial.instruction != prompt.text and trial.instruction.endswith(prompt.text):
        return trial.instruction[: -len(prompt.text)].strip(), prompt.text
    return "", trial.instruction


def _facts(state: State, words: Words, trial: Trial, about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Editor", words.label("editor", trial.editor)
    yield "Prompt", words.label("prompt", trial.prompt)
    yield "Experiment", words.label("experiment", trial.experiment)
    yield "Arm", words.label("arm", trial.arm)
    for dimension in state.protocol.groups.dimensions:
        if about[dimension]:
            yield words.title(dimension), words.label(dimension, about[dimension])
    yield "Portrait", f"{about['source']} {about['source_id']}"
    yield "Seed", str(trial.seed)
    if about["status"] != Status.OK.value:
        yield "How the edit ended", words.label("status", about["status"])
    yield from ((str(name).replace("_", " ").capitalize(), str(value)) for name, value in trial.about.items())


# What judges said


def _opinion(state: State, words: Words, judge: str, key: str) -> Opinion:
    rows = state.run.query(_VERDICT, (key,))
    name = words.label("judge", judge)
    if not rows:
        return Opinion(name, "not judged yet", "", {}, (), {}, list(_calls(state, key, key)))
    _, status, evidence, detail, observations, call = rows[0]
    ended = "" if status == Status.OK.value else f"{Status(status).label}{f': {detail}' if detail else ''}"
    seen = {one.replace("_", " ").capitalize(): text for one, text in json.loads(observations or "{}").items()}
    calls = list(_calls(state, key, call or key))
    return Opinion(name, ended, evidence, seen, state.run.people(key), state.run.scores(key), calls)


def _scores(state: State, words: Words, trial: Trial, opinions: Sequence[Opinion]) -> Iterator[Scored]:
    rows = state.axes[state.rounding].filter(pl.col("trial") == trial.key)
    for row in rows.iter_rows(named=True):
        axis = state.axis(trial, row["axis"])
        if axis is None:
            continue
        decisions = state.decided.get((trial.edit, trial.prompt, axis.id), [])
        yield Scored(
            axis,
            "it counts as unclear" if axis.id == TARGET_GENDER else "the score is missing then",
            row["requested"],
            list(_by_judges(state, words, trial, axis, opinions)),
            _said(axis, row["score"], words.label("why", row["why"] or "")),
            words.label("standing", row["standing"]),
            row["flagged"],
            row["open"],
            row["contested"],
            row["mean"],
            decisions,
            _holding(decisions),
        )


def _by_judges(
    state: State, words: Words, trial: Trial, axis: Axis, opinions: Sequence[Opinion]
) -> Iterator[Said]:
    if axis.id != TARGET_GENDER:
        yield from (_said(axis, one.scores.get(axis.id), one.status or "no score") for one in opinions)
        return
    rows = state.seen.filter(pl.col("trial") == trial.key).select("judge", "score", "why")
    seen = {judge: (score, why) for judge, score, why in rows.iter_rows()}
    for judge, _ in state.looks.get(trial.edit, ()):
        score, why = seen[judge]
        yield _said(axis, score, words.label("why", why or ""))


def _said(axis: Axis, score: int | None, otherwise: str) -> Said:
    return Said(score, otherwise if score is None else axis.scale.get(score, ""))


def _holding(decisions: Sequence[Adjudication]) -> dict[str, Adjudication]:
    """Person -> the newest word of that person, unless it was taken back."""
    newest = {one.reviewer: one for one in decisions}
    return {who: one for who, one in newest.items() if not one.withdrawn}


# What was measured, and how the calls went


def _measured(state: State, trial: Trial) -> Iterator[Measured]:
    if state.measured is None:
        return
    rows = state.measured.filter(pl.col("trial") == trial.key)
    if not rows.height:
        return
    found = rows.row(0, named=True)
    for kind in dict.fromkeys(row.kind for row in state.design.config.audit.measures):
        status, detail = found[f"{kind}_status"], found[f"{kind}_detail"]
        figures = [
            (name.replace("_", " "), f"{found[name]:.3g}".replace("-", "−"), said)
            for name, said in FIGURES[kind].items()
            if found.get(name) is not None
        ]
        ended = "" if status == Status.OK.value else f"{Status(status).label}{f': {detail}' if detail else ''}"
        yield Measured(kind.replace("_", " ").capitalize(), ended, figures)


def _calls(state: State, *subjects: str) -> Iterator[Call]:
    for row in state.run.query(_ATTEMPT, subjects):
        status, started, seconds, cost, detail, code, request_id, http, usage, raw = row
        told = (status, started, seconds, cost, detail, code, request_id, http)
        yield Call(*told, json.loads(usage or "{}"), unpacked(raw))


def unpacked(raw: bytes | None) -> str:
    """An answer as it came; what is very long is cut, and what cannot be read says so."""
    if not raw:
        return ""
    try:
        text = zlib.decompressobj().decompress(raw, LARGEST_RAW).decode("utf-8", "replace")
    except zlib.error:
        return "(cannot be unpacked)"
    return f"{text} …(cut)" if len(text) >= LARGEST_RAW else text
