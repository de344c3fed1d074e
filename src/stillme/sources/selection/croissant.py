"""croissant.json: the export described for machines, in Croissant 1.0 with the responsible-AI fields (RAI 1.0).

Says only what the manifest knows: who publishes the folder, where and when, is for the publisher to add.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from stillme.sources.portraits import CSV, PARQUET
from stillme.sources.selection import card
from stillme.sources.selection.table import IMAGES, Column, Manifest

FILE = "croissant.json"
RECORDS, PICTURES, CONTENT = "portraits", "image-files", "picture"
_TYPES: dict[type[pl.DataType], str] = {pl.Int64: "sc:Integer", pl.Float64: "sc:Float", pl.Boolean: "sc:Boolean"}
_FORMATS = {PARQUET: "application/x-parquet", CSV: "text/csv", "actions.csv": "text/csv"}
_FORMATS |= {card.LICENCE: "text/plain", card.FILE: "text/markdown"}
_PICTURES = {"jpg": "image/jpeg", "png": "image/png", "webp": "image/webp"}

_OWN = (
    "citeAs column conformsTo equivalentProperty extract field fileProperty fileObject fileSet format includes"
    " isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate"
    " separator source subField transform"
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{word: f"cr:{word}" for word in _OWN.split()},
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}


def metadata(manifest: Manifest, sums: Mapping[str, str]) -> str:
    """The description as JSON-LD. `sums`: file -> SHA-256."""
    data = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": manifest.name,
        "description": _description(manifest),
        "version": f"1.0.{max(action.number for action in manifest.actions)}",  # the last action that it shows
        "dateCreated": manifest.drawn[0][:10],
        "dateModified": max(action.at for action in manifest.actions)[:10],
        **_terms(manifest),
        "distribution": [*_files(sums), _pictures(manifest)],
        "recordSet": [_records(manifest)],
        **{f"rai:{name}": said for name, said in _responsible(manifest)},
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _description(manifest: Manifest) -> str:
    names = ", ".join(dict.fromkeys(origin.name for origin in card.origins(manifest)))
    axes = " × ".join(axis.replace("_", " ") for axis in manifest.plan.grid.axes)
    return (
        f"{len(manifest.ones)} portraits for auditing image editors, chosen by a person from {names} over a grid "
        f"of perceived {axes}. Labels are annotators' perceptions."
    )


def _terms(manifest: Manifest) -> dict[str, Any]:
    found = card.origins(manifest)
    notes = list(dict.fromkeys(origin.licence for origin in found if origin.licence))
    terms = list(dict.fromkeys(o.known.url if o.known else o.licence for o in found if o.licence))
    derived = [{"@type": "sc:Dataset", "name": o.name, "description": o.licence} for o in found]
    told = {"license": terms, "citeAs": "; ".join(notes)}
    return {**{key: value for key, value in told.items() if value}, "prov:wasDerivedFrom": derived}


def _files(sums: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for name, kind in _FORMATS.items():
        named = {"@type": "cr:FileObject", "@id": name, "name": name, "contentUrl": name}
        yield {**named, "encodingFormat": kind, "sha256": sums[name]}


def _pictures(manifest: Manifest) -> dict[str, Any]:
    used = sorted({one.picture.extension for one in manifest.ones})
    return {
        "@type": "cr:FileSet",
        "@id": PICTURES,
        "name": PICTURES,
        "description": "The portraits; each file is named by its SHA-256.",
        "encodingFormat": [_PICTURES[extension] for extension in used],
        "includes": [f"{IMAGES}/*.{extension}" for extension in used],
    }


def _records(manifest: Manifest) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": RECORDS,
        "name": RECORDS,
        "description": "One record a portrait.",
        "key": {"@id": f"{RECORDS}/image"},
        "field": [_content(), *(_field(column) for column in manifest.columns)],
    }


def _content() -> dict[str, Any]:
    source = {"fileSet": {"@id": PICTURES}, "extract": {"fileProperty": "content"}}
    return _described(CONTENT, "the picture itself", "sc:ImageObject", source)


def _field(column: Column) -> dict[str, Any]:
    """The hash is read off the file's name, and so joins pictures with rows."""
    source: dict[str, Any] = {"fileObject": {"@id": PARQUET}, "extract": {"column": column.name}}
    kind = _TYPES.get(column.kind, "sc:Text")
    if column.name != "image":
        return _described(column.name, column.said, kind, source)
    named = {"fileSet": {"@id": PICTURES}, "extract": {"fileProperty": "filename"}}
    transform = {"transform": {"regex": "([0-9a-f]{64})"}}
    return {**_described(column.name, column.said, kind, {**named, **transform}), "references": source}


def _described(name: str, said: str, kind: str, source: Mapping[str, Any]) -> dict[str, Any]:
    named = {"@type": "cr:Field", "@id": f"{RECORDS}/{name}", "name": name, "description": said}
    return {**named, "dataType": kind, "source": source}


# Responsible AI

_PEOPLE = "Of the reviewers only pseudonyms are kept; who annotated the labels is for the data sets to say."
_USES = [
    "Meant for measuring how image editors treat people of different perceived groups.",
    "Not for recognising or identifying anybody, not for training or testing classifiers of race, gender or age,"
    " not for training generators of faces.",
]
_IMPACT = (
    "Audits on such portraits can show that an editor serves some people worse. Labels of perceived groups can"
    " be misused to sort people by looks; the card rules that out."
)
_BIASES = [
    "Labels are perceptions of annotators from a photograph, and can be wrong more often for some groups.",
    "Groups are balanced by design, so they mirror no population; they are as coarse as the annotation.",
    "A person chose what suits an audit; that choice and the pre-screen before it may favour some groups.",
]
_FACES = "Photographs of faces, with perceived race, gender presentation and apparent age as annotated."


def _responsible(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    yield "dataCollection", f"Portraits of other data sets, drawn at random into pools. {card.drawn(manifest)}"
    yield "dataCollectionType", ["Secondary Data Analysis", "Manual Human Curator"]
    yield "dataCollectionTimeframe", [moment[:10] for moment in manifest.drawn]
    if lacking := list(card.skipped(manifest)):
        yield "dataCollectionMissingData", "; ".join(lacking)
    yield "dataPreprocessingProtocol", card.changes(manifest.ones)
    yield "dataAnnotationProtocol", [*_protocol(manifest)]
    yield "annotationsPerItem", _per_item(manifest)
    yield "annotatorDemographics", [_PEOPLE]
    yield "dataBiases", _BIASES
    yield "dataLimitations", [*_limits(manifest)]
    yield "dataUseCases", _USES
    yield "dataSocialImpact", _IMPACT
    rendered = card.rendered(manifest)
    if rendered < len(manifest.ones):
        yield "personalSensitiveInformation", [_FACES]
    if rendered:
        yield "hasSyntheticData", True
    yield "dataReleaseMaintenancePlan", "README.md says how somebody's picture is taken out."


def _protocol(manifest: Manifest) -> Iterator[str]:
    yield "Labels are the data sets' own, mapped to one vocabulary; the columns *_annotated keep their spelling."
    labels = ", ".join(criterion.label.lower() for criterion in manifest.plan.protocol.groups.selection_criteria)
    yield f"{card.reviewed(manifest)} Criteria: {labels}."
    if told := card.compared(manifest):
        yield told


def _per_item(manifest: Manifest) -> str:
    count = "one reviewer" if manifest.review.second is None else "two reviewers, the second blind to the first"
    return f"Choice: {count}. How many people labelled each portrait is for the data sets to say."


def _limits(manifest: Manifest) -> Iterator[str]:
    yield f"{len(manifest.ones)} portraits: {manifest.plan.grid.per_cell} for each combination of groups."
    if manifest.undecided:
        yield f"{len(manifest.undecided)} cells are undecided and lack portraits."
    if small := card.small(manifest):
        yield f"{small} An editor may restore such a face whatever the prompt asks."
