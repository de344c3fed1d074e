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

from stillme.assurance.compare import sides
from stillme.assurance.compare.compared import Asked, Compared, Driven, Step, compared, primary, refused
from stillme.assurance.compare.sides import Side
from stillme.assurance.compare.terms import Terms, apart, of_config
from stillme.core.errors import InputError
from stillme.core.records import DIAGNOSE, Portrait
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.ledger.run import LEDGER
from stillme.plan import config as configs
from stillme.plan.config import Config
from stillme.plan.design import Design, make_design, settings_hashes
from stillme.stats.versions import in_turn
from stillme.steps import edit as editing
from stillme.steps import judge as judging
from stillme.steps import portraits as gathering

FIRST = 8  # persons of the first step
GROWTH = 1.5  # how many times as many persons each step reaches
AUDITS = (".yaml", ".yml")
Advance = Callable[[Config, Progress, Callable[[Design], Design]], None]


def is_audit(path: Path) -> bool:
    return path.suffix in AUDITS


@dataclass(frozen=True)
class Party:
    """A side that is driven: an audit, and the editor of it that is compared."""

    name: str
    config: Config
    editor: str = ""

    @property
    def terms(self) -> Terms:
        return of_config(self.config)

    @property
    def editors(self) -> Mapping[str, str]:
        return settings_hashes("editor", self.config.editors)

    @cached_property
    def portraits(self) -> list[Portrait]:
        return gathering.listed(self.config)

    @cached_property
    def design(self) -> Design:
        return make_design(self.config, self.portraits)


def drive(asked: Asked, budget: int, advance: Advance, progress: Progress) -> Compared:
    """`advance` does what is missing of a part of an audit's plan. `budget`: new calls to editors and judges."""
    a, b = _given("A", asked.a, asked), _given("B", asked.b, asked)
    refused(apart(a.terms, b.terms), asked.anyway)
    parties = [one for one in (a, b) if isinstance(one, Party)]
    _refuse_one_run(parties)
    primary(asked, a.terms.protocol)
    named = sides.editors(a.editors, b.editors, asked.editor_a, asked.editor_b)
    asked = replace(asked, editor_a=named[0], editor_b=named[1], sequential=True)
    driven = [replace(one, editor=named["AB".index(one.name)]) for one in parties]
    return _Drive(asked, budget, driven, in_turn(_shared(a, b)), advance, progress).run()


class _Drive:
    """The steps of a comparison: what each costs, what it finds."""

    def __init__(
        self,
        asked: Asked,
        budget: int,
        parties: Sequence[Party],
        turn: Sequence[str],
        advance: Advance,
        progress: Progress,
    ) -> None:
        self.asked, self.budget, self.parties, self.turn = asked, budget, parties, turn
        self.advance, self.progress = advance, progress
        self.before = sum(_made(party) for party in self._runs())

    def run(self) -> Compared:
        steps, more = list[Step](), 0
        found: Compared | None = None
        for size in sizes(len(self.turn)):
            more = self._ahead(self.turn[:size])
            if self.made + more > self.budget:
                break
            found, more = self._step(self.turn[:size]), 0
            steps.append(Step(size, self.made, found.watched))
            if all(one.after is not None for one in found.watched):
                break
        if found is None:
            raise InputError(
                f"The first step takes {more:,} calls, more than the budget of {self.budget:,}.",
                "Nothing was spent. Give a larger --budget, or ask for fewer prompts.",
            )
        return replace(found, driven=Driven(tuple(steps), self.budget, len(self.turn), more))

    def _ahead(self, images: Sequence[str]) -> int:
        return sum(calls(part(party.design, self._editors(party), images)) for party in self._runs())

    @property
    def made(self) -> int:
        """New calls so far, those that failed among them."""
        return sum(_made(party) for party in self._runs()) - self.before

    def _runs(self) -> list[Party]:
        """Two editors of one run are driven together."""
        return list({party.config.run.resolve(): party for party in self.parties}.values())

    def _editors(self, party: Party) -> set[str]:
        return {one.editor for one in self.parties if one.config.run == party.config.run}

    def _step(self, images: Sequence[str]) -> Compared:
        self.progress.say(f"Step: {len(images):,} of {len(self.turn):,} persons")
        for party in self._runs():
            self.advance(party.config, self.progress, partial(part, editors=self._editors(party), images=images))
        paths = {"A": self.asked.a, "B": self.asked.b} | {one.name: one.config.run for one in self.parties}
        a, b = (sides.read(name, path, self.asked.protocol, self.asked.preset) for name, path in paths.items())
        return compared(*sides.chosen(a, b, self.asked.editor_a, self.asked.editor_b), self.asked, among=images)


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
    edits, looks = len(design.distinct_edits()), 0
    if (config.run / LEDGER).is_file():
        with Run.look(config.run) as seen:
            edits, looks = len(editing.pending_edits(seen, design)), len(judging.pending_judge_tasks(seen, design))
    remote = sum(config.judges[name].is_remote for name in design.judges)
    again = ceil(edits * remote * config.audit.judging.repeats)
    return edits * (1 + len(design.judges)) + looks + again


def _made(party: Party) -> int:
    if not (party.config.run / LEDGER).is_file():
        return 0
    with Run.look(party.config.run) as seen:
        return int(seen.query("SELECT count(*) FROM attempt")[0][0])


# The two sides, before anything is spent


def _given(name: str, path: Path, asked: Asked) -> Party | Side:
    return (
        Party(name, configs.load(path)) if is_audit(path) else sides.read(name, path, asked.protocol, asked.preset)
    )


def _refuse_one_run(parties: Sequence[Party]) -> None:
    """Two audits write two runs; one audit with two editors is one run."""
    for party in parties:
        if party.config.audit.experiments.diagnose is None:
            raise InputError(
                f"{party.name} has no diagnosis, which is what is compared.", "Add 'diagnose' to its experiments."
            )
    runs = {party.config.run.resolve() for party in parties}
    if len(runs) < len(parties) and parties[0].config.audit != parties[1].config.audit:
        raise InputError(f"Both audits write to {parties[0].config.run}.", "Give each its own run directory.")


def _shared(a: Party | Side, b: Party | Side) -> set[str]:
    first, second = _images(a), _images(b)
    if not first & second:
        raise InputError(
            f"A and B share no person: of {len(first):,} and {len(second):,} portraits none is the same.",
            "Give both the same sources. Nothing was spent.",
        )
    return first & second


def _images(given: Party | Side) -> set[str]:
    """The pictures that a side can be compared on: of a run, those with a score."""
    if isinstance(given, Party):
        return {portrait.image for portrait in given.portraits}
    if given.images is None:
        raise InputError(f"{given.path} does not say which pictures its scores are of.", "Give a run.")
    scored = set(given.scores.drop_nulls("score")["person"])
    return {image for person, image in given.images.items() if person in scored}
