"""The dataset card and the licence file of an export: what the portraits are, in plain words, for people.

Pure: says what the manifest knows and nothing else. The words stand in templates/card.md.
"""

from __future__ import annotations

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
from stillme.sources.selection.choices import counts_by_pool, seconds_at_work
from stillme.sources.selection.comparison import agreement_on_choices
from stillme.sources.selection.store import by_cell
from stillme.sources.selection.table import Manifest, One

FILE, LICENCE = "README.md", "LICENCE.txt"
NAMED = 8  # labels outside the grid that are named


@dataclass(frozen=True)
class Licence:
    """A licence that is known by name."""

    id: str
    name: str
    url: str


_BY = Licence(
    "cc-by-4.0",
    "Creative Commons Attribution 4.0 International (CC BY 4.0)",
    "https://creativecommons.org/licenses/by/4.0/",
)
_ZERO = Licence(
    "cc0-1.0", "CC0 1.0 Universal (public domain)", "https://creativecommons.org/publicdomain/zero/1.0/"
)
_LICENCES = {re.compile(r"\bCC[ -]BY[ -]4\.0\b", re.I): _BY, re.compile(r"\bCC0\b", re.I): _ZERO}


def known(note: str) -> Licence | None:
    """The licence that a note names, where it is one of the known ones."""
    return next((licence for pattern, licence in _LICENCES.items() if pattern.search(note)), None)


@dataclass(frozen=True)
class Origin:
    """A data set that portraits come from, with its licence note."""

    name: str
    licence: str
    ones: tuple[One, ...]

    @property
    def known(self) -> Licence | None:
        return known(self.licence)


def origins(manifest: Manifest) -> list[Origin]:
    found: dict[tuple[str, str], list[One]] = {}
    for one in manifest.ones:
        found.setdefault((one.portrait.source, one.portrait.licence), []).append(one)
    return [Origin(name, note, tuple(ones)) for (name, note), ones in found.items()]


# The licence file


def licence(manifest: Manifest) -> str:
    lines = [
        "The portraits in this folder come from other data sets and stay under those data sets' licences.",
        "stillme, which they were chosen with, adds no licence of its own.",
    ]
    for origin in origins(manifest):
        lines += ["", f"{origin.name}: {_portraits(len(origin.ones))}", *_terms(origin), "  What was changed:"]
        lines += [f"    {said}" for said in changes(origin.ones)]
    return "\n".join(lines) + "\n"


def _terms(origin: Origin) -> Iterator[str]:
    if not origin.licence:
        yield "  The data set gives no licence. Find out what you may do before you share these portraits."
        return
    yield f"  Licence and attribution, as the data set gives them: {origin.licence}"
    if origin.known:
        yield f"  {origin.known.name}: {origin.known.url}"
        yield "  The portraits come as they are, without warranties of any kind; the licence says so in full."


def changes(ones: Sequence[One]) -> list[str]:
    """What was done to the files of the data set, with how many of them."""
    return [f"{_portraits(count)}: {what}." for what, count in Counter(_change(one) for one in ones).items()]


def _change(one: One) -> str:
    done = [one.candidate.mended] if one.candidate.mended else []
    if one.method:
        sides = f"from {one.upscaled_from} to {one.upscaled_to} pixels at the shorter side"
        done.append(f"enlarged {sides} by the method “{one.method}”")
    done += [f"saved as {one.picture.extension.upper()}"] if done else ["the file as it was"]
    return ", ".join(done)


def _portraits(count: int) -> str:
    return f"{count:,} portrait" if count == 1 else f"{count:,} portraits"


# The card


def describe(manifest: Manifest, passing: pl.DataFrame | None = None) -> str:
    """The card as Markdown. `passing`: how often each group passes the pre-screen, from `stats.passing`."""
    grid = manifest.plan.grid
    return (
        markdown("stillme.sources.selection")
        .get_template("card.md")
        .render(
            front=front(manifest),
            name=manifest.name,
            total=len(manifest.ones),
            sources=origins(manifest),
            per_cell="one" if grid.per_cell == 1 else grid.per_cell,
            cells=len(grid.cells),
            axes=list(_axes(manifest)),
            undecided=[cell.label for cell in manifest.undecided],
            drawn=drawn(manifest),
            pools=list(_pools(manifest)),
            skipped=list(skipped(manifest)),
            reviewed=reviewed(manifest),
            compared=compared(manifest),
            screened=_screened(manifest),
            criteria=list(_criteria(manifest)),
            passing=_passing(passing, manifest),
            changes=changes(manifest.ones),
            small=small(manifest),
            rendered=rendered(manifest),
            columns=[{"name": c.name, "type": c.kind.__name__, "said": c.said} for c in manifest.columns],
        )
    )


@lru_cache(maxsize=4)
def markdown(package: str) -> Environment:
    """The templates of a package's Markdown pages."""
    made = Environment(
        loader=PackageLoader(package),
        autoescape=False,  # noqa: S701 (Markdown, not HTML)
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["cell"] = _cell
    return made


def _cell(value: object) -> str:
    """Text that stays in its cell of a table."""
    return " ".join(str(value).split()).replace("|", "\\|")


def front(manifest: Manifest) -> str:
    """What Hugging Face reads of a card."""
    found = {origin.known for origin in origins(manifest)}
    only = found.pop() if len(found) == 1 else None
    terms = {"license": only.id} if only else {"license": "other", "license_link": LICENCE}
    data = {
        "pretty_name": f"{manifest.name}: chosen portraits",
        **terms,
        "task_categories": ["image-to-image"],
        "tags": ["fairness", "audit", "faces", "image-editing"],
        "configs": [{"config_name": "portraits", "data_files": "portraits.parquet"}],
    }
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def _axes(manifest: Manifest) -> Iterator[dict[str, Any]]:
    for axis, groups in manifest.plan.grid.axes.items():
        counts = Counter(one.candidate.portrait.labels.get(axis) for one in manifest.ones)
        yield {"name": axis.replace("_", " "), "counts": [(label, counts[id]) for id, label in groups.items()]}


def drawn(manifest: Manifest) -> str:
    """What the pools were drawn from, and when."""
    first, last = (moment[:10] for moment in manifest.drawn)
    when = f"on {first}" if first == last else f"from {first} to {last}"
    listed, cells = sum(manifest.census.get("cell", {}).values()), manifest.plan.grid.cells
    rows = f"{listed:,} rows of the data set lie in the {len(cells)} cells of the grid. " if listed else ""
    count = "1 pool was" if len(manifest.pools) == 1 else f"{len(manifest.pools)} pools were"
    each = f"each with {manifest.plan.grid.per_cell} a cell where the data set has so many"
    return f"{rows}{count} drawn at random {when}, {each}."


def _pools(manifest: Manifest) -> Iterator[dict[str, int]]:
    """The paper's table 2."""
    candidates = Counter(one.pool for one in manifest.candidates)
    pool_of = {one.key: one.pool for one in manifest.candidates}
    chosen = counts_by_pool(manifest.review.state, pool_of, manifest.pools)
    for number, seed in manifest.pools.items():
        yield {"number": number, "seed": seed, "candidates": candidates[number], "chosen": chosen[number]}


def skipped(manifest: Manifest) -> Iterator[str]:
    """What the draw found and did not use, counted."""
    census = manifest.census
    for word, count in census.get("reason", {}).items():
        kept = " (changed, and kept)" if Reason(word).keeps else ""
        yield f"{Reason(word).label}: {count:,}{kept}"
    outside = sorted(census.get("outside", {}).items(), key=lambda item: (-item[1], item[0]))
    if outside:
        named = "; ".join(f"{label} {count:,}" for label, count in outside[:NAMED])
        more = "; and others" if len(outside) > NAMED else ""
        yield f"outside the grid: {sum(count for _, count in outside):,} rows ({named}{more})"
    yield from _short(manifest)


def _short(manifest: Manifest) -> Iterator[str]:
    found = manifest.census.get("drawn", {})
    wanted = manifest.plan.grid.per_cell * len(manifest.pools)
    for cell in manifest.plan.grid.cells:
        if found and found.get(cell.id, 0) < wanted:
            yield f"too few candidates for {cell.label}: {found.get(cell.id, 0)} of {wanted}"


def reviewed(manifest: Manifest) -> str:
    """n actions in m hours."""
    name = manifest.review.reviewer
    mine = [action for action in manifest.actions if action.reviewer == name]
    count = "1 action" if len(mine) == 1 else f"{len(mine):,} actions"
    hours = seconds_at_work(mine) / 3600
    took = f"{hours:.1f} hours" if hours >= 1 else f"{max(1, round(hours * 60))} min"
    return (
        f"A reviewer (pseudonym {name}) looked at the candidates of each cell side by side and chose: {count} "
        f"in {took} of work, breaks of more than a quarter of an hour not counted."
    )


def compared(manifest: Manifest) -> str:
    """How far a second, blind reviewer chose the same; empty without one."""
    if manifest.review.second is None:
        return ""
    both = [a for a in (o.review.agreed(o.candidate, o.needed) for o in manifest.ones) if a is not None]
    told = f"A second reviewer (pseudonym {manifest.review.second}) chose too, blind to the first"
    if not both:
        return f"{told}, and has decided none of the exported cells, so nothing is known about their agreement."
    same = f"{told}: the same portrait for {sum(both)} of the {len(both)} that both decided."
    grid = manifest.plan.grid
    found = agreement_on_choices(manifest.review.blind, by_cell(grid, manifest.candidates), grid.per_cell)
    if found.kappa is None or found.low is None or found.high is None:
        return same
    kappa, low, high = (f"{value:.2f}".replace("-", "−") for value in (found.kappa, found.low, found.high))
    return (
        f"{same} Cohen's kappa of their blind choices is {kappa} (95 % interval {low} to {high}; {found.n} cells)."
    )


def _screened(manifest: Manifest) -> str:
    if not any(one.chosen.reading for one in manifest.ones):
        return "No pre-screen measured them; what a reviewer did not tick is not known."
    return "Figures of a pre-screen tick them at first; a person decides."


def _criteria(manifest: Manifest) -> Iterator[dict[str, Any]]:
    for criterion in manifest.plan.protocol.groups.selection_criteria:
        ticks = Counter(one.chosen.ticks[criterion.id] for one in manifest.ones)
        counts = {"met": ticks[True], "unmet": ticks[False], "unmeasured": ticks[None]}
        yield {"label": criterion.label, "description": criterion.description, **counts}


def _passing(frame: pl.DataFrame | None, manifest: Manifest) -> dict[str, Any] | None:
    """A row a group, a column a criterion."""
    if frame is None or frame.is_empty():
        return None
    labels = {one.id: one.label for one in manifest.plan.protocol.groups.selection_criteria}
    found = {(row["dimension"], row["group"], row["criterion"]): row for row in frame.iter_rows(named=True)}
    groups = list(dict.fromkeys((dimension, group) for dimension, group, _ in found))
    shown = [name for name in labels if any(criterion == name for _, _, criterion in found)]
    rows = [[d, _label(manifest, d, g), *(_rate(found.get((d, g, name))) for name in shown)] for d, g in groups]
    return {"head": ["perceived", "group", *(labels[name] for name in shown)], "rows": rows}


def _label(manifest: Manifest, dimension: str, group: str) -> str:
    return manifest.plan.grid.axes.get(dimension, {}).get(group, group)


def _rate(row: Mapping[str, Any] | None) -> str:
    if row is None or row["rate"] is None:
        return "not measured"
    return f"{row['rate']:.0%} of {row['measured']}{', less often' if row['less_often'] else ''}"


def rendered(manifest: Manifest) -> int:
    """How many are stillme's own synthetic heads, which show nobody."""
    return sum(one.picture.is_rendered for one in manifest.ones)


def small(manifest: Manifest) -> str:
    """How many portraits were face-sized; empty where none was."""
    limit = manifest.plan.rules.face_sized
    sides = [min(one.candidate.width, one.candidate.height) for one in manifest.ones]
    found = [side for side in sides if side < limit]
    if not found:
        return ""
    size = f"{min(found)}" if min(found) == max(found) else f"{min(found)} to {max(found)}"
    return f"{len(found)} of {len(sides)} portraits have {size} pixels at the shorter side in their data set."
