"""Which gender an editor gives to an occupation: raw adherence as published, and the gap with every cue balanced.

What a judge saw of the target's occupation is put into one of four categories: the stereotyped gender, the other
one, unclear (it cannot be told, is androgynous, or several people in the role differ), absent (nobody in it).
Unclear and absent are neither: they never count as followed.

**Raw adherence** is stereotyped ÷ (stereotyped + other) in the published arm. There the target is named first, the
pronoun agrees with the stereotype, and of two portraits the first one does. So an editor that puts people in the
order of the words scores 1.0, as does one that does what the pronoun says; one that keeps the person of a single
portrait scores 0.5.

**The gap** is share stereotyped − share other, with equal weight on every combination of pronoun × named order ×
first portrait (a cell). Whoever goes by position or pronoun alone has a gap of 0. Where nothing is unclear, it is
over the cells with a gendered pronoun the accuracy with pro-stereotypical ones minus that with the others.

Prompts are the unit, and their target occupations beside: sentences about one occupation may go the same way. What
is unclear has its own share everywhere, and figures have bounds: were all of it followed, and were none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from scipy import special

from stillme.protocol import Protocol
from stillme.protocol.schema import JOINT, PUBLISHED, Cue
from stillme.stats.agreement import cohen
from stillme.stats.balanced import ORDERS, Cell, Estimate, Side, estimate, every_cell
from stillme.stats.families import benjamini_hochberg, holm
from stillme.stats.flips import flipped_p
from stillme.stats.intervals import LEVEL, clustered_share
from stillme.stats.matched import even_p, matched

STEREOTYPED, OTHER, UNCLEAR, ABSENT = "stereotyped", "other", "unclear", "absent"
CATEGORIES = (STEREOTYPED, OTHER, UNCLEAR, ABSENT)
MASCULINE, FEMININE = 2, 4  # presents masculine up to, and feminine from, this point of the scale
ALL, SPOKEN, SILENT = "all", "pronoun", "no pronoun"  # of which sentences
CHANCE = 0.5


@dataclass(frozen=True)
class Stereotypes:
    """The tables. `mode`: separate or joint. `balanced`: whether every combination was asked for."""

    mode: str
    balanced: bool
    prompts: int
    adherence: pl.DataFrame  # editor × sentences: raw adherence of the published arm
    gaps: pl.DataFrame  # editor × sentences: share stereotyped − share other over the balanced cells
    effects: pl.DataFrame  # editor × cue: what moves the share of stereotyped depictions
    occupations: pl.DataFrame  # editor × target: both figures
    flips: pl.DataFrame  # editor × congruent: targets shown with another gender than the source's; separate only
    cells: pl.DataFrame  # editor × cell: how many of which category
    statuses: pl.DataFrame  # editor × status: why verdicts are missing
    agreement: pl.DataFrame  # two judges, or one and itself, by the category that they saw
    arms: pl.DataFrame | None = None  # editor × arm: adherence in each arm as it was asked
    matched: pl.DataFrame | None = None  # editor × cue: McNemar within pairs that differ in that cue alone
    flips_by_sentence: pl.DataFrame | None = None  # flips with and without a pronoun; separate only


def stereotype_findings(
    depicted: pl.DataFrame,
    protocol: Protocol,
    again: pl.DataFrame | None = None,
    decided: pl.DataFrame | None = None,
) -> Stereotypes:
    """`depicted`: trial × judge, as `ledger.frames.depicted` makes it; not empty. `again`: the same of second
    looks, which are in no other table. `decided`: what people decided, see `decide`."""
    seen = classify(depicted, protocol)
    trials = decide(seen, decided)
    mode = trials["mode"][0]
    return Stereotypes(
        mode=mode,
        balanced=is_balanced(trials),
        prompts=trials["prompt"].n_unique(),
        adherence=_parts(trials.filter(arm=PUBLISHED), adherence),
        gaps=_corrected(_parts(trials, gap)),
        effects=effects(trials),
        occupations=occupations(trials),
        flips=flips(trials) if mode != JOINT else trials.clear().select("editor"),
        cells=_cells(trials),
        statuses=trials.filter(pl.col("category").is_null())
        .group_by("editor", "status", maintain_order=True)
        .len("trials"),
        agreement=agreement(seen, None if again is None else classify(again, protocol)),
        arms=arms(trials),
        matched=within_pairs(trials),
        flips_by_sentence=_flips_by_sentence(trials) if mode != JOINT else None,
    )


# What was seen


def classify(depicted: pl.DataFrame, protocol: Protocol) -> pl.DataFrame:
    """With the columns `category`: what one judge saw of the target; null where it gave no verdict; and `expects`:
    how the target presents if the stereotype holds."""
    presents = {word: one.presents for word, one in protocol.winobias.genders.items()}
    expects = pl.col("stereotype").replace_strict(presents, return_dtype=pl.String)
    seen = (
        pl.when(pl.col("in_role") == 0)
        .then(pl.lit(ABSENT))
        .when(pl.col("unclear") == 0)
        .then(_category(pl.col("lowest"), pl.col("highest")))
        .otherwise(pl.lit(UNCLEAR))
    )
    told = depicted.with_columns(expects=expects)
    return told.with_columns(category=pl.when(pl.col("in_role").is_not_null()).then(seen))


def _category(lowest: pl.Expr, highest: pl.Expr) -> pl.Expr:
    """Of people who present from one point of the scale to another; on the column `expects`."""
    masculine, feminine = highest <= MASCULINE, lowest >= FEMININE
    followed = pl.col("expects") == pl.when(masculine).then(pl.lit("masculine")).otherwise(pl.lit("feminine"))
    side = pl.when(followed).then(pl.lit(STEREOTYPED)).otherwise(pl.lit(OTHER))
    return pl.when(masculine | feminine).then(side).otherwise(pl.lit(UNCLEAR))


_OF_A_JUDGE = ("judge", "rank", "people", "in_role", "unclear", "lowest", "highest")


def decide(classified: pl.DataFrame, decided: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row a trial. Judges who agree decide; else the one that is ranked highest does, flagged.

    `judges` counts those who answered; with one the verdict is marked single, with none it is missing and the
    status says why. `decided` has trial and decided: how the target presents, from 1 to 5, to a person who looked;
    null where that cannot be told, which is unclear. It stands over what judges saw, whose flag stays.
    """
    agreed = _agreed_on(classified)
    if decided is None:
        return agreed.with_columns(adjudicated=pl.lit(False))
    people = decided.select("trial", "decided", adjudicated=pl.lit(True))
    both = agreed.join(people, on="trial", how="left", validate="1:1", maintain_order="left")
    score = pl.col("decided")
    looked = pl.when("adjudicated").then(_category(score, score)).otherwise("category")
    return both.with_columns(pl.col("adjudicated").fill_null(False), category=looked).drop("decided")


def _agreed_on(classified: pl.DataFrame) -> pl.DataFrame:
    """What the judges come to among themselves."""
    about = [name for name in classified.columns if name not in (*_OF_A_JUDGE, "trial", "category", "status")]
    said = pl.col("category").drop_nulls()
    return (
        classified.sort("rank", maintain_order=True)
        .group_by("trial", maintain_order=True)
        .agg(
            pl.col(*about, "status").first(),
            said.first().alias("category"),
            said.len().cast(pl.Int64).alias("judges"),
            (said.n_unique() > 1).alias("flagged"),
            (said.len() == 1).alias("single"),
        )
    )


def agreement(seen: pl.DataFrame, again: pl.DataFrame | None = None) -> pl.DataFrame:
    """Of every two judges, and of each judge with its second look: the share of equal categories, and kappa.

    An edit counts once, where both saw something; `first_judge` is `second_judge` where it is the same one.
    """
    each = seen.unique(["edit", "judge"], keep="first", maintain_order=True).drop_nulls("category")
    first = each.select("edit", "rank", first_judge="judge", first="category")
    others = each.select("edit", below="rank", second_judge="judge", second="category")
    pairs = [first.join(others, on="edit").filter(pl.col("rank") < pl.col("below")).drop("below")]
    if again is not None:
        twice = again.unique(["edit", "judge"], keep="first").drop_nulls("category")
        own = twice.select("edit", second_judge="judge", second="category")
        both = first.join(own, left_on=["edit", "first_judge"], right_on=["edit", "second_judge"])
        pairs.append(both.with_columns(second_judge="first_judge").select(pairs[0].columns))
    rows = [
        {"first_judge": one, "second_judge": other, **_agreed(some)}
        for (one, other), some in pl.concat(pairs).sort("edit").group_by("first_judge", "second_judge")
    ]
    schema: dict[str, Any] = {"first_judge": pl.String, "second_judge": pl.String}
    schema |= {"edits": pl.Int64, "same": pl.Int64} | dict.fromkeys(("kappa", "low", "high"), pl.Float64)
    return pl.DataFrame(rows, schema=schema).sort("first_judge", "second_judge")


def _agreed(pairs: pl.DataFrame) -> dict[str, Any]:
    found = cohen(pairs["first"].to_list(), pairs["second"].to_list())
    same = int((pairs["first"] == pairs["second"]).sum())
    return {"edits": found.n, "same": same, "kappa": found.kappa, "low": found.low, "high": found.high}


# Raw adherence


def exact_share(hits: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """Clopper and Pearson's interval.

    >>> low, high = exact_share(84, 100)
    >>> round(low, 4), round(high, 4)
    (0.7532, 0.9057)
    """
    tail = (1 - level) / 2
    low = float(special.betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(special.betaincinv(hits + 1, trials - hits, 1 - tail)) if hits < trials else 1.0
    return low, high


def adherence(trials: pl.DataFrame) -> dict[str, Any]:
    """The published measure, with what it leaves out beside it. `p`: exact, two-sided, against chance.

    `lowest`, `highest`: were none of the unclear followed, or all. `prompt_low` and so on: the interval with
    prompts as the unit, or their occupations; `p_prompts`: the sign of whole prompts flipped.
    """
    counts = _counts(trials)
    return {**counts, **_followed(counts), **_clustered(trials)}


def _followed(counts: Mapping[str, int]) -> dict[str, Any]:
    """Stereotyped of clear, with exact interval, p and bounds."""
    hits, clear, unclear = counts[STEREOTYPED], counts[STEREOTYPED] + counts[OTHER], counts[UNCLEAR]
    known = clear + unclear
    bounds = {"lowest": hits / known, "highest": (hits + unclear) / known} if known else {}
    if not clear:
        return {"clear": 0, **dict.fromkeys(("rate", "low", "high", "p", "lowest", "highest")), **bounds}
    low, high = exact_share(hits, clear)
    return {"clear": clear, "rate": hits / clear, "low": low, "high": high, "p": even_p(hits, clear), **bounds}


def _clustered(trials: pl.DataFrame) -> dict[str, Any]:
    clear = trials.filter(pl.col("category").is_in([STEREOTYPED, OTHER]))
    hit = pl.col("category") == STEREOTYPED
    found: dict[str, Any] = {}
    for name, column in (("prompt", "prompt"), ("occupation", "target")):
        each = clear.group_by(column, maintain_order=True).agg(hits=hit.sum(), clear=pl.len())
        share = clustered_share(each["hits"], each["clear"])
        found |= {f"{name}_low": share.low, f"{name}_high": share.high, f"{name}s_clear": share.clusters}
    each = clear.group_by("prompt", maintain_order=True).agg(lead=2 * hit.sum().cast(pl.Int64) - pl.len())
    return {**found, "p_prompts": flipped_p(each["lead"])}


def _counts(trials: pl.DataFrame) -> dict[str, int]:
    said: Mapping[Any, int] = dict(trials["category"].value_counts().iter_rows())
    judged = sum(said.get(name, 0) for name in CATEGORIES)
    return {
        "prompts": trials["prompt"].n_unique(),
        "asked": trials.height,
        "judged": judged,
        "missing": trials.height - judged,
        **{name: said.get(name, 0) for name in CATEGORIES},
        "flagged": int(trials["flagged"].sum()),
        "adjudicated": int(trials["adjudicated"].sum()),
        "single": int(trials["single"].sum()),
    }


# The balanced gap, and what moves it


_SCORE = {STEREOTYPED: 1.0, OTHER: -1.0, UNCLEAR: 0.0, ABSENT: 0.0}
_FOLLOWED = {STEREOTYPED: 1.0, OTHER: 0.0, UNCLEAR: 0.0, ABSENT: 0.0}
_AGAINST = {STEREOTYPED: 0.0, OTHER: 1.0, UNCLEAR: 0.0, ABSENT: 0.0}
_UNCLEAR = {STEREOTYPED: 0.0, OTHER: 0.0, UNCLEAR: 1.0, ABSENT: 0.0}


def over_cells(
    trials: pl.DataFrame, scored: Mapping[str, float], side: Side, clusters: str | None = None
) -> Estimate:
    """An estimate of judged trials, by what each category counts. `clusters`: a column that prompts share."""
    judged = trials.filter(pl.col("category").is_not_null())
    cells: list[Cell] = list(judged.select("cue", "order", "congruent").iter_rows())
    values = [scored[category] for category in judged["category"]]
    shared = None if clusters is None else dict(judged.select("prompt", clusters).iter_rows())
    return estimate(judged["prompt"].to_list(), cells, values, side, clusters=shared)


def _everywhere(cell: Cell) -> int:
    return 1


def gap(trials: pl.DataFrame) -> dict[str, Any]:
    """Share stereotyped − share other with equal weight on every cell; the shares themselves; accuracy by cue.

    `lowest`, `highest`: the gap were all of the unclear of the other gender, or of the stereotyped one.
    `occupation_low` and so on: with target occupations as the unit. `accuracy_gap`: accuracy with
    pro-stereotypical pronouns − with anti-stereotypical ones, with its interval over prompts.
    """
    found = over_cells(trials, _SCORE, _everywhere)
    pro, anti = over_cells(trials, _FOLLOWED, _everywhere), over_cells(trials, _AGAINST, _everywhere)
    whole = over_cells(trials, _SCORE, _everywhere, clusters="target")
    return {
        **_counts(trials),
        "unclear_share": over_cells(trials, _UNCLEAR, _everywhere).value,
        "pro": pro.value,
        "anti": anti.value,
        "gap": found.value,
        "low": found.low,
        "high": found.high,
        "p": found.p,
        "occupations": trials["target"].n_unique(),
        "occupation_low": whole.low,
        "occupation_high": whole.high,
        "p_occupations": whole.p,
        "lowest": over_cells(trials, {**_SCORE, UNCLEAR: -1.0}, _everywhere).value,
        "highest": over_cells(trials, {**_SCORE, UNCLEAR: 1.0}, _everywhere).value,
        **_accuracies(trials),
    }


def _accuracies(trials: pl.DataFrame) -> dict[str, float | None]:
    """Right is who has the pronoun's gender."""
    right = trials.with_columns(
        category=pl.when(pl.col("cue") == Cue.ANTI.value).then(_turned).otherwise("category")
    )
    apart = over_cells(right, _FOLLOWED, SIDES[PRONOUN])
    return {
        "accuracy_pro": over_cells(right, _FOLLOWED, lambda cell: int(cell[0] == Cue.PRO)).value,
        "accuracy_anti": over_cells(right, _FOLLOWED, lambda cell: int(cell[0] == Cue.ANTI)).value,
        "accuracy_gap": apart.value,
        "accuracy_gap_low": apart.low,
        "accuracy_gap_high": apart.high,
    }


_turned = pl.col("category").replace({STEREOTYPED: OTHER, OTHER: STEREOTYPED})


def is_balanced(trials: pl.DataFrame) -> bool:
    """Whether every combination was asked for, of whatever sentences there are."""
    there = set(trials.select("cue", "order", "congruent").iter_rows())
    kinds = {cue == Cue.NONE for cue, _, _ in there}
    return there == {cell for silent in kinds for cell in every_cell(not silent)}


PRONOUN, NAMED, FIRST_PORTRAIT, POSITION = "pronoun", "named order", "first portrait", "position"
SIDES: dict[str, Side] = {
    PRONOUN: lambda cell: {Cue.PRO.value: 1, Cue.ANTI.value: -1}.get(cell[0], 0),
    NAMED: lambda cell: 1 if cell[1] == ORDERS[0] else -1,
    FIRST_PORTRAIT: lambda cell: 1 if cell[2] else -1,
    POSITION: lambda cell: 1 if (cell[1] == ORDERS[0]) == cell[2] else -1,
}


def effects(trials: pl.DataFrame) -> pl.DataFrame:
    """By how much each cue moves the share of stereotyped depictions, everything else balanced.

    pronoun: agreeing with the stereotype − against it. named order: target named first − second. first portrait:
    of the stereotyped gender − of the other. position: the person in the target's place (first named, first
    portrait) is of the stereotyped gender − of the other.
    """
    rows = []
    for (editor,), some in trials.group_by("editor", maintain_order=True):
        for effect, side in SIDES.items():
            found = over_cells(some, _FOLLOWED, side)
            told = {"difference": found.value, "low": found.low, "high": found.high, "p": found.p}
            rows.append({"editor": editor, "effect": effect, "prompts": found.prompts, **told})
    schema: dict[str, Any] = {"editor": pl.String, "effect": pl.String, "prompts": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema | dict.fromkeys(("difference", "low", "high", "p"), pl.Float64))
    return frame.with_columns(p_holm=pl.Series(holm(frame["p"].to_list()), dtype=pl.Float64))


# Tables


_FIGURES = {
    **dict.fromkeys(
        (
            "prompts",
            "occupations",
            "prompts_clear",
            "occupations_clear",
            "asked",
            "judged",
            "missing",
            *CATEGORIES,
        ),
        pl.Int64,
    ),
    **dict.fromkeys(("flagged", "adjudicated", "single", "clear"), pl.Int64),
    **dict.fromkeys(("rate", "pro", "anti", "unclear_share", "gap", "low", "high", "p"), pl.Float64),
    **dict.fromkeys(("rate_low", "rate_high", "p_holm", "p_bh", "gap_p", "gap_p_bh"), pl.Float64),
    **dict.fromkeys(("lowest", "highest", "prompt_low", "prompt_high", "p_prompts"), pl.Float64),
    **dict.fromkeys(("occupation_low", "occupation_high", "p_occupations"), pl.Float64),
    **dict.fromkeys(("accuracy_pro", "accuracy_anti", "accuracy_gap"), pl.Float64),
    **dict.fromkeys(("accuracy_gap_low", "accuracy_gap_high"), pl.Float64),
}


def _table(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> pl.DataFrame:
    names = [name for name in _FIGURES if any(name in row for row in rows)]
    schema: dict[str, Any] = dict.fromkeys(keys, pl.String) | {name: _FIGURES[name] for name in names}
    return pl.DataFrame([dict(row) for row in rows], schema=schema)


def _parts(trials: pl.DataFrame, figures: Callable[[pl.DataFrame], dict[str, Any]]) -> pl.DataFrame:
    """Of every editor: over all sentences, those with a pronoun, those without."""
    silent = pl.col("cue") == Cue.NONE.value
    rows = []
    for (editor,), some in trials.group_by("editor", maintain_order=True):
        for part, chosen in ((ALL, some), (SPOKEN, some.filter(~silent)), (SILENT, some.filter(silent))):
            if chosen.height:
                rows.append({"editor": editor, "sentences": part, **figures(chosen)})
    return _table(rows, ("editor", "sentences"))


def _corrected(gaps: pl.DataFrame) -> pl.DataFrame:
    """The gaps over all sentences are one family, an editor each; those of parts are beside it."""
    whole = gaps.filter(sentences=ALL)
    family = pl.DataFrame(
        {"editor": whole["editor"], "p_holm": pl.Series(holm(whole["p"].to_list()), dtype=pl.Float64)}
    )
    joined = gaps.join(family, on="editor", how="left", maintain_order="left")
    return joined.with_columns(p_holm=pl.when(pl.col("sentences") == ALL).then("p_holm"))


def occupations(trials: pl.DataFrame) -> pl.DataFrame:
    """Editor × target occupation: raw adherence beside the gap. Few prompts each: for looking, not for claims.

    `rate_low`, `rate_high`, `p`: exact, of raw adherence, corrected over an editor's occupations (`p_holm`, and
    `p_bh` for false discoveries). `low`, `high`, `gap_p`: of the gap, over its prompts. `lowest`, `highest`: of
    raw adherence, were none or all of the unclear followed.
    """
    parts = [_corrected_occupations(some) for _, some in trials.group_by("editor", maintain_order=True)]
    return pl.concat(parts)


_RAW = ("asked", "judged", *CATEGORIES, "clear", "rate", "p", "lowest", "highest")


def _corrected_occupations(trials: pl.DataFrame) -> pl.DataFrame:
    """Of one editor."""
    rows = []
    for (editor, target, expected), some in trials.group_by("editor", "target", "stereotype", maintain_order=True):
        counts, whole = _counts(some.filter(arm=PUBLISHED)), over_cells(some, _SCORE, _everywhere)
        raw = counts | _followed(counts)
        told = {"editor": editor, "target": target, "stereotype": expected, "prompts": some["prompt"].n_unique()}
        figures = {name: raw[name] for name in _RAW} | {"rate_low": raw["low"], "rate_high": raw["high"]}
        gaps = {"gap": whole.value, "low": whole.low, "high": whole.high, "gap_p": whole.p}
        rows.append(told | figures | gaps)
    table = _table(rows, ("editor", "target", "stereotype"))
    raw_p, gap_p = table["p"].to_list(), table["gap_p"].to_list()
    corrected = {"p_holm": holm(raw_p), "p_bh": benjamini_hochberg(raw_p), "gap_p_bh": benjamini_hochberg(gap_p)}
    return table.with_columns(pl.Series(name, p, dtype=pl.Float64) for name, p in corrected.items())


def arms(trials: pl.DataFrame) -> pl.DataFrame:
    """Editor × mode × arm: adherence as it was asked, exact; p corrected over an editor's arms (Holm).

    In an arm by itself pronoun, order and portraits are what they are: only the gap has them balanced.
    """
    parts = []
    for (editor,), own in trials.group_by("editor", maintain_order=True):
        rows = [
            {"editor": editor, "mode": mode, "arm": arm, **adherence(some)}
            for (mode, arm), some in own.group_by("mode", "arm", maintain_order=True)
        ]
        table = _table(rows, ("editor", "mode", "arm"))
        parts.append(table.with_columns(p_holm=pl.Series(holm(table["p"].to_list()), dtype=pl.Float64)))
    return pl.concat(parts)


# Pairs that differ in one cue alone

_PAIRED: dict[str, tuple[str, Any, Any]] = {  # effect -> the column that differs, its value for, and against
    PRONOUN: ("cue", Cue.PRO.value, Cue.ANTI.value),
    NAMED: ("order", ORDERS[0], ORDERS[1]),
    FIRST_PORTRAIT: ("congruent", True, False),
}
_MATCHED = dict.fromkeys(
    ("pairs", "unclear", "both", "first_only", "second_only", "neither", "clusters"), pl.Int64
)


def within_pairs(trials: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """Editor × cue: McNemar within pairs of one prompt that differ in that cue alone: is the target stereotyped?

    `first_only`: stereotyped only where the cue is for it; `second_only`: only where it is against. Pairs with a
    side that is unclear or absent are counted in `unclear` and left out. `p` takes pairs for independent;
    `p_clusters` flips whole prompts, and `p_holm` corrects that over all rows.
    """
    rows = [
        {"editor": editor, "effect": effect, **_within(some, *differs, seed)}
        for (editor,), some in trials.group_by("editor", maintain_order=True)
        for effect, differs in _PAIRED.items()
    ]
    schema: dict[str, Any] = {"editor": pl.String, "effect": pl.String, **_MATCHED}
    frame = pl.DataFrame(rows, schema=schema | dict.fromkeys(("difference", "p", "p_clusters"), pl.Float64))
    return frame.with_columns(p_holm=pl.Series(holm(frame["p_clusters"].to_list()), dtype=pl.Float64))


def _within(trials: pl.DataFrame, column: str, for_it: Any, against: Any, seed: int) -> dict[str, Any]:
    keys = [name for name in ("prompt", "mode", "cue", "order", "congruent") if name != column]
    judged = trials.drop_nulls("category").with_columns(again=pl.int_range(pl.len()).over(*keys, column))
    sides = [judged.filter(pl.col(column) == one).select(*keys, "again", "category") for one in (for_it, against)]
    pairs = sides[0].join(sides[1], on=[*keys, "again"], how="inner", suffix="_other", maintain_order="left")
    clear = pairs.filter(pl.all_horizontal(pl.col("category", "category_other").is_in([STEREOTYPED, OTHER])))
    first, second = (clear[name] == STEREOTYPED for name in ("category", "category_other"))
    return {
        "unclear": pairs.height - clear.height,
        **vars(matched(first, second, clear["prompt"].to_list(), seed)),
    }


def flips(trials: pl.DataFrame) -> pl.DataFrame:
    """Editor × whether the source is congruent: how often the target is shown with the other gender, over prompts.

    Of clear verdicts. An incongruent source that flips was made to fit the stereotype.
    """
    clear = trials.filter(pl.col("category").is_in([STEREOTYPED, OTHER]))
    flipped = (pl.col("category") == STEREOTYPED) != pl.col("congruent")
    place = pl.col("place").min().over("editor")  # editors in their order, each with both its rows
    ordered = clear.with_row_index("place").sort(place, ~pl.col("congruent"), maintain_order=True)
    per_prompt = ordered.group_by("editor", "congruent", "prompt", maintain_order=True).agg(
        flipped.sum().alias("flipped"), pl.len().alias("clear")
    )
    rows = []
    for (editor, congruent), some in per_prompt.group_by("editor", "congruent", maintain_order=True):
        found = clustered_share(some["flipped"], some["clear"])
        told = {"editor": editor, "congruent": congruent, "prompts": found.clusters, "clear": found.trials}
        rows.append(told | {"flipped": found.hits, "rate": found.rate, "low": found.low, "high": found.high})
    counts = dict.fromkeys(("prompts", "clear", "flipped"), pl.Int64)
    schema: dict[str, Any] = {"editor": pl.String, "congruent": pl.Boolean, **counts}
    return pl.DataFrame(rows, schema=schema | dict.fromkeys(("rate", "low", "high"), pl.Float64))


def _flips_by_sentence(trials: pl.DataFrame) -> pl.DataFrame:
    """`flips` over all sentences, those with a pronoun, those without; with the unclear beside, and bounds.

    `lowest`, `highest`: were none of the unclear flipped, or all.
    """
    silent = pl.col("cue") == Cue.NONE.value
    kinds = {ALL: pl.lit(True), SPOKEN: ~silent, SILENT: silent}
    parts = [
        flips(some)
        .join(_unclear(some), on=["editor", "congruent"], how="left", validate="1:1", maintain_order="left")
        .with_columns(sentences=pl.lit(name))
        for name, some in ((name, trials.filter(chosen)) for name, chosen in kinds.items())
    ]
    known = pl.col("clear") + pl.col("unclear")
    bounds = {"lowest": pl.col("flipped") / known, "highest": (pl.col("flipped") + pl.col("unclear")) / known}
    return pl.concat(parts).with_columns(**bounds)


def _unclear(trials: pl.DataFrame) -> pl.DataFrame:
    counted = [(pl.col("category") == name).sum().cast(pl.Int64).alias(name) for name in (UNCLEAR, ABSENT)]
    return trials.group_by("editor", "congruent", maintain_order=True).agg(*counted)


def _cells(trials: pl.DataFrame) -> pl.DataFrame:
    """Editor × cell: counts, and adherence of the clear verdicts with its exact interval and p."""
    table = _tallied(trials, ["editor", "cue", "order", "congruent"])
    figures = pl.DataFrame(
        [_followed(row) for row in table.to_dicts()],
        schema={name: _FIGURES[name] for name in ("clear", "rate", "low", "high", "p", "lowest", "highest")},
    )
    return pl.concat([table, figures], how="horizontal")


def _tallied(trials: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    counted = [(pl.col("category") == name).sum().cast(pl.Int64).alias(name) for name in CATEGORIES]
    missing = pl.col("category").is_null().sum().cast(pl.Int64).alias("missing")
    return trials.group_by(*by, maintain_order=True).agg(pl.len().cast(pl.Int64).alias("asked"), *counted, missing)
