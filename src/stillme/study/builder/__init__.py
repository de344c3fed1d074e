"""From a run to a bundle for raters, and the key that says what they were shown. `stillme study build`.

    cases that can be shown ──▶ an even sample ──▶ tasks ──▶ pictures, questions, texts ──▶ bundle + key

Nothing that raters must not see enters the bundle: ids are opaque, pictures carry nothing but pixels, outputs and
items stand in the order of their ids. Who rates, and how, is not known here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stillme import __version__
from stillme.core.atomic import new_folder
from stillme.core.errors import ConfigIssuesError, InputError, disk
from stillme.core.text import table
from stillme.core.yaml import Document, read_text, unknown
from stillme.ledger import Run
from stillme.plan.design import Design, load_design
from stillme.protocol import Protocol, builtin
from stillme.protocol.study_schema import StudyPreset, StudyPresets, StudyTexts
from stillme.study import bundle as bundles
from stillme.study.builder import cases as showing
from stillme.study.builder import evenness, key, numbers, pictures, texts, tutorial
from stillme.study.builder.cases import Case, Found
from stillme.study.builder.key import Key, KeyItem, KeyOutput, KeyQuestion, KeyTask, opaque
from stillme.study.bundle import OUTPUTS, Bundle, Checks, Item, Output, Picture, Question, Settings, Task

MONTHS = 365  # days that identities are kept, unless told otherwise


@dataclass(frozen=True)
class Wanted:
    """What was asked for; None: as the preset and the protocol's rules say.

    minimum_seconds: of an item; question_seconds: of each question. version: of questions with two wordings.
    texts: a file in the place of the protocol's study_texts.yaml. secret: of an earlier key, to build it again.
    """

    preset: str
    size: int | None = None
    tasks: int | None = None
    raters: int | None = None
    overlap: float | None = None
    checks: tuple[int, int] | None = None
    minimum_seconds: float | None = None
    question_seconds: float = 0
    reward: float | None = None
    bonus: float | None = None
    title: str = ""
    name: str = ""
    contact: str = ""
    ethics: str = ""
    retention_days: int = MONTHS
    version: str | None = None
    side: int | None = None
    texts: Path | None = None
    seed: int = 0
    secret: str = ""
    disclose: bool = False

    @property
    def numbers(self) -> numbers.Asked:
        return numbers.Asked(self.size, self.tasks, self.raters, self.overlap)


@dataclass(frozen=True)
class Built:
    """What was built. `margins`: of the sample; `widest`: how far tasks differ; `left_out`: what is in no item."""

    bundle: Bundle
    folder: Path
    key: Path
    margins: Mapping[str, Mapping[str, int]]
    widest: Mapping[str, int]
    left_out: Mapping[str, int]
    notes: tuple[str, ...] = ()

    def words(self) -> str:
        return "\n".join(_words(self))


def build(run: Path, folder: Path, wanted: Wanted, say: Callable[[str], None] = lambda _: None) -> Built:
    """Builds a bundle into a new folder and its key beside it, or says why not and leaves nothing behind."""
    _refuse(folder, wanted)
    with Run.open_readonly(run) as seen:
        design = load_design(seen)
        plan = _planned(seen, design, wanted)
        with disk(folder), new_folder(folder) as part:
            bundle, noted = _made(seen, plan, part, say)
            key.write(noted, key.path_of(folder))
    widest = evenness.widest(plan.dealt, plan.protocol.groups.dimensions)
    notes = tuple(_notes(plan, bundle))
    return Built(bundle, folder, key.path_of(folder), noted.margins, widest, plan.found.left_out, notes)


def _refuse(folder: Path, wanted: Wanted) -> None:
    if wanted.disclose:
        raise InputError(
            "A bundle never says how the person in a source was perceived: raters who are told expect a change, "
            "or none, and their ratings would follow what they were told.",
            "Leave it away; the groups are in the key, and every analysis has them.",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists already.", "Give another folder: a bundle is never changed.")
    if key.path_of(folder).exists():
        raise InputError(f"{key.path_of(folder)} exists already.", "Give another folder, so that no key is lost.")


@dataclass(frozen=True)
class _Plan:
    """Everything that is decided before a picture is made."""

    wanted: Wanted
    protocol: Protocol
    preset: StudyPreset
    presets: StudyPresets
    words: StudyTexts
    found: Found
    cases: Sequence[Case]
    dealt: Sequence[Sequence[Case]]
    questions: tuple[Question, ...]
    secret: str

    @property
    def overlaps(self) -> bool:
        return self.wanted.overlap is not None

    def id_of(self, case: Case) -> str:
        return opaque(self.secret, "item", case.key)


def _planned(run: Run, design: Design, wanted: Wanted) -> _Plan:
    protocol = design.config.protocol
    presets = protocol.study_presets or builtin().study_presets
    assert presets is not None  # the built-in protocol has them
    preset = _preset(presets, wanted.preset)
    overlap = protocol.study_rules.overlap_alternative
    wanted.numbers.check(overlap)
    asked = texts.questions(protocol, preset, wanted.version)
    found = showing.find(run, design, preset)
    size = wanted.numbers.items(preset, overlap)
    drawn = evenness.sample(found.cases, size, wanted.seed, protocol)
    dealt = _dealt(drawn, preset, wanted, protocol)
    words, secret = _texts(protocol, wanted.texts), wanted.secret or secrets.token_hex(32)
    return _Plan(wanted, protocol, preset, presets, words, found, drawn, dealt, asked, secret)


def _preset(presets: StudyPresets, word: str) -> StudyPreset:
    known = {preset.id: preset for preset in presets.presets}
    if word not in known:
        raise InputError(f"{unknown(word, 'study preset', known)}.")
    return known[word]


def _texts(protocol: Protocol, path: Path | None) -> StudyTexts:
    if path is not None:
        with disk(path):
            document = Document(str(path), read_text(path))
        given = document.read_as(StudyTexts)
        if given is None:
            raise ConfigIssuesError(document.faults)
        return given
    words = protocol.study_texts or builtin().study_texts
    assert words is not None  # the built-in protocol has them
    return words


def _dealt(drawn: Sequence[Case], preset: StudyPreset, wanted: Wanted, protocol: Protocol) -> list[list[Case]]:
    rules, dimensions = protocol.study_rules.overlap_alternative, protocol.groups.dimensions
    tasks = wanted.numbers.number_of_tasks(len(drawn), preset, rules)
    several = wanted.numbers.overlapped(len(drawn))
    twice = {case.key for case in evenness.sample(drawn, several, wanted.seed, protocol)} if several else set()
    copies = [rules.annotators if case.key in twice else 1 for case in drawn]
    return evenness.deal(drawn, copies, tasks, wanted.seed, dimensions)


def _made(run: Run, plan: _Plan, part: Path, say: Callable[[str], None]) -> tuple[Bundle, Key]:
    """Pictures and bundle.json in a folder of their own, and the key."""
    box = plan.presets.box
    wanted = [sha256 for case in plan.cases for sha256 in (case.portrait.image, *case.images)]
    side = plan.wanted.side or pictures.side_of(run, wanted, box)
    shelf = pictures.Shelf(part, box.quality)
    shown = pictures.render(run, wanted, side, shelf, say)
    taught = tuple(tutorial.examples(plan.protocol, plan.presets.lessons, plan.preset, side, shelf))
    tasks = sorted(_tasks(plan), key=lambda task: task.id)
    settings = _settings(plan, tasks)
    places = _places(plan, settings, tasks)
    preset = plan.preset
    bundle = Bundle(
        name=plan.wanted.name or preset.id,
        preset=preset.id,
        title=plan.wanted.title or preset.title,
        layout=plan.protocol.questionnaires[preset.questionnaire].layout,
        questions=plan.questions,
        items=tuple(sorted((_item(plan, case, shown) for case in plan.cases), key=lambda item: item.id)),
        tasks=tuple(_titled(tasks)),
        tutorial=taught,
        texts=texts.texts(plan.protocol, plan.words, preset, places, plan.questions),
        settings=settings,
    )
    bundles.write(bundle, {}, part)
    shelf.finish()
    return bundle, _key(run, plan, bundle)


def _item(plan: _Plan, case: Case, shown: Mapping[str, Picture]) -> Item:
    outputs = [
        Output(id=opaque(plan.secret, "output", trial.key), image=shown[image])
        for trial, image in zip(case.trials, case.images, strict=True)
    ]
    return Item(
        id=plan.id_of(case),
        prompt=case.text,
        occupation=case.occupation,
        source=shown[case.portrait.image],
        outputs=tuple(sorted(outputs, key=lambda output: output.id)),
    )


def _tasks(plan: _Plan) -> Iterator[Task]:
    seats = 1 if plan.overlaps else plan.wanted.raters or plan.preset.raters
    for number, cases in enumerate(plan.dealt):
        name = opaque(plan.secret, "task", str(number))
        yield Task(id=name, title=name, items=tuple(sorted(plan.id_of(case) for case in cases)), seats=seats)


def _titled(tasks: Sequence[Task]) -> Iterator[Task]:
    for number, task in enumerate(tasks, start=1):
        yield task.model_copy(update={"title": f"Task {number}"})


def _settings(plan: _Plan, tasks: Sequence[Task]) -> Settings:
    rules, wanted, preset = plan.protocol.study_rules, plan.wanted, plan.preset
    sheet = plan.protocol.questionnaires[preset.questionnaire]
    least = preset.minimum_seconds_item if wanted.minimum_seconds is None else wanted.minimum_seconds
    sizes = [len(task.items) for task in tasks]
    minutes = numbers.minutes(preset, sheet, max(sizes), max(least, wanted.question_seconds * _questions(plan)))
    counts = numbers.checks(rules.attention_checks, wanted.checks, min(sizes))
    return Settings(
        minimum_seconds_item=least,
        minimum_seconds_question=wanted.question_seconds,
        estimated_minutes=minutes,
        maximum_minutes=max(60, 4 * minutes[1]),
        minimum_screen=rules.devices.minimum_screen,
        checks=Checks(count=counts, pass_share=rules.attention_checks.pass_share),
        pay=numbers.pay(rules.payment, preset, minutes[1], wanted.reward, wanted.bonus),
        exclude=dict(rules.exclude),
        retention_days=wanted.retention_days,
    )


def _questions(plan: _Plan) -> int:
    """How many an item asks."""
    layout = plan.protocol.questionnaires[plan.preset.questionnaire].layout
    return len(plan.questions) * (OUTPUTS[layout] if layout in bundles.EACH else 1)


def _places(plan: _Plan, settings: Settings, tasks: Sequence[Task]) -> texts.Places:
    """What stands for the words in braces."""
    wanted, pay = plan.wanted, settings.pay
    sizes = [len(task.items) for task in tasks]
    seconds = max(settings.minimum_seconds_item, settings.minimum_seconds_question * _questions(plan))
    return {
        "title": wanted.title or plan.preset.title,
        "items": numbers.spanned(sizes),
        "outputs": numbers.spanned([size * len(plan.preset.arms) for size in sizes]),
        "minutes": numbers.spanned(settings.estimated_minutes),
        "pay": numbers.money(pay.currency, pay.reward),
        "bonus": numbers.money(pay.currency, pay.bonus) if pay.bonus else "",
        "bonus_share": f"{pay.bonus_above:.0%}",
        "checks": numbers.spanned(settings.checks.count),
        "seconds": f"{seconds:g}" if seconds else "",
        "age": str(plan.protocol.study_rules.consent.minimum_age),
        "retention": f"{settings.retention_days} days",
        "contact": wanted.contact or plan.words.contact,
        "ethics": wanted.ethics,
    }


def _key(run: Run, plan: _Plan, bundle: Bundle) -> Key:
    axes = {question.id: question.axis or "" for question in plan.protocol.asked(plan.preset.questionnaire)}
    return Key(
        bundle=bundle.hash,
        name=bundle.name,
        preset=plan.preset.id,
        questionnaire=plan.preset.questionnaire,
        layout=bundle.layout,
        run=run.id,
        protocol=plan.protocol.hash,
        experiment=plan.preset.experiment,
        arms=plan.preset.arms,
        seed=plan.wanted.seed,
        secret=plan.secret,
        questions=tuple(
            KeyQuestion(id=q.id, kind=q.kind, axis=axes[q.id], values=tuple(sorted(q.values)))
            for q in bundle.questions
        ),
        tasks={task.id: KeyTask(seats=task.seats, items=task.items) for task in bundle.tasks},
        items={plan.id_of(case): _key_item(case) for case in plan.cases},
        outputs=dict(_key_outputs(plan)),
        margins=evenness.margins(plan.cases, plan.protocol.groups.dimensions),
        left_out=dict(plan.found.left_out),
        stillme=__version__,
    )


def _key_item(case: Case) -> KeyItem:
    return KeyItem(
        portrait=case.portrait.key,
        prompt=case.prompt,
        editor=case.editor,
        category=case.category,
        groups=dict(case.portrait.labels),
        about=dict(case.trials[0].about),
    )


def _key_outputs(plan: _Plan) -> Iterator[tuple[str, KeyOutput]]:
    for case in plan.cases:
        for trial in case.trials:
            yield (
                opaque(plan.secret, "output", trial.key),
                KeyOutput(
                    item=plan.id_of(case),
                    trial=trial.key,
                    edit=trial.edit,
                    experiment=trial.experiment,
                    arm=trial.arm,
                    editor=trial.editor,
                    prompt=trial.prompt,
                    portrait=trial.portrait,
                ),
            )


# What is said


def _notes(plan: _Plan, bundle: Bundle) -> Iterator[str]:
    wanted = plan.wanted.numbers.items(plan.preset, plan.protocol.study_rules.overlap_alternative)
    if len(plan.cases) < wanted:
        yield f"{wanted:,} items were wanted; the run has {len(plan.cases):,} that can be shown, and all are in."
    if plan.found.left_out:
        yield f"Cases that cannot be shown, and are in no item ({showing.said(plan.found.left_out)})."
    yield numbers.pay_said(bundle.settings.pay, bundle.settings.estimated_minutes)
    if not plan.wanted.contact:
        yield f"Nobody is named whom raters can ask; they read: {bundle.texts.contact}."
    if not plan.wanted.ethics:
        yield "No ethics approval is named in the consent form."


def _words(built: Built) -> Iterator[str]:
    bundle = built.bundle
    sizes = numbers.spanned([len(task.items) for task in bundle.tasks])
    outputs = len(bundle.items) * OUTPUTS[bundle.layout]
    yield (
        f"Study '{bundle.name}' ({bundle.preset}): {len(bundle.items):,} items with {outputs:,} outputs. "
        f"Tasks: {len(bundle.tasks):,}, of {sizes} items. Raters: {bundle.tasks[0].seats} a task, "
        f"{bundle.places:,} in all."
    )
    rows = [
        (trait, numbers.spanned(list(counts.values())), str(len(counts)), str(built.widest.get(trait, 0)))
        for trait, counts in built.margins.items()
    ]
    yield table(("even in", "items a value", "values", "tasks differ by"), rows, {1, 2, 3})
    yield from built.notes
    yield f"Bundle {bundle.hash[:12]}: {built.folder}"
    yield f"Key, for the auditor alone; keep it away from whoever rates: {built.key}"
