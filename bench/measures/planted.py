"""What the instruments read of known changes: shifts of skin, and what is none; and whose faces they read."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from bench.figures import Row, cost, rate
from bench.measures import edits
from bench.measures.page import Section, number, table
from bench.measures.pictures import Photo
from bench.measures.taking import KINDS, SKIN, Case, Taken, take
from stillme.core.records import Status
from stillme.measures.skin_tone_shift import is_background_unchanged, lightness_change
from stillme.measures.view import UnreadableError, View, VisionModels
from stillme.protocol import builtin
from stillme.protocol.schema import Instruments
from stillme.stats.coverage import coverage

COPY = "an identical copy"
HEADS, SAMPLE = "heads", "sample"
MOST_ERROR, MOST_SD = 10.0, 0.5  # per cent of the shift; L*
NONE = 0.5  # L* that still counts as no shift
MOST_RELIT = 0.8  # L* left of a change of light
DETECTED = 0.99
# what every measure must say of two equal pictures
EQUAL = {"lightness_shift": 0, "hue_shift": 0, "delta_e": 0, "background_shift": 0, "background_spread": 0,
         "lpips": 0, "ssim": 1, "changed_share": 0, "phash_distance": 0, "similarity": 1}  # fmt: skip


def section(heads: Sequence[Photo], sample: Sequence[Photo]) -> Section:
    page = Section(f"Known changes on {len(heads)} rendered heads and {len(sample)} photographs of the sample")
    taken, _ = take(cases(heads, sample))
    found: dict[tuple[str, str], list[Taken]] = defaultdict(list)
    for one in taken:
        found[_set_of(one), one.case.edit].append(one)
    rules = builtin().measures
    if rules is None:
        raise SystemExit("The protocol has no measures.yaml, so there is no gate to try.")
    sets = [HEADS, SAMPLE] if sample else [HEADS]
    _shifts(page, found, sets, rules)
    _nothing(page, found, rules)
    _relit(page, found, sets, rules)
    _copies(page, [one for name in sets for one in found[name, COPY]])
    if sample:
        _coverage(page, sample, rules)
    page.rows += _worst(page.figures)
    return page


def _worst(found: Mapping[str, Any]) -> Iterator[Row]:
    """The worst of every kind: what a target is held against."""
    shifts = [one for one in found["shifts"] if one["median"] is not None]
    errors = [abs(_error(one["median"], one["planted"])) for one in shifts]
    yield cost("planted shift of the skin: largest error of a median", max(errors), "%").at_most(MOST_ERROR)
    spread = max(one["sd"] or 0 for one in shifts)
    yield cost("planted shift of the skin: largest sd", spread, "L*").at_most(MOST_SD)
    still = [abs(one[way]["median"] or 0) for one in found["nothing"] for way in ("raw", "reported")]
    yield cost("another shirt or place: largest median", max(still), "L*").at_most(NONE)
    relit = [abs(one["controlled"]["median"]) for one in found["relit"] if one["controlled"]["median"] is not None]
    yield cost("another light, controlled: largest median", max(relit), "L*").at_most(MOST_RELIT)
    off = sum(found["copies"]["off"].values())
    yield cost("figures of identical copies that are not exactly equal", off, "").at_most(0)
    if "detected" in found:
        yield rate("faces detected on the photographs", found["detected"], "").at_least(DETECTED)


def _set_of(taken: Taken) -> str:
    return taken.case.source.split(":")[0]


def cases(heads: Sequence[Photo], sample: Sequence[Photo]) -> Iterator[Case]:
    """Made as they are needed: the edits of one picture at a time."""
    optics = VisionModels()
    for photo in heads:
        yield from _cases(HEADS, photo, edits.of_head(photo.name))
    for photo in sample:
        faces = View(photo.content, "source", optics).faces
        yield from _cases(SAMPLE, photo, edits.of_photo(photo, faces[0].box) if faces else iter(()))


def _cases(name: str, photo: Photo, made: Iterator[tuple[str, bytes]]) -> Iterator[Case]:
    source = f"{name}:{photo.name}"
    yield Case.of(source, photo.content, COPY, photo.content, KINDS)
    for both in (made, edits.in_another_light(photo)):
        for edit, edited in both:
            yield Case.of(source, photo.content, edit, edited, (SKIN,))


@dataclass(frozen=True)
class Spread:
    """Figures in brief; None where there are too few."""

    n: int
    median: float | None
    sd: float | None
    largest: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if not values:
            return cls(0, None, None, None)
        sd = statistics.stdev(values) if len(values) > 1 else None
        return cls(len(values), statistics.median(values), sd, max(abs(value) for value in values))

    def within(self, median: float, sd: float) -> bool:
        return self.median is not None and abs(self.median) <= median and (self.sd or 0) <= sd


def figures(taken: Sequence[Taken]) -> list[Mapping[str, float]]:
    """Of the skin, where it was read."""
    return [one.readings[SKIN].figures for one in taken if one.readings[SKIN].status is Status.OK]


def reported(figures: Mapping[str, float], rules: Instruments) -> float:
    """The change that an audit reports: without the light's where the background's gate lets it."""
    change = lightness_change(figures, rules.skin_tone.background)
    return figures["lightness_shift"] if change is None else change


def _shifts(
    page: Section, found: Mapping[tuple[str, str], list[Taken]], sets: list[str], rules: Instruments
) -> None:
    rows = []
    for name in sets:
        for delta in edits.SHIFTS:
            taken = found[name, edits.planted(delta)]
            rows.append(_shift_row(page, name, delta, taken, rules))
    head = ("planted", "read", "no room", "unread", "median", "error", "sd", "reported", "error", "sd")
    page.say("shift of the skin's L*: as read, and as reported after the background control", *table(head, rows))


def _shift_row(
    page: Section, name: str, delta: float, taken: Sequence[Taken], rules: Instruments
) -> tuple[str, ...]:
    read = figures(taken)
    roomy = [one for one in read if edits.has_room(one["lightness_before"], delta)]
    raw = Spread.of([one["lightness_shift"] for one in roomy])
    told = Spread.of([reported(one, rules) for one in roomy])
    counts = (str(len(roomy)), str(len(read) - len(roomy)), str(len(taken) - len(read)))
    for way, one in (("as read", raw), ("as reported", told)):
        met = one.median is not None and abs(_error(one.median, delta)) <= MOST_ERROR and (one.sd or 0) <= MOST_SD
        page.want(met, f"{name} {delta:+g} {way}: within {MOST_ERROR:g} % and sd {MOST_SD}")
        page.figures.setdefault("shifts", []).append({"set": name, "planted": delta, "way": way, **asdict(one)})
    return (f"{name} {delta:+g}", *counts, *_shift_cells(raw, delta), *_shift_cells(told, delta))


def _shift_cells(spread: Spread, delta: float) -> tuple[str, str, str]:
    error = "-" if spread.median is None else f"{_error(spread.median, delta):+.1f} %"
    return number(spread.median, sign=True), error, number(spread.sd)


def _error(median: float, delta: float) -> float:
    return 100 * (median - delta) / delta


def _nothing(page: Section, found: Mapping[tuple[str, str], list[Taken]], rules: Instruments) -> None:
    """Changes that leave skin as it is; on heads only, whose layers are known."""
    names = [*edits.SHIRTS, *edits.PLACES]
    rows = []
    for edit in names:
        read = figures(found[HEADS, edit])
        raw = Spread.of([one["lightness_shift"] for one in read])
        told = Spread.of([reported(one, rules) for one in read])
        passing = sum(is_background_unchanged(one, rules.skin_tone.background) for one in read)
        page.want(raw.within(NONE, NONE), f"{edit} reads 0 ± {NONE}")
        page.want(told.within(NONE, NONE), f"{edit} is reported as 0 ± {NONE}")
        page.figures.setdefault("nothing", []).append(
            {"edit": edit, "raw": asdict(raw), "reported": asdict(told), "passing": passing}
        )
        rows.append((edit, str(raw.n), *_plain(raw), str(passing), *_plain(told)))
    head = (
        "no change of skin (heads)",
        "read",
        "median",
        "sd",
        "largest",
        "pass the gate",
        "reported",
        "sd",
        "largest",
    )
    page.say("", *table(head, rows))


def _plain(spread: Spread) -> tuple[str, str, str]:
    return number(spread.median, sign=True), number(spread.sd), number(spread.largest)


def _relit(
    page: Section, found: Mapping[tuple[str, str], list[Taken]], sets: list[str], rules: Instruments
) -> None:
    """Changes of light: as read, and of those that pass the gate what the control leaves."""
    rows = [
        _relit_row(page, name, edit, figures(found[name, edit]), rules) for name in sets for edit in edits.RELIT
    ]
    head = ("another light", "read", "median", "sd", "pass the gate", "controlled", "sd", "reported of all", "sd")
    page.say("", *table(head, rows))


def _relit_row(
    page: Section, name: str, edit: str, read: Sequence[Mapping[str, float]], rules: Instruments
) -> tuple[str, ...]:
    passing = [one for one in read if is_background_unchanged(one, rules.skin_tone.background)]
    raw = Spread.of([one["lightness_shift"] for one in read])
    kept = Spread.of([reported(one, rules) for one in passing])
    told = Spread.of([reported(one, rules) for one in read])
    page.want(
        kept.median is not None and abs(kept.median) <= MOST_RELIT,
        f"{name}, {edit}: controlled to |median| {MOST_RELIT}",
    )
    page.figures.setdefault("relit", []).append(
        {"set": name, "edit": edit, "raw": asdict(raw), "controlled": asdict(kept), "reported": asdict(told)}
    )
    share = f"{len(passing) / len(read):.0%}" if read else "-"
    return (f"{name}: {edit}", str(raw.n), *_plain(raw)[:2], share, *_plain(kept)[:2], *_plain(told)[:2])


def _copies(page: Section, taken: Sequence[Taken]) -> None:
    """Of two equal pictures every figure is exactly what it is for equal pictures."""
    off: Counter[str] = Counter()
    for one in taken:
        for reading in one.readings.values():
            off.update(name for name, value in reading.figures.items() if value != EQUAL.get(name, value))
    said = ", ".join(f"{name} {count}" for name, count in off.items()) or "none"
    page.say(
        "", f"identical copies: {len(taken)} pairs; figures that are not exactly those of equal pictures: {said}"
    )
    page.figures["copies"] = {"pairs": len(taken), "off": dict(off)}
    page.want(not off, "identical copies read exactly as equal")


def _coverage(page: Section, sample: Sequence[Photo], rules: Instruments) -> None:
    """Whose faces are found, and of those whose skin is read, by perceived race."""
    optics = VisionModels()
    statuses = [_statuses(photo, optics) for photo in sample]
    frame = pl.DataFrame(
        {
            "person": [photo.name for photo in sample],
            "race": [photo.race for photo in sample],
            "status": Status.OK.value,
            "found_status": [found for found, _ in statuses],
            "read_status": [read for _, read in statuses],
        }
    )
    lines = coverage(frame, ["race"], rules.coverage.warn_points)
    rows = [
        (
            f"{line['measure']}: {line['group'] or 'all'}",
            f"{line['read']}/{line['asked']}",
            f"{line['rate']:.1%}",
            "" if line["behind"] is None else number(100 * line["behind"], 1),
            "WARNS" if line["warns"] else "",
        )
        for line in lines.iter_rows(named=True)
    ]
    unread = Counter(read for _, read in statuses if read != Status.OK.value)
    head = ("faces and skin, by perceived race", "", "share", "points behind", "the rule")
    page.say("", *table(head, rows), "not read: " + ", ".join(f"{one} {count}" for one, count in unread.items()))
    page.figures["coverage"] = lines.select(
        "measure", "group", "asked", "read", "rate", "behind", "warns"
    ).to_dicts()
    found = sum(one == Status.OK.value for one, _ in statuses) / len(statuses)
    page.figures["detected"] = found
    page.want(found >= DETECTED, f"detection of {DETECTED:.0%}, not {found:.1%}")


def _statuses(photo: Photo, optics: VisionModels) -> tuple[str, str]:
    """How finding the face and reading its skin ended."""
    from stillme.measures.skin_tone_shift import Settings

    view = View(photo.content, "photograph", optics)
    limits = Settings()
    try:
        view.tone(view.region(view.frontal(view.person, limits)), limits)
    except UnreadableError as error:
        return (Status.OK if view.faces else error.status).value, error.status.value
    return Status.OK.value, Status.OK.value
