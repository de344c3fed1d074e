"""An audit with its protocol and every backend prepared. Whatever does not fit is named, all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stillme import editors, judges, measures, sources
from stillme.core.errors import ConfigIssue, ConfigIssuesError, InputError, StillmeError
from stillme.core.records import CONTROLS, DIAGNOSE, MITIGATE, STEREOTYPE, Role
from stillme.core.yaml import Document, Path_, faults_of, read_text, unknown
from stillme.engine import backends
from stillme.engine.backends import (
    BackendContext,
    PreparedEditor,
    PreparedJudge,
    PreparedMeasure,
    PreparedSource,
)
from stillme.judges import calibration
from stillme.judges.calibration import MAKER
from stillme.plan.audit import BASELINE, Audit, Engine, JudgeRow, Mitigate, Row, Stereotype
from stillme.protocol import Protocol, chosen
from stillme.protocol.schema import Control, Selection


@dataclass(frozen=True)
class Config:
    """An audit with its protocol, and every backend prepared."""

    audit: Audit
    protocol: Protocol
    folder: Path
    sources: Mapping[str, PreparedSource[Any]]
    editors: Mapping[str, PreparedEditor[Any]]
    judges: Mapping[str, PreparedJudge[Any]]
    measures: Mapping[str, PreparedMeasure[Any]]
    controls: Mapping[str, PreparedEditor[Any]]  # the editors of the controls that stillme itself makes
    extractor: PreparedJudge[Any] | None = None  # reads features off portraits; None where no arm needs them
    extractor_row: Row | None = None
    makers: Mapping[str, PreparedEditor[Any]] = field(default_factory=dict)  # of calibration pairs

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
        return _is_counterbalanced(self.audit, own or Stereotype(), self.protocol)

    @property
    def disclose(self) -> tuple[str, ...]:
        """The dimensions of the source person that judges are given."""
        own = self.audit.judging.disclose
        return self.protocol.presets[self.audit.preset].disclose if own is None else own

    def ranked_judges(self) -> list[JudgeRow]:
        """The primary judge first, instruments last."""
        return sorted(
            self.audit.judges, key=lambda row: (row.kind == judges.INSTRUMENT, row.role is not Role.PRIMARY)
        )

    def editor(self, name: str) -> PreparedEditor[Any]:
        """The editor of a trial: one of the audit's, or the one that makes a control or a calibration pair."""
        return {**self.makers, **self.controls, **self.editors}[name]


_BACKENDS = {
    "sources": sources.BACKENDS,
    "editors": editors.BACKENDS,
    "judges": judges.BACKENDS,
    "measures": measures.BACKENDS,
}


def kinds_of(part: str) -> list[str]:
    """The kinds of backends that a part of an audit may name, those of plug-ins among them."""
    return backends.known_kinds(part, _BACKENDS[part])


def load(path: Path, engine: Mapping[str, Any] | None = None) -> Config:
    """Reads and checks an audit. Nothing is written and nothing is spent.

    `engine`: settings that replace the audit's own.
    """
    audit, document = read(path)
    if engine:
        try:
            replaced = Engine.model_validate({**audit.engine.model_dump(exclude_unset=True), **engine})
        except ValidationError as error:
            raise ConfigIssuesError(faults_of(error, document, Engine, ("engine",))) from None
        audit = audit.model_copy(update={"engine": replaced})
    return settle(audit, path.parent, document)


def read(path: Path) -> tuple[Audit, Document]:
    """An audit as it is written, before anything that it names is looked for."""
    if not path.exists():
        raise InputError(f"The audit {path} does not exist.", f"`stillme init {path}` writes one to start from.")
    document = Document(str(path), read_text(path))
    audit = document.read_as(Audit)
    if audit is None:
        raise ConfigIssuesError(document.faults)
    return audit, document


def settle(audit: Audit, folder: Path, document: Document, protocol: Protocol | None = None) -> Config:
    """Find the protocol and prepare every backend, or say everything that does not fit."""
    protocol = protocol or chosen(audit.protocol, folder, document)
    faults = [document.fault(at, message) for at, message in _find_faults(audit, protocol)]
    context = BackendContext(folder, protocol)
    prepared: dict[str, dict[str, Any]] = {part: {} for part in _BACKENDS}
    for part, index, row in _rows(audit):
        if row.kind in kinds_of(part):
            backend = _prepare(part, row, context, document, (part, index, "settings"))
            if isinstance(backend, list):
                faults += backend
            else:
                prepared[part][row.id] = backend
    stereotype = audit.experiments.stereotype
    for row in audit.editors if stereotype is not None and stereotype.mode == "joint" else ():
        if row.id in prepared["editors"] and prepared["editors"][row.id].most_images < 2:
            message = f"sends two portraits, but the editor '{row.id}' takes one picture an edit; take 'separate'"
            faults.append(document.fault(("experiments", STEREOTYPE, "mode"), message))
    if faults:
        raise ConfigIssuesError(faults)
    # Every editor has its seed spelled out from here on.
    seeds = {row.id: prepared["editors"][row.id].seed if row.seed is None else row.seed for row in audit.editors}
    rows = tuple(row.model_copy(update={"seed": seeds[row.id]}) for row in audit.editors)
    audit = audit.model_copy(update={"editors": rows})
    makers: dict[str, PreparedEditor[Any]] = {}  # of calibration pairs, where the protocol has any
    if protocol.calibration is not None:
        settings = calibration.Settings(kinds=protocol.calibration.made())
        maker = calibration.prepare(settings, context)
        makers[MAKER] = _with_factory(maker, calibration.__name__, calibration, context)
    extractor_row, extractor = _extractor(audit, prepared["judges"], context, document)
    return Config(
        audit=audit,
        protocol=protocol,
        folder=folder,
        **prepared,
        controls=_control_editors(audit, context),
        extractor=extractor,
        extractor_row=extractor_row,
        makers=makers,
    )


def _extractor(
    audit: Audit, all_judges: Mapping[str, PreparedJudge[Any]], context: BackendContext, document: Document
) -> tuple[Row | None, PreparedJudge[Any] | None]:
    """Who reads features off portraits: the one that the audit names, else its primary judge, as in S0."""
    options = audit.experiments.mitigate
    leads = {arm.id for arm in context.protocol.manifest.arms if arm.lead}
    if options is None or not leads & set(options.arms):
        return None, None
    if options.extractor is None:
        row = next(row for row in audit.judges if row.role is Role.PRIMARY)
        return row, all_judges[row.id]
    at = ("experiments", MITIGATE, "extractor", "settings")
    extractor = _prepare("judges", options.extractor, context, document, at)
    if isinstance(extractor, list):
        raise ConfigIssuesError(extractor)
    return options.extractor, extractor


def wanted_controls(audit: Audit, protocol: Protocol) -> list[Control]:
    """The negative controls that the audit asks for, in the protocol's order."""
    options, rules = audit.experiments.controls, protocol.measures
    if options is None or rules is None:
        return []
    return [control for control in rules.controls if options.kinds == "all" or control.id in options.kinds]


def chosen_experiments(audit: Audit, only: Sequence[str]) -> tuple[str, ...]:
    """The experiments to run: these, or all that the audit asks for (empty)."""
    known = audit.experiments.wanted
    for word in only:
        if word not in known:
            message = unknown(word, "experiment of this audit", known)
            raise InputError(f"--only: {message}.", "Name one of those, or add it to the audit's experiments.")
    return tuple(dict.fromkeys(only))


@dataclass(frozen=True)
class AuditRequirement:
    """What somebody in an audit cannot work without: a key in an environment variable, packages of extras."""

    needed_by: str
    key_env: str | None = None
    packages: tuple[str, ...] = ()


def check_keys(config: Config, parts: Collection[str] = tuple(_BACKENDS)) -> None:
    """Every key and every package that a run will need, before it spends anything. `parts`: of the audit."""
    for need in (*needs(config, parts), *inner_keys(config, parts)):
        backends.require_key(need.key_env, need.needed_by)
        backends.require_packages(need.packages, need.needed_by)


def needs(config: Config, parts: Collection[str] = tuple(_BACKENDS)) -> Iterator[AuditRequirement]:
    """What a run needs on the machine that it runs on."""
    for part, _, row in _rows(config.audit):
        if part in parts:
            yield AuditRequirement(_who(part, row), row.key_env, tuple(getattr(config, part)[row.id].requires))
    mitigate = config.audit.experiments.mitigate
    if mitigate is not None and mitigate.extractor is not None and config.extractor is not None:
        yield AuditRequirement(_EXTRACTOR, mitigate.extractor.key_env, tuple(config.extractor.requires))
    if config.audit.engine.kind == "ray":
        yield AuditRequirement("The engine 'ray'", packages=("ray",))
    if config.audit.objects:
        yield AuditRequirement("Keeping objects at a URL", packages=tuple(config.audit.objects.packages))


def inner_keys(config: Config, parts: Collection[str] = tuple(_BACKENDS)) -> Iterator[AuditRequirement]:
    """Keys that settings name, such as that of a text encoder elsewhere."""
    for part, _, row in _rows(config.audit):
        for value in getattr(config, part)[row.id].inputs.values() if part in parts else ():
            if isinstance(value, Mapping) and isinstance(value.get("key_env"), str):
                yield AuditRequirement(_who(part, row), value["key_env"])


_EXTRACTOR = "The extractor of 'mitigate'"


def keys_of(audit: Audit) -> Iterator[AuditRequirement]:
    """The keys that an audit names, whatever is installed: its file is enough to tell."""
    for part, _, row in _rows(audit):
        yield AuditRequirement(_who(part, row), row.key_env)
    mitigate = audit.experiments.mitigate
    if mitigate is not None and mitigate.extractor is not None:
        yield AuditRequirement(_EXTRACTOR, mitigate.extractor.key_env)


def _who(part: str, row: Row) -> str:
    return f"The {part.removesuffix('s')} '{row.id}'"


def _rows(audit: Audit) -> Iterator[tuple[str, int, Row]]:
    for part in _BACKENDS:
        for index, row in enumerate(getattr(audit, part)):
            yield part, index, row


def _prepare(
    part: str, row: Row, context: BackendContext, document: Document, at: Path_
) -> Any | list[ConfigIssue]:
    table = _BACKENDS[part]
    module = backends.load(table, row.kind, part)
    context = replace(context, key_env=row.key_env)
    try:
        settings = module.Settings.model_validate(row.settings)
        prepared = module.prepare(settings, context)
    except ValidationError as error:
        return faults_of(error, document, module.Settings, at)
    except ConfigIssuesError as error:
        return list(error.faults)
    except ValueError as error:
        return [document.fault(at, str(error))]
    except OSError as error:  # e.g. a name longer than any file's
        return [document.fault(at, f"names a file that cannot be read: {error.strerror}")]
    except StillmeError:
        raise
    except Exception as error:
        if row.kind in table:
            raise
        raise backends.broken_plugin(part, row.kind, error) from error
    backends.check_prepared(prepared, part, row.kind, table)
    return _with_factory(prepared, backends.find(table, row.kind, part), module, context)


def _control_editors(audit: Audit, context: BackendContext) -> dict[str, PreparedEditor[Any]]:
    """Control -> the editor that makes it, for those that stillme itself makes."""
    makers: dict[str, PreparedEditor[Any]] = {}
    for control in wanted_controls(audit, context.protocol):
        if control.by == "stillme":
            module = backends.load(editors.CONTROLS, control.by)
            settings = module.Settings(quality=control.quality, scale=control.scale or 1.0)
            makers[control.id] = _with_factory(module.prepare(settings, context), module.__name__, module, context)
    return makers


def _with_factory(prepared: Any, reference: str, module: Any, context: BackendContext) -> Any:
    """With the settings as they were settled: a file that an audit names may be another one later."""
    settings = module.Settings.model_validate(prepared.inputs)
    return replace(prepared, factory=partial(backends.rebuild_backend, reference, settings, context))


# Faults: where in the file, and what is wrong there


_Fault = tuple[Path_, str]


def _find_faults(audit: Audit, protocol: Protocol) -> Iterator[_Fault]:
    for part, index, row in _rows(audit):
        if row.kind not in kinds_of(part):
            yield (part, index, "kind"), unknown(row.kind, f"kind of {part.removesuffix('s')}", kinds_of(part))
    for part in _BACKENDS:
        for word, count in Counter(row.id for row in getattr(audit, part)).items():
            if count > 1:
                yield (part,), f"the id '{word}' stands there {count} times"
    yield from _find_experiment_faults(audit, protocol)
    yield from _find_control_faults(audit, protocol)
    yield from _find_judge_faults(audit)
    for kind, count in Counter(row.kind for row in audit.measures).items():
        if count > 1:
            yield ("measures",), f"the kind '{kind}' stands there {count} times; once is enough"
    editor_ids = [row.id for row in audit.editors]
    for word in audit.engine.editors:
        if word not in editor_ids:
            yield ("engine", "editors"), unknown(word, "editor of this audit", editor_ids)
    if protocol.measures is None:
        locations: list[Path_] = [("measures",)] if audit.measures else []
        locations += [("experiments", "controls")] if audit.experiments.controls else []
        locations += [("judges", n) for n, row in enumerate(audit.judges) if row.kind == judges.INSTRUMENT]
        message = "needs measures.yaml in the protocol folder; `stillme init --protocol` writes one to start from"
        yield from ((location, message) for location in locations)
    for word in audit.judging.disclose or ():
        if word not in protocol.groups.dimensions:
            yield ("judging", "disclose"), unknown(word, "dimension", protocol.groups.dimensions)
    if audit.preset not in protocol.presets:
        yield ("preset",), unknown(audit.preset, "preset", protocol.presets)


def _find_experiment_faults(audit: Audit, protocol: Protocol) -> Iterator[_Fault]:
    experiments = audit.experiments
    if not set(experiments.wanted) - {CONTROLS}:
        yield ("experiments",), "needs at least one of diagnose, mitigate and stereotype"
    for name, options in ((DIAGNOSE, experiments.diagnose), (MITIGATE, experiments.mitigate)):
        if options is None:
            continue
        for word in options.prompts if options.prompts != "all" else ():
            if word not in protocol.prompt:
                yield ("experiments", name, "prompts"), unknown(word, "prompt", protocol.prompt)
        arms = [arm.id for arm in protocol.manifest.arms if name == MITIGATE or not arm.lead]
        for word in options.arms:
            if word not in arms:
                yield ("experiments", name, "arms"), unknown(word, f"arm of '{name}'", arms)
    if experiments.mitigate is not None:
        yield from _find_mitigate_faults(audit, experiments.mitigate, protocol)
    if experiments.stereotype is not None:
        yield from _find_stereotype_faults(audit, experiments.stereotype, protocol)


def _find_mitigate_faults(audit: Audit, options: Mitigate, protocol: Protocol) -> Iterator[_Fault]:
    at = ("experiments", MITIGATE)
    if protocol.mitigation is None:
        message = (
            "needs mitigation.yaml in the protocol folder; `stillme init --protocol` writes one to start from"
        )
        yield at, message
    if BASELINE not in options.arms or len(set(options.arms)) < 2:
        yield (*at, "arms"), f"compares '{BASELINE}' with at least one other arm; name both"
    if any(arm.lead and arm.id in options.arms for arm in protocol.manifest.arms):
        kinds = [kind for kind in kinds_of("judges") if kind != judges.INSTRUMENT]
        if options.extractor is not None and options.extractor.kind not in kinds:
            yield (*at, "extractor", "kind"), unknown(options.extractor.kind, "kind", kinds)
        if options.extractor is None and not any(row.role is Role.PRIMARY for row in audit.judges):
            yield at, "needs somebody who reads features off the portraits: a primary judge, or an 'extractor'"
    if options.select == "drifted" and audit.experiments.diagnose is None:
        yield (*at, "select"), "chooses by what 'diagnose' finds; add that experiment, or take 'stratified'"


def _find_stereotype_faults(audit: Audit, options: Stereotype, protocol: Protocol) -> Iterator[_Fault]:
    at, all_prompts = ("experiments", STEREOTYPE), protocol.winobias.prompts
    known = [prompt.id for prompt in all_prompts]
    for word in options.prompts if options.prompts != "all" else ():
        if word not in known:
            yield (*at, "prompts"), unknown(word, "stereotype prompt", known)
    if not protocol.winobias.genders:
        yield at, "needs 'genders' in the protocol's winobias.yaml: the two groups that it compares"
    prompts = [prompt for prompt in all_prompts if options.prompts == "all" or prompt.id in options.prompts]
    without_forms = [prompt.id for prompt in prompts if prompt.forms is None]
    if _is_counterbalanced(audit, options, protocol) and without_forms:
        message = (
            f"needs 'forms' of every prompt in winobias.yaml; {without_forms[0]} has none. Or set it to false"
        )
        yield (*at, "counterbalanced"), message


def _is_counterbalanced(audit: Audit, options: Stereotype, protocol: Protocol) -> bool:
    preset = protocol.presets.get(audit.preset)
    return bool(preset and preset.counterbalance) if options.counterbalanced is None else options.counterbalanced


def _find_control_faults(audit: Audit, protocol: Protocol) -> Iterator[_Fault]:
    controls = protocol.measures.controls if protocol.measures else ()
    known = [control.id for control in controls]
    options = audit.experiments.controls
    for word in options.kinds if options and known and options.kinds != "all" else ():
        if word not in known:
            yield ("experiments", "controls", "kinds"), unknown(word, "control", known)
    reserved = {control.id for control in controls if control.by == "stillme"}
    for index, row in enumerate(audit.editors):
        if row.id in reserved:
            yield ("editors", index, "id"), f"'{row.id}' is the name of a control that stillme makes; take another"


def _find_judge_faults(audit: Audit) -> Iterator[_Fault]:
    instruments = [index for index, row in enumerate(audit.judges) if row.kind == judges.INSTRUMENT]
    if len(instruments) > 1:
        message = f"one judge of the kind '{judges.INSTRUMENT}' is enough: they read the same figures"
        yield ("judges",), message
    for index in instruments:
        if audit.judges[index].role is Role.PRIMARY:
            message = "an instrument is never primary: it sees that nothing changed, not whether an edit is good"
            yield ("judges", index, "role"), f"{message}; leave the role out, or make it {Role.SECONDARY}"
        if not any(row.kind in judges.READ_BY_INSTRUMENT for row in audit.measures):
            kinds = " or ".join(judges.READ_BY_INSTRUMENT)
            yield ("judges", index), f"needs a measure of the kind {kinds}; add one to 'measures'"
    asked = {index: row for index, row in enumerate(audit.judges) if index not in instruments}
    primaries = [row.id for row in asked.values() if row.role is Role.PRIMARY]
    if asked and len(primaries) != 1:
        yield ("judges",), f"exactly one judge has the role primary; here: {', '.join(primaries) or 'none'}"
    for index, row in asked.items():
        if row.role is Role.INSTRUMENT:
            message = f"'{row.role}' is the role of judges of the kind '{judges.INSTRUMENT}' only"
            yield ("judges", index, "role"), message
