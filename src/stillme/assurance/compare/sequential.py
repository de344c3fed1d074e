"""Two audits run side by side, a few more persons at a time, until it is decided or the budget is used up.

Persons come in an order by hash, the same for both, so what is seen has no say in who is next. Every step resumes
both ledgers: what is there is not made again, and `stillme run` later completes either of them. One side may be a
run that is there already; then only persons whom it has are edited by the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil
from pathlib import Path

from stillme.assurance.compare.comparison import (
    CompareOptions,
    ComparisonResult,
    SequentialRun,
    Step,
    compare_editor_pair,
    incompatibility_notes,
    primary,
)
from stillme.assurance.compare.inputs import (
    ScoringConditions,
    Side,
    editors,
    find_incompatibilities,
    of_config,
    read,
    select_editors,
)
from stillme.core.errors import InputError
from stillme.core.records import DIAGNOSE, Portrait
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.plan.config import Config, load
from stillme.plan.design import Design, make_design, settings_hashes
from stillme.stats.versions import in_turn
from stillme.steps.edit import pending_edits
from stillme.steps.judge import pending_judge_tasks
from stillme.steps.portraits import list_portraits

FIRST = 8  # persons of the first step
GROWTH = (
    1.5  # each step reaches so many times as many persons: more resumes both runs less often, and overshoots more
)
AUDITS = (".yaml", ".yml")
Advance = Callable[[Config, Progress, Callable[[Design], Design]], None]


def is_audit(path: Path) -> bool:
    return path.suffix in AUDITS


@dataclass(frozen=True)
class SequentialAudit:
    """A side that is driven: an audit, and the editor of it that is compared."""

    name: str
    config: Config
    editor: str = ""

    @property
    def terms(self) -> ScoringConditions:
        return of_config(self.config)

    @property
    def editors(self) -> Mapping[str, str]:
        return settings_hashes("editor", self.config.editors)

    @cached_property
    def portraits(self) -> list[Portrait]:
        return list_portraits(self.config)

    @cached_property
    def design(self) -> Design:
        return make_design(self.config, self.portraits)


def drive(options: CompareOptions, budget: int, advance: Advance, progress: Progress) -> ComparisonResult:
    """`advance` does what is missing of a part of an audit's plan. `budget`: new calls to editors and judges."""
    a, b = _open_side("A", options.a, options), _open_side("B", options.b, options)
    incompatibility_notes(find_incompatibilities(a.terms, b.terms), options.anyway)
    parties = [side for side in (a, b) if isinstance(side, SequentialAudit)]
    _refuse_one_run(parties)
    primary(options, a.terms.protocol)
    editor_a, editor_b = editors(a.editors, b.editors, options.editor_a, options.editor_b)
    options = replace(options, editor_a=editor_a, editor_b=editor_b, sequential=True)
    parties = [replace(party, editor=editor_a if party.name == "A" else editor_b) for party in parties]
    return _Drive(options, budget, parties, in_turn(_shared_images(a, b)), advance, progress).run()


class _Drive:
    """The steps of a comparison: what each costs, what it finds. `turn`: every person, in their order."""

    def __init__(
        self,
        options: CompareOptions,
        budget: int,
        parties: Sequence[SequentialAudit],
        turn: Sequence[str],
        advance: Advance,
        progress: Progress,
    ) -> None:
        self.options = options
        self.budget = budget
        self.parties = parties
        self.turn = turn
        self.advance = advance
        self.progress = progress
        # Two editors of one run are driven together.
        self.runs = list({party.config.run.resolve(): party for party in parties}.values())
        self.calls_before = sum(map(_calls_made, self.runs))

    def run(self) -> ComparisonResult:
        steps, next_calls = list[Step](), 0
        result: ComparisonResult | None = None
        for size in sizes(len(self.turn)):
            images = self.turn[:size]
            next_calls = sum(calls(part(run.design, self._editors(run), images)) for run in self.runs)
            if self.calls + next_calls > self.budget:
                break
            result, next_calls = self._step(images), 0
            steps.append(Step(persons=size, calls=self.calls, watched=result.watched))
            if all(sequence.after is not None for sequence in result.watched):
                break
        if result is None:
            raise InputError(
                f"The first step takes {next_calls:,} calls, more than the budget of {self.budget:,}.",
                "Nothing was spent. Give a larger --budget, or ask for fewer prompts.",
            )
        driven = SequentialRun(
            steps=tuple(steps), budget=self.budget, persons=len(self.turn), next_calls=next_calls
        )
        return replace(result, driven=driven)

    @property
    def calls(self) -> int:
        """New calls so far, those that failed among them."""
        return sum(map(_calls_made, self.runs)) - self.calls_before

    def _editors(self, run: SequentialAudit) -> set[str]:
        return {party.editor for party in self.parties if party.config.run == run.config.run}

    def _step(self, images: Sequence[str]) -> ComparisonResult:
        self.progress.say(f"Step: {len(images):,} of {len(self.turn):,} persons")
        for run in self.runs:
            self.advance(run.config, self.progress, partial(part, editors=self._editors(run), images=images))
        options, paths = self.options, {"A": self.options.a, "B": self.options.b}
        paths |= {party.name: party.config.run for party in self.parties}
        a, b = (read(name, path, options.protocol, options.preset) for name, path in paths.items())
        return compare_editor_pair(
            *select_editors(a, b, options.editor_a, options.editor_b), options, among=images
        )


def sizes(persons: int) -> Iterator[int]:
    """How many persons each step reaches: 8, 12, 18, 27 and so on, and all of them last.

    >>> list(sizes(30)), list(sizes(5))
    ([8, 12, 18, 27, 30], [5])
    """
    size = FIRST
    while size < persons:
        yield size
        size = ceil(size * GROWTH)
    yield persons


def part(design: Design, editors: Collection[str], images: Collection[str]) -> Design:
    """The diagnosis of these portraits by these editors."""
    wanted = set(images)
    trials = [t for t in design.trials if t.experiment == DIAGNOSE and t.editor in editors and t.image in wanted]
    return replace(design, trials=trials)


def calls(design: Design) -> int:
    """How many calls a part of the plan still takes: its edits, every judge's look at each, and second looks."""
    config = design.config
    n_edits, n_looks = len(design.distinct_edits()), 0
    if (config.run / LEDGER).is_file():
        with Run.open_readonly(config.run) as run:
            n_edits, n_looks = len(pending_edits(run, design)), len(pending_judge_tasks(run, design))
    n_remote = sum(config.judges[name].is_remote for name in design.judges)
    n_repeats = ceil(n_edits * n_remote * config.audit.judging.repeats)
    return n_edits * (1 + len(design.judges)) + n_looks + n_repeats


def _calls_made(party: SequentialAudit) -> int:
    if not (party.config.run / LEDGER).is_file():
        return 0
    with Run.open_readonly(party.config.run) as run:
        return int(run.query("SELECT count(*) FROM attempt")[0][0])


# The two sides, before anything is spent


def _open_side(name: str, path: Path, options: CompareOptions) -> SequentialAudit | Side:
    return (
        SequentialAudit(name, load(path)) if is_audit(path) else read(name, path, options.protocol, options.preset)
    )


def _refuse_one_run(parties: Sequence[SequentialAudit]) -> None:
    """Two audits write two runs; one audit with two editors is one run."""
    for party in parties:
        if party.config.audit.experiments.diagnose is None:
            raise InputError(
                f"{party.name} has no diagnosis, which is what is compared.", "Add 'diagnose' to its experiments."
            )
    runs = {party.config.run.resolve() for party in parties}
    if len(runs) < len(parties) and parties[0].config.audit != parties[1].config.audit:
        raise InputError(f"Both audits write to {parties[0].config.run}.", "Give each its own run directory.")


def _shared_images(a: SequentialAudit | Side, b: SequentialAudit | Side) -> set[str]:
    first, second = _images(a), _images(b)
    if not first & second:
        raise InputError(
            f"A and B share no person: of {len(first):,} and {len(second):,} portraits none is the same.",
            "Give both the same sources. Nothing was spent.",
        )
    return first & second


def _images(side: SequentialAudit | Side) -> set[str]:
    """The pictures that a side can be compared on: of a run, those with a score."""
    if isinstance(side, SequentialAudit):
        return {portrait.image for portrait in side.portraits}
    if side.images is None:
        raise InputError(f"{side.path} does not say which pictures its scores are of.", "Give a run.")
    with_score = set(side.scores.drop_nulls("score")["person"])
    return {image for person, image in side.images.items() if person in with_score}
