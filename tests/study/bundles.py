"""Small bundles for tests: drawn pictures, real words where words matter."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from stillme.study import bundle as bundles
from stillme.study.bundle import (
    Bundle,
    Checks,
    Consent,
    Example,
    Item,
    Option,
    Output,
    Pay,
    Picture,
    Question,
    Section,
    Settings,
    Task,
    Texts,
)

SCALE = tuple(Option(value=str(n), label=f"Label {n}", detail=f"what {n} means") for n in range(1, 6))
SIDES = tuple(
    Option(value=value, label=label)
    for value, label in (
        ("left", "Left image"),
        ("right", "Right image"),
        ("both_equally", "Both equally"),
        ("neither", "Neither"),
    )
)


def scale(id: str, cannot: bool = True) -> Question:
    return Question(
        id=id,
        text=f"How much did the {id} change?",
        kind="scale",
        options=SCALE,
        cannot_determine=cannot,
        guidelines=("Compare the two images.",),
        examples=("The same = 1.",),
    )


def choice(id: str) -> Question:
    return Question(
        id=id, text=f"Which image keeps the {id}?", kind="choice", options=SIDES, cannot_determine=True
    )


class Album:
    """Pictures that were drawn for a bundle, by their hash."""

    def __init__(self) -> None:
        self.images: dict[str, bytes] = {}

    def draw(self, label: str, side: int = 96) -> Picture:
        image = Image.new("RGB", (side, side), (128, 128, 128))
        pen = ImageDraw.Draw(image)
        tone = int(hashlib.sha256(label.encode()).hexdigest()[:2], 16)
        pen.ellipse(
            (side // 5, side // 8, side * 4 // 5, side * 7 // 8), fill=(tone // 2 + 90, tone // 3 + 70, 80)
        )
        pen.text((4, 4), label, fill=(255, 255, 255))
        raw = io.BytesIO()
        image.save(raw, "PNG")
        sha256 = hashlib.sha256(raw.getvalue()).hexdigest()
        self.images[sha256] = raw.getvalue()
        return Picture(sha256=sha256, width=side, height=side)


def texts() -> Texts:
    return Texts(
        guide=(
            Section(title="What you will do", paragraphs=("Look at pictures and answer.",), points=("One", "Two")),
        ),
        consent=Consent(
            version="c1",
            sections=(Section(title="Purpose", paragraphs=("We study image editors.",)),),
            statements=("I am at least 18 years old.", "I agree to take part."),
        ),
        debrief=(Section(title="Thank you", paragraphs=("The study measures AI systems, not you.",)),),
        comment="Any comments about this image pair?",
        check="To verify you're paying attention, please select option {n} for this question",
        contact="study@example.org",
    )


def settings(**changes: Any) -> Settings:
    known: dict[str, Any] = {
        "minimum_seconds_item": 0,
        "estimated_minutes": (25, 30),
        "checks": Checks(count=(1, 2), pass_share=0.8),
        "pay": Pay(currency="USD", reward=6.0, bonus=1.0, bonus_above=0.9, per_hour=12.0),
    }
    return Settings(**known | changes)


def make(
    layout: Any = "side_by_side",
    items: int = 4,
    tasks: int = 2,
    seats: int = 3,
    questions: tuple[Question, ...] | None = None,
    tutorial: int = 1,
    side: int = 96,
    **changes: Any,
) -> tuple[Bundle, dict[str, bytes]]:
    """A bundle of `tasks` × `items` items, and its pictures."""
    album = Album()
    asked = questions or (
        (choice("identity"), choice("age"))
        if layout == "triplet"
        else (scale("success", cannot=False), scale("tone"), scale("age"))
    )
    made = []
    for number in range(items * tasks):
        outputs = tuple(
            Output(id=f"o{number:03d}{letter}", image=album.draw(f"{number} {letter}", side))
            for letter in "xy"[: bundles.OUTPUTS[layout]]
        )
        made.append(
            Item(
                id=f"i{number:03d}",
                prompt=f"Change the light in picture {number}",
                occupation="farmer" if layout == "occupation_pair" else "",
                source=album.draw(f"{number} source", side),
                outputs=outputs,
            )
        )
    dealt = tuple(
        Task(
            id=f"t{place:02d}",
            title=f"Task {place + 1}",
            items=tuple(item.id for item in made[place * items : (place + 1) * items]),
            seats=seats,
        )
        for place in range(tasks)
    )
    examples = tuple(
        Example(
            prompt="Make it darker",
            occupation="farmer" if layout == "occupation_pair" else "",
            source=album.draw(f"example {n}", side),
            output=album.draw(f"example {n} edited", side),
            question=asked[0].id,
            expected=(asked[0].options[0].value,),
            if_expected="Right: nothing was changed.",
            if_other="Look again: nothing was changed.",
        )
        for n in range(tutorial)
    )
    known = Bundle(
        name="small",
        preset="small",
        title="A small study",
        layout=layout,
        questions=asked,
        items=tuple(made),
        tasks=dealt,
        tutorial=examples,
        texts=texts(),
        settings=settings(**changes),
    )
    return known, album.images


def write(folder: Path, **changes: Any) -> Bundle:
    bundle, images = make(**changes)
    bundles.write(bundle, images, folder)
    return bundle
