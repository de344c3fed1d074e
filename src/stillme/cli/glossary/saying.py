"""Terms found by how people spell them, and printed for a terminal."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from stillme.cli.glossary.terms import Term
from stillme.core.errors import InputError

WIDTH = 100
NEAREST = 5


def find(word: str, terms: Sequence[Term]) -> list[Term]:
    """Every meaning of a word: terms of that name first, then those that are also called so."""
    wanted = folded(word)
    named = [term for term in terms if folded(term.name) == wanted]
    called = [term for term in terms if term not in named and wanted in map(folded, term.also)]
    if not wanted or not (named or called):
        raise _unknown(word, terms)
    return [*named, *called]


def folded(word: str) -> str:
    """One spelling for all: without case, spaces, hyphens, underscores and apostrophes.

    >>> folded("Race-Changed") == folded("race changed") == folded("race_changed")
    True
    >>> folded("Krippendorff’s alpha") == folded("krippendorffs_alpha")
    True
    """
    return re.sub(r"[\s_\-‐–—−.'’`]+", "", word.casefold())


def _unknown(word: str, terms: Sequence[Term]) -> InputError:
    spelled = {folded(name): term.name for term in terms for name in (*term.also, term.name)}
    wanted = folded(word)
    near = difflib.get_close_matches(wanted, spelled, n=NEAREST, cutoff=0.6)
    near += [name for name in spelled if len(wanted) > 2 and wanted in name]
    found = list(dict.fromkeys(spelled[name] for name in near))[:NEAREST]
    step = f"Did you mean {', '.join(found)}?" if found else ""
    return InputError(
        f"'{word}' is no term that stillme knows.", f"{step} `stillme explain` lists them all.".strip()
    )


def words(terms: Sequence[Term]) -> str:
    """Every meaning with what kind of word it is, and where it is told at length."""
    return "\n\n".join("\n".join(_told(term)) for term in terms)


def _told(term: Term) -> Iterator[str]:
    yield f"{term.name}  [{term.kind}]"
    for paragraph in term.says:
        inner = len(paragraph) - len(paragraph.lstrip())
        yield from _wrapped(paragraph.lstrip(), " " * (2 + inner), " " * (2 + (inner and inner + 3)))
    if others := [name for name in term.also if folded(name) != folded(term.name)]:
        yield from _wrapped(f"Also: {', '.join(others)}", "  ", "    ")
    if term.page:
        yield f"  More: {term.page}"


def listed(terms: Sequence[Term]) -> str:
    """All terms by their kinds."""
    kinds: dict[str, list[str]] = {}
    for term in terms:
        kinds.setdefault(term.kind, []).append(term.name)
    told = [
        "\n".join([kind, *_wrapped(", ".join(dict.fromkeys(every)), "  ", "  ")]) for kind, every in kinds.items()
    ]
    return "\n\n".join([*told, "stillme explain TERM says what a term means."])


def _wrapped(text: str, lead: str, further: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=lead, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )


def plain(terms: Sequence[Term]) -> list[dict[str, Any]]:
    return [asdict(term) for term in terms]
