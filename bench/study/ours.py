"""Our side: a bundle of the same 50 items, with the words of the published questionnaire, and seats for everybody.

There are no attention checks and no least time, which the peers lack; and far more seats than any study has.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from bench.study.pictures import ITEMS, ROLES, SIDE, picture, prompt
from stillme.protocol import builtin
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

SHEET = "exp2-independent"
TASKS, SEATS = 10, 100


def write(folder: Path) -> Bundle:
    made = bundle()
    images = {shown(item, role).sha256: picture(item, role) for item in range(ITEMS) for role in ROLES}
    bundles.write(made, images, folder)
    return made


def bundle() -> Bundle:
    items = tuple(_item(number) for number in range(ITEMS))
    ids = tuple(item.id for item in items)
    return Bundle(
        name="bench",
        preset="bench",
        title="Two edits of one portrait",
        layout="side_by_side",
        questions=questions(),
        items=items,
        tasks=tuple(Task(id=f"t{n}", title=f"Task {n}", items=ids, seats=SEATS) for n in range(1, TASKS + 1)),
        tutorial=(_example(),),
        texts=_texts(),
        settings=Settings(
            minimum_seconds_item=0,
            estimated_minutes=(25, 30),
            checks=Checks(count=(0, 0), pass_share=0.8),
            pay=Pay(currency="USD", reward=6.0, bonus=1.0, bonus_above=0.9, per_hour=12.0),
        ),
    )


def questions() -> tuple[Question, ...]:
    """Those of the sheet, word for word: what a page weighs depends on them."""
    return tuple(
        Question(
            id=asked.id,
            text=asked.text,
            kind="scale",
            options=tuple(
                Option(value=str(point), label=label, detail=detail)
                for point, (label, detail) in sorted((asked.options or {}).items())
            ),
            cannot_determine=asked.cannot_determine is not False,
            guidelines=tuple(asked.guidelines),
            examples=tuple(asked.examples),
        )
        for asked in builtin().asked(SHEET)
    )


def shown(item: int, role: str) -> Picture:
    return Picture(sha256=hashlib.sha256(picture(item, role)).hexdigest(), width=SIDE, height=SIDE)


def _item(number: int) -> Item:
    outputs = tuple(Output(id=f"o{number:03}{role}", image=shown(number, role)) for role in ROLES[1:])
    return Item(id=f"i{number:03}", prompt=prompt(number), source=shown(number, ROLES[0]), outputs=outputs)


def _example() -> Example:
    first = questions()[0]
    return Example(
        prompt=prompt(0),
        source=shown(0, ROLES[0]),
        output=shown(0, ROLES[1]),
        question=first.id,
        expected=(first.options[0].value,),
        if_expected="Nothing was changed.",
        if_other="Look again: nothing was changed.",
    )


def _texts() -> Texts:
    section = (Section(title="What this is", paragraphs=("A measurement of the server, with drawn pictures.",)),)
    return Texts(
        guide=section,
        consent=Consent(version="c1", sections=section, statements=("I am 18 or older.", "I take part freely.")),
        debrief=section,
        comment="Any comments about this pair?",
        check="Please select option {n} for this question",
    )
