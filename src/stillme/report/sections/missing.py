"""Missing and refused, by group: who got no edit, and whose edit got no score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stillme.core.records import Status
from stillme.report import sentences
from stillme.report.blocks import Section, bullets, prose
from stillme.report.context import Context
from stillme.report.lookup import Row, basis, by_key, editor_names
from stillme.report.tables import JUDGED, NO_SCORE, Column, Table, leads, samples, share, table, tally, words
from stillme.stats.findings import Findings

_NOBODY = "nobody of this group was asked for"


def build(findings: Findings, context: Context, rated: bool = False) -> Section:
    """`rated`: whether people's ratings are part of the report."""
    text = (
        "What is missing is never counted as a 0, a 3 or a success. It is left out of the rates and counted here."
    )
    said = bullets(sentences.missing(findings, context, rated))
    return Section("missing", "Missing and refused", "Missing", (prose(text), said, _table(findings, context)))


def _table(findings: Findings, context: Context) -> Table:
    by = context.main.by
    ended = _ended(findings, by)
    scored = by_key(findings.by_group[by], "editor", by, outcome=basis(context))
    labels = context.protocol.groups.labels(by)
    lost = [status.value for status in Status if status is not Status.OK]
    rows = [
        _row((editor.id, group), ended, scored, by)
        for editor in context.editors
        for group in labels
        if (editor.id, group) in ended
    ]
    columns = [
        words("Editor", "editor", editor_names(context)),
        words(f"Perceived {by}", by, labels),
        leads(tally("Edits", "edits"), lambda row: _behind(row, by)),
        *_statuses(findings, by),
        leads(share("No picture", "lost", "edits"), lambda row: _behind(row, by, status=lost)),
        leads(
            share("No score", "missing", "asked"),
            lambda row: _behind(row, by, outcome=basis(context), happened=NO_SCORE),
        ),
        leads(
            share("One judge only", "single", "judged"),
            lambda row: _behind(row, by, outcome=basis(context), happened=JUDGED, single="yes"),
        ),
        tally("Persons", "persons", _NOBODY),
    ]
    return table("statuses", f"How edits ended, by perceived {by}", rows, columns, findings.statuses, dense=True)


def _ended(findings: Findings, by: str) -> dict[tuple[str, ...], dict[str, int]]:
    """(editor, group) -> status -> edits."""
    ended: dict[tuple[str, ...], dict[str, int]] = {}
    for row in findings.statuses.to_dicts():
        ended.setdefault((row["editor"], row[by]), {})[sentences.status_label(row["status"])] = row["edits"]
    return ended


def _row(
    key: tuple[str, str],
    ended: dict[tuple[str, ...], dict[str, int]],
    scored: dict[tuple[str, ...], Row],
    by: str,
) -> Row:
    edits = sum(ended[key].values())
    lost = edits - ended[key].get(Status.OK.label, 0)
    counts = {"asked": 0, "missing": 0, "judged": 0, "single": 0, "persons": None} | scored.get(key, {})
    return {**counts, **ended[key], "editor": key[0], by: key[1], "edits": edits, "lost": lost}


def _behind(row: Mapping[str, Any], by: str, **about: str | Sequence[str]) -> str:
    return samples(editor=row["editor"], **{by: row[by]}, **about)


def _statuses(findings: Findings, by: str) -> list[Column]:
    """One column for each status that occurred, in the order of the closed list."""
    seen = {sentences.status_label(status) for status in findings.statuses["status"]}
    known = [status.label for status in Status if status.label in seen]
    return [_status(label, by) for label in [*known, *sorted(seen - set(known))]]


def _status(label: str, by: str) -> Column:
    read = tally(label, label).read
    words = {status.label: status.value for status in Status}
    column = Column(label.capitalize(), lambda row: read({label: row.get(label, 0)}))
    return leads(column, lambda row: _behind(row, by, status=words.get(label, label)))
