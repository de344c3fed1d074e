"""What `stillme doctor` and `stillme explain` print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stillme.cli.doctor import (
    FOR_DEVELOPERS,
    PROGRAMS,
    AuditNeeds,
    Check,
    CheckResult,
    DoctorReport,
    Extra,
    MissingRequirement,
    checks,
)
from stillme.cli.glossary import Term, folded
from stillme.cli.render import wrap
from stillme.core.text import table

_STATE_WIDTH = 7  # columns of "ready" or "lacks"
_INNER = " " * (_STATE_WIDTH + 2)
GOOD, BAD = r"(?m)^  (ready|set)\b", r"(?m)^  (lacks|not set)\b"  # where a terminal may use colour


def _paragraph(text: str, first: str, rest: str | None = None) -> list[str]:
    """Nothing in it is broken that is there to be copied."""
    return wrap(text, first, rest, long_words=True, hyphens=False)


# stillme doctor


def render_doctor(report: DoctorReport) -> str:
    known = checks()
    rows = [
        (f"  {'set' if is_set else 'not set'}", name, known.keys[name]) for name, is_set in report.keys.items()
    ]
    parts = [
        [*_machine(report)],
        ["Extras", *_extras(report)],
        [
            "Keys: only whether they are set; what is in them is never shown",
            table(rows[0], rows[1:]),
            "  An audit may name others, under key_env.",
        ],
        ["What you can do here", *_checks(report.journeys, known.journeys)],
        ["And the parts of it", *_checks(report.parts, known.parts)],
    ]
    if report.audit is not None:
        parts.append([*_audit(report.audit)])
    return "\n\n".join("\n".join(lines) for lines in parts)


def _machine(report: DoctorReport) -> Iterator[str]:
    here = report.machine
    yield f"stillme {report.stillme}, Python {here['python']}"
    yield f"  installed in {here['prefix']}"
    memory = "memory not known" if here["memory_gb"] is None else f"{here['memory_gb']:g} GB of memory"
    yield f"  {here['system']}, {here['cores']} core{'s' if here['cores'] != 1 else ''}, {memory}"
    disk = "free space not known"
    if here["disk_free_gb"] is not None:
        disk = f"{here['disk_free_gb']:,g} GB free on this disk"
    yield f"  {disk}; SQLite {here['sqlite']}"
    cards = "the driver does not answer"
    if here["gpus"] is not None:
        cards = ", ".join(f"{card.name} ({card.memory_gb:g} GB)" for card in here["gpus"]) or "none seen"
    yield from _paragraph(f"Graphics cards: {cards}", "  ", "    ")
    for name, _, used_for in PROGRAMS:
        yield from _paragraph(f"{name}: {here['programs'][name] or 'not found'}; {used_for}", "  ", "    ")


def _extras(report: DoctorReport) -> Iterator[str]:
    if not report.extras:
        yield "  stillme runs without having been installed, so its extras cannot be told."
        return
    width = max(map(len, report.extras))
    for name, extra in report.extras.items():
        lead = f"  {_state(extra.ready)}{name.ljust(width)}  "
        yield from _paragraph(_packages(name, extra), lead, " " * len(lead))


def _packages(name: str, extra: Extra) -> str:
    """What is missing first; developers' long lists are counted."""
    missing = [f"{p.name} (has {p.found}, wants {p.wanted})" if p.found else p.name for p in extra.missing]
    present = [f"{p.name} {p.found}" for p in extra.packages if p.fits]
    if name in FOR_DEVELOPERS:
        present = [f"{len(present)} of {len(extra.packages)} packages; for work on stillme itself"]
    parts = [f"missing: {', '.join(missing)}"] if missing else []
    return "; ".join([*parts, ", ".join(present)] if present else parts)


def _checks(results: Sequence[CheckResult], checks: Sequence[Check]) -> Iterator[str]:
    width = max(len(result.title) for result in results)
    for result, check in zip(results, checks, strict=True):
        yield f"  {_state(result.ready)}{result.title.ljust(width)}  {result.start}"
        yield from _lacks(result.lacks)
        yield from _lacks(result.better, "better with ")
        if not result.ready:
            yield from _paragraph(check.hint, _INNER)
            yield f"{_INNER}Told in {result.page}"


def _lacks(lacks: Iterable[MissingRequirement], lead: str = "") -> Iterator[str]:
    for lack in lacks:
        yield from _paragraph(f"{lead}{lack.what}", _INNER, f"{_INNER}  ")
        yield f"{_INNER}  {lack.how}"  # never broken: it is there to be copied


def _state(is_ready: bool) -> str:
    return ("ready" if is_ready else "lacks").ljust(_STATE_WIDTH)


def _audit(audit: AuditNeeds) -> Iterator[str]:
    yield f"{audit.file}: {audit.name}"
    here, lacking = "everything that it needs on this machine is here", "what it needs and is not here:"
    yield f"  {_state(audit.ready)}{here if audit.ready else lacking}"
    yield from _lacks(audit.lacks)
    for sentence in (*audit.met, *audit.notes):
        yield from _paragraph(sentence, _INNER, f"{_INNER}  ")
    yield f"{_INNER}Next: stillme {'check' if audit.ready else 'doctor'} {audit.file}"


# stillme explain


def render_terms(terms: Sequence[Term]) -> str:
    """Every meaning with what kind of word it is, and where it is described at length."""
    return "\n\n".join("\n".join(_term(term)) for term in terms)


def _term(term: Term) -> Iterator[str]:
    yield f"{term.name}  [{term.kind}]"
    for paragraph in term.says:
        text = paragraph.lstrip()
        inner = len(paragraph) - len(text)  # a line of a scale is set in
        yield from _paragraph(text, " " * (2 + inner), " " * (2 + (inner and inner + 3)))
    if others := [name for name in term.also if folded(name) != folded(term.name)]:
        yield from _paragraph(f"Also: {', '.join(others)}", "  ", "    ")
    if term.page:
        yield f"  More: {term.page}"


def render_term_list(terms: Sequence[Term]) -> str:
    """All terms by their kinds."""
    names_by_kind: dict[str, dict[str, None]] = {}
    for term in terms:
        names_by_kind.setdefault(term.kind, {})[term.name] = None
    kinds = ["\n".join([kind, *_paragraph(", ".join(names), "  ")]) for kind, names in names_by_kind.items()]
    return "\n\n".join([*kinds, "stillme explain TERM says what a term means."])
