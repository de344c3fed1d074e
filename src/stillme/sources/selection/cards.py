"""What an export says of itself: the dataset card and the licence file for people, croissant.json for machines.

Pure: says what the manifest knows and nothing else. The text of the card is in templates/card.md. Croissant is
version 1.0 with the responsible-AI fields (RAI 1.0); the publisher adds who publishes the folder, where and when.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from stillme.sources import Reason
from stillme.sources.portraits import CSV, PARQUET
from stillme.sources.selection.action_log import counts_by_pool, seconds_at_work
from stillme.sources.selection.manifest import IMAGES, Column, Manifest, ManifestRow
from stillme.sources.selection.progress import agreement_on_choices
from stillme.sources.selection.store import by_cell

README, LICENCE, CROISSANT = "README.md", "LICENCE.txt", "croissant.json"
MAX_LABELS = 8  # labels outside the grid that the card names


@dataclass(frozen=True)
class Licence:
    """A licence that is known by name."""

    id: str
    name: str
    url: str


_LICENCES = {
    re.compile(r"\bCC[ -]BY[ -]4\.0\b", re.I): Licence(
        "cc-by-4.0",
        "Creative Commons Attribution 4.0 International (CC BY 4.0)",
        "https://creativecommons.org/licenses/by/4.0/",
    ),
    re.compile(r"\bCC0\b", re.I): Licence(
        "cc0-1.0", "CC0 1.0 Universal (public domain)", "https://creativecommons.org/publicdomain/zero/1.0/"
    ),
}


def find_licence(note: str) -> Licence | None:
    """The licence that a note names, where it is one of the known ones."""
    return next((licence for pattern, licence in _LICENCES.items() if pattern.search(note)), None)


@dataclass(frozen=True)
class Origin:
    """A data set that portraits come from, with its licence note."""

    name: str
    licence: str
    rows: tuple[ManifestRow, ...]

    @property
    def known(self) -> Licence | None:
        return find_licence(self.licence)


def origins(manifest: Manifest) -> list[Origin]:
    rows_by_origin: dict[tuple[str, str], list[ManifestRow]] = {}
    for row in manifest.rows:
        rows_by_origin.setdefault((row.portrait.source, row.portrait.licence), []).append(row)
    return [Origin(name, note, tuple(rows)) for (name, note), rows in rows_by_origin.items()]


# The licence file


def licence(manifest: Manifest) -> str:
    lines = [
        "The portraits in this folder come from other data sets and stay under those data sets' licences.",
        "stillme, which they were chosen with, adds no licence of its own.",
    ]
    for origin in origins(manifest):
        lines += ["", f"{origin.name}: {_count_portraits(len(origin.rows))}"]
        if origin.licence:
            lines.append(f"  Licence and attribution, as the data set gives them: {origin.licence}")
        else:
            lines.append(
                "  The data set gives no licence. Find out what you may do before you share these portraits."
            )
        if origin.known:
            lines.append(f"  {origin.known.name}: {origin.known.url}")
            lines.append(
                "  The portraits come as they are, without warranties of any kind; the licence says so in full."
            )
        lines += ["  What was changed:", *(f"    {sentence}" for sentence in changes(origin.rows))]
    return "\n".join(lines) + "\n"


def changes(rows: Sequence[ManifestRow]) -> list[str]:
    """What was done to the files of the data set, with how many of them."""
    counts: Counter[str] = Counter()
    for row in rows:
        steps = [row.candidate.mended] if row.candidate.mended else []
        if row.method:
            sides = f"from {row.upscaled_from} to {row.upscaled_to} pixels at the shorter side"
            steps.append(f"enlarged {sides} by the method “{row.method}”")
        steps.append(f"saved as {row.picture.extension.upper()}" if steps else "the file as it was")
        counts[", ".join(steps)] += 1
    return [f"{_count_portraits(count)}: {steps}." for steps, count in counts.items()]


def _count_portraits(count: int) -> str:
    return f"{count:,} portrait" if count == 1 else f"{count:,} portraits"


# The card


def readme(manifest: Manifest, passing: pl.DataFrame | None = None) -> str:
    """The card as Markdown. `passing`: how often each group passes the pre-screen, from `stats.passing`."""
    grid, review = manifest.plan.grid, manifest.review
    n_candidates = Counter(candidate.pool for candidate in manifest.candidates)
    pool_of = {candidate.key: candidate.pool for candidate in manifest.candidates}
    n_chosen = counts_by_pool(review.state, pool_of, manifest.pools)  # the paper's table 2
    ticks = {
        criterion.id: Counter(row.chosen.ticks[criterion.id] for row in manifest.rows)
        for criterion in manifest.plan.protocol.groups.selection_criteria
    }
    labels = {
        axis: Counter(row.candidate.portrait.labels.get(axis) for row in manifest.rows) for axis in grid.axes
    }
    screened = "Figures of a pre-screen tick them at first; a person decides."
    if not any(row.chosen.reading for row in manifest.rows):
        screened = "No pre-screen measured them; what a reviewer did not tick is not known."
    template = markdown("stillme.sources.selection").get_template("card.md")
    return template.render(
        front=_front_matter(manifest),
        name=manifest.name,
        total=len(manifest.rows),
        sources=origins(manifest),
        per_cell="one" if grid.per_cell == 1 else grid.per_cell,
        cells=len(grid.cells),
        axes=[
            {
                "name": axis.replace("_", " "),
                "counts": [(label, labels[axis][group]) for group, label in groups.items()],
            }
            for axis, groups in grid.axes.items()
        ],
        undecided=[cell.label for cell in manifest.undecided],
        drawn=drawn_sentence(manifest),
        pools=[
            {"number": pool, "seed": seed, "candidates": n_candidates[pool], "chosen": n_chosen[pool]}
            for pool, seed in manifest.pools.items()
        ],
        skipped=list(skipped_lines(manifest)),
        reviewed=reviewed_sentence(manifest),
        compared=agreement_sentence(manifest),
        screened=screened,
        criteria=[
            {
                "label": criterion.label,
                "description": criterion.description,
                "met": ticks[criterion.id][True],
                "unmet": ticks[criterion.id][False],
                "unmeasured": ticks[criterion.id][None],
            }
            for criterion in manifest.plan.protocol.groups.selection_criteria
        ],
        passing=_passing_table(passing, manifest),
        changes=changes(manifest.rows),
        small=small_sentence(manifest),
        rendered=count_rendered(manifest),
        columns=[
            {"name": column.name, "type": column.kind.__name__, "description": column.description}
            for column in manifest.columns
        ],
    )


@lru_cache(maxsize=4)
def markdown(package: str) -> Environment:
    """The templates of a package's Markdown pages."""
    templates = Environment(
        loader=PackageLoader(package),
        autoescape=False,  # noqa: S701 (Markdown, not HTML)
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Text that stays in its cell of a table.
    templates.filters["cell"] = lambda value: " ".join(str(value).split()).replace("|", "\\|")
    return templates


def _front_matter(manifest: Manifest) -> str:
    """The part of a card that Hugging Face reads."""
    licences = {origin.known for origin in origins(manifest)}
    only = licences.pop() if len(licences) == 1 else None
    terms = {"license": only.id} if only else {"license": "other", "license_link": LICENCE}
    data = {
        "pretty_name": f"{manifest.name}: chosen portraits",
        **terms,
        "task_categories": ["image-to-image"],
        "tags": ["fairness", "audit", "faces", "image-editing"],
        "configs": [{"config_name": "portraits", "data_files": "portraits.parquet"}],
    }
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def drawn_sentence(manifest: Manifest) -> str:
    """What the pools were drawn from, and when."""
    first, last = (moment[:10] for moment in manifest.drawn)
    when = f"on {first}" if first == last else f"from {first} to {last}"
    listed, cells = sum(manifest.census.get("cell", {}).values()), manifest.plan.grid.cells
    rows = f"{listed:,} rows of the data set lie in the {len(cells)} cells of the grid. " if listed else ""
    count = "1 pool was" if len(manifest.pools) == 1 else f"{len(manifest.pools)} pools were"
    each = f"each with {manifest.plan.grid.per_cell} a cell where the data set has so many"
    return f"{rows}{count} drawn at random {when}, {each}."


def skipped_lines(manifest: Manifest) -> Iterator[str]:
    """The rows that the draw did not use, counted, and the cells that stayed short."""
    census, grid = manifest.census, manifest.plan.grid
    for word, count in census.get("reason", {}).items():
        kept = " (changed, and kept)" if Reason(word).keeps else ""
        yield f"{Reason(word).label}: {count:,}{kept}"
    outside = sorted(census.get("outside", {}).items(), key=lambda item: (-item[1], item[0]))
    if outside:
        labels = "; ".join(f"{label} {count:,}" for label, count in outside[:MAX_LABELS])
        more = "; and others" if len(outside) > MAX_LABELS else ""
        yield f"outside the grid: {sum(count for _, count in outside):,} rows ({labels}{more})"
    drawn, wanted = census.get("drawn", {}), grid.per_cell * len(manifest.pools)
    for cell in grid.cells:
        if drawn and drawn.get(cell.id, 0) < wanted:
            yield f"too few candidates for {cell.label}: {drawn.get(cell.id, 0)} of {wanted}"


def reviewed_sentence(manifest: Manifest) -> str:
    """'… 102 actions in 2.0 hours of work …'"""
    name = manifest.review.reviewer
    actions = [action for action in manifest.actions if action.reviewer == name]
    count = "1 action" if len(actions) == 1 else f"{len(actions):,} actions"
    hours = seconds_at_work(actions) / 3600
    duration = f"{hours:.1f} hours" if hours >= 1 else f"{max(1, round(hours * 60))} min"
    return (
        f"A reviewer (pseudonym {name}) looked at the candidates of each cell side by side and chose: {count} "
        f"in {duration} of work, breaks of more than a quarter of an hour not counted."
    )


def agreement_sentence(manifest: Manifest) -> str:
    """How often a second, blind reviewer chose the same; empty without one."""
    review, grid = manifest.review, manifest.plan.grid
    if review.second is None:
        return ""
    answers = [review.agreed(row.candidate, row.needed) for row in manifest.rows]
    agreed = [answer for answer in answers if answer is not None]
    second = f"A second reviewer (pseudonym {review.second}) chose too, blind to the first"
    if not agreed:
        return f"{second}, and has decided none of the exported cells, so nothing is known about their agreement."
    same = f"{second}: the same portrait for {sum(agreed)} of the {len(agreed)} that both decided."
    result = agreement_on_choices(review.blind, by_cell(grid, manifest.candidates), grid.per_cell)
    if result.kappa is None or result.low is None or result.high is None:
        return same
    kappa, low, high = (f"{value:.2f}".replace("-", "−") for value in (result.kappa, result.low, result.high))
    interval = f"95 % interval {low} to {high}; {result.n} cells"
    return f"{same} Cohen's kappa of their blind choices is {kappa} ({interval})."


def _passing_table(frame: pl.DataFrame | None, manifest: Manifest) -> dict[str, Any] | None:
    """A row per group, a column per criterion."""
    if frame is None or frame.is_empty():
        return None
    labels = {criterion.id: criterion.label for criterion in manifest.plan.protocol.groups.selection_criteria}
    rates = {(row["dimension"], row["group"], row["criterion"]): row for row in frame.iter_rows(named=True)}
    measured = {criterion for _, _, criterion in rates}
    criteria = [name for name in labels if name in measured]
    rows = []
    for dimension, group in dict.fromkeys((dimension, group) for dimension, group, _ in rates):
        label = manifest.plan.grid.axes.get(dimension, {}).get(group, group)
        cells = []
        for name in criteria:
            rate = rates.get((dimension, group, name))
            if rate is None or rate["rate"] is None:
                cells.append("not measured")
            else:
                less_often = ", less often" if rate["less_often"] else ""
                cells.append(f"{rate['rate']:.0%} of {rate['measured']}{less_often}")
        rows.append([dimension, label, *cells])
    return {"head": ["perceived", "group", *(labels[name] for name in criteria)], "rows": rows}


def count_rendered(manifest: Manifest) -> int:
    """How many are stillme's own synthetic heads, which show nobody."""
    return sum(row.picture.is_rendered for row in manifest.rows)


def small_sentence(manifest: Manifest) -> str:
    """How many portraits were face-sized; empty where none was."""
    sides = [min(row.candidate.width, row.candidate.height) for row in manifest.rows]
    small = [side for side in sides if side < manifest.plan.rules.face_sized]
    if not small:
        return ""
    size = f"{min(small)}" if min(small) == max(small) else f"{min(small)} to {max(small)}"
    return f"{len(small)} of {len(sides)} portraits have {size} pixels at the shorter side in their data set."


# Croissant

_RECORDS, _PICTURES, _CONTENT = "portraits", "image-files", "picture"
_DATA_TYPES: dict[type[pl.DataType], str] = {
    pl.Int64: "sc:Integer",
    pl.Float64: "sc:Float",
    pl.Boolean: "sc:Boolean",
}
_FILE_FORMATS = {
    PARQUET: "application/x-parquet",
    CSV: "text/csv",
    "actions.csv": "text/csv",
    LICENCE: "text/plain",
    README: "text/markdown",
}
_IMAGE_FORMATS = {"jpg": "image/jpeg", "png": "image/png", "webp": "image/webp"}

_TERMS = (
    "citeAs column conformsTo equivalentProperty extract field fileProperty fileObject fileSet format includes"
    " isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate"
    " separator source subField transform"
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{word: f"cr:{word}" for word in _TERMS.split()},
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


def croissant(manifest: Manifest, sums: Mapping[str, str]) -> str:
    """The description as JSON-LD. `sums`: file -> SHA-256."""
    sources = origins(manifest)
    names = ", ".join(dict.fromkeys(origin.name for origin in sources))
    axes = " × ".join(axis.replace("_", " ") for axis in manifest.plan.grid.axes)
    notes = list(dict.fromkeys(origin.licence for origin in sources if origin.licence))
    known = (origin.known.url if origin.known else origin.licence for origin in sources if origin.licence)
    terms = {"license": list(dict.fromkeys(known)), "citeAs": "; ".join(notes)}
    extensions = sorted({row.picture.extension for row in manifest.rows})
    data = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": manifest.name,
        "description": (
            f"{len(manifest.rows)} portraits for auditing image editors, chosen by a person from {names} over"
            f" a grid of perceived {axes}. Labels are annotators' perceptions."
        ),
        "version": f"1.0.{max(action.number for action in manifest.actions)}",  # the last action that it shows
        "dateCreated": manifest.drawn[0][:10],
        "dateModified": max(action.at for action in manifest.actions)[:10],
        **{key: value for key, value in terms.items() if value},
        "prov:wasDerivedFrom": [
            {"@type": "sc:Dataset", "name": origin.name, "description": origin.licence} for origin in sources
        ],
        "distribution": _distribution(sums, extensions),
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": _RECORDS,
                "name": _RECORDS,
                "description": "One record a portrait.",
                "key": {"@id": f"{_RECORDS}/image"},
                "field": [
                    _field(
                        name=_CONTENT,
                        description="the picture itself",
                        data_type="sc:ImageObject",
                        source={"fileSet": {"@id": _PICTURES}, "extract": {"fileProperty": "content"}},
                    ),
                    *(_column_field(column) for column in manifest.columns),
                ],
            }
        ],
        **{f"rai:{name}": value for name, value in _responsible_ai(manifest)},
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _distribution(sums: Mapping[str, str], extensions: Sequence[str]) -> list[dict[str, Any]]:
    """The files of the export: each table by itself, all pictures as one set."""
    return [
        *(
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": name,
                "encodingFormat": encoding,
                "sha256": sums[name],
            }
            for name, encoding in _FILE_FORMATS.items()
        ),
        {
            "@type": "cr:FileSet",
            "@id": _PICTURES,
            "name": _PICTURES,
            "description": "The portraits; each file is named by its SHA-256.",
            "encodingFormat": [_IMAGE_FORMATS[extension] for extension in extensions],
            "includes": [f"{IMAGES}/*.{extension}" for extension in extensions],
        },
    ]


def _column_field(column: Column) -> dict[str, Any]:
    """The hash is parsed from the file's name, and so joins pictures with rows."""
    column_source: dict[str, Any] = {"fileObject": {"@id": PARQUET}, "extract": {"column": column.name}}
    data_type = _DATA_TYPES.get(column.kind, "sc:Text")
    if column.name != "image":
        return _field(column.name, column.description, data_type, column_source)
    file_source = {
        "fileSet": {"@id": _PICTURES},
        "extract": {"fileProperty": "filename"},
        "transform": {"regex": "([0-9a-f]{64})"},
    }
    return {**_field(column.name, column.description, data_type, file_source), "references": column_source}


def _field(name: str, description: str, data_type: str, source: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{_RECORDS}/{name}",
        "name": name,
        "description": description,
        "dataType": data_type,
        "source": source,
    }


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


def _responsible_ai(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    plan = manifest.plan
    drawn = drawn_sentence(manifest)
    yield "dataCollection", f"Portraits of other data sets, drawn at random into pools. {drawn}"
    yield "dataCollectionType", ["Secondary Data Analysis", "Manual Human Curator"]
    yield "dataCollectionTimeframe", [moment[:10] for moment in manifest.drawn]
    if skipped := list(skipped_lines(manifest)):
        yield "dataCollectionMissingData", "; ".join(skipped)
    yield "dataPreprocessingProtocol", changes(manifest.rows)
    criteria = ", ".join(criterion.label.lower() for criterion in plan.protocol.groups.selection_criteria)
    annotation = [
        "Labels are the data sets' own, mapped to one vocabulary; the columns *_annotated keep their spelling.",
        f"{reviewed_sentence(manifest)} Criteria: {criteria}.",
    ]
    if agreement := agreement_sentence(manifest):
        annotation.append(agreement)
    yield "dataAnnotationProtocol", annotation
    is_single = manifest.review.second is None
    reviewers = "one reviewer" if is_single else "two reviewers, the second blind to the first"
    yield (
        "annotationsPerItem",
        f"Choice: {reviewers}. How many people labelled each portrait is for the data sets to say.",
    )
    yield "annotatorDemographics", [_PEOPLE]
    yield "dataBiases", _BIASES
    limits = [f"{len(manifest.rows)} portraits: {plan.grid.per_cell} for each combination of groups."]
    if manifest.undecided:
        limits.append(f"{len(manifest.undecided)} cells are undecided and lack portraits.")
    if small := small_sentence(manifest):
        limits.append(f"{small} An editor may restore such a face whatever the prompt asks.")
    yield "dataLimitations", limits
    yield "dataUseCases", _USES
    yield "dataSocialImpact", _IMPACT
    n_rendered = count_rendered(manifest)
    if n_rendered < len(manifest.rows):
        yield "personalSensitiveInformation", [_FACES]
    if n_rendered:
        yield "hasSyntheticData", True
    yield "dataReleaseMaintenancePlan", "README.md says how somebody's picture is taken out."
