"""What people come to do, what each takes of a machine, and which of it is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stillme.cli.doctor import extras, keys
from stillme.cli.doctor.extras import Extra
from stillme.core.gpus import Gpu


@dataclass(frozen=True)
class Lack:
    """Something that is not there, and the command or the step that gets it."""

    what: str
    how: str


@dataclass(frozen=True)
class Journey:
    """`extras`, `keys` (one of them is enough) and `card` it cannot do without; the `better_…` only help.

    `start`: its first command. `page`: where it is told. `aside`: what a look at this machine cannot tell.
    """

    id: str
    title: str
    start: str
    page: str
    extras: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    card: bool = False
    better_extras: tuple[tuple[str, str], ...] = ()
    better_keys: tuple[tuple[str, str], ...] = ()
    aside: str = ""


JOURNEYS = (
    Journey(
        "demo",
        "See a whole audit, offline",
        "stillme demo",
        "docs/how-an-audit-works.md",
        better_extras=(("vision", "measures skin tone, change and likeness"),),
    ),
    Journey(
        "diffusers",
        "Audit your diffusers model",
        "stillme init --for diffusers",
        "docs/open-editors.md",
        extras=("diffusers",),
        card=True,
        better_extras=(("quant", "FLUX.2 in 4 bits, in less memory"),),
        better_keys=((keys.HUB, "fetches gated weights, such as those of FLUX.2-dev"),),
    ),
    Journey(
        "hosted",
        "Audit a hosted editor",
        "stillme init --for hosted",
        "docs/hosted-editors.md",
        extras=("hosted",),
        keys=(keys.OPENAI, keys.GEMINI, keys.BFL),
        aside="An editor on a server of your own needs no key.",
    ),
    Journey(
        "raters",
        "Run raters on Prolific",
        "stillme init --for raters",
        "docs/study.md",
        extras=("study",),
        keys=(keys.PROLIFIC, keys.PROLIFIC_FILE),
        better_extras=(("postgres", "several server processes, for hundreds of raters at a time"),),
        aside="Raters need a public https address; `stillme study rehearse` needs neither that nor a token.",
    ),
    Journey(
        "release",
        "Gate a release",
        "stillme init --for release",
        "docs/gate.md",
        aside="It decides on any judged run or table of scores; making one is a journey above.",
    ),
)
PARTS = (
    Journey(
        "judges",
        "Have models judge the edits",
        "stillme calibrate audit.yaml",
        "docs/judges.md",
        extras=("hosted",),
        keys=(keys.GEMINI, keys.OPENAI),
        aside="A judge on a server of your own needs no key.",
    ),
    Journey(
        "measures",
        "Measure edits locally",
        "stillme measure before.jpg after.jpg",
        "docs/measures.md",
        extras=("vision",),
        better_extras=(("attributes", "apparent age and gender presentation, with the model's own errors"),),
    ),
    Journey(
        "sources",
        "Choose portraits from a data set",
        "stillme sources init DATA",
        "docs/sampling.md",
        extras=("sources",),
    ),
    Journey("review", "Look at edits in the browser", "stillme review RUN", "docs/reviewing.md", extras=("web",)),
    Journey(
        "cluster",
        "Spread models over machines",
        "stillme run audit.yaml --engine ray",
        "docs/scaling.md",
        extras=("ray",),
        better_extras=(("stores", "pictures in object storage"), ("serve", "`stillme editors serve`")),
    ),
)


@dataclass(frozen=True)
class Readiness:
    """A journey, what it lacks on this machine, and what would serve it better."""

    journey: Journey
    lacks: tuple[Lack, ...]
    better: tuple[Lack, ...]

    @property
    def is_ready(self) -> bool:
        return not self.lacks


def ready(
    journey: Journey, found: Mapping[str, Extra], is_set: Mapping[str, bool], cards: tuple[Gpu, ...] | None
) -> Readiness:
    lacks = [*_extras(journey.extras, found), *_keys(journey.keys, is_set)]
    lacks += _card(cards) if journey.card else ()
    better = [*_better_extras(journey, found), *_better_keys(journey, is_set)]
    return Readiness(journey, tuple(lacks), tuple(better))


def _extras(names: tuple[str, ...], found: Mapping[str, Extra]) -> Iterator[Lack]:
    for name in names:
        if not _has(name, found):
            yield Lack(f"the extra {name}{_which(name, found)}", extras.install(name))


def _has(name: str, found: Mapping[str, Extra]) -> bool:
    return name in found and found[name].is_there


def _which(name: str, found: Mapping[str, Extra]) -> str:
    """The packages that are missing, or too old or new."""
    if name not in found:
        return ""
    told = [p.name if not p.found else f"{p.name} {p.wanted} (here {p.found})" for p in found[name].missing]
    return f": {', '.join(told)}"


def _keys(names: tuple[str, ...], is_set: Mapping[str, bool]) -> Iterator[Lack]:
    if names and not any(is_set[name] for name in names):
        yield Lack(f"a key: none of {', '.join(names)} is set", export(names[0]))


def export(variable: str) -> str:
    return f"export {variable}=…"


def _card(cards: tuple[Gpu, ...] | None) -> tuple[Lack, ...]:
    if cards:
        return ()
    told = "no graphics card is to be seen" if cards is not None else "which graphics cards there are nobody tells"
    return (Lack(told, "`device: cpu` in its settings, slowly; or `stillme editors serve` where there is one"),)


def _better_extras(journey: Journey, found: Mapping[str, Extra]) -> Iterator[Lack]:
    for name, why in journey.better_extras:
        if not _has(name, found):
            yield Lack(f"the extra {name}: {why}", extras.install(name))


def _better_keys(journey: Journey, is_set: Mapping[str, bool]) -> Iterator[Lack]:
    for name, why in journey.better_keys:
        if not is_set[name]:
            yield Lack(f"{name}: {why}", export(name))
