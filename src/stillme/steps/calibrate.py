"""Calibration of the judges: pairs made from the audit's own portraits, judged like any edit, held against truth.

It is no part of an audit's plan, rates or counts. What it did before is in the run, so doing it again is a resume.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stillme.core import images
from stillme.core.errors import IncompleteError, InputError
from stillme.core.records import CALIBRATE, Portrait, Status, Trial, digest
from stillme.engine import backends
from stillme.engine.local import INTERRUPTED, Stop
from stillme.engine.progress import Progress
from stillme.judges.calibration import MAKER, instruction
from stillme.ledger import Run
from stillme.ledger.run import settings_hash
from stillme.plan import design as designs
from stillme.plan.config import BASELINE, Config, check_keys
from stillme.plan.design import Design
from stillme.protocol import Protocol
from stillme.protocol.schema import Kind
from stillme.sources.heads.signature import key_in
from stillme.steps import edit as editing
from stillme.steps import judge as judging
from stillme.steps.budget import Purse
from stillme.steps.portraits import gather

if TYPE_CHECKING:
    import polars as pl

    from stillme.stats.calibration import Calibration



# Which pairs


def design(whole: Design) -> Design:
    """The same audit with calibration pairs in place of its trials."""
    return replace(whole, trials=list(_trials(whole)))


def _trials(whole: Design) -> Iterator[Trial]:
    """Person by person, kind by kind."""
    rules = whole.config.protocol.calibration
    if rules is None:
        return
    settings = settings_hash("editor", whole.config.makers[MAKER].effective)
    for portrait in drawn(whole):
        for kind in rules.kinds:
            partner = other_person(whole, portrait) if kind.by == "person" else None
            if partner is not None or kind.by != "person":
                yield _trial(portrait, kind, settings, partner)


def _trial(portrait: Portrait, kind: Kind, settings: str, partner: Portrait | None) -> Trial:
    return Trial.of(
        portrait,
        experiment=CALIBRATE,
        arm=BASELINE,
        prompt=kind.id,
        instruction=instruction(kind),
        editor=MAKER,
        settings=settings,
        seed=0,
        partner=partner,
    )


def drawn(whole: Design) -> list[Portrait]:
    """So many portraits of each group of the reference dimension as the audit says, alike in the other dimensions.

    One after the other the portrait whose gender and age are rarest so far; ties are broken by hashes that are the
    same for every group, so that groups differ in as little else as the portraits allow.
    """
    reference = _reference(whole.config.protocol)
    chosen: list[Portrait] = []
    for group in whole.config.protocol.groups.ids(reference):
        own = [portrait for portrait in whole.portraits if portrait.labels.get(reference) == group]
        chosen += _balanced(
            own, whole.config, [d for d in whole.config.protocol.groups.dimensions if d != reference]
        )
    return chosen


def _reference(protocol: Protocol) -> str:
    return next(iter(protocol.groups.reference_group), next(iter(protocol.groups.dimensions)))


def _balanced(own: Sequence[Portrait], config: Config, others: Sequence[str]) -> list[Portrait]:
    wanted, left = config.audit.calibrating, list(own)
    chosen: list[Portrait] = []
    counts: Counter[tuple[str, str]] = Counter()

    def rank(portrait: Portrait) -> tuple[Any, ...]:
        cell = [portrait.labels.get(d, "") for d in others]
        taken = sum(counts[d, word] for d, word in zip(others, cell, strict=True))
        drawn_by = (digest("calibrate", cell=cell, seed=wanted.seed), _hash(portrait, wanted.seed))
        return taken, *drawn_by

    while left and len(chosen) < wanted.portraits:
        best = min(left, key=rank)
        left.remove(best)
        chosen.append(best)
        counts.update((d, best.labels.get(d, "")) for d in others)
    return chosen


def _hash(portrait: Portrait, seed: int) -> str:
    return digest("calibrate", portrait=portrait.key, seed=seed)


def other_person(whole: Design, portrait: Portrait) -> Portrait | None:
    """Somebody of another group of the reference dimension who is alike in the others; None where nobody is."""
    protocol, seed = whole.config.protocol, whole.config.audit.calibrating.seed
    reference = _reference(protocol)
    alike = [
        other
        for other in whole.portraits
        if other.labels.get(reference, "") not in ("", portrait.labels.get(reference))
        and all(
            other.labels.get(d) == portrait.labels.get(d) for d in protocol.groups.dimensions if d != reference
        )
    ]
    return min(alike, key=lambda other: digest("partner", a=portrait.key, b=other.key, seed=seed), default=None)


def calls(whole: Design) -> dict[str, int]:
    """Judge -> how many calls calibrating it takes, at most."""
    pairs = len(design(whole).trials)
    return {judge: pairs * len(judging.views(whole)) for judge in whole.judges}


# The work


def run(config: Config, progress: Progress) -> Calibration:
    """Makes and judges every pair that is still missing, and says what came of it. Editors are not needed."""
    _check(config)
    check_keys(config, ("sources", "judges"))
    stop = Stop()
    with Run.hold(config.run, config.protocol, config.audit.objects) as held:
        purse = Purse(_alone(config), held.spent_usd())
        portraits = gather(held, config, progress)
        whole = designs.make(config, portraits, designs.known(held, config, portraits))
        pairs = replace(design(whole), config=_alone(config))
        _check_portraits(held, pairs)
        _note(held, whole, pairs)
        editing.edit(held, pairs, progress, stop, purse)
        judging.judge(held, pairs, progress, stop, purse)
        if stop.reason == INTERRUPTED:
            raise KeyboardInterrupt
        _raise_if_incomplete(held, pairs, stop, purse)
        found = findings(held, whole)
        assert found is not None  # every pair has a verdict
        return found


def _check(config: Config) -> None:
    if config.protocol.calibration is None:
        raise InputError(
            "The protocol has no calibration.yaml, so it is not known what pairs to show to judges.",
            "`stillme init --protocol FOLDER` writes one to start from.",
        )
    if not any(not prepared.derived for prepared in config.judges.values()):
        raise InputError("The audit has no judge to calibrate.", "Add one to 'judges'.")


def _alone(config: Config) -> Config:
    """The audit on this machine, without its limit of edits: pairs are made here, and are nobody's edits."""
    audit = config.audit
    engine = audit.engine.model_copy(update={"kind": "local"})
    budgets = audit.budgets.model_copy(update={"edits": None})
    return replace(config, audit=audit.model_copy(update={"engine": engine, "budgets": budgets}))


def _check_portraits(held: Run, pairs: Design) -> None:
    """There are portraits to make pairs of, and whatever finds skin in photographs, where some are."""
    pictures = {trial.image for trial in pairs.trials}
    if not pictures:
        raise InputError("No portrait is of a group that the protocol knows.", "Check the audit's sources.")
    if any(key_in(images.comment(held.image(picture))) is None for picture in pictures):
        backends.require_packages(("cv2",), "Finding skin in photographs")


def _note(held: Run, whole: Design, pairs: Design) -> None:
    """Before anything is spent: the audit as it stands, and the pairs."""
    for one in whole.config.makers.values():
        held.add_settings("editor", one.effective)
    designs.note(held, replace(whole, trials=pairs.trials))


def _raise_if_incomplete(held: Run, pairs: Design, stop: Stop, purse: Purse) -> None:
    edits, verdicts = len(editing.missing(held, pairs)), len(judging.missing(held, pairs)[0])
    if edits or verdicts:
        why = stop.reason or purse.reason or "some calls failed"
        raise IncompleteError(
            f"The calibration is incomplete (pairs missing: {edits:,}, verdicts missing: {verdicts:,}) "
            f"because {why}.",
            f"Everything done is kept in {held.path}; run the same command again to go on.",
        )


# What came of it


def findings(run: Run, whole: Design) -> Calibration | None:
    """The calibration that the run holds for this audit; None where no judge has looked at a pair."""
    if not run.query("SELECT 1 FROM trial WHERE experiment = ? LIMIT 1", (CALIBRATE,)):
        return None
    if whole.config.protocol.calibration is None or not whole.judges:
        return None
    from stillme.stats.calibration import calibration

    frame, subjects = _looks(run, design(whole))
    if not subjects:
        return None
    return calibration(frame, whole.config.protocol, _took(run, list(whole.judges), subjects))


_COLUMNS = ("judge", "kind", "person")
_VIEW = ("as_audited", "told", "repeat")


def _looks(run: Run, pairs: Design) -> tuple[pl.DataFrame, dict[str, str]]:
    """Every look × axis with its score; and what its calls are filed under -> judge, of the looks that ended."""
    import polars as pl

    protocol = pairs.config.protocol
    reference, axes = _reference(protocol), list(protocol.axes)
    verdicts = _verdicts(run, axes)
    rows: list[tuple[Any, ...]] = []
    subjects: dict[str, str] = {}
    for about, asked, key, status in _asked(run, pairs, reference):
        ended, call, *scores = verdicts.get(key, (status, "", *[None] * len(axes)))
        if key in verdicts:
            subjects[call or key] = about[0]
        said = dict(zip(axes, scores, strict=True))
        rows += [(*about, ended, axis, said[axis]) for axis in asked]
    words: dict[str, Any] = dict.fromkeys((*_COLUMNS, reference), pl.String)
    schema = words | {"as_audited": pl.Boolean, "told": pl.Boolean, "repeat": pl.Int64}
    schema |= {"status": pl.String, "axis": pl.String, "score": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row"), subjects


def _asked(run: Run, pairs: Design, reference: str) -> Iterator[tuple[tuple[Any, ...], tuple[str, ...], str, str]]:
    """What every look is about, the axes asked, its key, and how far it is while it has no verdict."""
    protocol, own = pairs.config.protocol, pairs.config.disclose
    every = set(protocol.groups.dimensions)
    people = {portrait.key: portrait for portrait in pairs.portraits}
    statuses = dict(run.query("SELECT key, status FROM edit"))
    keys = {_place(look): look.key for look in judging.calibration(run, pairs)}
    for trial in pairs.trials:
        labels, ended = people[trial.portrait].labels, statuses.get(trial.edit, Status.PENDING.value)
        waits = Status.PENDING.value if ended == Status.OK.value else ended
        for told, repeat in judging.views(pairs):
            known = tuple(name for name in told if name in labels)
            for judge in pairs.judges:
                view = (told == own, set(told) == every, repeat)
                about = (judge, trial.prompt, trial.portrait, labels.get(reference), *view)
                place = (trial.key, judge, known, repeat)
                yield about, protocol.axes_of(trial.prompt), keys.get(place, ""), waits


def _place(look: judging.Look) -> tuple[str, str, tuple[str, ...], int]:
    return look.trial.key, look.judge, tuple(look.disclosed), look.repeat


def _verdicts(run: Run, axes: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Verdict -> how it ended, its call, its scores in the order of the axes."""
    columns = ", ".join(f's."{axis}"' for axis in axes)
    rows = run.query(
        f"SELECT v.key, v.status, v.call, {columns} FROM verdict v LEFT JOIN score s ON s.verdict = v.key"  # noqa: S608 (axes are words by the schema, and quoted)
    )
    return {key: tuple(rest) for key, *rest in rows}


def _took(run: Run, judges: Sequence[str], subjects: dict[str, str]) -> pl.DataFrame:
    """Judge -> attempts and cost of its calls."""
    import polars as pl

    attempts: Counter[str] = Counter()
    cost: dict[str, float] = dict.fromkeys(judges, 0.0)
    for subject, spent in run.query("SELECT subject, cost_usd FROM attempt"):
        if subject in subjects:
            attempts[subjects[subject]] += 1
            cost[subjects[subject]] += spent
    rows = [(judge, attempts[judge], cost[judge]) for judge in judges]
    schema: dict[str, Any] = {"judge": pl.String, "attempts": pl.Int64, "cost_usd": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def to_dict(found: Calibration) -> dict[str, Any]:
    """For scripts: judge -> its verdict, the reasons, and the figures behind them."""
    tables = {"specificity": found.specificity, "sensitivity": found.sensitivity, "retest": found.retest}
    return {
        judge: {
            "verdict": found.verdict(judge).value,
            "reasons": list(found.reasons(judge)),
            **found.took.filter(judge=judge).drop("judge").to_dicts()[0],
            **{name: frame.filter(judge=judge).drop("judge").to_dicts() for name, frame in tables.items()},
        }
        for judge in found.judges
    }
