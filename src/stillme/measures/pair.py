"""Two pictures measured on the spot: what `stillme measure` shows. Writes nothing but the picture asked for."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stillme import measures
from stillme.core import images
from stillme.core.errors import InputError, disk
from stillme.core.records import MeasureRequest, Reading
from stillme.engine import backends
from stillme.measures import attributes, gate
from stillme.protocol import Protocol, builtin


@dataclass(frozen=True)
class Comparison:
    """What was read off two pictures: kind of measure -> reading."""

    before: Path
    after: Path
    readings: Mapping[str, Reading]
    protocol: Protocol

    def figures(self, kind: str) -> Mapping[str, float]:
        return self.readings[kind].figures if kind in self.readings else {}

    @property
    def lightness_change(self) -> float | None:
        """The skin's shift, without the light's where the background allows it."""
        rules = self.protocol.measures
        return (
            gate.lightness_change(self.figures("skin_tone_shift"), rules.skin_tone.background) if rules else None
        )

    @property
    def is_controlled(self) -> bool:
        rules = self.protocol.measures
        return rules is not None and gate.passes(self.figures("skin_tone_shift"), rules.skin_tone.background)

    @property
    def nothing_changed(self) -> bool | None:
        """By the protocol's own thresholds; None where it was not read."""
        rules, found = self.protocol.measures, self.figures("change")
        if not found or rules is None:
            return None
        rule = rules.no_change
        return found["lpips"] < rule.lpips and found["changed_share"] < rule.changed_share

    def to_dict(self) -> dict[str, object]:
        read = {
            kind: {"status": reading.status.value, "detail": reading.detail, **reading.figures}
            for kind, reading in self.readings.items()
        }
        derived = {"lightness_change": self.lightness_change, "controlled": self.is_controlled}
        named = {"before": str(self.before), "after": str(self.after)}
        return {**named, **read, **derived, "nothing_changed": self.nothing_changed}


def compare(before: Path, after: Path, show: Path | None = None) -> Comparison:
    """Every measure that this installation can take; `show`: where to put a picture of what was read."""
    request = MeasureRequest(str(before), _read(before), _read(after), tuple(_kinds()))
    prepared = {kind: _prepared(kind) for kind in request.measures}
    for kind, one in prepared.items():
        backends.require_packages(one.requires, f"'{kind}'")
    from stillme.measures.bench import Bench

    bench = Bench({kind: one.make() for kind, one in prepared.items()})
    readings = dict(zip(request.measures, bench.measure(request), strict=True))
    if show is not None:
        from stillme.measures.picture import draw

        with disk(show):
            show.write_bytes(draw(bench.pair(request)))
    return Comparison(before, after, readings, builtin())


def _kinds() -> Iterator[str]:
    """All kinds, but those of the optional extra only where it is installed."""
    for kind in measures.BACKENDS:
        if kind not in measures.ATTRIBUTES or importlib.util.find_spec(attributes.MODULE):
            yield kind


def _prepared(kind: str) -> backends.Prepared[measures.Reader]:
    module = backends.load(measures.BACKENDS, kind)
    prepared: backends.Prepared[measures.Reader] = module.prepare(
        module.Settings(), backends.Place(Path(), builtin())
    )
    return prepared


def _read(path: Path) -> bytes:
    """A file that is no picture is the user's to mend; a face that is not there is a finding."""
    if not path.is_file():
        raise InputError(f"There is no file {path}.", "Give two picture files: before and after the edit.")
    with disk(path):
        content = path.read_bytes()
    try:
        images.inspect(content)
    except images.BadImageError as error:
        raise InputError(f"{path} {error}.", "Give a JPEG, PNG or WebP picture.") from None
    return content
