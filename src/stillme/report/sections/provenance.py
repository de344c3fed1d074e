"""Provenance: sources, editors, judges, settings, versions, hashes. Everything a second auditor needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from stillme.analysis.numbers import DASH, count, plural
from stillme.report.blocks import Block, Fold, Section, bullets
from stillme.report.context import Context, Party
from stillme.report.tables import Table, table, words


def build(context: Context) -> Section:
    blocks: list[Block] = [bullets(context.sources)] if context.sources else []
    blocks += [_parties("editors", "Editors", context.editors), _parties("judges-used", "Judges", context.judges)]
    settings = [row for party in (*context.editors, *context.judges) for row in _settings(party)]
    if settings:
        blocks.append(Fold("Every setting in effect", plural(len(settings), "rows"), (_every(settings),)))
    made = (_made_with(context),) if context.made_with else ()
    return Section("provenance", "Provenance", "Provenance", (*blocks, _facts(context), *made))


def _parties(id: str, title: str, parties: Iterable[Party]) -> Table:
    rows = [
        {
            "name": party.name,
            "id": party.id,
            "description": party.description or DASH,
            "settings": ", ".join(f"{key} = {value}" for key, value in _plain(party)) or DASH,
        }
        for party in parties
    ]
    columns = [
        words(title.removesuffix("s"), "name"),
        words("Id", "id"),
        words("What it is", "description"),
        words("Settings", "settings"),
    ]
    schema = dict.fromkeys(("name", "id", "description", "settings"), pl.String)
    return table(id, title, rows, columns, pl.DataFrame(rows, schema=schema))


def _plain(party: Party) -> Iterator[tuple[str, str]]:
    """The settings that are one value each; nested ones stand in the table of every setting."""
    return ((key, str(value)) for key, value in party.settings.items() if isinstance(value, str | int | float))


def _settings(party: Party) -> Iterator[dict[str, str]]:
    for key, value in party.settings.items():
        for path, leaf in _leaves(key, value):
            yield {"name": party.name, "setting": path, "value": leaf}


def _leaves(path: str, value: object) -> Iterator[tuple[str, str]]:
    """A nested setting as dotted paths. What is not set is not listed."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}", inner)
    elif isinstance(value, list | tuple) and any(isinstance(inner, Mapping) for inner in value):
        for place, inner in enumerate(value, 1):
            yield from _leaves(f"{path}.{place}", inner)
    elif isinstance(value, list | tuple):
        yield path, ", ".join(str(inner) for inner in value) or "empty"
    elif value is not None:
        yield path, str(value)


def _every(rows: list[dict[str, str]]) -> Table:
    columns = [words("Of", "name"), words("Setting", "setting"), words("Value", "value")]
    return table("settings", "Every setting in effect", rows, columns, pl.DataFrame(rows), dense=True)


def _facts(context: Context) -> Table:
    facts = dict(
        [  # what the caller says under the same label replaces what the protocol says
            ("Protocol", context.protocol.name),
            ("Protocol hash", context.protocol.hash),
            ("Preset", context.preset),
            *((what.capitalize(), count(number)) for what, number in context.counts.items()),
            *context.provenance,
        ]
    )
    rows = [{"what": what, "value": value} for what, value in facts.items()]
    columns = [words("What", "what"), words("Value", "value")]
    return table("facts", "Versions, hashes, seeds, settings, costs", rows, columns, pl.DataFrame(rows))


def _made_with(context: Context) -> Table:
    """Not of the run: of whoever wrote this page."""
    rows = [{"what": what, "value": value} for what, value in context.made_with]
    columns = [words("What", "what"), words("Version", "value")]
    note = "What computed and drew this report when it was written. Another version may round or draw otherwise."
    return table("made-with", "What computed this report", rows, columns, pl.DataFrame(rows), notes=(note,))
