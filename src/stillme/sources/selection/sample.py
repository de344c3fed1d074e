"""Sampling: rows of the data sets become candidates in pools, and whatever stands in the way is said.

Labels are read once, row by row; images only of the rows that were drawn. A row whose image cannot be used, or
that shows what another candidate shows, is rejected and the next one of its cell takes its place.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stillme.core import images, phash
from stillme.core.errors import InputError
from stillme.core.records import Portrait
from stillme.engine.progress import Progress
from stillme.ledger.writer import Insert
from stillme.sources import Reason, Remark, Row
from stillme.sources.labels import Seen
from stillme.sources.selection.config import DataSet, Plan
from stillme.sources.selection.pools import SPARE, Drawn, Entry, Heads, Short, TooFewKeptError, draw, shortages
from stillme.sources.selection.store import Candidate, Store

KEPT_REMARKS = 1000  # sentences that are kept for each reason; all are counted


@dataclass
class Remarks:
    """What was wrong, counted in full and quoted up to a limit."""

    counts: Counter[Reason] = field(default_factory=Counter)
    said: list[Remark] = field(default_factory=list)

    def add(self, remark: Remark) -> None:
        self.counts[remark.reason] += 1
        if self.counts[remark.reason] <= KEPT_REMARKS:
            self.said.append(remark)


@dataclass(frozen=True)
class Sampled:
    """What a draw gave."""

    pools: Mapping[int, int]
    candidates: int
    rows: int
    outside: Mapping[str, int]
    shorts: Sequence[Short]
    reasons: Mapping[str, int]
    remarks: Sequence[Remark]
    is_new: bool


def sample(plan: Plan, store: Store, progress: Progress, strict: bool = False) -> Sampled:
    """Draws the pools that are still missing. Pools that are there stay as they are."""
    _refuse_other(plan, store)
    seeds = plan.selection.pools.seeds()
    have = store.pools()
    if len(have) >= len(seeds):
        progress.say(f"Pools: {len(have)} drawn already, nothing to do")
        there = recall(store, plan)
        if strict:
            _refuse_skips(there)
        return there
    with tempfile.TemporaryDirectory(prefix="stillme-") as spool:
        drawer = _Drawer(plan, seeds, progress, Path(spool))
        drawn = drawer.settle()
        found = drawer.found(drawn)
        if strict:
            _refuse_skips(found)
        _refuse_changed(store, [one for one in drawn if one.pool in have])
        new = [one for one in drawn if one.pool not in have]
        rows = [(drawer.candidate(one), drawer.put(one, store)) for one in new]
    store.sign(_signature(plan))
    pools = {number: seed for number, seed in found.pools.items() if number not in have}
    store.add_draw(pools, rows, drawer.census(drawn), found.remarks)
    return found


def _signature(plan: Plan) -> dict[str, str]:
    protocol = {"protocol": plan.protocol.name, "protocol_hash": plan.protocol.hash}
    return {"draw": plan.draw_hash, "grid": plan.grid_hash, **protocol}


def recall(store: Store, plan: Plan) -> Sampled:
    """What the newest draw gave, from the store alone."""
    census = store.census()
    listed, drawn, lost = (census.get(kind, {}) for kind in ("cell", "drawn", "rejected"))
    pools = store.pools()
    wanted = plan.grid.per_cell * len(pools)
    shorts = [
        Short(cell.id, wanted, drawn.get(cell.id, 0), listed.get(cell.id, 0), lost.get(cell.id, 0))
        for cell in plan.grid.cells
        if drawn.get(cell.id, 0) < wanted
    ]
    count = store.query("SELECT count(*) FROM candidate")[0][0]
    rows = sum(listed.values()) + sum(census.get("outside", {}).values())
    reasons, outside = census.get("reason", {}), census.get("outside", {})
    return Sampled(pools, count, rows, outside, shorts, reasons, store.remarks(), is_new=False)


def refuse_other_grid(plan: Plan, store: Store) -> None:
    """Choices belong to the cells that they were made for. All else about a draw may change after it."""
    signed = store.meta().get("grid")
    if signed is not None and signed != plan.grid_hash:
        raise InputError(
            f"{store.path} was drawn for another grid than {plan.path} asks for.",
            "Put the axes and per_cell back as they were, or give the selection another folder and sample anew.",
        )


def _refuse_other(plan: Plan, store: Store) -> None:
    signed = store.meta().get("draw")
    if signed is not None and signed != plan.draw_hash:
        raise InputError(
            f"{store.path} holds pools that were drawn with other settings (data sets, grid, seed or rules on"
            " duplicates), and choices may rest on them.",
            "Give the selection another folder, or the settings that it was drawn with. More pools are fine.",
        )


def _refuse_changed(store: Store, again: Sequence[Drawn]) -> None:
    """Pools are added to those that are there only if the data set still gives the same ones."""
    kept = {(one.pool, one.reader, one.portrait.source_id) for one in store.candidates()}
    if {(one.pool, one.entry.reader, one.entry.row.id) for one in again} != kept:
        raise InputError(
            "The data sets no longer give the pools that were drawn from them: their files have changed.",
            "Put the earlier files back to add pools, or start a selection in another folder.",
        )


def _refuse_skips(found: Sampled) -> None:
    skips = sum(count for word, count in found.reasons.items() if not Reason(word).keeps)
    if not skips and not found.shorts:
        return
    lines = [f"  {remark}" for remark in found.remarks if not remark.reason.keeps][:20]
    if skips > len(lines):
        lines.append(f"  and {skips - len(lines):,} more")
    lines += [f"  {short.cell}: {short.drawn} of {short.wanted} candidates" for short in found.shorts]
    raise InputError(
        "With --strict nothing may be skipped and no cell may stay short; nothing was changed:\n"
        + "\n".join(lines),
        "\nMend the data set (and give the selection another folder if it has pools), or sample without --strict.",
    )


@dataclass(frozen=True)
class Usable:
    """An image that was read and found usable; it waits in a file, since photographs can be large."""

    path: Path
    facts: images.Facts
    image: str
    original: str
    mended: str
    fingerprints: tuple[str, str]


class _Drawer:
    """Draws, reads the images of what was drawn, and draws again without what turned out unusable."""

    def __init__(self, plan: Plan, seeds: Sequence[int], progress: Progress, spool: Path) -> None:
        self._plan = plan
        self._seeds = seeds
        self._progress = progress
        self._spool = spool
        self.remarks = Remarks()
        self.outside: Counter[str] = Counter()
        self.rejected: dict[str, str] = {}  # key -> cell
        self.kept: dict[str, Usable] = {}
        self.heads = Heads(plan.grid, seeds)

    def settle(self) -> list[Drawn]:
        """Draws until every candidate has an image of its own that can be used."""
        spare = SPARE
        self._scan(spare)
        while True:
            try:
                drawn = draw(self.heads, self.rejected)
            except TooFewKeptError:
                spare *= 8
                self._scan(spare)
                continue
            self._read([one for one in drawn if one.entry.key not in self.kept])
            if not self._reject(drawn):
                return drawn

    def _scan(self, spare: int) -> None:
        """Every row of every data set, labels only."""
        remarks, outside, rows = Remarks(), Counter[str](), 0
        heads = Heads(self._plan.grid, self._seeds, spare)
        for name, found in _rows(self._plan.readers):
            if isinstance(found, Remark):
                remarks.add(found)
                continue
            rows += 1
            if not heads.add(Entry(name, found)):
                outside[_outside(found, self._plan)] += 1
        self.heads, self.outside = heads, outside
        self.remarks = self.remarks if self.remarks.counts else remarks
        self._progress.say(f"Rows: {rows:,} read, {sum(heads.listed.values()):,} of them in the grid")

    def _read(self, wanted: Sequence[Drawn]) -> None:
        """The images of some candidates; what cannot be used is rejected."""
        for name, data in self._plan.readers.items():
            unread = {one.entry.key: one for one in wanted if one.entry.reader == name}
            for row, content in data.reader.images([one.entry.row for one in unread.values()]):
                one = unread.pop(Entry(name, row).key)
                found = content if isinstance(content, Remark) else self._usable(row, content)
                if isinstance(found, Remark):
                    self._leave_out(one, found)
                else:
                    self.kept[one.entry.key] = found
            for one in unread.values():
                row = one.entry.row
                said = f"the image {row.id} was not given by its reader"
                self._leave_out(one, Remark(row.file, row.row, Reason.CORRUPT, said))

    def _leave_out(self, one: Drawn, remark: Remark) -> None:
        self.remarks.add(remark)
        self.rejected[one.entry.key] = one.cell

    def _usable(self, row: Row, content: bytes) -> Usable | Remark:
        return usable(row, content, self._plan.rules.least_side, self._spool)

    def put(self, one: Drawn, store: Store) -> Insert:
        kept = self.kept[one.entry.key]
        return store.add_image(kept.path.read_bytes(), kept.facts)

    def _reject(self, drawn: Sequence[Drawn]) -> bool:
        """Rejects candidates that show what an earlier one shows; whether a place is open and has to be drawn."""
        copies = list(repeats(drawn, self.kept, self._plan.rules.duplicates.largest_distance))
        for one, remark in copies:
            self._leave_out(one, remark)
        return bool(copies) or any(one.entry.key not in self.kept for one in drawn)

    def candidate(self, one: Drawn) -> Candidate:
        row, kept = one.entry.row, self.kept[one.entry.key]
        data = self._plan.readers[one.entry.reader]
        portrait = Portrait.of(data.name, row.id, kept.image, row.labels, data.licence, row.split)
        about = (one.pool, self._seeds[one.pool - 1], one.cell, one.entry.reader, portrait, row.annotated)
        return Candidate(*about, row.file, row.row, kept.original, kept.mended, kept.fingerprints[0])

    def census(self, drawn: Sequence[Drawn]) -> dict[str, dict[str, int]]:
        cells = [cell.id for cell in self._plan.grid.cells]
        have, lost = Counter(one.cell for one in drawn), Counter(self.rejected.values())
        return {
            "cell": {cell: self.heads.listed[cell] for cell in cells},
            "drawn": {cell: have[cell] for cell in cells},
            "rejected": dict(lost),
            "outside": dict(self.outside),
            "reason": {reason.value: count for reason, count in self.remarks.counts.items()},
        }

    def found(self, drawn: Sequence[Drawn]) -> Sampled:
        pools = dict(enumerate(self._seeds, start=1))
        rows = sum(self.heads.listed.values()) + sum(self.outside.values())
        mended = [self._mended(one) for one in drawn if self.kept[one.entry.key].mended]
        for remark in mended:
            self.remarks.add(remark)
        shorts = shortages(self.heads, drawn, self.rejected)
        reasons = {reason.value: count for reason, count in self.remarks.counts.items()}
        return Sampled(pools, len(drawn), rows, self.outside, shorts, reasons, self.remarks.said, is_new=True)

    def _mended(self, one: Drawn) -> Remark:
        row, kept = one.entry.row, self.kept[one.entry.key]
        reason = Reason.TURNED_UPRIGHT if "upright" in kept.mended else Reason.CONVERTED
        return Remark(row.file, row.row, reason, f"{row.id} was {kept.mended}")


def _rows(readers: Mapping[str, DataSet]) -> Iterator[tuple[str, Row | Remark]]:
    """Every row with its reader. A data set and an id name one portrait, whichever reader gives it."""
    counts, seen = Counter(data.name for data in readers.values()), Seen()
    for name, data in readers.items():
        for row in data.reader.rows():
            if counts[data.name] > 1 and isinstance(row, Row) and seen.before(f"{data.name}\0{row.id}"):
                said = (
                    f"{row.id} of {data.name} is listed by another reader already, which counts; if they are two"
                    " data sets, name each with 'dataset' in its reader's settings"
                )
                yield name, Remark(row.file, row.row, Reason.LISTED_TWICE, said)
            else:
                yield name, row


def _outside(row: Row, plan: Plan) -> str:
    """Which label keeps a row out of the grid, as the data set spells it."""
    for axis, groups in plan.grid.axes.items():
        if row.labels.get(axis) not in groups:
            return f"{axis}: {row.annotated.get(axis, 'not given')}"
    return ""


def usable(row: Row, content: bytes, least_side: int, spool: Path) -> Usable | Remark:
    """The image as it can be shown, edited and measured, put into `spool`; or why it cannot."""
    try:
        seen = images.examine(content)
    except images.BadImageError as error:
        reason = Reason.TOO_LARGE if "pixels" in str(error) else Reason.CORRUPT
        return Remark(row.file, row.row, reason, f"the image {row.id} {error}")
    for reason, holds, said in (
        (Reason.ANIMATED, seen.frames > 1, f"has {seen.frames} frames; one picture is needed"),
        (Reason.GREYSCALE, seen.is_grey, "has no colour, so nothing could be said about skin tone"),
        (
            Reason.TOO_SMALL,
            min(seen.facts.width, seen.facts.height) < least_side,
            f"has {seen.facts.width} × {seen.facts.height} pixels; the shorter side needs {least_side}",
        ),
    ):
        if holds:
            return Remark(row.file, row.row, reason, f"the image {row.id} {said}")
    mended = _mending(seen)
    shown = images.plain(content) if mended else content
    facts = images.inspect(shown) if mended else seen.facts
    prints = phash.fingerprint(seen.pixels)
    image = hashlib.sha256(shown).hexdigest()
    (spool / image).write_bytes(shown)
    return Usable(spool / image, facts, image, hashlib.sha256(content).hexdigest(), mended, prints)


def _mending(seen: images.Examined) -> str:
    """What has to be done so that every program shows the same picture; in words, or nothing."""
    done = ["turned upright as its EXIF says"] if seen.is_turned else []
    if seen.mode != "RGB" or seen.has_profile:
        done.append(f"converted to sRGB from {seen.mode}{' with a colour profile' if seen.has_profile else ''}")
    return " and ".join(done)


def repeats(drawn: Sequence[Drawn], kept: Mapping[str, Usable], largest: int) -> Iterator[tuple[Drawn, Remark]]:
    """Candidates that show what a settled one shows, each with a remark that names that one.

    Settled are those before the first place that is open: without an image, or with a copy. What stands after that
    place may itself be a copy of what will fill it, so nothing is rejected on its account. Places are thus decided
    in their order, and no pool depends on those after it.
    """
    settled = _Settled(largest)
    is_open = False
    for one in drawn:
        image = kept.get(one.entry.key)
        remark = settled.shows(one, image) if image else None
        if remark:
            yield one, remark
        is_open = is_open or remark is not None or image is None
        if image and not is_open:
            settled.add(one, image)


class _Settled:
    """Candidates that stay, to find which of them another one shows again."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._files: dict[str, Drawn] = {}
        self._album, self._listed = phash.Album(), list[Drawn]()

    def add(self, one: Drawn, image: Usable) -> None:
        self._files[image.original] = one
        self._album.add(image.fingerprints[0])
        self._listed.append(one)

    def shows(self, one: Drawn, image: Usable) -> Remark | None:
        twin = self._files.get(image.original)
        if twin is not None:
            return _same(one.entry.row, twin, Reason.DUPLICATE, "is the very same file as")
        near = self._album.nearest(image.fingerprints)
        if near is None or near[1] > self._largest:
            return None
        said = f"looks like (fingerprints {near[1]} of 256 bits apart)"
        return _same(one.entry.row, self._listed[near[0]], Reason.NEAR_DUPLICATE, said)


def _same(row: Row, twin: Drawn, reason: Reason, said: str) -> Remark:
    other = twin.entry.row
    return Remark(row.file, row.row, reason, f"{row.id} {said} {other.id} ({other.file}, row {other.row})")
