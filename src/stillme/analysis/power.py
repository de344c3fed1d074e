"""`stillme power`: what an audit of a given size can and cannot resolve, in sentences.

The size comes from an audit's own file, or from the command line; what the editors and the persons are like is
supposed, and said. Statistics are those of `stats.power`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from stillme.core.errors import InputError
from stillme.core.text import table
from stillme.plan import config as configs
from stillme.plan.config import Config
from stillme.protocol import Protocol, builtin
from stillme.stats import power as powers
from stillme.stats.intervals import FEWEST_FOR_INTERVAL
from stillme.stats.power import ALIKE, Design
from stillme.steps import portraits as gathering

EDITORS = 3  # where no audit says how many there are
MIDDLING = 1  # of the ICCs: the one that larger designs are compared at
WIDTH = 100


@dataclass(frozen=True)
class Asked:
    """What the command line asks for; empty where the audit's own size, or the protocol's, is meant."""

    audit: Path | None = None
    per_cell: Sequence[int] = ()
    prompts: Sequence[int] = ()
    seeds: Sequence[int] = ()
    rate: float = 0.08
    icc: Sequence[float] = ()
    family: int | None = None
    sets: int = powers.SETS
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """`curve`: design × ICC × difference; `resolved`: design × ICC. `larger`: the same for larger designs."""

    asked: Asked
    protocol: Protocol
    family: int
    curve: pl.DataFrame
    resolved: pl.DataFrame
    larger: pl.DataFrame | None

    def to_dict(self) -> dict[str, Any]:
        """For scripts."""
        larger = [] if self.larger is None else self.larger.to_dicts()
        return {
            "family": self.family,
            "resolved": self.resolved.to_dicts(),
            "larger": larger,
            "curve": self.curve.to_dicts(),
        }


def power(asked: Asked) -> Answer:
    """Simulates the designs that are asked for. One design alone is also set beside larger ones."""
    loaded = None if asked.audit is None else configs.load(asked.audit)
    protocol = builtin() if loaded is None else loaded.protocol
    size = powers.of_protocol(protocol) if loaded is None else _own(loaded)
    designs = _designs(asked, size)
    family = asked.family or _family(protocol, EDITORS if loaded is None else len(loaded.audit.editors))
    iccs = tuple(asked.icc) or ALIKE
    simulate = partial(powers.curve, rate=asked.rate, sets=asked.sets, seed=asked.seed, family=family)
    curve = simulate(designs, iccs=iccs)
    larger = None
    if len(designs) == 1:
        middle = iccs[min(MIDDLING, len(iccs) - 1)]
        larger = powers.resolved(simulate(powers.larger(designs[0]), iccs=[middle]))
    return Answer(asked, protocol, family, curve, powers.resolved(curve), larger)


def _designs(asked: Asked, size: Design) -> list[Design]:
    """Every combination of what was asked for, the size itself where nothing was."""
    choices = product(
        asked.per_cell or [size.per_cell], asked.prompts or [size.prompts], asked.seeds or [size.seeds]
    )
    return [Design(size.groups, size.cells, *choice) for choice in choices]


def _family(protocol: Protocol, editors: int) -> int:
    """How many contrasts are claimed together: the declared endpoints of every editor."""
    primary = protocol.analysis.primary
    return max(1, editors * (len(primary.outcomes) + len(primary.net)))


def _own(config: Config) -> Design:
    """The size of an audit: its groups, the persons that a group has, its prompts and seeds."""
    dimension, reference = next(iter(config.protocol.groups.reference_group.items()))
    labels = [portrait.labels for portrait in gathering.list_portraits(config)]
    groups = [one.get(dimension) for one in labels]
    counts = sorted(groups.count(group) for group in set(groups) if group is not None)
    if reference not in groups or len(counts) < 2:
        raise InputError(
            f"The audit's portraits are not of '{reference}' and at least one other group of {dimension}.",
            "Contrasts need both.",
        )
    others = [name for name in config.protocol.groups.dimensions if name != dimension]
    cells = len({tuple(one.get(name) for name in others) for one in labels})
    asked = config.audit.experiments.diagnose
    every = len(config.protocol.prompts.prompts)
    prompts = every if asked is None or asked.prompts == "all" else len(asked.prompts)
    per_cell = max(1, round(counts[len(counts) // 2] / cells))
    return Design(len(counts), cells, per_cell, prompts, 1 if asked is None else asked.seeds)


# Words


def words(answer: Answer) -> str:
    """What was supposed, a line a design and ICC, and sentences on what they mean."""
    parts = [*_supposed(answer), "", _table(answer), "", *_meaning(answer)]
    if answer.larger is not None:
        parts += ["", *_larger(answer)]
    return "\n".join([*parts, "", *_honest(answer)])


def _wrapped(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, WIDTH)


def _names(answer: Answer) -> tuple[str, str]:
    """The dimension and the reference group, as people read them."""
    dimension, group = next(iter(answer.protocol.groups.reference_group.items()))
    return dimension, answer.protocol.groups.labels(dimension)[group]


def _supposed(answer: Answer) -> Iterator[str]:
    dimension, reference = _names(answer)
    groups, rate = answer.resolved["groups"][0], f"{100 * answer.asked.rate:.3g} %"
    yield f"What {_portraits(answer)} can resolve, by simulation ({answer.asked.sets:,} audits a line)."
    yield from _wrapped(
        f"Supposed: {groups} groups of perceived {dimension}; an outcome that edits of {reference} portraits show"
        f" in {rate} of cases, and everyone else's more often; one editor. Persons differ: the ICC says how alike"
        " edits of one person are."
    )


def _portraits(answer: Answer) -> str:
    sizes = answer.resolved["portraits"].unique(maintain_order=True).to_list()
    return f"{', '.join(f'{size:,}' for size in sizes)} portraits"


def _table(answer: Answer) -> str:
    head = (
        *("portraits", "a group", "edits each", "ICC", "found from", f"1 of {answer.family}"),
        *("contrast", "a rate", "max − min", "1 in 20"),
    )
    return table(head, [_row(row) for row in answer.resolved.to_dicts()], right=range(len(head)))


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['portraits']:,}",
        f"{row['persons']:,}",
        f"{row['prompts']:,} × {row['seeds']:,}",
        f"{row['icc']:.2f}",
        *_found(row),
        _half(row["half"]),
        _half(row["rate_half"]),
        f"{100 * row['reach']:.1f}",
        f"{100 * row['reach_95']:.1f}",
    )


def _found(row: dict[str, Any]) -> tuple[str, str]:
    """The difference that is probably found, alone and in its family."""
    return _points(row["detectable"], row["tried"]), _points(row["detectable_in_family"], row["tried"])


def _points(value: float | None, tried: float) -> str:
    return f"> {100 * tried:.1f}" if value is None else f"{100 * value:.1f}"


def _half(value: float | None) -> str:
    return "none" if value is None else f"± {100 * value:.1f}"


def _meaning(answer: Answer) -> Iterator[str]:
    """The columns, then the first design at the middling ICC, in sentences."""
    reference, family = _names(answer)[1], answer.family
    yield from _wrapped(
        f"Edits each: prompts × seeds. Found from: the difference between everyone else and {reference}, in"
        f" percentage points, that is found in 8 of 10 audits. 1 of {family}: the same where {family} contrasts"
        " are claimed together (Holm). Contrast, a rate: half the width of a 95 % interval of that difference, and"
        " of one group's rate. Max − min: the largest difference between two groups when all are alike, on"
        " average, and what 1 audit in 20 passes."
    )
    first = answer.resolved.filter(pl.col("portraits") == answer.resolved["portraits"][0])
    row = first.row(min(MIDDLING, len(first) - 1), named=True)
    yield ""
    yield from _wrapped(f"{_design(row)} {_limits(row, family)} {_quality(row)}")


def _design(row: dict[str, Any]) -> str:
    who = f"{row['portraits']:,} portraits ({row['persons']:,} a group), {row['prompts']:,} prompts"
    return f"With {who} and an ICC of {row['icc']:.2f},"


def _limits(row: dict[str, Any], family: int) -> str:
    alone, together = _found(row)
    return (
        f"a difference of less than {alone} points will probably be missed, and one of less than {together} will"
        f" probably not outlast the correction for {family} contrasts. Max − min of {100 * row['reach']:.1f}"
        " points is expected with no difference at all."
    )


def _quality(row: dict[str, Any]) -> str:
    alike = f"Where all groups are alike, the test finds a difference in {row['false_alarms']:.0%} of audits"
    if row["covered"] is None:
        return f"{alike}; groups of fewer than {FEWEST_FOR_INTERVAL} persons have no intervals."
    held = f"{row['covered']:.0%} (contrast) and {row['rate_covered']:.0%} (rates)"
    return f"{alike}, and intervals hold the truth in {held}."


_LARGER = ("twice the portraits", "five times the prompts", "five edits a prompt")


def _larger(answer: Answer) -> Iterator[str]:
    """What would help, at one ICC: persons, prompts or seeds."""
    assert answer.larger is not None
    icc = answer.larger["icc"][0]
    yield f"What would help (ICC {icc:.2f}):"
    own = answer.resolved.filter(pl.col("icc") == icc).row(0, named=True)
    rows = [("as it is", own), *zip(_LARGER, answer.larger.to_dicts(), strict=True)]
    head = ("", "edits a group", "found from", f"1 of {answer.family}", "contrast")
    yield table(head, [_help(name, row) for name, row in rows], right=range(1, len(head)))
    found = {name: row["detectable"] for name, row in rows[1:] if row["detectable"] is not None}
    if len(found) == len(_LARGER):
        best = min(found, key=lambda name: float(found[name]))
        yield f"Most is gained from {best}."


def _help(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    return (
        name,
        f"{row['persons'] * row['edits']:,}",
        *_found(row),
        _half(row["half"]),
    )


def _honest(answer: Answer) -> Iterator[str]:
    error = 2 * (0.8 * 0.2 / answer.asked.sets) ** 0.5
    yield from _wrapped(
        f"Shares of simulated audits are right to about ± {error:.0%}. How alike edits of one person are, nobody"
        " knows before an audit: `--icc` and `--rate` say what you expect. What is found holds for the prompts"
        " asked."
    )
