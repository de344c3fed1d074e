"""How data sets spell labels, and what they mean in the protocol's vocabulary.

A label is an annotator's perception. A spelling means a group, or is known to lie outside the design (a child's
age), or is unknown: then a person says what it means, never this module.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import NoReturn

from stillme.core.errors import ConfigIssue, ConfigIssuesError
from stillme.core.yaml import unknown
from stillme.protocol import Protocol
from stillme.sources import Reason, Row, RowIssue

# FairFace, as both of its readers know it
FAIRFACE = "FairFace"
FAIRFACE_LICENCE = "CC BY 4.0, FairFace by Kimmo Kärkkäinen and Jungseock Joo (WACV 2021)"
FAIRFACE_DIMENSIONS = ("age", "gender", "race")

OUTSIDE = "outside"  # what a user writes for a label that is known and lies outside the design
MAX_AGE = 120  # years; a larger number is not an age
MAX_LISTED = 20  # unknown labels of a dimension that are named one by one; a wrong column may hold thousands

Spellings = Mapping[str, Mapping[str, str]]  # dimension -> spelling -> group
CustomAxes = Mapping[str, Mapping[str, Sequence[str]]]  # axis -> group -> spellings
Classes = Mapping[str, Sequence[str]]  # dimension -> the names of its class ids, from 0

_NO_ALIASES: Spellings = MappingProxyType({})
_NO_AXES: CustomAxes = MappingProxyType({})
_SEPARATORS = re.compile(r"[\s_/‐‑‒–—-]+")
_YEARS = re.compile(r"[0-9]{1,3}(\.0*)?")  # "34.0" is how a table with gaps writes 34


class UnknownLabelError(ValueError):
    """A spelling that has no meaning yet."""

    def __init__(self, dimension: str, spelling: str, known: Sequence[str]) -> None:
        super().__init__(unknown(spelling, f"known label of '{dimension}'", known))


@lru_cache(maxsize=4096)
def fold(spelling: str) -> str:
    """What two spellings of one label have in common: "South-East_Asian" and "south east asian" are the same."""
    return _SEPARATORS.sub(" ", spelling.casefold()).strip()


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Dimension -> folded spelling -> group, or None where the label lies outside the design."""

    groups: Mapping[str, Mapping[str, str | None]]
    shown: Mapping[str, tuple[str, ...]]  # dimension -> the known spellings, as messages list them
    years: Mapping[str, tuple[tuple[str, int, int], ...]] = field(default_factory=dict)  # group, from, to
    fairface_classes: Classes = field(default_factory=dict)
    utkface_classes: Classes = field(default_factory=dict)

    @classmethod
    def of(cls, protocol: Protocol, custom: CustomAxes = _NO_AXES, aliases: Spellings = _NO_ALIASES) -> Vocabulary:
        """The protocol's words, custom axes, and the user's aliases of a data set's spellings."""
        rules, dimensions = protocol.portraits, protocol.groups.dimensions
        builder = _VocabularyBuilder()
        years: dict[str, tuple[tuple[str, int, int], ...]] = {}
        for dimension, groups in dimensions.items():
            for group in groups:
                builder.add(dimension, group.id, (group.label, *group.aliases, group.id))
                if group.years:
                    low, high = group.years
                    span = (group.id, low, MAX_AGE if high is None else high)
                    years[dimension] = (*years.get(dimension, ()), span)
            builder.add(dimension, None, rules.outside.get(dimension, ()) if rules else ())
        for axis, spellings_by_group in custom.items():
            for word, spellings in spellings_by_group.items():
                builder.add(axis, word, (*spellings, word))
        builder.apply(aliases)
        return cls(
            groups=builder.groups,
            shown={dimension: tuple(shown.values()) for dimension, shown in builder.shown.items()},
            years=years,
            fairface_classes=rules.fairface_classes if rules else {},
            utkface_classes=rules.utkface_classes if rules else {},
        )

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(self.groups)

    def group(self, dimension: str, spelling: str) -> str | None:
        """The group that a spelling means; None: known, and outside the design."""
        groups, folded = self.groups[dimension], fold(spelling)
        if folded in groups:
            return groups[folded]
        if dimension in self.years and _YEARS.fullmatch(spelling.strip()):
            age = int(spelling.strip().partition(".")[0])
            if age <= MAX_AGE:
                return next((group for group, low, high in self.years[dimension] if low <= age <= high), None)
        raise UnknownLabelError(dimension, spelling, self.spellings(dimension))

    def spellings(self, dimension: str) -> tuple[str, ...]:
        """The known spellings, as a sentence lists them."""
        return self.shown[dimension] + (("an age in years",) if dimension in self.years else ())

    def check_columns(self, columns: Iterable[str], *extra: str) -> None:
        """Each name under 'columns' in a reader's settings is a dimension, or one of `extra`."""
        known = (*extra, *self.dimensions)
        wrong = [unknown(word, "thing that a column can hold", known) for word in columns if word not in known]
        if wrong:
            raise ValueError(f"columns: {'; '.join(wrong)}")


class _VocabularyBuilder:
    """Each spelling has one meaning, and only a user may give it another."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, str | None]] = {}
        self.shown: dict[str, dict[str, str]] = {}

    def add(self, dimension: str, group: str | None, spellings: Iterable[str]) -> None:
        groups, shown = self.groups.setdefault(dimension, {}), self.shown.setdefault(dimension, {})
        for spelling in spellings:
            folded = fold(spelling)
            if folded in groups and groups[folded] != group:
                two = f"'{groups[folded] or OUTSIDE}' and '{group or OUTSIDE}'"
                raise ValueError(f"{dimension}: the spelling '{spelling}' is given to both {two}; keep one")
            groups[folded] = group
            shown.setdefault(folded, spelling)

    def apply(self, aliases: Spellings) -> None:
        wrong = []
        for dimension, meanings in aliases.items():
            if dimension not in self.groups:
                wrong.append(f"aliases: {unknown(dimension, 'dimension', self.groups)}")
                continue
            known = [*dict.fromkeys(word for word in self.groups[dimension].values() if word), OUTSIDE]
            for spelling, word in meanings.items():
                if word not in known:
                    wrong.append(f"aliases.{dimension}.{spelling}: {unknown(word, 'group', known)}")
        if wrong:
            raise ValueError("; ".join(wrong))
        for dimension, meanings in aliases.items():
            for spelling, word in meanings.items():
                self.groups[dimension][fold(spelling)] = None if word == OUTSIDE else word
                self.shown[dimension].setdefault(fold(spelling), spelling)


# One pass over a data set


class Seen:
    """Which ids came before; eight bytes of each are kept."""

    def __init__(self) -> None:
        self._hashes: set[int] = set()

    def before(self, word: str) -> bool:
        hashed = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        is_seen = hashed in self._hashes
        self._hashes.add(hashed)
        return is_seen


@dataclass
class _UnknownLabel:
    """Where an unknown label first occurs, and in how many rows."""

    file: str
    row: int
    rows: int = 0


_UnknownLabels = dict[str, dict[str, _UnknownLabel]]  # dimension -> spelling -> where


def label(rows: Iterable[Row | RowIssue], vocabulary: Vocabulary) -> Iterator[Row | RowIssue]:
    """Rows with their labels in the vocabulary, from rows with labels as annotated. Issues pass through.

    Unknown labels are raised at the end, all at once: then one round of fixing is enough.
    """
    seen = Seen()
    unknown_labels: _UnknownLabels = {}
    for row in rows:
        if isinstance(row, RowIssue):
            yield row
        elif seen.before(row.id):
            yield row.issue(Reason.LISTED_TWICE, f"{row.id} is listed already; the first row counts")
        elif (labelled := _label_row(row, vocabulary, unknown_labels)) is not None:
            yield labelled
    if unknown_labels:
        _raise_unknown(unknown_labels, vocabulary)


def _label_row(row: Row, vocabulary: Vocabulary, unknown_labels: _UnknownLabels) -> Row | RowIssue | None:
    """None where a label is unknown; the first few of a dimension are noted one by one, the others under ''."""
    labels: dict[str, str] = {}
    is_unknown = False
    for dimension, spelling in row.annotated.items():
        try:
            group = vocabulary.group(dimension, spelling) if fold(spelling) else None
        except UnknownLabelError:
            is_unknown = True
            noted = unknown_labels.setdefault(dimension, {})
            key = spelling if spelling in noted or len(noted) < MAX_LISTED else ""
            noted.setdefault(key, _UnknownLabel(row.file, row.row)).rows += 1
            continue
        if group is not None:
            labels[dimension] = group
    if is_unknown:
        return None
    empty = [dimension for dimension, spelling in row.annotated.items() if not fold(spelling)]
    if empty:
        return row.issue(Reason.MISSING_LABEL, f"{row.id} has no label for {' and '.join(empty)}")
    return replace(row, labels=labels)


def _raise_unknown(unknown_labels: _UnknownLabels, vocabulary: Vocabulary) -> NoReturn:
    faults = []
    for dimension, noted in unknown_labels.items():
        known = ", ".join(vocabulary.spellings(dimension))
        for spelling, first in noted.items():
            count = "1 row" if first.rows == 1 else f"{first.rows:,} rows"
            message = f"{spelling!r} is not a known label ({count}); known: {known}"
            if not spelling:
                message = f"further labels that are not known, in {count}; is this the right column?"
            faults.append(ConfigIssue(first.file, first.row, dimension, message))
    dimension, noted = next(iter(unknown_labels.items()))
    example = f'aliases: {{{dimension}: {{"{next(iter(noted))}": {OUTSIDE}}}}}'
    raise ConfigIssuesError(
        faults,
        "Say under 'aliases' in the reader's settings what each label means, a group or 'outside' the "
        f"design, e.g. {example}; or check that the right column was read.",
    )
