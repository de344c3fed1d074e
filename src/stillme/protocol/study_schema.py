"""The shape of the protocol's files for human studies: questionnaires, rules, texts, presets and tutorials."""

from __future__ import annotations

import re

from pydantic import Field, model_validator

from stillme.core.yaml import StrictModel
from stillme.protocol.schema import Name, Text, Word


class Question(StrictModel):
    """One question of a questionnaire: a scale (`options`) or a choice (`choices`)."""

    id: Word
    text: Text
    axis: Word | None = None
    version: str | None = None
    options: dict[int, tuple[str, str]] | None = None
    choices: tuple[Word, ...] | None = None
    cannot_determine: bool | None = None
    guidelines: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    alternative: Wording | None = None

    @model_validator(mode="after")
    def _has_answers(self) -> Question:
        if (self.options is None) == (self.choices is None):
            raise ValueError("give exactly one of options and choices")
        return self


class Wording(StrictModel):
    version: str
    text: Text
    options: dict[int, tuple[str, str]]
    guidelines: tuple[str, ...] = ()


class Questionnaire(StrictModel):
    """questionnaires/*.yaml: what human raters are asked."""

    id: Name
    title: Text
    layout: Word
    stimuli_per_participant: int = Field(gt=0)
    estimated_minutes: tuple[int, int]
    cannot_determine: bool = False
    rate_each_of: tuple[str, ...] | None = None
    questions_from: Name | None = None
    questions: tuple[Question, ...] = ()
    choice_labels: dict[Word, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_questions(self) -> Questionnaire:
        if bool(self.questions) == bool(self.questions_from):
            raise ValueError("give exactly one of questions and questions_from")
        return self


class AttentionChecks(StrictModel):
    count: tuple[int, int]
    wording: Text
    pass_share: float = Field(ge=0, le=1)


class Assignment(StrictModel):
    annotators_per_item: int = Field(gt=0)
    tasks: int = Field(gt=0)
    items_per_task: int = Field(gt=0)
    tasks_per_participant: int = Field(gt=0)


class Overlap(StrictModel):
    share: float = Field(ge=0, le=1)
    annotators: int = Field(gt=0)


class Payment(StrictModel):
    currency: Text
    per_hour: float
    base: float
    bonus: float
    bonus_attention_share_above: float


class Consent(StrictModel):
    minimum_age: int
    checkbox: bool


class Progress(StrictModel):
    complete_share_to_submit: float
    jump_to_item: bool
    resume: bool
    autosave: bool


class Devices(StrictModel):
    minimum_screen: tuple[int, int]
    mobile: Word


class StudyRules(StrictModel):
    """study_rules.yaml: the rules of every human study."""

    flow: tuple[Word, ...]
    tutorial_examples: tuple[int, int]
    attention_checks: AttentionChecks
    minimum_seconds_per_question: float
    progress: Progress
    assignment: Assignment
    overlap_alternative: Overlap
    exclude: dict[Word, float]
    duplicates: tuple[Word, ...]
    payment: Payment
    consent: Consent
    debrief: tuple[str, ...]
    devices: Devices
    reliability: dict[Word, float]
    comment_box: Text


PLACEHOLDERS = frozenset(
    {"title", "items", "outputs", "minutes", "pay", "bonus", "bonus_share", "checks", "seconds"}
    | {"age", "retention", "contact", "ethics"}
)
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class StudySection(StrictModel):
    """A part of what raters read; `presets`: only in studies of these. Default: in all.

    Words in braces are filled in when a study is built; a paragraph or point whose word is empty is left out.
    """

    title: Text
    paragraphs: tuple[Text, ...] = ()
    points: tuple[Text, ...] = ()
    presets: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _has_known_placeholders(self) -> StudySection:
        for text in (self.title, *self.paragraphs, *self.points):
            if unknown := set(_PLACEHOLDER.findall(text)) - PLACEHOLDERS:
                raise ValueError(f"{{{min(unknown)}}} is not filled in; known: {', '.join(sorted(PLACEHOLDERS))}")
        return self


class StudyTexts(StrictModel):
    """study_texts.yaml: what raters read before, and after, they rate."""

    guide: tuple[StudySection, ...] = Field(min_length=1)
    questions: Text  # the heading of the guide's list of questions
    consent: tuple[StudySection, ...] = Field(min_length=1)
    statements: tuple[Text, ...] = Field(min_length=1)
    debrief: tuple[StudySection, ...] = Field(min_length=1)
    contact: Text  # where the study names no contact


class StudyBox(StrictModel):
    """The size of pictures: the longer side of all of them, between these, and the quality of their JPEG."""

    least: int = Field(ge=64)
    most: int = Field(le=4096)
    quality: int = Field(ge=50, le=100)


class StudyPreset(StrictModel):
    """A study: which questionnaire is asked about which outputs of a run, and how many people are asked.

    title: as raters read it. arms: one output of an item each. estimated_minutes: of a task; default: as the
    questionnaire says. reward: by default what the hourly floor asks for. prompt: shown instead of the prompt's
    own text. guidelines: added to those of every question.
    """

    id: Name
    label: Text
    title: Text
    questionnaire: Name
    experiment: Word
    arms: tuple[Word, ...] = Field(min_length=1, max_length=2)
    tasks: int = Field(gt=0)
    items_per_task: int = Field(gt=0)
    raters: int = Field(gt=0)
    minimum_seconds_item: float = Field(ge=0)
    estimated_minutes: tuple[int, int] | None = None
    reward: float | None = Field(default=None, ge=0)
    prompt: Text | None = None
    guidelines: tuple[Text, ...] = ()


class LessonPicture(StrictModel):
    """How an invented head is shown: the share of the edit that was made, the shift of skin in L*, the version."""

    strength: float = Field(default=1, ge=0, le=1)
    delta_l: float = Field(default=0, ge=-50, le=50)
    variant: Word = "base"
    blank: bool = False


class Lesson(StrictModel):
    """A tutorial example on an invented head. `beside`: the second output, on the right. Answers have one truth.

    understanding: the example that shows whether a rater has understood the task.
    """

    questionnaires: tuple[Name, ...] = Field(min_length=1)
    head: Name
    prompt: Name
    occupation: str = ""
    shows: LessonPicture
    beside: LessonPicture | None = None
    question: Word
    expected: tuple[str, ...] = Field(min_length=1)
    if_expected: Text
    if_other: Text
    understanding: bool = False


class StudyPresets(StrictModel):
    """study_presets.yaml: the studies that can be built, and their tutorials."""

    box: StudyBox
    presets: tuple[StudyPreset, ...] = Field(min_length=1)
    lessons: tuple[Lesson, ...] = ()
