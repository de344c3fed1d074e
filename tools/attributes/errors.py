"""Measures how far readings of apparent age and gender presentation are off the labels of photographs, by group.

Usage: python tools/attributes/errors.py path/to/fairface src/stillme/measures/attribute_errors.csv

The folder has FairFace's own layout: fairface_label_*.csv with the columns file, age, gender, race, and the files
that it names. Photographs whose labels are no groups of the protocol (children) are left out. See README.md.
"""

from __future__ import annotations

import csv
import datetime
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev

from stillme.measures import attributes
from stillme.measures.attributes import Apparent, GroupError, Settings
from stillme.measures.view import UnreadableError, View, VisionModels
from stillme.protocol import builtin
from stillme.protocol.schema import Group, Groups

FEMININE = "female"  # the protocol's group that readings above one half agree with
DECADE = 10  # years that a range without an end is taken to be long
FAR = 5  # years: re-encodes that read further off than this are counted


@dataclass(frozen=True)
class Labelled:
    """A photograph with its labels, and what was read of it and of its re-encodes."""

    groups: dict[str, Group]
    seen: Apparent | None
    again: tuple[Apparent, ...]

    @property
    def years(self) -> float:
        """The middle of the label's range, in completed years."""
        first, last = self.groups["age"].years or (0, 0)
        return (first + (first + DECADE - 1 if last is None else last)) / 2

    @property
    def is_feminine(self) -> bool:
        return self.groups["gender"].id == FEMININE


def labelled(folder: Path, groups: Groups) -> Iterator[tuple[Path, dict[str, Group]]]:
    known = {
        d: {alias: one for one in of for alias in (one.id, *one.aliases)} for d, of in groups.dimensions.items()
    }
    for listing in sorted(folder.glob("fairface_label_*.csv")):
        with listing.open(newline="", encoding="utf-8") as rows:
            for row in csv.DictReader(rows):
                if all(row[d] in names for d, names in known.items()):
                    yield folder / row["file"], {d: names[row[d]] for d, names in known.items()}


def look(path: Path, groups: dict[str, Group], optics: VisionModels) -> Labelled:
    view = View(path.read_bytes(), "photograph", optics)
    again = tuple(one for one in map(reading, view.reencodes) if one)
    return Labelled(groups, reading(view), again)


def reading(view: View) -> Apparent | None:
    try:
        return attributes.read_face(view, view.person, Settings())
    except UnreadableError:
        return None


def table(found: Sequence[Labelled], groups: Groups) -> Iterator[GroupError]:
    yield row("all", "all", found)
    for dimension, of in groups.dimensions.items():
        for group in of:
            yield row(dimension, group.id, [one for one in found if one.groups[dimension] == group])


def row(dimension: str, group: str, found: Sequence[Labelled]) -> GroupError:
    pairs = [(one, one.seen) for one in found if one.seen]
    if not pairs:
        return GroupError(dimension, group, len(found), 0, None, None, None)
    off = [seen.age - one.years for one, seen in pairs]
    wrong = [(seen.feminine >= 0.5) != one.is_feminine for one, seen in pairs]
    mae, bias = round(fmean(map(abs, off)), 2), round(fmean(off), 2)
    return GroupError(dimension, group, len(found), len(pairs), mae, bias, round(fmean(wrong), 4))


def head(found: Sequence[Labelled], folder: Path) -> str:
    ages = [again.age - one.seen.age for one in found if one.seen for again in one.again]
    shares = [again.feminine - one.seen.feminine for one in found if one.seen for again in one.again]
    far = fmean(abs(age) > FAR for age in ages)
    return f"""\
# How far readings by {attributes.PACKAGE} {attributes.RELEASE} are off the labels of photographs, by group.
# Data: {len(found)} photographs of FairFace ({folder.name}; Kärkkäinen and Joo 2021, CC BY 4.0), {datetime.date.today()}.
# The labels are annotators' perceptions of race, gender and age, not what the people say of themselves.
# Age is compared with the middle of the label's range (20-29: 24.5); 70+ is taken to be 70-79, so 74.5.
# gender_error: share of faces read on the other side of one half than labelled. faces: labelled, read: of these read.
# Noise: the same photographs re-encoded (JPEG 60; halved and enlarged) read {pstdev(ages):.1f} years (sd) and {pstdev(shares):.2f} of
# feminine (sd) off themselves; {far:.1%} of them by more than {FAR} years.
# Made by tools/attributes/errors.py.
"""


def write(path: Path, text: str, rows: Sequence[GroupError]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(text)
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(GroupError._fields)
        lines.writerows(rows)


def main(folder: Path, out: Path) -> None:
    optics, groups = VisionModels(), builtin().groups
    found = [look(path, labels, optics) for path, labels in labelled(folder, groups)]
    if not found:
        sys.exit(f"No photograph in {folder} has labels that are groups of the protocol.")
    rows = list(table(found, groups))
    write(out, head(found, folder), rows)
    print(out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
