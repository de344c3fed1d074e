"""Reads a protocol folder whole, or says everything that is wrong with it at once.

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

from stillme.core.errors import Fault, FaultsError
from stillme.core.yaml import Document, Path_, read_text, unknown
from stillme.protocol.schema import (
    Arm,
    Axis,
    Calibration,
    Cut,
    Declared,
    Editors,
    Expected,
    Groups,
    Instruments,
    Kind,
    Manifest,
    Mitigation,
    PairForms,
    PairPrompt,
    Portraits,
    Preset,
    Prompt,
    Prompts,
    Pronouns,
    Question,
    Questionnaire,
    Rubrics,
    StudyPresets,
    StudyRules,
    StudyTexts,
    Winobias,
)

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
_OPTIONAL: dict[str, type[BaseModel]] = {"measures.yaml": Instruments, "portraits.yaml": Portraits}
_OPTIONAL |= {"mitigation.yaml": Mitigation, "calibration.yaml": Calibration, "analysis.yaml": Declared}
_OPTIONAL |= {"study_texts.yaml": StudyTexts, "study_presets.yaml": StudyPresets}
_TEMPLATES = ("templates/judge_structure.txt", "templates/feature_extraction.txt")


@dataclass(frozen=True)
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
    analysis: Declared = field(default_factory=Declared)
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
        return tuple(a.id for a in self.rubrics.axes if a.only_prompts is None or prompt in a.only_prompts)

    def asked(self, questionnaire: str) -> tuple[Question, ...]:
        """The questions of a questionnaire, its own or those that it takes from another."""
        sheet = self.questionnaires[questionnaire]
        return sheet.questions or self.questionnaires[sheet.questions_from or ""].questions

    def expected(self, kind: Kind) -> dict[str, Expected]:
        """What is true of a calibration pair on every axis that judges are asked about."""
        assert self.calibration is not None
        told = {**self.calibration.otherwise, **kind.expects}
        return {axis: told.get(axis) or _neutral(self.axes[axis]) for axis in self.axes_of(kind.id)}

    def unrequested(self, prompt: str, axis: str) -> bool:
        """False where the prompt itself asks for a change on this axis: such a change is not drift."""
        return self.axes[axis].attribute not in self.prompt[prompt].may_change


def _neutral(axis: Axis) -> Expected:
    assert axis.neutral is not None  # the protocol was checked
    return Expected(score=axis.neutral, within=(axis.neutral, axis.neutral))


def builtin() -> Protocol:
    return load(BUILTIN)


@lru_cache(maxsize=8)
def load(folder: Path) -> Protocol:
    """The protocol in `folder`, or every fault in it."""
    if not folder.is_dir():
        raise FaultsError([Fault(str(folder), 0, "", "is not a folder with a protocol in it")])
    return from_files(dict(_files(folder)), "protocol" if folder == BUILTIN else str(folder))


def chosen(word: str, folder: Path, document: Document) -> Protocol:
    """What `protocol:` in a document says: the built-in one, or a folder beside the document."""
    if word == "builtin":
        return load(BUILTIN)
    path = folder / word
    if not _is_folder(path):
        said = f"{path} is not a folder; give a protocol folder or 'builtin'"
        raise FaultsError([document.fault(("protocol",), said)])
    return load(path)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # e.g. a name longer than any folder's
        return False


def from_files(files: dict[str, str], where: str) -> Protocol:
    """The protocol whose files (name -> text) these are; `where` names them in faults."""
    documents = {n: Document(f"{where}/{n}", t) for n, t in files.items() if n.endswith(".yaml")}
    faults = [Fault(f"{where}/{name}", 0, "", problem) for name, problem in _misplaced(files)]
    parts = _parts(documents)
    faults += [fault for document in documents.values() for fault in document.faults]
    if faults:
        raise FaultsError(faults)
    protocol = Protocol(**parts, **_plain_parts(files), files=files, hash=_hash(files))
    if faults := _cross_checks(protocol, documents):
        raise FaultsError(faults)
    return protocol


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".yaml", ".txt", ".csv") and path.is_file():
            yield path.relative_to(folder).as_posix(), read_text(path)


def _misplaced(files: dict[str, str]) -> Iterator[tuple[str, str]]:
    needed = (*_MODELS, *_TEMPLATES)
    for name in needed:
        if name not in files:
            yield name, "does not exist; a protocol folder needs it"
    for name in files:
        if name not in (*needed, *_OPTIONAL) and name.split("/")[0] not in ("questionnaires", "published"):
            yield name, "is not a file that a protocol has; take it out"


def _parts(documents: dict[str, Document]) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for name, model in (_MODELS | _OPTIONAL).items():
        if name in documents:
            key = "manifest" if model is Manifest else name.removesuffix(".yaml")
            parts[key] = documents[name].read_as(model)
    sheets = [d.read_as(Questionnaire) for n, d in documents.items() if n.startswith("questionnaires/")]
    parts["questionnaires"] = {sheet.id: sheet for sheet in sheets if sheet is not None}
    return parts


def _plain_parts(files: dict[str, str]) -> dict[str, Any]:
    tables = {n: t for n, t in files.items() if n.startswith("published/")}
    return {
        "templates": {Path(n).stem: files[n] for n in _TEMPLATES},
        "published": {Path(n).stem: tuple(csv.DictReader(io.StringIO(t))) for n, t in tables.items()},
    }


def _hash(files: dict[str, str]) -> str:
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(f"{name}\0{len(files[name].encode())}\0{files[name]}".encode())
    return whole.hexdigest()


# Cross-checks: what one file says of another. Each yields (file, field, problem).

_Finding = tuple[str, Path_, str]


def _cross_checks(protocol: Protocol, documents: dict[str, Document]) -> list[Fault]:
    checks: tuple[Callable[[Protocol], Iterable[_Finding]], ...] = (
        _check_unique_ids,
        _check_groups,
        _check_prompts,
        _check_rubrics,
        _check_manifest,
        _check_winobias,
        _check_questionnaires,
        _check_measures,
        _check_controls,
        _check_portraits,
        _check_mitigation,
        _check_calibration,
        _check_analysis,
        _check_studies,
    )
    found = [finding for check in checks for finding in check(protocol)]
    files = {str(d.data.get("id")): name for name, d in documents.items() if name.startswith("questionnaires/")}
    return [documents[files.get(file, file)].fault(path, said) for file, path, said in found]


def _repeats(words: Iterable[str]) -> list[str]:
    return [word for word, count in Counter(words).items() if count > 1]


def _check_unique_ids(protocol: Protocol) -> Iterator[_Finding]:
    lists: list[tuple[str, Path_, Iterable[Any]]] = [
        ("prompts.yaml", ("prompts",), protocol.prompts.prompts),
        ("winobias.yaml", ("prompts",), protocol.winobias.prompts),
        ("rubrics.yaml", ("axes",), protocol.rubrics.axes),
        ("editors.yaml", ("editors",), protocol.editors.editors),
        ("editors.yaml", ("judges",), protocol.editors.judges),
        ("protocol.yaml", ("arms",), protocol.manifest.arms),
        ("measures.yaml", ("controls",), protocol.measures.controls if protocol.measures else ()),
        *(("groups.yaml", (d,), groups) for d, groups in protocol.groups.dimensions.items()),
    ]
    for file, path, rows in lists:
        for word in _repeats(row.id for row in rows):
            yield file, path, f"the id '{word}' stands there more than once"


def _check_groups(protocol: Protocol) -> Iterator[_Finding]:
    dimensions = protocol.groups.dimensions
    for dimension, group in protocol.groups.reference_group.items():
        path = ("reference_group", dimension)
        if dimension not in dimensions:
            yield "groups.yaml", path, unknown(dimension, "dimension", dimensions)
        elif group not in protocol.groups.ids(dimension):
            yield "groups.yaml", path, unknown(group, "group", protocol.groups.ids(dimension))
    for dimension, groups in dimensions.items():
        for alias in _repeats(alias.casefold() for g in groups for alias in {a.casefold() for a in g.aliases}):
            yield "groups.yaml", (dimension,), f"the alias '{alias}' belongs to more than one group"


def _check_prompts(protocol: Protocol) -> Iterator[_Finding]:
    attributes = {axis.attribute for axis in protocol.rubrics.axes if axis.attribute}
    for index, prompt in enumerate(protocol.prompts.prompts):
        for word in prompt.may_change:
            if word not in attributes:
                said = unknown(word, "attribute of an axis in rubrics.yaml", sorted(attributes))
                yield "prompts.yaml", ("prompts", index, "may_change"), said


def _check_rubrics(protocol: Protocol) -> Iterator[_Finding]:
    prompts = {prompt.id for prompt in protocol.prompts.prompts}
    axes = protocol.axes
    for index, axis in enumerate(protocol.rubrics.axes):
        for word in axis.only_prompts or ():
            if word not in prompts:
                yield "rubrics.yaml", ("axes", index, "only_prompts"), f"'{word}' is not a prompt"
    for name, outcome in protocol.rubrics.outcomes.items():
        if outcome.axis not in axes:
            yield "rubrics.yaml", ("outcomes", name, "axis"), unknown(outcome.axis, "axis", axes)
        elif (outcome.at_least or outcome.at_most) not in axes[outcome.axis].scale:
            yield "rubrics.yaml", ("outcomes", name), f"the bound is not a point of the axis '{outcome.axis}'"


def _check_manifest(protocol: Protocol) -> Iterator[_Finding]:
    outcomes, dimensions = protocol.rubrics.outcomes, protocol.groups.dimensions
    tables = protocol.manifest.tables
    named = [
        *tables.outcomes_by_editor,
        *tables.contrasts,
        *tables.gallery,
        *tables.panels,
        tables.change_by_group.outcome,
    ]
    for word in named:
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


def _check_winobias(protocol: Protocol) -> Iterator[_Finding]:
    yield from _check_genders(protocol)
    occupations = protocol.winobias.occupations
    for index, prompt in enumerate(protocol.winobias.prompts):
        if prompt.target not in occupations.get(prompt.stereotype, ()):
            said = f"'{prompt.target}' is not listed as a {prompt.stereotype} occupation"
            yield "winobias.yaml", ("prompts", index, "target"), said
        if prompt.forms is not None:
            for order, said in _misfits(protocol, prompt, prompt.forms):
                yield "winobias.yaml", ("prompts", index, "forms", order), said


def _check_genders(protocol: Protocol) -> Iterator[_Finding]:
    genders = protocol.winobias.genders
    for word in genders:
        if word not in protocol.groups.ids("gender"):
            said = unknown(word, "gender of groups.yaml", protocol.groups.ids("gender"))
            yield "winobias.yaml", ("genders", word), said
    if genders and sorted(one.presents for one in genders.values()) != ["feminine", "masculine"]:
        yield "winobias.yaml", ("genders",), "names one group that presents masculine and one feminine"


def _misfits(protocol: Protocol, prompt: PairPrompt, forms: PairForms) -> Iterator[tuple[str, str]]:
    """What is wrong with the two forms of a sentence: (which, what)."""
    for order, text in forms:
        has_slot = any(f"{{{slot}}}" in text for slot in Pronouns.model_fields)
        if has_slot != (prompt.pronoun is not None):
            yield order, "has a pronoun's slot where the prompt has a pronoun, and only there"
        places = [_place(word, text) for word in (prompt.target, prompt.other)]
        if min(places) < 0:
            yield order, f"does not name '{(prompt.target, prompt.other)[places.index(min(places))]}'"
        elif (places[0] < places[1]) != (order == "first"):
            yield order, f"names '{prompt.target}' {'after' if order == 'first' else 'before'} '{prompt.other}'"
    try:
        as_printed = forms.written("first", protocol.winobias.pronouns(prompt.pronoun))
        forms.written("second")
    except ValueError as error:
        yield "first", str(error)
        return
    if as_printed != prompt.text:
        yield "first", f"reads '{as_printed}', which is not the text"


def _place(occupation: str, text: str) -> int:
    """Where an occupation is named, at least by its first word; -1 where it is not."""
    word = re.escape(occupation.split()[0])
    found = re.search(rf"\b{word}\b", text, re.IGNORECASE)
    return found.start() if found else -1


def _check_questionnaires(protocol: Protocol) -> Iterator[_Finding]:
    for sheet in protocol.questionnaires.values():
        if sheet.questions_from:
            yield from _check_lender(protocol, sheet.id, sheet.questions_from)
        for index, question in enumerate(sheet.questions):
            if question.axis and question.axis not in protocol.axes:
                yield sheet.id, ("questions", index, "axis"), unknown(question.axis, "axis", protocol.axes)


def _check_lender(protocol: Protocol, borrower: str, lender: str) -> Iterator[_Finding]:
    """Questions are taken from a questionnaire that has some, not from one that takes them itself."""
    sheet = protocol.questionnaires.get(lender)
    if sheet is None:
        yield borrower, ("questions_from",), f"there is no questionnaire '{lender}'"
    elif not sheet.questions:
        yield borrower, ("questions_from",), f"'{lender}' has no questions of its own"


def _check_studies(protocol: Protocol) -> Iterator[_Finding]:
    if protocol.study_presets is None:
        return
    file, sheets = "study_presets.yaml", protocol.questionnaires
    whole = {name for name, sheet in sheets.items() if sheet.questions or sheet.questions_from in sheets}
    for index, preset in enumerate(protocol.study_presets.presets):
        if preset.questionnaire not in sheets:
            said = unknown(preset.questionnaire, "questionnaire", sheets)
            yield file, ("presets", index, "questionnaire"), said
    for index, lesson in enumerate(protocol.study_presets.lessons):
        if lesson.prompt not in protocol.prompt:
            yield file, ("lessons", index, "prompt"), unknown(lesson.prompt, "prompt", protocol.prompt)
        for word in lesson.questionnaires:
            if word not in sheets:
                yield file, ("lessons", index, "questionnaires"), unknown(word, "questionnaire", sheets)
            elif word in whole and lesson.question not in {one.id for one in protocol.asked(word)}:
                yield file, ("lessons", index, "question"), f"'{lesson.question}' is not asked by '{word}'"


def _check_measures(protocol: Protocol) -> Iterator[_Finding]:
    if protocol.measures is None:
        return
    for name, cut in protocol.measures.cuts.items():
        yield from _check_cut(protocol, name, cut)
    rule = protocol.measures.no_change
    if rule.axis not in protocol.axes:
        yield "measures.yaml", ("no_change", "axis"), unknown(rule.axis, "axis", protocol.axes)
    elif rule.score not in protocol.axes[rule.axis].scale:
        yield "measures.yaml", ("no_change", "score"), f"is not a point of the axis '{rule.axis}'"


def _check_cut(protocol: Protocol, name: str, cut: Cut) -> Iterator[_Finding]:
    axis = protocol.axes.get(cut.axis)
    if axis is None:
        yield "measures.yaml", (name, "axis"), unknown(cut.axis, "axis", protocol.axes)
        return
    if not axis.is_signed:
        said = f"'{cut.axis}' has no neutral point between lower and higher ones, which a shift needs"
        yield "measures.yaml", (name, "axis"), said
    between = len(axis.scale) - 1
    if len(cut.cut_points) != between:
        said = f"has {len(cut.cut_points)} cut points; the scale of '{cut.axis}' needs {between}"
        yield "measures.yaml", (name, "cut_points"), said


def _check_controls(protocol: Protocol) -> Iterator[_Finding]:
    if protocol.measures is None:
        return
    for index, control in enumerate(protocol.measures.controls):
        if control.id in protocol.prompt:
            said = f"'{control.id}' is the id of a prompt already"
            yield "measures.yaml", ("controls", index, "id"), said
    asked = [control.id for control in protocol.measures.controls_by("prompt")]
    word = protocol.measures.no_change.control
    if word not in asked:
        yield "measures.yaml", ("no_change", "control"), unknown(word, "control by: prompt", asked)


def _check_mitigation(protocol: Protocol) -> Iterator[_Finding]:
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


def _check_calibration(protocol: Protocol) -> Iterator[_Finding]:
    rules = protocol.calibration
    if rules is None:
        return
    file, made = "calibration.yaml", [kind.id for kind in rules.made()]
    controls = protocol.measures.controls if protocol.measures else ()
    taken = {*protocol.prompt, *protocol.pair, *(control.id for control in controls)}
    for word in _repeats(kind.id for kind in rules.kinds):
        yield file, ("kinds",), f"the id '{word}' stands there more than once"
    yield from _check_expected(protocol, rules.otherwise, ("otherwise",))
    for index, kind in enumerate(rules.kinds):
        if kind.id in taken:
            yield file, ("kinds", index, "id"), f"'{kind.id}' is the id of a prompt or a control already"
        if kind.swaps and kind.swaps not in made:
            yield file, ("kinds", index, "swaps"), unknown(kind.swaps, "kind that is made", made)
        yield from _check_expected(protocol, kind.expects, ("kinds", index, "expects"))
        for axis in protocol.axes_of(kind.id):
            if protocol.axes[axis].neutral is None and axis not in {**rules.otherwise, **kind.expects}:
                yield file, ("kinds", index), f"expects nothing on the axis '{axis}', which has no neutral score"


def _check_expected(protocol: Protocol, told: Mapping[str, Expected], at: Path_) -> Iterator[_Finding]:
    for axis, expected in told.items():
        if axis not in protocol.axes:
            yield "calibration.yaml", (*at, axis), unknown(axis, "axis", protocol.axes)
        elif not set(expected.within) <= set(protocol.axes[axis].scale):
            yield "calibration.yaml", (*at, axis), f"{list(expected.within)} is not on the scale of '{axis}'"


def _check_analysis(protocol: Protocol) -> Iterator[_Finding]:
    declared, file = protocol.analysis, "analysis.yaml"
    signed = [axis.id for axis in protocol.rubrics.axes if axis.is_signed]
    for word in declared.primary.outcomes:
        if word not in protocol.rubrics.outcomes:
            yield file, ("primary", "outcomes"), unknown(word, "outcome", protocol.rubrics.outcomes)
    for word in declared.primary.net:
        if word not in signed:
            yield file, ("primary", "net"), unknown(word, "signed axis", signed)
    for word in declared.noninferiority:
        if word not in protocol.axes:
            yield file, ("noninferiority", word), unknown(word, "axis", protocol.axes)


def _check_portraits(protocol: Protocol) -> Iterator[_Finding]:
    if protocol.portraits is None:
        return
    dimensions, criteria = protocol.groups.dimensions, {c.id for c in protocol.groups.selection_criteria}
    for part in ("outside", "fairface_classes", "utkface_classes"):
        for word in getattr(protocol.portraits, part):
            if word not in dimensions:
                yield "portraits.yaml", (part, word), unknown(word, "dimension of groups.yaml", dimensions)
    for word in protocol.portraits.criteria:
        if word not in criteria:
            yield "portraits.yaml", ("criteria", word), unknown(word, "criterion of groups.yaml", sorted(criteria))
    for word in sorted(criteria - set(protocol.portraits.criteria)):
        yield "portraits.yaml", ("criteria",), f"has no rule for the criterion '{word}' of groups.yaml"
