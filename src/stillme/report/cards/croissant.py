"""croissant.json: the exported tables described for machines, in Croissant 1.0 with the responsible-AI fields.

Says only what the run knows: who publishes the tables, where, when and under which licence is for the publisher.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from stillme.report import sentences
from stillme.report.cards import dataset
from stillme.report.cards.audit import INTENDED, LIMITS
from stillme.report.cards.facts import Known
from stillme.sources.selection.cards import CONTEXT

_TYPES: dict[type[pl.DataType], str] = {pl.Int64: "sc:Integer", pl.Float64: "sc:Float", pl.Boolean: "sc:Boolean"}
UP = f"../../{dataset.FOLDER}"  # from report/cards/ to the tables


def metadata(known: Known, tables: Mapping[str, pl.DataFrame]) -> str:
    """The description as JSON-LD."""
    context, run = known.context, known.run
    created = run.meta()["created"][:10]
    data = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": f"{context.name}-audit",
        "description": " ".join(sentences.audited(context)),
        "version": f"1.0.{run.query('SELECT max(id) FROM audit')[0][0]}",  # noqa: S608 (no query is made up)
        "dateCreated": created,
        "citeAs": f"{context.name}: audit data (run {run.id}, protocol {context.protocol.name}); CITATION.cff",
        "prov:wasDerivedFrom": [*_origins(known)],
        "distribution": [_file(name, frame) for name, frame in tables.items()],
        "recordSet": [_records(known, name, frame) for name, frame in tables.items() if frame.height],
        **{f"rai:{name}": said for name, said in _responsible(known)},
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _origins(known: Known) -> Iterator[dict[str, str]]:
    for (source, licence), number in known.origins.items():
        said = f"{number:,} portraits. {licence}".strip()
        yield {"@type": "sc:Dataset", "name": source, "description": said}


def _file(name: str, frame: pl.DataFrame) -> dict[str, str]:
    packed = io.BytesIO()
    frame.write_parquet(packed)
    file = f"{name}.parquet"
    named = {"@type": "cr:FileObject", "@id": file, "name": file, "contentUrl": f"{UP}/{file}"}
    sha256 = hashlib.sha256(packed.getvalue()).hexdigest()
    return {**named, "encodingFormat": "application/x-parquet", "sha256": sha256}


def _records(known: Known, name: str, frame: pl.DataFrame) -> dict[str, Any]:
    fields = dataset.columns(known, frame)
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": dataset.ABOUT.get(name, ""),
        "field": [_field(name, column, frame.schema[column], said) for column, _, said in fields],
    }


def _field(table: str, column: str, kind: pl.DataType, said: str) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{table}/{column}",
        "name": column,
        "description": said,
        "dataType": _TYPES.get(type(kind), "sc:Text"),
        "source": {"fileObject": {"@id": f"{table}.parquet"}, "extract": {"column": column}},
    }


def _responsible(known: Known) -> Iterator[tuple[str, Any]]:
    """The responsible-AI fields, from what the run knows."""
    context, findings = known.context, known.findings
    yield "dataCollection", "Edits of portraits by image editors, scored by judges and read by instruments."
    yield "dataCollectionType", ["Experiments", "Software Collection"]
    first, last = known.run.query("SELECT min(started), max(started) FROM attempt")[0]
    if first:
        yield "dataCollectionTimeframe", [first[:10], last[:10]]
    if findings is not None:
        yield "dataCollectionMissingData", " ".join(known.screen.missing)
    yield "dataAnnotationProtocol", [f"Protocol {context.protocol.name}, SHA-256 {context.protocol.hash}."]
    yield "dataAnnotationAnalysis", list(known.screen.how_sure)
    yield "machineAnnotationTools", [party.name for party in context.judges]
    yield "dataBiases", [LIMITS[0], LIMITS[3]]
    yield "dataLimitations", [LIMITS[1], LIMITS[2]]
    yield "dataUseCases", [*INTENDED, "Not for sorting, recognising or identifying people."]
    yield "dataSocialImpact", "Such data can show that an editor serves some people worse, and so have it mended."
    yield "personalSensitiveInformation", ["Perceived race, gender presentation and apparent age, as annotated."]
    if context.simulated:
        yield "hasSyntheticData", True
