"""Reads a protocol folder whole, or raises everything that is wrong with it at once.

The built-in protocol and a user's own folder go through the same code. The hash covers every file, so two
runs with equal hashes asked the same questions of the same groups.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from stillme.core.errors import ConfigIssue, ConfigIssuesError
from stillme.core.yaml import Document, Path_, read_text, unknown
from stillme.protocol.schema import (
    AnalysisPlan,
    Arm,
    Axis,
    Calibration,
    CalibrationPairKind,
    Editors,
    Expected,
    Groups,
    Instruments,
    Manifest,
    Mitigation,
    PairForms,
    PairPrompt,
    Portraits,
    Preset,
    Prompt,
    Prompts,
    Pronouns,
    Rubrics,
    Winobias,
)
from stillme.protocol.study_schema import Question, Questionnaire, StudyPresets, StudyRules, StudyTexts

BUILTIN = Path(__file__).parent / "files"
_MODELS: dict[str, type[BaseModel]] = {
    "protocol.yaml": Manifest,
    "groups.yaml": Groups,
    "prompts.yaml": Prompts,
    "winobias.yaml": Winobias,
    "rubrics.yaml": Rubrics,
    "editors.yaml": Editors,
    "study_rules.yaml": StudyRules,
}
_OPTIONAL_MODELS: dict[str, type[BaseModel]] = {
    "measures.yaml": Instruments,
    "portraits.yaml": Portraits,
    "mitigation.yaml": Mitigation,
    "calibration.yaml": Calibration,
    "analysis.yaml": AnalysisPlan,
    "study_texts.yaml": StudyTexts,
    "study_presets.yaml": StudyPresets,
}
_TEMPLATES = ("templates/judge_structure.txt", "templates/feature_extraction.txt")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Everything that is asked and how it is read. Immutable; `hash` names it."""

    manifest: Manifest
    groups: Groups
    prompts: Prompts
    winobias: Winobias
    rubrics: Rubrics
    editors: Editors
    study_rules: StudyRules
    questionnaires: dict[str, Questionnaire]
    templates: dict[str, str]
    published: dict[str, tuple[dict[str, str], ...]]
    files: dict[str, str]
    hash: str
    measures: Instruments | None = None
    portraits: Portraits | None = None
    mitigation: Mitigation | None = None
    calibration: Calibration | None = None
    analysis: AnalysisPlan = field(default_factory=AnalysisPlan)
    study_texts: StudyTexts | None = None
    study_presets: StudyPresets | None = None

    @property
    def name(self) -> str:
        return f"{self.manifest.id} {self.manifest.version}"

    @cached_property
    def axes(self) -> dict[str, Axis]:
        return {axis.id: axis for axis in self.rubrics.axes}

    @cached_property
    def prompt(self) -> dict[str, Prompt]:
        return {prompt.id: prompt for prompt in self.prompts.prompts}

    @cached_property
    def pair(self) -> dict[str, PairPrompt]:
        return {prompt.id: prompt for prompt in self.winobias.prompts}

    @cached_property
    def arms(self) -> dict[str, Arm]:
        return {arm.id: arm for arm in self.manifest.arms}

    @property
    def presets(self) -> dict[str, Preset]:
        return dict(self.manifest.presets)

    def axes_of(self, prompt: str) -> tuple[str, ...]:
        """The axes that a judge is asked about for a prompt, in the rubric's order."""
        return tuple(
            axis.id for axis in self.rubrics.axes if axis.only_prompts is None or prompt in axis.only_prompts
        )

    def asked(self, questionnaire: str) -> tuple[Question, ...]:
        """The questions of a questionnaire, its own or those that it takes from another."""
        own = self.questionnaires[questionnaire]
        return own.questions or self.questionnaires[own.questions_from or ""].questions

    def expected(self, kind: CalibrationPairKind) -> dict[str, Expected]:
        """What is true of a calibration pair on every axis that judges are asked about."""
        assert self.calibration is not None
        expected = {**self.calibration.otherwise, **kind.expects}
        for axis in self.axes_of(kind.id):
            if axis not in expected:
                neutral = self.axes[axis].neutral
                assert neutral is not None  # the protocol was checked
                expected[axis] = Expected(score=neutral, within=(neutral, neutral))
        return {axis: expected[axis] for axis in self.axes_of(kind.id)}

    def unrequested(self, prompt: str, axis: str) -> bool:
        """False where the prompt itself asks for a change on this axis: such a change is not drift."""
        return self.axes[axis].attribute not in self.prompt[prompt].may_change


def builtin() -> Protocol:
    return load(BUILTIN)


@lru_cache(maxsize=8)
def load(folder: Path) -> Protocol:
    """The protocol in `folder`, or every fault in it."""
    if not folder.is_dir():
        raise ConfigIssuesError([ConfigIssue(str(folder), 0, "", "is not a folder with a protocol in it")])
    files = {
        path.relative_to(folder).as_posix(): read_text(path)
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".yaml", ".txt", ".csv") and path.is_file()
    }
    return from_files(files, "protocol" if folder == BUILTIN else str(folder))


def chosen(word: str, folder: Path, document: Document) -> Protocol:
    """The protocol that `protocol:` in a document names: the built-in one, or a folder next to the document."""
    if word == "builtin":
        return load(BUILTIN)
    path = folder / word
    try:
        is_folder = path.is_dir()
    except OSError:  # e.g. a name longer than any folder's
        is_folder = False
    if not is_folder:
        message = f"{path} is not a folder; give a protocol folder or 'builtin'"
        raise ConfigIssuesError([document.fault(("protocol",), message)])
    return load(path)


def from_files(files: dict[str, str], location: str) -> Protocol:
    """The protocol whose files (name -> text) these are; `location` names them in faults."""
    documents = {
        name: Document(f"{location}/{name}", text) for name, text in files.items() if name.endswith(".yaml")
    }
    required = (*_MODELS, *_TEMPLATES)
    problems = {name: "does not exist; a protocol folder needs it" for name in required if name not in files}
    for name in files:
        known = (*required, *_OPTIONAL_MODELS)
        if name not in known and name.split("/")[0] not in ("questionnaires", "published"):
            problems[name] = "is not a file that a protocol has; take it out"
    faults = [ConfigIssue(f"{location}/{name}", 0, "", problem) for name, problem in problems.items()]
    parts: dict[str, Any] = {}
    for name, model in (_MODELS | _OPTIONAL_MODELS).items():
        if name in documents:
            part = "manifest" if model is Manifest else name.removesuffix(".yaml")
            parts[part] = documents[name].read_as(model)
    questionnaires = [
        document.read_as(Questionnaire)
        for name, document in documents.items()
        if name.startswith("questionnaires/")
    ]
    faults += [fault for document in documents.values() for fault in document.faults]
    if faults:
        raise ConfigIssuesError(faults)
    protocol = Protocol(
        **parts,
        questionnaires={questionnaire.id: questionnaire for questionnaire in questionnaires if questionnaire},
        templates={Path(name).stem: files[name] for name in _TEMPLATES},
        published={
            Path(name).stem: tuple(csv.DictReader(io.StringIO(text)))
            for name, text in files.items()
            if name.startswith("published/")
        },
        files=files,
        hash=_hash(files),
    )
    if faults := _cross_checks(protocol, documents):
        raise ConfigIssuesError(faults)
    return protocol


def _hash(files: dict[str, str]) -> str:
    sha256 = hashlib.sha256()
    for name in sorted(files):
        sha256.update(f"{name}\0{len(files[name].encode())}\0{files[name]}".encode())
    return sha256.hexdigest()


# Cross-checks of one file with another. Each yields (file, field, problem).

_Problem = tuple[str, Path_, str]


def _cross_checks(protocol: Protocol, documents: dict[str, Document]) -> list[ConfigIssue]:
    checks: tuple[Callable[[Protocol], Iterable[_Problem]], ...] = (
        _check_unique_ids,
        _check_groups,
        _check_prompts_and_rubrics,
        _check_manifest,
        _check_winobias,
        _check_questionnaires,
        _check_measures,
        _check_portraits,
        _check_mitigation,
        _check_calibration,
        _check_analysis,
        _check_studies,
    )
    # A questionnaire is known by its id, whatever its file is called.
    files = {
        str(document.data.get("id")): name
        for name, document in documents.items()
        if name.startswith("questionnaires/")
    }
    return [
        documents[files.get(file, file)].fault(path, problem)
        for check in checks
        for file, path, problem in check(protocol)
    ]


def _repeats(words: Iterable[str]) -> list[str]:
    return [word for word, count in Counter(words).items() if count > 1]


def _check_unique_ids(protocol: Protocol) -> Iterator[_Problem]:
    lists: list[tuple[str, Path_, Iterable[Any]]] = [
        ("prompts.yaml", ("prompts",), protocol.prompts.prompts),
        ("winobias.yaml", ("prompts",), protocol.winobias.prompts),
        ("rubrics.yaml", ("axes",), protocol.rubrics.axes),
        ("editors.yaml", ("editors",), protocol.editors.editors),
        ("editors.yaml", ("judges",), protocol.editors.judges),
        ("protocol.yaml", ("arms",), protocol.manifest.arms),
        ("measures.yaml", ("controls",), protocol.measures.controls if protocol.measures else ()),
        *(("groups.yaml", (name,), groups) for name, groups in protocol.groups.dimensions.items()),
    ]
    for file, path, rows in lists:
        for word in _repeats(row.id for row in rows):
            yield file, path, f"the id '{word}' stands there more than once"


def _check_groups(protocol: Protocol) -> Iterator[_Problem]:
    dimensions = protocol.groups.dimensions
    for dimension, group in protocol.groups.reference_group.items():
        path = ("reference_group", dimension)
        if dimension not in dimensions:
            yield "groups.yaml", path, unknown(dimension, "dimension", dimensions)
        elif group not in protocol.groups.ids(dimension):
            yield "groups.yaml", path, unknown(group, "group", protocol.groups.ids(dimension))
    for dimension, groups in dimensions.items():
        aliases = (alias for group in groups for alias in {alias.casefold() for alias in group.aliases})
        for alias in _repeats(aliases):
            yield "groups.yaml", (dimension,), f"the alias '{alias}' belongs to more than one group"


def _check_prompts_and_rubrics(protocol: Protocol) -> Iterator[_Problem]:
    axes, attributes = protocol.axes, sorted({axis.attribute for axis in protocol.rubrics.axes if axis.attribute})
    for index, prompt in enumerate(protocol.prompts.prompts):
        for word in prompt.may_change:
            if word not in attributes:
                message = unknown(word, "attribute of an axis in rubrics.yaml", attributes)
                yield "prompts.yaml", ("prompts", index, "may_change"), message
    for index, axis in enumerate(protocol.rubrics.axes):
        for word in axis.only_prompts or ():
            if word not in protocol.prompt:
                yield "rubrics.yaml", ("axes", index, "only_prompts"), f"'{word}' is not a prompt"
    for name, outcome in protocol.rubrics.outcomes.items():
        if outcome.axis not in axes:
            yield "rubrics.yaml", ("outcomes", name, "axis"), unknown(outcome.axis, "axis", axes)
        elif (outcome.at_least or outcome.at_most) not in axes[outcome.axis].scale:
            yield "rubrics.yaml", ("outcomes", name), f"the bound is not a point of the axis '{outcome.axis}'"


def _check_manifest(protocol: Protocol) -> Iterator[_Problem]:
    outcomes, dimensions = protocol.rubrics.outcomes, protocol.groups.dimensions
    tables = protocol.manifest.tables
    outcome_ids = [
        *tables.outcomes_by_editor,
        *tables.contrasts,
        *tables.gallery,
        *tables.panels,
        tables.change_by_group.outcome,
    ]
    for word in outcome_ids:
        if word not in outcomes:
            yield "protocol.yaml", ("tables",), unknown(word, "outcome", outcomes)
    for word in tables.grid:
        if word not in protocol.prompt:
            yield "protocol.yaml", ("tables", "grid"), unknown(word, "prompt", protocol.prompt)
    if tables.change_by_group.by not in dimensions:
        yield "protocol.yaml", ("tables", "change_by_group", "by"), "is not a dimension of groups.yaml"
    for name, preset in protocol.manifest.presets.items():
        for word in preset.disclose:
            if word not in dimensions:
                yield "protocol.yaml", ("presets", name, "disclose"), unknown(word, "dimension", dimensions)
    if "default" not in protocol.manifest.presets:
        yield "protocol.yaml", ("presets",), "needs a preset named 'default'"


def _check_winobias(protocol: Protocol) -> Iterator[_Problem]:
    genders, known = protocol.winobias.genders, protocol.groups.ids("gender")
    for word in genders:
        if word not in known:
            yield "winobias.yaml", ("genders", word), unknown(word, "gender of groups.yaml", known)
    if genders and sorted(gender.presents for gender in genders.values()) != ["feminine", "masculine"]:
        yield "winobias.yaml", ("genders",), "names one group that presents masculine and one feminine"
    occupations = protocol.winobias.occupations
    for index, prompt in enumerate(protocol.winobias.prompts):
        if prompt.target not in occupations.get(prompt.stereotype, ()):
            message = f"'{prompt.target}' is not listed as a {prompt.stereotype} occupation"
            yield "winobias.yaml", ("prompts", index, "target"), message
        if prompt.forms is not None:
            for order, message in _form_problems(protocol, prompt, prompt.forms):
                yield "winobias.yaml", ("prompts", index, "forms", order), message


def _form_problems(protocol: Protocol, prompt: PairPrompt, forms: PairForms) -> Iterator[tuple[str, str]]:
    """What is wrong with the two forms of a sentence: which form, and the problem."""
    occupations = (prompt.target, prompt.other)
    for order, text in forms:
        has_slot = any(f"{{{slot}}}" in text for slot in Pronouns.model_fields)
        if has_slot != (prompt.pronoun is not None):
            yield order, "has a pronoun's slot where the prompt has a pronoun, and only there"
        # An occupation is named at least by its first word.
        matches = [
            re.search(rf"\b{re.escape(occupation.split()[0])}\b", text, re.IGNORECASE)
            for occupation in occupations
        ]
        target, other = matches
        if target is None or other is None:
            yield order, f"does not name '{occupations[matches.index(None)]}'"
        elif (target.start() < other.start()) != (order == "first"):
            yield order, f"names '{prompt.target}' {'after' if order == 'first' else 'before'} '{prompt.other}'"
    try:
        as_printed = forms.written("first", protocol.winobias.pronouns(prompt.pronoun))
        forms.written("second")
    except ValueError as error:
        yield "first", str(error)
        return
    if as_printed != prompt.text:
        yield "first", f"reads '{as_printed}', which is not the text"


def _check_questionnaires(protocol: Protocol) -> Iterator[_Problem]:
    """Questions are taken from a questionnaire that has some, not from one that takes them itself."""
    for questionnaire in protocol.questionnaires.values():
        if lender := questionnaire.questions_from:
            if lender not in protocol.questionnaires:
                yield questionnaire.id, ("questions_from",), f"there is no questionnaire '{lender}'"
            elif not protocol.questionnaires[lender].questions:
                yield questionnaire.id, ("questions_from",), f"'{lender}' has no questions of its own"
        for index, question in enumerate(questionnaire.questions):
            if question.axis and question.axis not in protocol.axes:
                message = unknown(question.axis, "axis", protocol.axes)
                yield questionnaire.id, ("questions", index, "axis"), message


def _check_studies(protocol: Protocol) -> Iterator[_Problem]:
    if protocol.study_presets is None:
        return
    file, questionnaires = "study_presets.yaml", protocol.questionnaires
    with_questions = {
        name
        for name, questionnaire in questionnaires.items()
        if questionnaire.questions or questionnaire.questions_from in questionnaires
    }
    for index, preset in enumerate(protocol.study_presets.presets):
        if preset.questionnaire not in questionnaires:
            message = unknown(preset.questionnaire, "questionnaire", questionnaires)
            yield file, ("presets", index, "questionnaire"), message
    for index, lesson in enumerate(protocol.study_presets.lessons):
        if lesson.prompt not in protocol.prompt:
            yield file, ("lessons", index, "prompt"), unknown(lesson.prompt, "prompt", protocol.prompt)
        for word in lesson.questionnaires:
            if word not in questionnaires:
                message = unknown(word, "questionnaire", questionnaires)
                yield file, ("lessons", index, "questionnaires"), message
            elif word in with_questions and lesson.question not in {q.id for q in protocol.asked(word)}:
                yield file, ("lessons", index, "question"), f"'{lesson.question}' is not asked by '{word}'"


def _check_measures(protocol: Protocol) -> Iterator[_Problem]:
    if protocol.measures is None:
        return
    file, axes = "measures.yaml", protocol.axes
    for name, cut in protocol.measures.cuts.items():
        axis = axes.get(cut.axis)
        if axis is None:
            yield file, (name, "axis"), unknown(cut.axis, "axis", axes)
            continue
        if not axis.is_signed:
            message = f"'{cut.axis}' has no neutral point between lower and higher ones, which a shift needs"
            yield file, (name, "axis"), message
        needed = len(axis.scale) - 1
        if len(cut.cut_points) != needed:
            message = f"has {len(cut.cut_points)} cut points; the scale of '{cut.axis}' needs {needed}"
            yield file, (name, "cut_points"), message
    rule = protocol.measures.no_change
    if rule.axis not in axes:
        yield file, ("no_change", "axis"), unknown(rule.axis, "axis", axes)
    elif rule.score not in axes[rule.axis].scale:
        yield file, ("no_change", "score"), f"is not a point of the axis '{rule.axis}'"
    for index, control in enumerate(protocol.measures.controls):
        if control.id in protocol.prompt:
            yield "measures.yaml", ("controls", index, "id"), f"'{control.id}' is the id of a prompt already"
    prompted = [control.id for control in protocol.measures.controls_by("prompt")]
    word = protocol.measures.no_change.control
    if word not in prompted:
        yield "measures.yaml", ("no_change", "control"), unknown(word, "control by: prompt", prompted)


def _check_mitigation(protocol: Protocol) -> Iterator[_Problem]:
    rules = protocol.mitigation
    if rules is None:
        return
    for prompt, masked in rules.conflicts.items():
        if prompt not in protocol.prompt:
            yield "mitigation.yaml", ("conflicts", prompt), unknown(prompt, "prompt", protocol.prompt)
        for word in masked:
            if word not in rules.dimensions:
                yield "mitigation.yaml", ("conflicts", prompt), unknown(word, "dimension", rules.dimensions)
        if set(masked) == set(rules.dimensions):
            yield "mitigation.yaml", ("conflicts", prompt), "leaves nothing to keep"
    for word in rules.drifted:
        if word not in protocol.rubrics.outcomes:
            yield "mitigation.yaml", ("drifted",), unknown(word, "outcome", protocol.rubrics.outcomes)


def _check_calibration(protocol: Protocol) -> Iterator[_Problem]:
    rules = protocol.calibration
    if rules is None:
        return
    file, made_kinds = "calibration.yaml", [kind.id for kind in rules.made()]
    controls = protocol.measures.controls if protocol.measures else ()
    used_ids = {*protocol.prompt, *protocol.pair, *(control.id for control in controls)}
    for word in _repeats(kind.id for kind in rules.kinds):
        yield file, ("kinds",), f"the id '{word}' stands there more than once"
    yield from _check_expected(protocol, rules.otherwise, ("otherwise",))
    for index, kind in enumerate(rules.kinds):
        if kind.id in used_ids:
            yield file, ("kinds", index, "id"), f"'{kind.id}' is the id of a prompt or a control already"
        if kind.swaps and kind.swaps not in made_kinds:
            yield file, ("kinds", index, "swaps"), unknown(kind.swaps, "kind that is made", made_kinds)
        yield from _check_expected(protocol, kind.expects, ("kinds", index, "expects"))
        for axis in protocol.axes_of(kind.id):
            if protocol.axes[axis].neutral is None and axis not in {**rules.otherwise, **kind.expects}:
                yield file, ("kinds", index), f"expects nothing on the axis '{axis}', which has no neutral score"


def _check_expected(protocol: Protocol, expectations: Mapping[str, Expected], path: Path_) -> Iterator[_Problem]:
    for axis, expected in expectations.items():
        if axis not in protocol.axes:
            yield "calibration.yaml", (*path, axis), unknown(axis, "axis", protocol.axes)
        elif not set(expected.within) <= set(protocol.axes[axis].scale):
            yield "calibration.yaml", (*path, axis), f"{list(expected.within)} is not on the scale of '{axis}'"


def _check_analysis(protocol: Protocol) -> Iterator[_Problem]:
    analysis_plan, file = protocol.analysis, "analysis.yaml"
    signed = [axis.id for axis in protocol.rubrics.axes if axis.is_signed]
    for word in analysis_plan.primary.outcomes:
        if word not in protocol.rubrics.outcomes:
            yield file, ("primary", "outcomes"), unknown(word, "outcome", protocol.rubrics.outcomes)
    for word in analysis_plan.primary.net:
        if word not in signed:
            yield file, ("primary", "net"), unknown(word, "signed axis", signed)
    for word in analysis_plan.noninferiority:
        if word not in protocol.axes:
            yield file, ("noninferiority", word), unknown(word, "axis", protocol.axes)


def _check_portraits(protocol: Protocol) -> Iterator[_Problem]:
    if protocol.portraits is None:
        return
    dimensions = protocol.groups.dimensions
    criteria = {criterion.id for criterion in protocol.groups.selection_criteria}
    for part in ("outside", "fairface_classes", "utkface_classes"):
        for word in getattr(protocol.portraits, part):
            if word not in dimensions:
                yield "portraits.yaml", (part, word), unknown(word, "dimension of groups.yaml", dimensions)
    for word in protocol.portraits.criteria:
        if word not in criteria:
            yield "portraits.yaml", ("criteria", word), unknown(word, "criterion of groups.yaml", sorted(criteria))
    for word in sorted(criteria - set(protocol.portraits.criteria)):
        yield "portraits.yaml", ("criteria",), f"has no rule for the criterion '{word}' of groups.yaml"
