"""audit.yaml -> Audit: what to audit, with which editors and judges. Every fault is named, all at once.

Secrets never stand in the file: `key_env` names an environment variable.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from stillme import editors, judges, measures, sources
from stillme.core.errors import Fault, FaultsError, InputError
from stillme.core.records import CONTROLS, DIAGNOSE, MITIGATE, STEREOTYPE, Role
from stillme.core.yaml import Document, Frozen, Path_, faults_of, read_text, unknown
from stillme.engine import backends
from stillme.engine.ray import Share
from stillme.judges import calibration
from stillme.judges.calibration import MAKER
from stillme.ledger.objects import Store
from stillme.protocol import Protocol, chosen
from stillme.protocol.schema import Control, Name, Selection, Word

BASELINE = "baseline"  # the arm in which a prompt stands alone
LARGEST_SEED = 2**53  # with all that arms add to it, the ledger can hold it


class Row(Frozen):
    """One backend in use: which kind, under which name, with which settings."""

    id: Name
    kind: str
    label: str = ""
    key_env: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.label or self.id


class SourceRow(Row):
    pass


class EditorRow(Row):
    """seed: of the first edit of a portrait and prompt; without one, the editor's published seed, else 0."""

    seed: int | None = Field(default=None, ge=-LARGEST_SEED, le=LARGEST_SEED)


class JudgeRow(Row):
    """Without a role a judge is primary, and an instrument stands beside the judges."""

    role: Role = Role.PRIMARY

    @model_validator(mode="before")
    @classmethod
    def _an_instrument_stands_apart(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("kind") == judges.INSTRUMENT and data.get("role") is None:
            return {**data, "role": Role.INSTRUMENT}
        return data


class Diagnose(Frozen):
    """Experiment 1: every portrait × prompt × editor."""

    prompts: Literal["all"] | tuple[Name, ...] = "all"
    arms: tuple[Word, ...] = (BASELINE,)
    seeds: int = Field(default=1, ge=1, le=100)


class Controls(Frozen):
    """Negative controls: edits that ask for nothing, one of each kind a portrait and maker."""

    kinds: Literal["all"] | tuple[Word, ...] = "all"


class Extractor(Row):
    """Who reads features off the portraits: any kind of judge that is asked."""

    id: Name = "extractor"


class Mitigate(Frozen):
    """Experiment 2: does a feature prompt keep the person?

    sample: how many portraits × prompts × editors. select: how they are chosen; without it, as the preset says.
    seed: of the draw. extractor: who reads the features off the portraits; without it, the primary judge.
    """

    sample: int = Field(default=500, ge=1)
    select: Selection | None = None
    arms: tuple[Word, ...] = ("baseline", "feature", "placebo", "reseed")
    prompts: Literal["all"] | tuple[Name, ...] = "all"
    seed: int = Field(default=0, ge=0)
    extractor: Extractor | None = None


class Stereotype(Frozen):
    """Experiment 3: which gender does an editor give to an occupation?

    mode: `separate` gives an editor one portrait, `joint` one of each gender. counterbalanced: asks every prompt
    in every order and with every pronoun as well; without it, as the preset says. seed: of the draw of portraits.
    """

    mode: Literal["separate", "joint"] = "separate"
    prompts: Literal["all"] | tuple[Name, ...] = "all"
    counterbalanced: bool | None = None
    seed: int = Field(default=0, ge=0)


class Experiments(Frozen):
    """A mapping, or the names alone: [diagnose, mitigate, stereotype]."""

    diagnose: Diagnose | None = None
    controls: Controls | None = None
    mitigate: Mitigate | None = None
    stereotype: Stereotype | None = None

    @model_validator(mode="before")
    @classmethod
    def _names_alone(cls, data: Any) -> Any:
        return {str(name): {} for name in data} if isinstance(data, list | tuple) else data

    @property
    def wanted(self) -> tuple[str, ...]:
        """The experiments that the audit asks for, by name, in their order."""
        return tuple(name for name, one in self if one is not None)


class Calibrating(Frozen):
    """How judges are calibrated (`stillme calibrate`). portraits: of each group of the reference dimension.

    seed: of the draw. repeats: whether every pair is looked at twice. disclosure: whether it is also looked at
    with the source person's groups told, or not told, whichever the audit does not do.
    """

    portraits: int = Field(default=6, ge=1, le=1000)
    seed: int = Field(default=0, ge=0)
    repeats: bool = True
    disclosure: bool = True


class Measuring(Frozen):
    """Which share of the edits is measured, of every group and prompt alike. Controls always are."""

    share: float = Field(default=1.0, gt=0, le=1)


class Judging(Frozen):
    """repeats: which share of the edits judges behind a network look at a second time, to be held against the
    first look; the second one is in no score. disclose: what judges are told of the source person; without it,
    what the preset says."""

    repeats: float = Field(default=0.05, ge=0, le=1)
    disclose: tuple[Word, ...] | None = None


class Engine(Frozen):
    """Where the work runs. workers: 0 means one a core. Everything else is for Ray alone."""

    kind: Literal["local", "ray"] = "local"
    workers: int = Field(default=0, ge=0, le=256)
    address: str | None = None  # of a cluster: auto, host:port, ray://host:port; None: this machine's own
    actors: Share = Share()
    editors: dict[Name, Share] = Field(default_factory=dict)  # models whose actors take another share
    patience_s: float = Field(default=600, gt=0)  # how long an actor may look for a place while none has one

    @property
    def threads(self) -> int:
        return self.workers or os.cpu_count() or 1

    def share(self, editor: str) -> Share:
        return self.editors.get(editor, self.actors)


class Budgets(Frozen):
    """Where to stop taking new work; what is done is kept, and running again with more goes on."""

    cost_usd: float | None = Field(default=None, ge=0)
    edits: int | None = Field(default=None, ge=0)


class Audit(Frozen):
    """The whole of audit.yaml."""

    stillme: Literal[1]
    name: Name
    run: str
    objects: Store | None = None  # where the images are kept, if not in the run's own folder
    protocol: str = "builtin"
    preset: Word = "default"
    sources: tuple[SourceRow, ...] = Field(min_length=1)
    experiments: Experiments
    editors: tuple[EditorRow, ...] = Field(min_length=1)
    judges: tuple[JudgeRow, ...] = ()
    measures: tuple[Row, ...] = ()
    measuring: Measuring = Measuring()
    judging: Judging = Judging()
    calibrating: Calibrating = Calibrating()
    engine: Engine = Engine()
    budgets: Budgets = Budgets()


@dataclass(frozen=True)
class Config:
    """An audit with its protocol, and every backend prepared."""

    audit: Audit
    protocol: Protocol
    folder: Path
    sources: Mapping[str, backends.Prepared[Any]]
    editors: Mapping[str, backends.Prepared[Any]]
    judges: Mapping[str, backends.Prepared[Any]]
    measures: Mapping[str, backends.Prepared[Any]]
    controls: Mapping[str, backends.Prepared[Any]]  # the editors of the controls that stillme itself makes
    extractor: backends.Prepared[Any] | None = None  # reads features off portraits; None where no arm needs them
    extractor_row: Row | None = None
    makers: Mapping[str, backends.Prepared[Any]] = field(default_factory=dict)  # of calibration pairs

    @property
    def run(self) -> Path:
        return self.folder / self.audit.run

    @property
    def select(self) -> Selection:
        """How the cases of the mitigation experiment are chosen."""
        own = self.audit.experiments.mitigate
        return (own and own.select) or self.protocol.presets[self.audit.preset].select

    @property
    def counterbalanced(self) -> bool:
        own = self.audit.experiments.stereotype
        return _counterbalanced(self.audit, own or Stereotype(), self.protocol)

    @property
    def disclose(self) -> tuple[str, ...]:
        """What judges are told of the source person."""
        own = self.audit.judging.disclose
        return self.protocol.presets[self.audit.preset].disclose if own is None else own

    def ranked_judges(self) -> list[JudgeRow]:
        """The primary judge first, instruments last."""
        return sorted(
            self.audit.judges, key=lambda row: (row.kind == judges.INSTRUMENT, row.role is not Role.PRIMARY)
        )

    def editor(self, name: str) -> backends.Prepared[Any]:
        """The editor of a trial: one of the audit's, or the one that makes a control or a calibration pair."""
        return {**self.makers, **self.controls, **self.editors}[name]


_BACKENDS = {
    "sources": sources.BACKENDS,
    "editors": editors.BACKENDS,
    "judges": judges.BACKENDS,
    "measures": measures.BACKENDS,
}


def load(path: Path, engine: Mapping[str, Any] | None = None) -> Config:
    """Reads and checks an audit. Nothing is written and nothing is spent.

    `engine`: settings that replace the audit's own.
    """
    audit, document = read(path)
    if engine:
        audit = audit.model_copy(update={"engine": _replaced(audit.engine, engine, document)})
    return settle(audit, path.parent, document)


def read(path: Path) -> tuple[Audit, Document]:
    """An audit as it is written, before anything that it names is looked for."""
    if not path.exists():
        raise InputError(f"The audit {path} does not exist.", f"`stillme init {path}` writes one to start from.")
    document = Document(str(path), read_text(path))
    audit = document.read_as(Audit)
    if audit is None:
        raise FaultsError(document.faults)
    return audit, document


def _replaced(own: Engine, given: Mapping[str, Any], document: Document) -> Engine:
    try:
        return Engine.model_validate({**own.model_dump(exclude_unset=True), **given})
    except ValidationError as error:
        raise FaultsError(faults_of(error, document, Engine, ("engine",))) from None


def settle(audit: Audit, folder: Path, document: Document, protocol: Protocol | None = None) -> Config:
    """Finds the protocol and prepares every backend, or says everything that does not fit."""
    protocol = protocol or chosen(audit.protocol, folder, document)
    faults = [document.fault(where, said) for where, said in _checks(audit, protocol)]
    place = backends.Place(folder, protocol)
    prepared: dict[str, dict[str, Any]] = {part: {} for part in _BACKENDS}
    for part, index, row in _rows(audit):
        if row.kind in _BACKENDS[part]:
            outcome = _prepare(part, index, row, place, document)
            prepared[part][row.id] = outcome
            faults += outcome if isinstance(outcome, list) else []
    faults += [document.fault(where, said) for where, said in _check_pictures(audit, prepared["editors"])]
    if faults:
        raise FaultsError(faults)
    audit = _seeded(audit, prepared["editors"])
    reader, extractor = _extractor(audit, prepared["judges"], place, document)
    controls = _control_editors(audit, place)
    return Config(
        audit,
        protocol,
        folder,
        **prepared,
        controls=controls,
        extractor=extractor,
        extractor_row=reader,
        makers=_makers(place),
    )


def _extractor(
    audit: Audit, judges_: Mapping[str, backends.Prepared[Any]], place: backends.Place, document: Document
) -> tuple[Row | None, backends.Prepared[Any] | None]:
    """Who reads features off portraits: the one that the audit names, else its primary judge, as in S0."""
    wanted = audit.experiments.mitigate
    leads = {arm.id for arm in place.protocol.manifest.arms if arm.lead}
    if wanted is None or not leads & set(wanted.arms):
        return None, None
    if wanted.extractor is None:
        row = next(row for row in audit.judges if row.role is Role.PRIMARY)
        return row, judges_[row.id]
    made = _prepare(
        "judges", -1, wanted.extractor, place, document, ("experiments", MITIGATE, "extractor", "settings")
    )
    if isinstance(made, list):
        raise FaultsError(made)
    return wanted.extractor, made


def _seeded(audit: Audit, prepared: Mapping[str, backends.Prepared[Any]]) -> Audit:
    """Every editor with its seed spelled out."""
    rows = [
        row if row.seed is not None else row.model_copy(update={"seed": prepared[row.id].seed})
        for row in audit.editors
    ]
    return audit.model_copy(update={"editors": tuple(rows)})


def wanted_controls(audit: Audit, protocol: Protocol) -> list[Control]:
    """The negative controls that the audit asks for, in the protocol's order."""
    wanted, known = audit.experiments.controls, protocol.measures
    if wanted is None or known is None:
        return []
    return [control for control in known.controls if wanted.kinds == "all" or control.id in wanted.kinds]


def chosen_experiments(audit: Audit, only: Sequence[str]) -> tuple[str, ...]:
    """The experiments to run: these, or all that the audit asks for (empty)."""
    known = audit.experiments.wanted
    for word in only:
        if word not in known:
            said = unknown(word, "experiment of this audit", known)
            raise InputError(f"--only: {said}.", "Name one of those, or add it to the audit's experiments.")
    return tuple(dict.fromkeys(only))


@dataclass(frozen=True)
class Need:
    """What somebody in an audit cannot work without: a key in an environment variable, packages of extras."""

    who: str
    key_env: str | None = None
    packages: tuple[str, ...] = ()


def check_keys(config: Config, parts: Collection[str] = tuple(_BACKENDS)) -> None:
    """Every key and every package that a run will need, before it spends anything. `parts`: of the audit."""
    for need in (*needs(config, parts), *inner_keys(config, parts)):
        backends.require_key(need.key_env, need.who)
        backends.require_packages(need.packages, need.who)


def needs(config: Config, parts: Collection[str] = tuple(_BACKENDS)) -> Iterator[Need]:
    """What a run needs on the machine that it runs on."""
    for part, _, row in _rows(config.audit):
        if part in parts:
            yield Need(_who(part, row), row.key_env, tuple(getattr(config, part)[row.id].requires))
    mitigate = config.audit.experiments.mitigate
    if mitigate is not None and mitigate.extractor is not None and config.extractor is not None:
        yield Need(_EXTRACTOR, mitigate.extractor.key_env, tuple(config.extractor.requires))
    if config.audit.engine.kind == "ray":
        yield Need("The engine 'ray'", packages=("ray",))
    if config.audit.objects:
        yield Need("Keeping objects at a URL", packages=tuple(config.audit.objects.packages))


def inner_keys(config: Config, parts: Collection[str] = tuple(_BACKENDS)) -> Iterator[Need]:
    """Keys that settings name, such as that of a text encoder elsewhere."""
    for part, _, row in _rows(config.audit):
        for value in getattr(config, part)[row.id].inputs.values() if part in parts else ():
            if isinstance(value, Mapping) and isinstance(value.get("key_env"), str):
                yield Need(_who(part, row), value["key_env"])


_EXTRACTOR = "The extractor of 'mitigate'"


def keys_of(audit: Audit) -> Iterator[Need]:
    """The keys that an audit names, whatever is installed: its file is enough to tell."""
    for part, _, row in _rows(audit):
        yield Need(_who(part, row), row.key_env)
    mitigate = audit.experiments.mitigate
    if mitigate is not None and mitigate.extractor is not None:
        yield Need(_EXTRACTOR, mitigate.extractor.key_env)


def _who(part: str, row: Row) -> str:
    return f"The {part.removesuffix('s')} '{row.id}'"


def _rows(audit: Audit) -> Iterator[tuple[str, int, Row]]:
    for part in _BACKENDS:
        for index, row in enumerate(getattr(audit, part)):
            yield part, index, row


def _prepare(
    part: str, index: int, row: Row, place: backends.Place, document: Document, at: Path_ | None = None
) -> backends.Prepared[Any] | list[Fault]:
    module = backends.load(_BACKENDS[part], row.kind)
    model: type[BaseModel] = module.Settings
    place = replace(place, key_env=row.key_env)
    at = at or (part, index, "settings")
    try:
        settings = model.model_validate(row.settings)
        prepared: backends.Prepared[Any] = module.prepare(settings, place)
    except ValidationError as error:
        return faults_of(error, document, model, at)
    except FaultsError as error:
        return list(error.faults)
    except ValueError as error:
        return [document.fault(at, str(error))]
    except OSError as error:  # e.g. a name longer than any file's
        return [document.fault(at, f"names a file that cannot be read: {error.strerror}")]
    return _with_recipe(prepared, module, place)


def _control_editors(audit: Audit, place: backends.Place) -> dict[str, backends.Prepared[Any]]:
    """Control -> the editor that makes it, for those that stillme itself makes."""
    made: dict[str, backends.Prepared[Any]] = {}
    for control in wanted_controls(audit, place.protocol):
        if control.by == "stillme":
            module = backends.load(editors.CONTROLS, control.by)
            settings = module.Settings(quality=control.quality, scale=control.scale or 1.0)
            made[control.id] = _with_recipe(module.prepare(settings, place), module, place)
    return made


def _makers(place: backends.Place) -> dict[str, backends.Prepared[Any]]:
    """Who makes calibration pairs; nobody where the protocol has none."""
    rules = place.protocol.calibration
    if rules is None:
        return {}
    settings = calibration.Settings(kinds=rules.made())
    return {MAKER: _with_recipe(calibration.prepare(settings, place), calibration, place)}


def _with_recipe(
    prepared: backends.Prepared[Any], module: ModuleType, place: backends.Place
) -> backends.Prepared[Any]:
    """With the settings as they were settled: a file that an audit names may be another one later."""
    settings = module.Settings.model_validate(prepared.inputs)
    return replace(prepared, recipe=partial(backends.make_again, module.__name__, settings, place))


_Said = tuple[Path_, str]


def _checks(audit: Audit, protocol: Protocol) -> Iterator[_Said]:
    yield from _check_kinds(audit)
    yield from _check_ids(audit)
    yield from _check_experiments(audit, protocol)
    yield from _check_controls(audit, protocol)
    yield from _check_judges(audit)
    yield from _check_measures(audit)
    yield from _check_engine(audit)
    if protocol.measures is None:
        yield from _check_unmeasured(audit)
    for word in audit.judging.disclose or ():
        if word not in protocol.groups.dimensions:
            yield ("judging", "disclose"), unknown(word, "dimension", protocol.groups.dimensions)
    if audit.preset not in protocol.presets:
        yield ("preset",), unknown(audit.preset, "preset", protocol.presets)


def _check_kinds(audit: Audit) -> Iterator[_Said]:
    for part, index, row in _rows(audit):
        if row.kind not in _BACKENDS[part]:
            yield (part, index, "kind"), unknown(row.kind, f"kind of {part.removesuffix('s')}", _BACKENDS[part])


def _check_ids(audit: Audit) -> Iterator[_Said]:
    for part in _BACKENDS:
        for word, count in Counter(row.id for row in getattr(audit, part)).items():
            if count > 1:
                yield (part,), f"the id '{word}' stands there {count} times"


def _check_experiments(audit: Audit, protocol: Protocol) -> Iterator[_Said]:
    experiments = audit.experiments
    if not set(experiments.wanted) - {CONTROLS}:
        yield ("experiments",), "needs at least one of diagnose, mitigate and stereotype"
    for name in (DIAGNOSE, MITIGATE):
        wanted = getattr(experiments, name)
        if wanted is not None:
            yield from _check_asked(name, wanted, protocol)
    if experiments.mitigate is not None:
        yield from _check_mitigate(audit, experiments.mitigate, protocol)
    if experiments.stereotype is not None:
        yield from _check_stereotype(audit, experiments.stereotype, protocol)


def _check_asked(name: str, wanted: Diagnose | Mitigate, protocol: Protocol) -> Iterator[_Said]:
    """Prompts and arms of an experiment are the protocol's."""
    for word in wanted.prompts if wanted.prompts != "all" else ():
        if word not in protocol.prompt:
            yield ("experiments", name, "prompts"), unknown(word, "prompt", protocol.prompt)
    known = [arm.id for arm in protocol.manifest.arms if name == MITIGATE or not arm.lead]
    for word in wanted.arms:
        if word not in known:
            yield ("experiments", name, "arms"), unknown(word, f"arm of '{name}'", known)


def _check_mitigate(audit: Audit, wanted: Mitigate, protocol: Protocol) -> Iterator[_Said]:
    at = ("experiments", MITIGATE)
    if protocol.mitigation is None:
        yield (
            at,
            "needs mitigation.yaml in the protocol folder; `stillme init --protocol` writes one to start from",
        )
    if BASELINE not in wanted.arms or len(set(wanted.arms)) < 2:
        yield (*at, "arms"), f"compares '{BASELINE}' with at least one other arm; name both"
    leads = {arm.id for arm in protocol.manifest.arms if arm.lead}
    if leads & set(wanted.arms):
        yield from _check_extractor(audit, wanted)
    if wanted.select == "drifted" and audit.experiments.diagnose is None:
        yield (*at, "select"), "chooses by what 'diagnose' finds; add that experiment, or take 'stratified'"


def _check_stereotype(audit: Audit, wanted: Stereotype, protocol: Protocol) -> Iterator[_Said]:
    at, known = ("experiments", STEREOTYPE), [prompt.id for prompt in protocol.winobias.prompts]
    for word in wanted.prompts if wanted.prompts != "all" else ():
        if word not in known:
            yield (*at, "prompts"), unknown(word, "stereotype prompt", known)
    if not protocol.winobias.genders:
        yield at, "needs 'genders' in the protocol's winobias.yaml: the two groups that it compares"
    asked = [one for one in protocol.winobias.prompts if wanted.prompts == "all" or one.id in wanted.prompts]
    lacking = [one.id for one in asked if one.forms is None]
    if _counterbalanced(audit, wanted, protocol) and lacking:
        said = f"needs 'forms' of every prompt in winobias.yaml; {lacking[0]} has none. Or set it to false"
        yield (*at, "counterbalanced"), said


def _counterbalanced(audit: Audit, wanted: Stereotype, protocol: Protocol) -> bool:
    preset = protocol.presets.get(audit.preset)
    return bool(preset and preset.counterbalance) if wanted.counterbalanced is None else wanted.counterbalanced


def _check_pictures(audit: Audit, prepared: Mapping[str, Any]) -> Iterator[_Said]:
    """Where both portraits are sent, every editor has to take two."""
    wanted = audit.experiments.stereotype
    if wanted is None or wanted.mode != "joint":
        return
    for row in audit.editors:
        one = prepared.get(row.id)
        if isinstance(one, backends.Prepared) and one.most_images < 2:
            said = f"sends two portraits, but the editor '{row.id}' takes one picture an edit; take 'separate'"
            yield ("experiments", STEREOTYPE, "mode"), said


def _check_extractor(audit: Audit, wanted: Mitigate) -> Iterator[_Said]:
    able = [kind for kind in judges.BACKENDS if kind != judges.INSTRUMENT]
    if wanted.extractor is not None and wanted.extractor.kind not in able:
        yield ("experiments", MITIGATE, "extractor", "kind"), unknown(wanted.extractor.kind, "kind", able)
    if wanted.extractor is None and not any(row.role is Role.PRIMARY for row in audit.judges):
        said = "needs somebody who reads features off the portraits: a primary judge, or an 'extractor'"
        yield ("experiments", MITIGATE), said


def _check_controls(audit: Audit, protocol: Protocol) -> Iterator[_Said]:
    known = protocol.measures.controls if protocol.measures else ()
    wanted = audit.experiments.controls
    for word in wanted.kinds if wanted and known and wanted.kinds != "all" else ():
        if word not in [control.id for control in known]:
            at = ("experiments", "controls", "kinds")
            yield at, unknown(word, "control", [control.id for control in known])
    taken = {control.id for control in known if control.by == "stillme"}
    for index, row in enumerate(audit.editors):
        if row.id in taken:
            yield ("editors", index, "id"), f"'{row.id}' is the name of a control that stillme makes; take another"


def _check_judges(audit: Audit) -> Iterator[_Said]:
    yield from _check_instrument(audit)
    others = [row for row in audit.judges if row.kind != judges.INSTRUMENT]
    primaries = [row.id for row in others if row.role is Role.PRIMARY]
    if others and len(primaries) != 1:
        yield ("judges",), f"exactly one judge has the role primary; here: {', '.join(primaries) or 'none'}"
    for index, row in enumerate(audit.judges):
        if row in others and row.role is Role.INSTRUMENT:
            said = f"'{row.role}' is the role of judges of the kind '{judges.INSTRUMENT}' only"
            yield ("judges", index, "role"), said


def _check_instrument(audit: Audit) -> Iterator[_Said]:
    places = [index for index, row in enumerate(audit.judges) if row.kind == judges.INSTRUMENT]
    if len(places) > 1:
        yield (
            ("judges",),
            f"one judge of the kind '{judges.INSTRUMENT}' is enough: they read the same figures",
        )
    for index in places:
        if audit.judges[index].role is Role.PRIMARY:
            said = "an instrument is never primary: it sees that nothing changed, not whether an edit is good"
            yield ("judges", index, "role"), f"{said}; leave the role out, or make it {Role.SECONDARY}"
        if not any(row.kind in judges.READ_BY_INSTRUMENT for row in audit.measures):
            said = f"needs a measure of the kind {' or '.join(judges.READ_BY_INSTRUMENT)}; add one to 'measures'"
            yield ("judges", index), said


def _check_measures(audit: Audit) -> Iterator[_Said]:
    for kind, count in Counter(row.kind for row in audit.measures).items():
        if count > 1:
            yield ("measures",), f"the kind '{kind}' stands there {count} times; once is enough"


def _check_engine(audit: Audit) -> Iterator[_Said]:
    known = [row.id for row in audit.editors]
    for word in audit.engine.editors:
        if word not in known:
            yield ("engine", "editors"), unknown(word, "editor of this audit", known)


def _check_unmeasured(audit: Audit) -> Iterator[_Said]:
    """What asks for measures.yaml, in a protocol that has none."""
    asking: list[Path_] = [("measures",)] if audit.measures else []
    asking += [("experiments", "controls")] if audit.experiments.controls else []
    asking += [("judges", n) for n, row in enumerate(audit.judges) if row.kind == judges.INSTRUMENT]
    for at in asking:
        yield at, "needs measures.yaml in the protocol folder; `stillme init --protocol` writes one to start from"
