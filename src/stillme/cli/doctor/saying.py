"""What was found, in words that fit a terminal, and as plain data for scripts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from stillme.cli.doctor.audits import Needed
from stillme.cli.doctor.extras import FOR_DEVELOPERS, Extra
from stillme.cli.doctor.found import Found
from stillme.cli.doctor.journeys import Lack, Readiness
from stillme.cli.doctor.keys import KNOWN
from stillme.cli.doctor.machine import USED_FOR, Machine
from stillme.core.text import table

WIDTH = 100
READY, LACKS = "ready", "lacks"
_MARK = 7  # columns
GOOD, BAD = r"(?m)^  (ready|set)\b", r"(?m)^  (lacks|not set)\b"  # where a terminal may use colour


def words(found: Found) -> str:
    parts = [
        "\n".join(_machine(found)),
        "\n".join(["Extras", *_extras(found)]),
        "\n".join(["Keys: only whether they are set; what is in them is never shown", *_keys(found)]),
        "\n".join(["What you can do here", *_journeys(found.journeys)]),
        "\n".join(["And the parts of it", *_journeys(found.parts)]),
    ]
    if found.audit is not None:
        parts.append("\n".join(_audit(found.audit, str(found.file))))
    return "\n\n".join(parts)


def _machine(found: Found) -> Iterator[str]:
    here = found.machine
    yield f"stillme {found.version}, Python {here.python}"
    yield f"  installed in {here.prefix}"
    yield _size(here)
    yield f"  {_free(here)}; SQLite {here.sqlite}"
    yield from _wrapped(f"Graphics cards: {_cards(here)}", "  ", "    ")
    for name, path in here.programs.items():
        yield from _wrapped(f"{name}: {path or 'not found'}; {USED_FOR[name]}", "  ", "    ")


def _size(here: Machine) -> str:
    memory = "memory not known" if here.memory_gb is None else f"{here.memory_gb:g} GB of memory"
    return f"  {here.system}, {here.cores} core{'s' if here.cores != 1 else ''}, {memory}"


def _free(here: Machine) -> str:
    return "free space not known" if here.disk_free_gb is None else f"{here.disk_free_gb:,g} GB free on this disk"


def _cards(here: Machine) -> str:
    if here.gpus is None:
        return "the driver does not answer"
    return ", ".join(f"{card.name} ({card.memory_gb:g} GB)" for card in here.gpus) or "none seen"


def _extras(found: Found) -> Iterator[str]:
    if not found.extras:
        yield "  stillme runs without having been installed, so its extras cannot be told."
        return
    width = max(map(len, found.extras))
    for extra in found.extras.values():
        mark = READY if extra.is_there else LACKS
        lead = f"  {mark.ljust(_MARK)}{extra.name.ljust(width)}  "
        yield from _wrapped(_packages(extra), lead, " " * len(lead))


def _packages(extra: Extra) -> str:
    """What is missing first; developers' long lists are counted."""
    told = [f"{p.name} (has {p.found}, wants {p.wanted})" if p.found else p.name for p in extra.missing]
    missing = [f"missing: {', '.join(told)}"] if told else []
    there = [f"{p.name} {p.found}" for p in extra.packages if p.fits]
    if extra.name in FOR_DEVELOPERS:
        there = [f"{len(there)} of {len(extra.packages)} packages; for work on stillme itself"]
    return "; ".join([*missing, ", ".join(there)] if there else missing)


def _keys(found: Found) -> Iterator[str]:
    rows = [(f"  {'set' if is_set else 'not set'}", name, KNOWN[name]) for name, is_set in found.keys.items()]
    yield table(rows[0], rows[1:])
    yield "  An audit may name others, under key_env."


def _journeys(every: Iterable[Readiness]) -> Iterator[str]:
    every = list(every)
    width = max(len(one.journey.title) for one in every)
    for one in every:
        mark = READY if one.is_ready else LACKS
        yield f"  {mark.ljust(_MARK)}{one.journey.title.ljust(width)}  {one.journey.start}"
        yield from _lacks(one.lacks)
        yield from _lacks(one.better, "better with ")
        if one.lacks and one.journey.aside:
            yield from _wrapped(one.journey.aside, " " * (_MARK + 2))
        if one.lacks:
            yield f"{' ' * (_MARK + 2)}Told in {one.journey.page}"


def _lacks(some: Iterable[Lack], lead: str = "") -> Iterator[str]:
    for lack in some:
        yield from _wrapped(f"{lead}{lack.what}", " " * (_MARK + 2), " " * (_MARK + 4))
        yield f"{' ' * (_MARK + 4)}{lack.how}"  # never broken: it is there to be copied


def _audit(needed: Needed, file: str) -> Iterator[str]:
    mark = READY if needed.is_ready else LACKS
    yield f"{file}: {needed.name}"
    told = (
        "everything that it needs on this machine is here" if needed.is_ready else "what it needs and is not here:"
    )
    yield f"  {mark.ljust(_MARK)}{told}"
    yield from _lacks(needed.lacks)
    for sentence in (*needed.met, *needed.notes):
        yield from _wrapped(sentence, " " * (_MARK + 2), " " * (_MARK + 4))
    yield f"{' ' * (_MARK + 2)}Next: {f'stillme check {file}' if needed.is_ready else f'stillme doctor {file}'}"


def _wrapped(text: str, lead: str, further: str | None = None) -> list[str]:
    later = lead if further is None else further
    return textwrap.wrap(
        text, WIDTH, initial_indent=lead, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def plain(found: Found) -> dict[str, Any]:
    """For scripts. Of keys only whether they are set."""
    said: dict[str, Any] = {
        "stillme": found.version,
        "machine": asdict(found.machine),
        "extras": {name: _plain_extra(extra) for name, extra in found.extras.items()},
        "keys": dict(found.keys),
        "journeys": [_plain_journey(one) for one in found.journeys],
        "parts": [_plain_journey(one) for one in found.parts],
    }
    if found.audit is not None:
        said["audit"] = {"file": str(found.file), "ready": found.audit.is_ready, **asdict(found.audit)}
    return said


def _plain_extra(extra: Extra) -> dict[str, Any]:
    return {"ready": extra.is_there, "packages": [asdict(package) for package in extra.packages]}


def _plain_journey(one: Readiness) -> dict[str, Any]:
    about = {"id": one.journey.id, "title": one.journey.title, "ready": one.is_ready}
    return about | {
        "start": one.journey.start,
        "page": one.journey.page,
        "lacks": [asdict(lack) for lack in one.lacks],
        "better": [asdict(lack) for lack in one.better],
    }
