"""What is known of each trial, some dozens in a file that is loaded when one of them is opened.

`records`: what was asked, every judge's scores and words, measurements, decisions. `exchanges`: the calls as the
ledger keeps them, with the request as it was sent and the answer as it came. Numbers stand for words that the
index has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from stillme.core.records import TARGET_GENDER, Status, Trial
from stillme.ledger import Run
from stillme.measures import FIGURES
from stillme.report.browse.index import judges_of
from stillme.report.browse.scripts import without_paths
from stillme.report.review.item import split, unpacked
from stillme.report.review.state import State

RECORDS, EXCHANGES = 100, 50  # trials a file
_PICTURE = re.compile(r"[A-Za-z0-9+/]{600,}={0,2}")  # base64, as pictures travel
NO_PICTURE = "(a picture, left out)"


@dataclass(frozen=True)
class Part:
    """Trials that stand in one file, by their rows, with what the ledger says of them, read at once."""

    state: State
    rows: range

    @property
    def trials(self) -> list[Trial]:
        return [self.state.trial[key] for key in self.state.trials["trial"][self.rows.start : self.rows.stop]]


def parts(state: State, size: int) -> Iterator[Part]:
    total = state.trials.height
    return (Part(state, range(start, min(start + size, total))) for start in range(0, total, size))


def _named(run: Run, sql: str, values: Iterable[str]) -> list[tuple[Any, ...]]:
    wanted = list(dict.fromkeys(values))
    return run.query(sql.format(", ".join("?" * len(wanted))), wanted)


# Records


def records(part: Part) -> list[dict[str, Any]]:
    state, trials = part.state, part.trials
    looks = [look for trial in trials for look in state.looks.get(trial.edit, ())]
    said = {row[0]: row for row in _named(state.run, _VERDICTS, (key for _, key in looks))}
    given = scores_of(state.run, [key for _, key in looks], list(state.protocol.axes))
    people = _people(state.run, [key for _, key in looks])
    scores, measured = _by_trial(state, part.rows), _measured(state, trials)
    ended = dict(_named(state.run, "SELECT key, detail FROM edit WHERE key IN ({})", (t.edit for t in trials)))
    numbers = {name: number for number, name in enumerate(judges_of(state))}
    return [
        {
            **_asked(state, trial, row, ended.get(trial.edit, "")),
            "scores": [_score(state, trial, one, given) for one in scores.get(row, ())],
            "opinions": [
                _opinion(numbers[judge], said.get(key), people.get(key, []))
                for judge, key in state.looks.get(trial.edit, ())
            ],
            "measured": measured.get(trial.key, []),
        }
        for row, trial in zip(part.rows, trials, strict=True)
    ]


_VERDICTS = "SELECT key, status, evidence, detail, observations FROM verdict WHERE key IN ({})"


def _asked(state: State, trial: Trial, row: int, detail: str) -> dict[str, Any]:
    lead, text = split(state, trial)
    source, source_id = (state.trials[name][row] for name in ("source", "source_id"))
    about = [[str(name).replace("_", " ").capitalize(), str(value)] for name, value in trial.about.items()]
    return {"lead": lead, "text": text, "detail": detail, "facts": [["Portrait", f"{source} {source_id}"], *about]}


def _by_trial(state: State, rows: range) -> dict[int, list[dict[str, Any]]]:
    axes = state.axes[state.rounding]
    start, end = np.searchsorted(axes["row"].to_numpy(), [rows.start, rows.stop])
    found: dict[int, list[dict[str, Any]]] = {}
    for one in axes.slice(int(start), int(end - start)).iter_rows(named=True):
        found.setdefault(one["row"], []).append(one)
    return found


def scores_of(run: Run, verdicts: Sequence[str], axes: Sequence[str]) -> dict[str, dict[str, int]]:
    """Verdict -> axis -> score."""
    names = ", ".join(f'"{axis}"' for axis in axes)
    rows = _named(run, f"SELECT verdict, {names} FROM score WHERE verdict IN ({{}})", verdicts)  # noqa: S608 (axes are words by the schema, and quoted)
    return {key: {axis: one for axis, one in zip(axes, given, strict=True) if one} for key, *given in rows}


def _score(state: State, trial: Trial, one: Mapping[str, Any], given: Mapping[str, Any]) -> list[Any]:
    """Axis, each judge's score or why there is none, the mean, decisions; what holds stands in the index."""
    decided = state.decided.get((trial.edit, trial.prompt, one["axis"]), [])
    said = [[a.at[:19].replace("T", " "), a.reviewer, a.score, a.withdrawn, a.reason] for a in decided]
    mean = None if one["mean"] is None else round(one["mean"], 2)
    return [one["axis"], _by_judges(state, trial, one["axis"], given), mean, said]


def _by_judges(
    state: State, trial: Trial, axis: str, given: Mapping[str, Mapping[str, int]]
) -> list[int | str | None]:
    looks = state.looks.get(trial.edit, ())
    if axis != TARGET_GENDER:
        return [given.get(key, {}).get(axis) for _, key in looks]
    rows = state.seen.filter(pl.col("trial") == trial.key).select("judge", "score", "why")
    seen = {judge: why if score is None else score for judge, score, why in rows.iter_rows()}
    return [seen.get(judge) for judge, _ in looks]


def _opinion(judge: int, said: tuple[Any, ...] | None, people: list[list[Any]]) -> list[Any]:
    """The judge's number, how it ended, its words, whom it saw, its observations by name. Verbatim."""
    if said is None:
        return [judge, "not judged yet", "", [], []]
    _, status, evidence, detail, observations = said
    seen = [[name.replace("_", " ").capitalize(), text] for name, text in json.loads(observations or "{}").items()]
    return [judge, ended(status, detail), evidence, people, seen]


def ended(status: str, detail: str) -> str:
    """In words; empty where all went well."""
    return "" if status == Status.OK.value else f"{Status(status).label}{f': {detail}' if detail else ''}"


def _people(run: Run, verdicts: Sequence[str]) -> dict[str, list[list[Any]]]:
    sql = "SELECT verdict, role, gender, note FROM depicted WHERE verdict IN ({}) ORDER BY verdict, place"
    found: dict[str, list[list[Any]]] = {}
    for verdict, *told in _named(run, sql, verdicts):
        found.setdefault(verdict, []).append(told)
    return found


def _measured(state: State, trials: Sequence[Trial]) -> dict[str, list[Any]]:
    """Trial -> of each kind how it ended and its figures, in the order of the index."""
    if state.measured is None:
        return {}
    kinds = list(dict.fromkeys(row.kind for row in state.design.config.audit.measures))
    rows = state.measured.filter(pl.col("trial").is_in([trial.key for trial in trials]))
    return {
        row["trial"]: [
            [
                ended(row[f"{kind}_status"], row[f"{kind}_detail"]),
                [_figure(row.get(name)) for name in FIGURES[kind]],
            ]
            for kind in kinds
        ]
        for row in rows.iter_rows(named=True)
    }


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}".replace("-", "−")


# Exchanges

_CALL = (
    "SELECT subject, status, started, seconds, cost_usd, detail, code, request_id, http, usage, raw FROM attempt "
    "WHERE subject IN ({}) ORDER BY id"
)


def exchanges(part: Part, kept: frozenset[str] | None, hides: bool) -> dict[str, Any]:
    """`kept`: the trials whose calls are kept; all where None. `hides`: pictures inside answers are left out."""
    run, trials = part.state.run, [t if kept is None or t.key in kept else None for t in part.trials]
    edits = [trial.edit for trial in trials if trial]
    looks = {edit: part.state.looks.get(edit, ()) for edit in edits}
    keys = [key for listed in looks.values() for _, key in listed]
    called = dict(_named(run, "SELECT key, call FROM verdict WHERE key IN ({})", keys))
    calls = _calls(run, [*edits, *keys, *(one for one in called.values() if one)], hides)
    asked = dict(_named(run, "SELECT key, question FROM call WHERE key IN ({})", filter(None, called.values())))
    questions = _named(run, "SELECT hash, content FROM question WHERE hash IN ({})", asked.values())
    numbers = {name: number for number, name in enumerate(judges_of(part.state))}
    places = {hash: place for place, (hash, _) in enumerate(questions)}
    made = _making(run, edits)

    def judged(judge: str, key: str) -> list[Any]:
        call = called.get(key) or ""
        both = [*calls.get(key, []), *(calls.get(call, []) if call != key else [])]
        return [numbers[judge], places.get(asked.get(call, "")), both]

    return {
        "questions": [_readable(content) for _, content in questions],
        "trials": [
            trial and _exchange(trial, calls, made, [judged(*look) for look in looks[trial.edit]])
            for trial in trials
        ],
    }


def _exchange(
    trial: Trial, calls: Mapping[str, Any], made: Mapping[str, Any], judged: list[Any]
) -> dict[str, Any]:
    circumstances, notes = made.get(trial.edit, ("", []))
    sent = {"settings": trial.settings, "seed": trial.seed, "instruction": trial.instruction}
    return {**sent, "made": circumstances, "notes": notes, "edit": calls.get(trial.edit, []), "judges": judged}


def _calls(run: Run, subjects: Sequence[str], hides: bool) -> dict[str, list[list[Any]]]:
    found: dict[str, list[list[Any]]] = {}
    for subject, status, started, seconds, cost, detail, code, request, http, usage, raw in _named(
        run, _CALL, subjects
    ):
        answer = unpacked(raw)
        answer = _PICTURE.sub(NO_PICTURE, answer) if hides else answer
        counted = [[str(name), count] for name, count in json.loads(usage or "{}").items()]
        when = started[:19].replace("T", " ")
        told = [
            Status(status).label,
            when,
            round(seconds, 2),
            round(cost, 4),
            http,
            code,
            request,
            counted,
            detail,
            answer,
        ]
        found.setdefault(subject, []).append(told)
    return found


def _making(run: Run, edits: Sequence[str]) -> dict[str, tuple[str, list[list[str]]]]:
    rows = _named(run, "SELECT edit, circumstances, notes FROM making WHERE edit IN ({})", edits)
    return {
        edit: (shared, [[str(name), str(said)] for name, said in json.loads(notes or "{}").items()])
        for edit, shared, notes in rows
    }


def shared(run: Run) -> list[list[str]]:
    """What many exchanges name by its hash: settings of editors, and the circumstances that edits were made in."""
    sql = "SELECT hash, content FROM settings WHERE kind = 'editor' UNION SELECT hash, content FROM circumstances"
    return [[hash, _readable(content)] for hash, content in run.query(sql)]


def _readable(content: str) -> str:
    return json.dumps(without_paths(json.loads(content)), indent=1, ensure_ascii=False)
