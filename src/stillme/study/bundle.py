"""A bundle: everything that raters are shown, frozen and named by its hash. What made which picture is not in it.

A folder with `bundle.json` and `images/`, whose files are named by their content. Whoever has it can run the
study; nobody who has it can tell which model or arm made an output.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from stillme.core.atomic import replace_file
from stillme.core.errors import ConfigIssue, ConfigIssuesError, InputError, disk
from stillme.core.records import canonical
from stillme.core.yaml import StrictModel, dotted

FILE = "bundle.json"
IMAGES = "images"
CANNOT_DETERMINE = "cannot_determine"
LEFT, RIGHT = "left", "right"
COMMENT = "comment"
CHECK = "check"
LONGEST_COMMENT = 2_000

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Layout = Literal["pair", "triplet", "side_by_side", "occupation_pair"]
EACH: frozenset[str] = frozenset({"side_by_side"})  # layouts in which every output is rated by itself
OUTPUTS = {"pair": 1, "occupation_pair": 1, "triplet": 2, "side_by_side": 2}


class Option(StrictModel):
    """An answer that may be given; people see its number, its label and what it means."""

    value: Id
    label: str = Field(min_length=1)
    detail: str = ""


class Question(StrictModel):
    """One question. Values `left` and `right` of a choice mean the place that an output was shown at."""

    id: Id
    text: str = Field(min_length=1)
    kind: Literal["scale", "choice"]
    options: tuple[Option, ...] = Field(min_length=2, max_length=9)
    cannot_determine: bool = False
    guidelines: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    @cached_property
    def values(self) -> frozenset[str]:
        """What may be stored as an answer."""
        own = {option.value for option in self.options}
        return frozenset(own | {CANNOT_DETERMINE} if self.cannot_determine else own)


class Picture(StrictModel):
    """An image of the bundle, by its hash, and its size in pixels."""

    sha256: Hash
    width: int = Field(gt=0)
    height: int = Field(gt=0)


class Output(StrictModel):
    id: Id
    image: Picture


class Item(StrictModel):
    """A source with one or two outputs, in an order that says nothing."""

    id: Id
    prompt: str = Field(min_length=1)
    occupation: str = ""
    source: Picture
    outputs: tuple[Output, ...] = Field(min_length=1, max_length=2)


class Task(StrictModel):
    """What one person rates; `seats` people in all."""

    id: Id
    title: str = Field(min_length=1)
    items: tuple[Id, ...] = Field(min_length=1)
    seats: int = Field(gt=0)


class Example(StrictModel):
    """A tutorial example: one question about one pair of pictures, with what is said to either answer.

    `second`: where a screen shows two outputs, the right one; `output` is then the left one. `understanding`:
    whether it is the one that shows if somebody has understood the task.
    """

    prompt: str
    occupation: str = ""
    source: Picture
    output: Picture
    second: Picture | None = None
    understanding: bool = False
    question: Id
    expected: tuple[Id, ...] = Field(min_length=1)
    if_expected: str
    if_other: str


class Section(StrictModel):
    title: str = Field(min_length=1)
    paragraphs: tuple[str, ...] = ()
    points: tuple[str, ...] = ()


class Consent(StrictModel):
    """The form that people agree to, and its version, which is stored with every agreement."""

    version: Id
    sections: tuple[Section, ...] = Field(min_length=1)
    statements: tuple[str, ...] = Field(min_length=1)  # each with a checkbox
    minimum_age: int = 18


class Texts(StrictModel):
    """What people read beside the questions."""

    guide: tuple[Section, ...] = Field(min_length=1)
    consent: Consent
    debrief: tuple[Section, ...] = Field(min_length=1)
    comment: str = Field(min_length=1)
    check: str = Field(pattern=r"\{n\}")  # the attention check; {n} is the number of the option to choose
    contact: str = ""


class Checks(StrictModel):
    """Attention checks: between `count` in a task, passed if at least this share of them is right."""

    count: tuple[int, int]
    pass_share: float = Field(ge=0, le=1)


class Pay(StrictModel):
    """Money, in the currency's major unit; `per_hour` is the floor below which a study does not start."""

    currency: str = Field(pattern=r"^[A-Z]{3}$")
    reward: float = Field(ge=0)
    bonus: float = Field(ge=0)
    bonus_above: float = Field(ge=0, le=1)
    per_hour: float = Field(ge=0)


class Settings(StrictModel):
    """How the study is run. Seconds are the least that an item, or each of its questions, takes."""

    minimum_seconds_item: float = Field(ge=0, default=5)
    minimum_seconds_question: float = Field(ge=0, default=0)
    estimated_minutes: tuple[int, int]
    maximum_minutes: int = Field(gt=0, default=120)  # then a seat is given to somebody else
    minimum_screen: tuple[int, int] = (1280, 720)
    checks: Checks
    pay: Pay
    exclude: dict[str, float] = Field(default_factory=dict)
    retention_days: int = Field(gt=0, default=365)  # how long identities are kept after the last activity


class Bundle(StrictModel):
    """Everything that the server knows of a study. `preset`: which questionnaire it was made from."""

    format: Literal[1] = 1
    name: Id
    preset: Id
    title: str = Field(min_length=1)
    layout: Layout
    questions: tuple[Question, ...] = Field(min_length=1)
    items: tuple[Item, ...] = Field(min_length=1)
    tasks: tuple[Task, ...] = Field(min_length=1)
    tutorial: tuple[Example, ...] = ()
    texts: Texts
    settings: Settings

    @cached_property
    def hash(self) -> str:
        """What the study is, pictures and words included."""
        return hashlib.sha256(canonical(self.model_dump(mode="json")).encode()).hexdigest()

    @cached_property
    def item(self) -> Mapping[str, Item]:
        return {item.id: item for item in self.items}

    @cached_property
    def task(self) -> Mapping[str, Task]:
        return {task.id: task for task in self.tasks}

    @cached_property
    def question(self) -> Mapping[str, Question]:
        return {question.id: question for question in self.questions}

    @cached_property
    def pictures(self) -> Mapping[str, Picture]:
        """Hash -> picture: all that the server may show."""
        shown = (picture for item in self.items for picture in (item.source, *(o.image for o in item.outputs)))
        taught = (one for example in self.tutorial for one in (example.source, example.output, example.second))
        return {picture.sha256: picture for picture in (*shown, *taught) if picture is not None}

    @property
    def is_each(self) -> bool:
        """Whether every output is rated by itself."""
        return self.layout in EACH

    @property
    def places(self) -> int:
        """How many people the study needs."""
        return sum(task.seats for task in self.tasks)

    @property
    def minimum_seconds(self) -> float:
        """The least time that an item takes."""
        asked = len(self.questions) * (OUTPUTS[self.layout] if self.is_each else 1)
        return max(self.settings.minimum_seconds_item, self.settings.minimum_seconds_question * asked)

    @model_validator(mode="after")
    def _fits_together(self) -> Bundle:
        for problem in _misfits(self):
            raise ValueError(problem)
        return self


def _misfits(bundle: Bundle) -> Iterator[str]:
    for what, ids in (
        ("items", [item.id for item in bundle.items]),
        ("outputs", [output.id for item in bundle.items for output in item.outputs]),
        ("tasks", [task.id for task in bundle.tasks]),
        ("questions", [question.id for question in bundle.questions]),
    ):
        if len(set(ids)) != len(ids):
            yield f"two {what} have the same id"
    for item in bundle.items:
        if len(item.outputs) != OUTPUTS[bundle.layout]:
            yield f"item {item.id} has {len(item.outputs)} outputs, not as many as {bundle.layout} shows"
    for task in bundle.tasks:
        if len(set(task.items)) != len(task.items):
            yield f"task {task.id} asks about an item twice"
        if strange := set(task.items) - set(bundle.item):
            yield f"task {task.id} has an item that the bundle lacks: {min(strange)}"
    if {COMMENT, CHECK} & set(bundle.question):
        yield f"a question must not be called {COMMENT} or {CHECK}"
    for place, example in enumerate(bundle.tutorial, start=1):
        asked = bundle.question.get(example.question)
        if asked is None or not set(example.expected) <= asked.values:
            yield f"tutorial example {place} expects an answer that its question does not have"


def write(bundle: Bundle, images: Mapping[str, bytes], folder: Path) -> None:
    """Writes a bundle into a new folder; bundle.json last, so that half a bundle is never taken for one."""
    if (folder / FILE).exists():
        raise InputError(f"{folder} already has a bundle.", "Give another folder: a bundle is never changed.")
    with disk(folder):
        (folder / IMAGES).mkdir(parents=True, exist_ok=True)
        for sha256, content in images.items():
            (folder / IMAGES / sha256).write_bytes(content)
        text = json.dumps({"hash": bundle.hash, **bundle.model_dump(mode="json")}, ensure_ascii=False, indent=1)
        replace_file(folder / FILE, text.encode())


def read(folder: Path) -> Bundle:
    """The bundle of a folder, or every fault of it. Pictures are checked against their hashes."""
    path = folder / FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InputError(
            f"{folder} is not a bundle: it has no {FILE} that can be read.", "Make one with stillme study build."
        ) from None
    said = found.pop("hash", "") if isinstance(found, dict) else ""
    try:
        bundle = Bundle.model_validate(found)
        _ = bundle.hash
    except ValidationError as error:
        faults = [ConfigIssue(str(path), 0, dotted(item["loc"]), item["msg"]) for item in error.errors()]
        raise ConfigIssuesError(
            faults, "Build the bundle again; one that raters have seen is kept as it was."
        ) from None
    except ValueError as error:  # a number that JSON does not have has no hash
        raise InputError(f"{path} cannot be read: {error}.", "Build the bundle again.") from None
    if said != bundle.hash:
        raise InputError(
            f"{path} was changed after it was built: its hash is {bundle.hash[:12]}, it says {str(said)[:12]}.",
            "Use the bundle as it was built, or build another.",
        )
    if faults := list(_broken(bundle, folder)):
        raise ConfigIssuesError(faults, "Copy the bundle again, with all its images.")
    return bundle


def _broken(bundle: Bundle, folder: Path) -> Iterator[ConfigIssue]:
    for sha256 in bundle.pictures:
        path = folder / IMAGES / sha256
        try:
            content = path.read_bytes()
        except OSError as error:
            yield ConfigIssue(str(path), 0, "", error.strerror or "cannot be read")
        else:
            if hashlib.sha256(content).hexdigest() != sha256:
                yield ConfigIssue(str(path), 0, "", "is not the picture that the bundle means")
