"""The words for an export: what its files and columns are, what each question asked, how gaps are coded.

Made from the bundle and from the columns named here, which are also what the files are written with: a column that
is not described cannot be exported. Knows nothing of any answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stillme.study.bundle import CANNOT_DETERMINE, Bundle, Question

Kind = Literal["text", "integer", "number", "truth"]
REVIEW = "review before release"


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind
    meaning: str


@dataclass(frozen=True)
class Sheet:
    """One file of an export."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _columns(*given: tuple[str, Kind, str]) -> tuple[Column, ...]:
    return tuple(Column(*one) for one in given)


_RATER: tuple[str, Kind, str] = ("rater", "text", "the rater's pseudonym; the same in every file")
_ITEM: tuple[str, Kind, str] = ("item", "text", "the item's id")

RATINGS = Sheet(
    "ratings",
    "One row for every question that was dealt to a rater who opened anything, in the order of answering.",
    _columns(
        ("study", "text", "the bundle's hash"),
        _RATER,
        ("sitting_state", "text", "active, complete, returned, timed_out, released or withdrew"),
        ("consent_version", "text", "the version of the consent form that the rater agreed to"),
        ("task", "text", "the task's id"),
        _ITEM,
        ("output", "text", "the output that the question is about; empty: the whole screen"),
        ("question", "text", "the question's id"),
        ("answer", "text", "scored, chosen, cannot_determine or skipped"),
        ("value", "text", "the answer: a scale's number, a choice's word, or the id of the output that was meant"),
        ("score", "integer", "the answer to a scale, as a number"),
        ("shown", "text", "the answer as it was clicked; differs from value where left or right was meant"),
        ("place", "text", "where the output was shown: left, right or single; empty: the whole screen"),
        ("left", "text", "the output that was shown on the left; empty: there was only one"),
        ("right", "text", "the output that was shown on the right; empty: there was only one"),
        ("position", "integer", "the item's number in this rater's order, from 1"),
        ("rev", "integer", "the answer's revision: a higher one replaced the lower ones"),
        ("ms", "integer", "milliseconds that the question took, as the page measured them"),
        ("seconds", "number", "the same in seconds"),
        ("opened_seconds", "number", "when the item was opened, in seconds since the sitting began"),
        ("at_seconds", "number", "when the answer was given, in seconds since the sitting began"),
        ("complete", "truth", "whether the rater finished the item; sitting_state says it of the whole task"),
    ),
)

CHECKS = Sheet(
    "checks",
    "One row for every attention check that was answered. One that was never reached was not failed.",
    _columns(
        _RATER,
        ("check", "text", "the number of the check among this rater's, from 1"),
        ("passed", "truth", "whether it was answered as it asked"),
        ("item", "text", "the item on whose screen it stood"),
        ("asked", "text", "the value that it asked for"),
        ("given", "text", "the value that was given"),
    ),
)

PARTICIPANTS = Sheet(
    "participants",
    "One row for everybody who entered. No ids, no addresses.",
    _columns(
        _RATER,
        ("state", "text", "how far somebody came: entered, declined, consented, tutored, or the sitting's state"),
        ("submission_status", "text", "what Prolific last said of the submission"),
        ("consent_version", "text", "the version of the consent form that was agreed to"),
        ("consent_day", "text", "the day of the agreement, in UTC"),
        ("task", "text", "the task's id"),
        ("items_done", "integer", "items that were finished"),
        ("items", "integer", "items of the task"),
        ("minutes", "number", "from the beginning of the task to its end, or to the last item done"),
        ("checks_passed", "integer", "attention checks that were passed"),
        ("checks_answered", "integer", "attention checks that were answered"),
        ("attention", "number", "the share of the answered checks that were passed"),
        ("away", "integer", "how often the page lost the focus"),
        ("away_seconds", "number", "for how long in all"),
        ("flags", "text", "the rules that flag this rater, separated by semicolons"),
        ("excluded", "truth", "whether a coordinator excluded the rater"),
    ),
)

EXCLUSIONS = Sheet(
    "exclusions",
    "One row for every rule that flags a rater, and for every exclusion by a coordinator. Nobody is left out of"
    " the other files.",
    _columns(
        _RATER,
        ("rule", "text", "the rule; by_hand: a coordinator's decision"),
        ("value", "number", "what was measured"),
        ("threshold", "number", "beyond what it flags"),
        ("why", "text", "in words"),
        ("by", "text", "rule, or the coordinator's name"),
    ),
)

COMMENTS = Sheet(
    "comments",
    "Free text of raters. Somebody has to read it before it is released: people write about themselves.",
    _columns(
        _RATER,
        _ITEM,
        ("comment", "text", "as written; a quotation mark stands before what a spreadsheet would run"),
        ("review", "text", f"always: {REVIEW}"),
    ),
)

OPERATIONS = Sheet(
    "operations",
    "Every operation that a page sent, refused ones included, in the order of arrival. Comments without their"
    " text.",
    _columns(
        _RATER,
        ("kind", "text", "open, answer, comment, done or away"),
        _ITEM,
        ("field", "text", "the question's id, with the output before it where each is rated by itself"),
        ("value", "text", "the answer as it was clicked"),
        ("rev", "integer", "the revision"),
        ("ms", "integer", "milliseconds, as the page measured them"),
        ("at_seconds", "number", "when it happened, in seconds since the sitting began"),
        ("received_seconds", "number", "when it arrived, in seconds since the sitting began"),
        ("refused", "text", "why it changed nothing; empty: it was taken"),
    ),
)

SHEETS = (RATINGS, CHECKS, PARTICIPANTS, EXCLUSIONS, COMMENTS, OPERATIONS)

MISSING: Mapping[str, str] = {
    "skipped": "The question was dealt to the rater and has no answer. `value`, `score` and `shown` are empty.",
    CANNOT_DETERMINE: "The rater said that it cannot be determined: an answer, not a gap. `value` is empty.",
    "empty cell": "Not known, or does not apply. Never zero.",
}


def as_data(bundle: Bundle, sheets: tuple[Sheet, ...] = SHEETS) -> dict[str, Any]:
    """Everything that the codebook says, for programs."""
    return {
        "study": bundle.hash,
        "title": bundle.title,
        "preset": bundle.preset,
        "layout": bundle.layout,
        "consent_version": bundle.texts.consent.version,
        "minimum_seconds_item": bundle.minimum_seconds,
        "attention_check": bundle.texts.check,
        "questions": [_question(question, bundle) for question in bundle.questions],
        "missing": dict(MISSING),
        "files": {
            sheet.name: {
                "meaning": sheet.meaning,
                "columns": {
                    column.name: {"kind": column.kind, "meaning": column.meaning} for column in sheet.columns
                },
            }
            for sheet in sheets
        },
    }


def _question(question: Question, bundle: Bundle) -> dict[str, Any]:
    return {
        "id": question.id,
        "text": question.text,
        "kind": question.kind,
        "about": "each output" if bundle.is_each else "the screen",
        "options": [option.model_dump() for option in question.options],
        "cannot_determine": question.cannot_determine,
    }


def as_json(bundle: Bundle, sheets: tuple[Sheet, ...] = SHEETS) -> str:
    return json.dumps(as_data(bundle, sheets), ensure_ascii=False, indent=1) + "\n"


def as_markdown(bundle: Bundle, sheets: tuple[Sheet, ...] = SHEETS) -> str:
    """The same for people."""
    return "\n".join([*_head(bundle), *_asked(bundle), *_coded(), *_described(sheets)])


def _head(bundle: Bundle) -> Iterator[str]:
    yield f"# Codebook: {bundle.title}\n"
    yield f"- bundle: `{bundle.hash}` (`{bundle.name}`, made from `{bundle.preset}`)"
    yield f"- layout: {bundle.layout}; {len(bundle.items)} items in {len(bundle.tasks)} tasks"
    yield f"- raters wanted: {bundle.places}; an item takes at least {bundle.minimum_seconds:g} seconds"
    yield f"- consent form: version `{bundle.texts.consent.version}`\n"


def _asked(bundle: Bundle) -> Iterator[str]:
    yield "## Questions\n"
    about = "asked of each output by itself" if bundle.is_each else "asked once a screen"
    for question in bundle.questions:
        yield f"### `{question.id}` ({question.kind}, {about})\n"
        yield f"{question.text}\n"
        yield from (_option(one.value, one.label, one.detail) for one in question.options)
        if question.cannot_determine:
            yield _option(CANNOT_DETERMINE, "Cannot determine", "")
        yield ""


def _option(value: str, label: str, detail: str) -> str:
    return f"- `{value}`: {label}" + (f" ({detail})" if detail else "")


def _coded() -> Iterator[str]:
    yield "## Missing\n"
    yield from (f"- {what}: {meaning}" for what, meaning in MISSING.items())
    yield ""


def _described(sheets: tuple[Sheet, ...]) -> Iterator[str]:
    for sheet in sheets:
        yield f"## `{sheet.name}`\n\n{sheet.meaning}\n"
        yield columns_table(sheet)


def columns_table(sheet: Sheet) -> str:
    """A sheet's columns as a table in Markdown."""
    rows = [f"| `{one.name}` | {one.kind} | {one.meaning} |" for one in sheet.columns]
    return "\n".join(["| column | kind | meaning |", "|---|---|---|", *rows, ""])
