"""What a bench found, in the one form that all of them write: bench/out/NAME.json. Needs nothing but Python.

A ratio says how many times better ours is: our rate over the peer's, or the peer's cost over ours. Below 1 ours is
worse.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out"


@dataclass(frozen=True)
class Row:
    """One quantity. `target`: in words, with `met`; both empty where none was set.

    What was not written down is None, never worked out from the rest: an older ratio may have neither side.
    """

    quantity: str
    ours: float | None
    unit: str = ""
    peer: str = ""
    theirs: float | None = None
    ratio: float | None = None
    target: str = ""
    met: bool | None = None

    def at_least(self, bound: float) -> Row:
        return self._aimed(
            f"at least {plain(bound)} {self.unit}", None if self.ours is None else self.ours >= bound
        )

    def at_most(self, bound: float) -> Row:
        return self._aimed(
            f"at most {plain(bound)} {self.unit}", None if self.ours is None else self.ours <= bound
        )

    def below(self, bound: float) -> Row:
        return self._aimed(f"below {plain(bound)} {self.unit}", None if self.ours is None else self.ours < bound)

    def times(self, bound: float) -> Row:
        """Better than the peer by so much; not known without a peer."""
        return self._aimed(f"{plain(bound)} times the peer", None if self.ratio is None else self.ratio >= bound)

    def _aimed(self, target: str, met: bool | None) -> Row:
        return replace(self, target=target.strip(), met=None if met is None else bool(met))


def rate(quantity: str, ours: float, unit: str, peer: str = "", theirs: float | None = None) -> Row:
    """More is better."""
    return Row(quantity, float(ours), unit, peer, _number(theirs), _over(ours, theirs))


def cost(quantity: str, ours: float, unit: str, peer: str = "", theirs: float | None = None) -> Row:
    """Less is better."""
    return Row(quantity, float(ours), unit, peer, _number(theirs), _over(theirs, ours))


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _over(one: float | None, other: float | None) -> float | None:
    return float(one / other) if one is not None and other else None


def plain(value: float) -> str:
    """A number with as many digits as mean something."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    near_one = 0.9 <= abs(value) < 1.1  # there a thousandth may tell whether a target is met
    digits = max(0, 2 + near_one - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True)
class Found:
    """All of one bench. `notes`: what this very run left out or was disturbed by. `peers`: name -> version."""

    bench: str
    rows: Sequence[Row]
    shows: str
    does_not_show: Sequence[str]
    peers: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    at: str = ""

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Found:
        return cls(**{**told, "rows": [Row(**row) for row in told["rows"]]})

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def write(
    bench: str,
    rows: Iterable[Row],
    shows: str,
    does_not_show: Sequence[str],
    peers: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """For the runner to gather; the path of the file."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    found = Found(bench, list(rows), shows, list(does_not_show), dict(peers or {}), list(notes), now)
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{bench}.json"
    path.write_text(json.dumps(found.plain(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def versions(*packages: str) -> dict[str, str]:
    """Of those that are installed beside us."""
    return {name: found for name in packages if (found := _version(name))}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def pinned(*files: Path, only: Sequence[str] = ()) -> dict[str, str]:
    """Name -> version of requirement files that pin what peers have in environments of their own."""
    lines = [line.partition("#")[0].strip() for file in files for line in file.read_text().splitlines()]
    found = dict(line.split("==", 1) for line in lines if "==" in line)
    return {name: version for name, version in found.items() if not only or name in only}
