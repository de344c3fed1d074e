"""Sampling: rows of the data sets become candidates in pools, and every obstacle is recorded.

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
from stillme.sources import Reason, Row, RowIssue
from stillme.sources.labels import Seen
from stillme.sources.selection.config import Plan
from stillme.sources.selection.pools import (
    SPARE,
    Entry,
    PoolHeads,
    SampledRow,
    TooFewKeptError,
    UnderfilledCell,
    draw,
    shortages,
)
from stillme.sources.selection.store import Candidate, Store

MAX_QUOTED = 1000  # issues kept per reason; all are counted. Bounds memory and the store for a hopeless data set
SPARE_GROWTH = 8  # each further pass over a data set is slow, so it keeps many more rows than the last
MAX_STRICT_ERRORS = 20  # issues that --strict lists, about a screenful


@dataclass
class Remarks:
    """Issues of rows, counted in full and quoted up to a limit."""

    counts: Counter[Reason] = field(default_factory=Counter)
    quoted: list[RowIssue] = field(default_factory=list)

    def add(self, issue: RowIssue) -> None:
        self.counts[issue.reason] += 1
        if self.counts[issue.reason] <= MAX_QUOTED:
            self.quoted.append(issue)


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """The result of a draw. The field names are keys of `sample --json`."""

    pools: Mapping[int, int]
    candidates: int
    rows: int
    outside: Mapping[str, int]
    shorts: Sequence[UnderfilledCell]
    reasons: Mapping[str, int]
    remarks: Sequence[RowIssue]
    is_new: bool


def sample_pools(plan: Plan, store: Store, progress: Progress, strict: bool = False) -> Sampled:
    """Draw the pools that are still missing. Pools that are there stay as they are."""
    drawn_as = store.meta().get("draw")
    if drawn_as is not None and drawn_as != plan.draw_hash:
        raise InputError(
            f"{store.path} holds pools that were drawn with other settings (data sets, grid, seed or rules on"
            " duplicates), and choices may rest on them.",
            "Give the selection another folder, or the settings that it was drawn with. More pools are fine.",
        )
    seeds = plan.selection.pools.seeds()
    existing_pools = store.pools()
    if len(existing_pools) >= len(seeds):
        progress.say(f"Pools: {len(existing_pools)} drawn already, nothing to do")
        result = recall(store, plan)
        if strict:
            _refuse_skips(result)
        return result
    with tempfile.TemporaryDirectory(prefix="stillme-") as spool:
        sampler = Sampler(plan, seeds, progress, Path(spool))
        drawn = sampler.settle()
        result = sampler.result(drawn)
        if strict:
            _refuse_skips(result)
        # Pools are added to those that are there only if the data set still gives the same ones.
        redrawn = {(row.pool, row.entry.reader, row.entry.row.id) for row in drawn if row.pool in existing_pools}
        if redrawn != {(item.pool, item.reader, item.portrait.source_id) for item in store.candidates()}:
            raise InputError(
                "The data sets no longer give the pools that were drawn from them: their files have changed.",
                "Put the earlier files back to add pools, or start a selection in another folder.",
            )
        new_rows = [row for row in drawn if row.pool not in existing_pools]
        rows = []
        for row in new_rows:
            image = sampler.usable[row.entry.key]
            rows.append((sampler.candidate(row), store.add_image(image.path.read_bytes(), image.facts)))
    store.sign(
        {
            "draw": plan.draw_hash,
            "grid": plan.grid_hash,
            "protocol": plan.protocol.name,
            "protocol_hash": plan.protocol.hash,
        }
    )
    pools = {number: seed for number, seed in result.pools.items() if number not in existing_pools}
    store.add_draw(pools, rows, sampler.census(drawn), result.remarks)
    return result


def recall(store: Store, plan: Plan) -> Sampled:
    """The result of the newest draw, from the store alone."""
    census = store.census()
    outside, pools = census.get("outside", {}), store.pools()
    return Sampled(
        pools=pools,
        candidates=store.query("SELECT count(*) FROM candidate")[0][0],
        rows=sum(census.get("cell", {}).values()) + sum(outside.values()),
        outside=outside,
        shorts=shortages(plan.grid, len(pools), census),
        reasons=census.get("reason", {}),
        remarks=store.remarks(),
        is_new=False,
    )


def refuse_other_grid(plan: Plan, store: Store) -> None:
    """Choices belong to the cells that they were made for. Everything else about a draw may change after it."""
    drawn_for = store.meta().get("grid")
    if drawn_for is not None and drawn_for != plan.grid_hash:
        raise InputError(
            f"{store.path} was drawn for another grid than {plan.path} asks for.",
            "Put the axes and per_cell back as they were, or give the selection another folder and sample anew.",
        )


def _refuse_skips(result: Sampled) -> None:
    n_skipped = sum(count for reason, count in result.reasons.items() if not Reason(reason).keeps)
    if not n_skipped and not result.shorts:
        return
    lines = [f"  {issue}" for issue in result.remarks if not issue.reason.keeps][:MAX_STRICT_ERRORS]
    if n_skipped > len(lines):
        lines.append(f"  and {n_skipped - len(lines):,} more")
    lines += [f"  {short.cell}: {short.drawn} of {short.wanted} candidates" for short in result.shorts]
    raise InputError(
        "With --strict nothing may be skipped and no cell may stay short; nothing was changed:\n"
        + "\n".join(lines),
        "\nMend the data set (and give the selection another folder if it has pools), or sample without --strict.",
    )


@dataclass(frozen=True, kw_only=True)
class Usable:
    """An image that was read and found usable; it waits in a file, since photographs can be large."""

    path: Path
    facts: images.ImageInfo
    image: str  # SHA-256 of the image as it is shown
    original: str  # SHA-256 of the data set's own file
    changes: str  # what was done to it, in words; else empty
    fingerprints: tuple[str, str]


class Sampler:
    """Draws, reads the images of what was drawn, and draws again without what turned out unusable."""

    def __init__(self, plan: Plan, seeds: Sequence[int], progress: Progress, spool: Path) -> None:
        self._plan = plan
        self._seeds = seeds
        self._progress = progress
        self._spool = spool
        self.remarks = Remarks()
        self.outside: Counter[str] = Counter()
        self.rejected: dict[str, str] = {}  # key -> cell
        self.usable: dict[str, Usable] = {}
        self.heads = PoolHeads(plan.grid, seeds)

    def settle(self) -> list[SampledRow]:
        """Draw until every candidate has an image of its own that can be used."""
        spare = SPARE
        self._scan(spare)
        while True:
            try:
                drawn = draw(self.heads, self.rejected)
            except TooFewKeptError:
                spare *= SPARE_GROWTH
                self._scan(spare)
                continue
            self._read_images([row for row in drawn if row.entry.key not in self.usable])
            repeats = list(find_repeats(drawn, self.usable, self._plan.rules.duplicates.largest_distance))
            for row, issue in repeats:
                self._reject(row, issue)
            if not repeats and all(row.entry.key in self.usable for row in drawn):
                return drawn

    def _scan(self, spare: int) -> None:
        """Read every row of every data set, labels only."""
        remarks, outside, n_rows = Remarks(), Counter[str](), 0
        heads = PoolHeads(self._plan.grid, self._seeds, spare)
        for reader, row in self._rows():
            if isinstance(row, RowIssue):
                remarks.add(row)
                continue
            n_rows += 1
            if not heads.add(Entry(reader, row)):
                # Counted under the first label that keeps the row out of the grid, as the data set spells it.
                axes = self._plan.grid.axes
                axis = next(axis for axis, groups in axes.items() if row.labels.get(axis) not in groups)
                outside[f"{axis}: {row.annotated.get(axis, 'not given')}"] += 1
        self.heads, self.outside = heads, outside
        self.remarks = self.remarks if self.remarks.counts else remarks
        self._progress.say(f"Rows: {n_rows:,} read, {sum(heads.listed.values()):,} of them in the grid")

    def _rows(self) -> Iterator[tuple[str, Row | RowIssue]]:
        """Every row with its reader. A data set and an id name one portrait, whichever reader gives it."""
        readers, seen = self._plan.readers, Seen()
        counts = Counter(data.name for data in readers.values())
        for name, data in readers.items():
            for row in data.reader.rows():
                if counts[data.name] > 1 and isinstance(row, Row) and seen.before(f"{data.name}\0{row.id}"):
                    message = (
                        f"{row.id} of {data.name} is listed by another reader already, which counts; if they are"
                        " two data sets, name each with 'dataset' in its reader's settings"
                    )
                    yield name, row.issue(Reason.LISTED_TWICE, message)
                else:
                    yield name, row

    def _read_images(self, drawn: Sequence[SampledRow]) -> None:
        """The images of some candidates; what cannot be used is rejected."""
        for name, data in self._plan.readers.items():
            unread = {row.entry.key: row for row in drawn if row.entry.reader == name}
            for row, content in data.reader.images([drawn_row.entry.row for drawn_row in unread.values()]):
                drawn_row = unread.pop(Entry(name, row).key)
                image = content if isinstance(content, RowIssue) else self.prepare_image(row, content)
                if isinstance(image, RowIssue):
                    self._reject(drawn_row, image)
                else:
                    self.usable[drawn_row.entry.key] = image
            for drawn_row in unread.values():
                row = drawn_row.entry.row
                message = f"the image {row.id} was not given by its reader"
                self._reject(drawn_row, row.issue(Reason.CORRUPT, message))

    def prepare_image(self, row: Row, content: bytes) -> Usable | RowIssue:
        return prepare_image(row, content, self._plan.rules.least_side, self._spool)

    def _reject(self, row: SampledRow, issue: RowIssue) -> None:
        self.remarks.add(issue)
        self.rejected[row.entry.key] = row.cell

    def candidate(self, drawn: SampledRow) -> Candidate:
        row, image = drawn.entry.row, self.usable[drawn.entry.key]
        data = self._plan.readers[drawn.entry.reader]
        return Candidate(
            pool=drawn.pool,
            seed=self._seeds[drawn.pool - 1],
            cell=drawn.cell,
            reader=drawn.entry.reader,
            portrait=Portrait.of(data.name, row.id, image.image, row.labels, data.licence, row.split),
            annotated=row.annotated,
            file=row.file,
            row=row.row,
            original=image.original,
            mended=image.changes,
            fingerprint=image.fingerprints[0],
        )

    def census(self, drawn: Sequence[SampledRow]) -> dict[str, dict[str, int]]:
        """Counts that the store keeps: rows by cell, candidates and rejections by cell, skips by reason."""
        cells = [cell.id for cell in self._plan.grid.cells]
        n_drawn = Counter(row.cell for row in drawn)
        return {
            "cell": {cell: self.heads.listed[cell] for cell in cells},
            "drawn": {cell: n_drawn[cell] for cell in cells},
            "rejected": dict(Counter(self.rejected.values())),
            "outside": dict(self.outside),
            "reason": {reason.value: count for reason, count in self.remarks.counts.items()},
        }

    def result(self, drawn: Sequence[SampledRow]) -> Sampled:
        """What was drawn, with an issue for each image that was changed and kept."""
        for row in drawn:
            data_row, changes = row.entry.row, self.usable[row.entry.key].changes
            if changes:
                reason = Reason.TURNED_UPRIGHT if "upright" in changes else Reason.CONVERTED
                self.remarks.add(data_row.issue(reason, f"{data_row.id} was {changes}"))
        census = self.census(drawn)
        return Sampled(
            pools=dict(enumerate(self._seeds, start=1)),
            candidates=len(drawn),
            rows=sum(self.heads.listed.values()) + sum(self.outside.values()),
            outside=self.outside,
            shorts=shortages(self._plan.grid, len(self._seeds), census),
            reasons=census["reason"],
            remarks=self.remarks.quoted,
            is_new=True,
        )


def prepare_image(row: Row, content: bytes, least_side: int, spool: Path) -> Usable | RowIssue:
    """The image as it can be shown, edited and measured, put into `spool`; or why it cannot."""
    try:
        image = images.examine(content)
    except images.BadImageError as error:
        reason = Reason.TOO_LARGE if "pixels" in str(error) else Reason.CORRUPT
        return row.issue(reason, f"the image {row.id} {error}")
    facts = image.facts
    for reason, applies, message in (
        (Reason.ANIMATED, image.frames > 1, f"has {image.frames} frames; one picture is needed"),
        (Reason.GREYSCALE, image.is_grey, "has no colour, so nothing could be said about skin tone"),
        (
            Reason.TOO_SMALL,
            min(facts.width, facts.height) < least_side,
            f"has {facts.width} × {facts.height} pixels; the shorter side needs {least_side}",
        ),
    ):
        if applies:
            return row.issue(reason, f"the image {row.id} {message}")
    # Every program has to show the same picture, so nothing is left to EXIF, a palette or a colour profile.
    changes = ["turned upright as its EXIF says"] if image.is_turned else []
    if image.mode != "RGB" or image.has_profile:
        profile = " with a colour profile" if image.has_profile else ""
        changes.append(f"converted to sRGB from {image.mode}{profile}")
    shown = images.plain(content) if changes else content
    sha256 = hashlib.sha256(shown).hexdigest()
    (spool / sha256).write_bytes(shown)
    return Usable(
        path=spool / sha256,
        facts=images.inspect(shown) if changes else facts,
        image=sha256,
        original=hashlib.sha256(content).hexdigest(),
        changes=" and ".join(changes),
        fingerprints=phash.fingerprint(image.pixels),
    )


def find_repeats(
    drawn: Sequence[SampledRow], usable: Mapping[str, Usable], max_distance: int
) -> Iterator[tuple[SampledRow, RowIssue]]:
    """Candidates that show what a settled one shows, each with an issue that names that one.

    Settled are those before the first slot that is open: without an image, or with a copy. What comes after that
    slot may itself be a copy of what will fill it, so nothing is rejected on its account. Slots are thus decided
    in their order, and no pool depends on those after it.
    """
    by_file: dict[str, SampledRow] = {}
    album, album_rows = phash.PerceptualHashIndex(), list[SampledRow]()
    is_open = False
    for row in drawn:
        image = usable.get(row.entry.key)
        issue = None
        if image and (twin := by_file.get(image.original)):
            issue = _repeat_issue(row, twin, Reason.DUPLICATE, "is the very same file as")
        elif image and (near := album.nearest(image.fingerprints)) and near[1] <= max_distance:
            message = f"looks like (fingerprints {near[1]} of 256 bits apart)"
            issue = _repeat_issue(row, album_rows[near[0]], Reason.NEAR_DUPLICATE, message)
        if issue:
            yield row, issue
        is_open = is_open or issue is not None or image is None
        if image and not is_open:
            by_file[image.original] = row
            album.add(image.fingerprints[0])
            album_rows.append(row)


def _repeat_issue(drawn: SampledRow, twin: SampledRow, reason: Reason, message: str) -> RowIssue:
    row, other = drawn.entry.row, twin.entry.row
    return row.issue(reason, f"{row.id} {message} {other.id} ({other.file}, row {other.row})")
