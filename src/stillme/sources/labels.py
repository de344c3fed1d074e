"""How data sets spell labels, and what they mean in the protocol's vocabulary.

A label is an annotator's perception. A spelling means a group, or is known to lie outside the design (a child's
age), or is unknown: then a person says what it means, never this module.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from stillme.core.errors import Fault, FaultsError
from stillme.core.yaml import unknown
from stillme.protocol import Protocol
from stillme.protocol.schema import Group
from stillme.sources import Reason, Remark, Row

OUTSIDE = "outside"  # what a user writes for a label that is known and lies outside the design
OLDEST = 120  # years: a larger number is no age
SHOWN = 20  # unknown labels of a dimension that are named one by one

Spellings = Mapping[str, Mapping[str, str]]  # dimension -> spelling -> group
Own = Mapping[str, Mapping[str, Sequence[str]]]  # axis -> group -> spellings
Classes = Mapping[str, Sequence[str]]  # dimension -> the names of its class ids, from 0

_NONE: Mapping[str, Mapping[str, str]] = MappingProxyType({})
_NO_AXES: Own = MappingProxyType({})
_JOINTS = re.compile(r"[\s_/‐‑‒–—-]+")
_YEARS = re.compile(r"[0-9]{1,3}(\.0*)?")  # "34.0" is how a table with gaps writes 34


class UnknownLabelError(ValueError):
    """A spelling that nobody has given a meaning."""

    def __init__(self, dimension: str, spelled: str, known: Sequence[str]) -> None:
        super().__init__(unknown(spelled, f"known label of '{dimension}'", known))
        self.dimension, self.spelled, self.known = dimension, spelled, tuple(known)


@lru_cache(maxsize=4096)
def fold(spelled: str) -> str:
    """What two spellings of one label have in common: "South-East_Asian" and "south east asian" are the same."""
    return _JOINTS.sub(" ", spelled.casefold()).strip()


@dataclass(frozen=True)
class Vocabulary:
    """Dimension -> folded spelling -> group, or None where the label lies outside the design."""

    groups: Mapping[str, Mapping[str, str | None]]
    known: Mapping[str, tuple[str, ...]]  # dimension -> the spellings as they are shown
    years: Mapping[str, tuple[tuple[str, int, int], ...]] = field(default_factory=dict)  # group, from, to
    fairface_classes: Classes = field(default_factory=dict)
    utkface_classes: Classes = field(default_factory=dict)

    @classmethod
    def of(cls, protocol: Protocol, own: Own = _NO_AXES, aliases: Spellings = _NONE) -> Vocabulary:
        """The protocol's words, axes of one's own, and what a user says of a data set's spellings."""
        rules = protocol.portraits
        words = _Words()
        for dimension, groups in protocol.groups.dimensions.items():
            for group in groups:
                words.add(dimension, group.id, (group.label, *group.aliases, group.id))
            words.add(dimension, None, rules.outside.get(dimension, ()) if rules else ())
        for axis, spellings in own.items():
            for word, spelled in spellings.items():
                words.add(axis, word, (*spelled, word))
        words.apply(aliases)
        return cls(
            words.groups,
            {dimension: tuple(shown.values()) for dimension, shown in words.shown.items()},
            {
                dimension: years
                for dimension, groups in protocol.groups.dimensions.items()
                if (years := _years(groups))
            },
            rules.fairface_classes if rules else {},
            rules.utkface_classes if rules else {},
        )

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(self.groups)

    def group(self, dimension: str, spelled: str) -> str | None:
        """The group that a spelling means; None: known, and outside the design."""
        found = self.groups[dimension]
        folded = fold(spelled)
        if folded in found:
            return found[folded]
        if dimension in self.years and _YEARS.fullmatch(spelled.strip()):
            age = int(spelled.strip().partition(".")[0])
            if age <= OLDEST:
                return next((group for group, low, high in self.years[dimension] if low <= age <= high), None)
        raise UnknownLabelError(dimension, spelled, self.spellings(dimension))

    def spellings(self, dimension: str) -> tuple[str, ...]:
        """What is known, as a sentence lists it."""
        return self.known[dimension] + (("an age in years",) if dimension in self.years else ())


def _years(groups: Sequence[Group]) -> tuple[tuple[str, int, int], ...]:
    spans = [(group.id, group.years) for group in groups if group.years]
    return tuple((word, low, OLDEST if high is None else high) for word, (low, high) in spans)


class _Words:
    """A vocabulary in the making: each spelling has one meaning, and only a user may give it another."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, str | None]] = {}
        self.shown: dict[str, dict[str, str]] = {}

    def add(self, dimension: str, group: str | None, spellings: Iterable[str]) -> None:
        meant, shown = self.groups.setdefault(dimension, {}), self.shown.setdefault(dimension, {})
        for spelled in spellings:
            folded = fold(spelled)
            if folded in meant and meant[folded] != group:
                two = f"'{meant[folded] or OUTSIDE}' and '{group or OUTSIDE}'"
                raise ValueError(f"{dimension}: the spelling '{spelled}' is given to both {two}; keep one")
            meant[folded] = group
            shown.setdefault(folded, spelled)

    def apply(self, aliases: Spellings) -> None:
        wrong = [said for dimension, given in aliases.items() for said in self._faults(dimension, given)]
        if wrong:
            raise ValueError("; ".join(wrong))
        for dimension, given in aliases.items():
            for spelled, word in given.items():
                self.groups[dimension][fold(spelled)] = None if word == OUTSIDE else word
                self.shown[dimension].setdefault(fold(spelled), spelled)

    def _faults(self, dimension: str, given: Mapping[str, str]) -> Iterator[str]:
        if dimension not in self.groups:
            yield f"aliases: {unknown(dimension, 'dimension', self.groups)}"
            return
        known = [*dict.fromkeys(word for word in self.groups[dimension].values() if word), OUTSIDE]
        for spelled, word in given.items():
            if word not in known:
                yield f"aliases.{dimension}.{spelled}: {unknown(word, 'group', known)}"


# One pass over a data set


def label(rows: Iterable[Row | Remark], vocabulary: Vocabulary) -> Iterator[Row | Remark]:
    """Rows with their labels in the vocabulary, from rows with labels as annotated. Remarks pass through.

    Labels that are not known are told at the end, all at once: one round of mending is enough.
    """
    seen = Seen()
    strangers: dict[str, dict[str, _Stranger]] = {}
    for row in rows:
        if isinstance(row, Remark):
            yield row
        elif seen.before(row.id):
            said = f"{row.id} is listed already; the first row counts"
            yield Remark(row.file, row.row, Reason.LISTED_TWICE, said)
        elif (labelled := _label(row, vocabulary, strangers)) is not None:
            yield labelled
    _refuse(strangers, vocabulary)


class Seen:
    """Which ids were there before; eight bytes of each are kept."""

    def __init__(self) -> None:
        self._hashes: set[int] = set()

    def before(self, word: str) -> bool:
        hashed = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        was = hashed in self._hashes
        self._hashes.add(hashed)
        return was


@dataclass
class _Stranger:
    """An unknown label: where it first stands, and in how many rows."""

    file: str
    row: int
    rows: int = 0


def _label(row: Row, vocabulary: Vocabulary, strangers: dict[str, dict[str, _Stranger]]) -> Row | Remark | None:
    labels: dict[str, str] = {}
    strange = False
    for dimension, spelled in row.annotated.items():
        try:
            group = vocabulary.group(dimension, spelled) if fold(spelled) else None
        except UnknownLabelError:
            strange = True
            _note(strangers.setdefault(dimension, {}), spelled, row)
            continue
        if group is not None:
            labels[dimension] = group
    if strange:
        return None
    empty = [dimension for dimension, spelled in row.annotated.items() if not fold(spelled)]
    if empty:
        return Remark(row.file, row.row, Reason.MISSING_LABEL, f"{row.id} has no label for {' and '.join(empty)}")
    return Row(row.id, row.split, labels, row.annotated, row.file, row.row, row.address)


def _note(strangers: dict[str, _Stranger], spelled: str, row: Row) -> None:
    """The first few labels have an entry each; those after them share one under the empty word."""
    key = spelled if spelled in strangers or len(strangers) < SHOWN else ""
    strangers.setdefault(key, _Stranger(row.file, row.row)).rows += 1


def _refuse(strangers: Mapping[str, Mapping[str, _Stranger]], vocabulary: Vocabulary) -> None:
    faults = [
        Fault(found.file, found.row, dimension, _said(spelled, found.rows, vocabulary.spellings(dimension)))
        for dimension, labels in strangers.items()
        for spelled, found in labels.items()
    ]
    if faults:
        dimension, labels = next(iter(strangers.items()))
        example = f'aliases: {{{dimension}: {{"{next(iter(labels))}": {OUTSIDE}}}}}'
        raise FaultsError(
            faults,
            "Say under 'aliases' in the reader's settings what each label means, a group or 'outside' the "
            f"design, e.g. {example}; or check that the right column was read.",
        )


def _said(spelled: str, rows: int, known: Sequence[str]) -> str:
    count = "1 row" if rows == 1 else f"{rows:,} rows"
    if not spelled:
        return f"further labels that are not known, in {count}; is this the right column?"
    return f"{spelled!r} is not a known label ({count}); known: {', '.join(known)}"
