"""Which outputs of a run can be shown to raters: cases, each with one output an arm. Draws none and shows none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stillme.core.errors import InputError
from stillme.core.records import Portrait, Status, Trial
from stillme.ledger import Run
from stillme.plan.design import Design
from stillme.protocol import Protocol
from stillme.protocol.study_schema import StudyPreset

EDITOR, PROMPT, CATEGORY = "editor", "prompt", "category"
OCCUPATION = "{occupation}"


@dataclass(frozen=True)
class Case:
    """A person, a prompt and an editor, with an output for every arm; `images`: theirs, in `trials`' order."""

    portrait: Portrait
    prompt: str
    editor: str
    category: str
    text: str
    occupation: str
    trials: tuple[Trial, ...]
    images: tuple[str, ...]

    @property
    def key(self) -> str:
        return "\0".join(trial.key for trial in self.trials)

    def traits(self, dimensions: Iterable[str]) -> dict[str, str]:
        """What samples and tasks are even in."""
        people = {name: self.portrait.labels.get(name, "") for name in dimensions}
        return {EDITOR: self.editor, PROMPT: self.prompt, CATEGORY: self.category, **people}


@dataclass(frozen=True)
class Found:
    """The cases that can be shown, in the design's order, and how many cannot be, by reason."""

    cases: tuple[Case, ...]
    left_out: Mapping[str, int]


def find(run: Run, design: Design, preset: StudyPreset) -> Found:
    """All that a preset may show of a run."""
    trials = [trial for trial in design.trials if trial.experiment == preset.experiment]
    if not trials:
        raise InputError(
            f"The run {run.path} has no experiment '{preset.experiment}', which '{preset.id}' is about.",
            f"Add '{preset.experiment}' to the experiments of the audit and run it, or choose another preset.",
        )
    edits = {key: (status, image) for key, status, image in run.query("SELECT key, status, image FROM edit")}
    cases, reasons = list[Case](), Counter[str]()
    people = {portrait.key: portrait for portrait in design.portraits}
    for arms in _grouped(_alone(trials, preset, run)):
        reason = _why_not(arms, edits, preset)
        if reason:
            reasons[reason] += 1
        else:
            cases.append(_case([arms[arm] for arm in preset.arms], edits, people, design.config.protocol, preset))
    if not cases:
        raise InputError(
            f"Nothing of the experiment '{preset.experiment}' of {run.path} can be shown yet ({said(reasons)}).",
            "Run the audit to its end first.",
        )
    return Found(tuple(cases), dict(reasons))


def said(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{reason}: {count:,}" for reason, count in sorted(reasons.items())) or "no cases"


def _alone(trials: list[Trial], preset: StudyPreset, run: Run) -> list[Trial]:
    """Edits of one portrait: raters compare an output with the one picture that it was made from."""
    alone = [trial for trial in trials if not trial.partner]
    if not alone:
        raise InputError(
            f"The experiment '{preset.experiment}' of {run.path} edits two portraits at once; raters see one.",
            "Run it with `mode: separate`.",
        )
    return alone


def _grouped(trials: Iterable[Trial]) -> Iterator[dict[str, Trial]]:
    """Arm -> trial of every person, prompt and editor; of several seeds the first."""
    found: dict[tuple[str, str, str], dict[str, Trial]] = {}
    for trial in trials:
        found.setdefault((trial.portrait, trial.prompt, trial.editor), {}).setdefault(trial.arm, trial)
    yield from found.values()


_Edits = Mapping[str, tuple[str, str | None]]


def _why_not(arms: Mapping[str, Trial], edits: _Edits, preset: StudyPreset) -> str:
    """Why a case cannot be shown, in a word; empty where it can be."""
    for arm in preset.arms:
        if arm not in arms:
            return "not planned"
        status, image = edits.get(arms[arm].edit, (Status.PENDING.value, None))
        if status != Status.OK.value or image is None:
            return Status(status).label
    return ""


def _case(
    trials: list[Trial], edits: _Edits, people: Mapping[str, Portrait], protocol: Protocol, preset: StudyPreset
) -> Case:
    first = trials[0]
    asked = protocol.prompt.get(first.prompt)
    pair = protocol.pair.get(first.prompt)
    occupation = pair.target if pair else ""
    own = asked.text if asked else first.instruction
    return Case(
        people[first.portrait],
        first.prompt,
        first.editor,
        asked.category if asked else pair.stereotype if pair else "",
        preset.prompt.replace(OCCUPATION, occupation) if preset.prompt else own,
        occupation,
        tuple(trials),
        tuple(edits[trial.edit][1] or "" for trial in trials),
    )
