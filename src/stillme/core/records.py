"""The records of an audit: portraits, trials, edits, verdicts, measurements, attempts; statuses and keys. Frozen.

A key is the hash of what a row depends on, so the same work has the same key on every machine and is never
paid for twice. `digest` hashes its keyword names, too: renaming one changes every key. Nothing here knows where a
record is stored or what made it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How a call to an editor, a judge or an instrument ended. A closed list; a value exists only with `ok`."""

    OK = "ok"
    REFUSED = "refused"
    INPUT_BLOCKED = "input_blocked"
    OUTPUT_BLOCKED = "output_blocked"
    CORRUPT = "corrupt"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    NETWORK = "network"
    REJECTED = "rejected"
    QUOTA = "quota"
    CRASHED = "crashed"
    NO_FACE = "no_face"
    TOO_SMALL = "too_small"  # a face of too few pixels to measure
    PROFILE = "profile"  # turned so far that the mesh does not hold
    GREYSCALE = "greyscale"  # an image without colour has no skin tone to measure
    PENDING = "pending"  # not made yet; in frames only, never in the ledger
    LEFT_OUT = "left_out"  # outside the share that is measured; in frames only

    @property
    def is_final(self) -> bool:
        """Whether a retry would not change it; every other status is retried on the next run."""
        return self in _FINAL

    @property
    def stage(self) -> str:
        """Where a refusal happened: input, output, or model (in its own words); empty for other statuses."""
        return _STAGES.get(self, "")

    @property
    def label(self) -> str:
        return self.value.replace("_", " ")


_FINAL = frozenset(
    {
        Status.OK,
        Status.REFUSED,
        Status.INPUT_BLOCKED,
        Status.OUTPUT_BLOCKED,
        Status.CORRUPT,
        Status.TRUNCATED,
        Status.MALFORMED,
        Status.REJECTED,
        Status.NO_FACE,
        Status.TOO_SMALL,
        Status.PROFILE,
        Status.GREYSCALE,
    }
)


_STAGES = {Status.INPUT_BLOCKED: "input", Status.OUTPUT_BLOCKED: "output", Status.REFUSED: "model"}


class Role(StrEnum):
    """Which judge decides when judges are more than a point apart (S0, eq. 1)."""

    PRIMARY = "primary"
    SECONDARY = "secondary"
    INSTRUMENT = "instrument"  # measured, not judged: reported next to the ensemble, never in it


# The experiments. Controls request no change; calibration shows judges pairs whose truth is known.
DIAGNOSE = "diagnose"
CONTROLS = "controls"
MITIGATE = "mitigate"
STEREOTYPE = "stereotype"
CALIBRATE = "calibrate"

# The forms that judges fill in: what changed between two pictures, who is shown in one, what a face looks like.
DRIFT = "drift"
PEOPLE = "people"
FEATURES = "features"

# What people decide about a scene besides the rubric's axes: the gender presentation in the target's occupation.
TARGET_GENDER = "target_gender"


def canonical(value: Any) -> str:
    """JSON with one spelling for equal data: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(kind: str, **parts: Any) -> str:
    """A key: the hash of a kind and of everything that the row depends on, names of the parts included."""
    return hashlib.sha256(canonical({"kind": kind, **parts}).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Portrait:
    """A source photograph and how annotators perceived the person in it."""

    key: str
    source: str
    source_id: str
    image: str
    labels: Mapping[str, str]
    licence: str = ""
    split: str = ""

    @classmethod
    def of(
        cls,
        source: str,
        source_id: str,
        image: str,
        labels: Mapping[str, str],
        licence: str = "",
        split: str = "",
    ) -> Portrait:
        key = digest("portrait", source=source, source_id=source_id, image=image, labels=dict(labels))
        return cls(
            key=key,
            source=source,
            source_id=source_id,
            image=image,
            labels=dict(labels),
            licence=licence,
            split=split,
        )


@dataclass(frozen=True, slots=True)
class Trial:
    """One requested edit of the design. Trials that need exactly the same edit share it by `edit`."""

    key: str
    edit: str
    experiment: str
    arm: str
    prompt: str
    instruction: str
    editor: str
    settings: str
    seed: int
    portrait: str
    image: str
    partner: str = ""  # a second portrait that the edit starts from, and its picture
    partner_image: str = ""
    about: Mapping[str, Any] = field(default_factory=dict, hash=False)  # the experiment's metadata; in no key

    @property
    def is_control(self) -> bool:
        """Whether it requests no change: such an edit is measured and never judged."""
        return self.experiment == CONTROLS

    @property
    def form(self) -> str:
        """The form that judges fill in for it."""
        return PEOPLE if self.experiment == STEREOTYPE else DRIFT

    @classmethod
    def of(
        cls,
        portrait: Portrait,
        *,
        experiment: str,
        arm: str,
        prompt: str,
        instruction: str,
        editor: str,
        settings: str,
        seed: int,
        partner: Portrait | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Trial:
        references = {"references": [partner.image]} if partner else {}
        edit = digest(
            "edit", image=portrait.image, instruction=instruction, settings=settings, seed=seed, **references
        )
        names = {
            "experiment": experiment,
            "arm": arm,
            "prompt": prompt,
            "editor": editor,
            "portrait": portrait.key,
            **({"partner": partner.key} if partner else {}),
        }
        key = digest("trial", edit=edit, **names)
        return cls(
            key=key,
            edit=edit,
            experiment=experiment,
            arm=arm,
            prompt=prompt,
            instruction=instruction,
            editor=editor,
            settings=settings,
            seed=seed,
            portrait=portrait.key,
            image=portrait.image,
            partner=partner.key if partner else "",
            partner_image=partner.image if partner else "",
            about=about or {},
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call, as it ended, with what it cost."""

    subject: str
    status: Status
    started: str
    seconds: float
    cost_usd: float = 0.0
    detail: str = ""
    code: str = ""  # the service's own code for how it ended
    request_id: str = ""
    http: int = 0  # the status of an answer by HTTP
    usage: Mapping[str, int] = field(default_factory=dict)  # tokens by kind, as the service counted them
    raw: bytes = field(default=b"", repr=False)  # the answer as it came


@dataclass(frozen=True, slots=True)
class EditRequest:
    """The input of an editor: an image, a sentence, a seed. Never who the person is.

    `control`: the id of a negative control that the editor's own parts make (a VAE round trip); else empty.
    `references`: further images of the same edit, for editors that accept several.
    """

    key: str
    image: bytes
    instruction: str
    seed: int
    control: str = ""
    references: tuple[bytes, ...] = ()


# Planted quantities that several rooms read: by how much L* skin moved, and whether another head is shown.
DELTA_L = "delta_l"
OTHER_HEAD = "other_head"
# Of the people in a planted scene, by place from left to right: the role's place among the two occupations in
# alphabetical order, and the gender presentation from 1 to 5.
SHOWN_ROLE = "person.{place}.role"
SHOWN_GENDER = "person.{place}.gender"


@dataclass(frozen=True, slots=True)
class EditReply:
    """The output of an editor. `truth` only from planted editors; no judge request carries it.

    `code`, `request_id`: the provider's own, verbatim. `environment`: the circumstances that edits of one process
    share (versions, dtype, device, threads). `notes`, `extras`: of this edit alone, e.g. a prompt that the editor
    rewrote, and intermediate images.
    """

    status: Status
    image: bytes | None = None
    detail: str = ""
    cost_usd: float = 0.0
    truth: Mapping[str, float] = field(default_factory=dict)
    code: str = ""
    request_id: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    extras: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """The input of a judge: both images, the instruction, the axes to score, and what is disclosed.

    `prompt`: the protocol's id of the request. `repeat`: 0 for the call that counts, more for test–retest calls.
    `planted` stays empty for every real judge; simulated ones read the planted truth from it.

    `form`: the form to fill in. For DRIFT the `axes` are scored; for PEOPLE they are the occupations that a person
    may be shown in, and only `edited` is used; for FEATURES they are dimensions of a face, and only `source` is.
    """

    key: str
    source: bytes
    edited: bytes
    instruction: str
    axes: tuple[str, ...]
    disclosed: Mapping[str, str] = field(default_factory=dict)
    planted: Mapping[str, float] = field(default_factory=dict)
    planted_labels: Mapping[str, str] = field(default_factory=dict)
    prompt: str = ""
    repeat: int = 0
    form: str = DRIFT


@dataclass(frozen=True, slots=True)
class Depicted:
    """One person that a judge saw in an edit. `role`: one of the two occupations, "neither" or "unclear".

    `gender`: 1 clearly masculine to 5 clearly feminine; None where it is unclear, which is not a 3.
    """

    role: str
    gender: int | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One attempt of a judge call, paid or not: how it ended, what it cost, what the answer was.

    `usage`: tokens by kind, as the service counted them. `raw`: the body of the answer as it came, without
    secrets; empty where none came. Scores only with `ok`.
    """

    status: Status
    started: str = ""
    seconds: float = 0.0
    cost_usd: float = 0.0
    detail: str = ""
    code: str = ""
    request_id: str = ""
    http: int = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    raw: bytes = field(default=b"", repr=False)
    scores: Mapping[str, int] = field(default_factory=dict)
    observations: Mapping[str, str] = field(default_factory=dict)
    evidence: str = ""
    people: tuple[Depicted, ...] = ()
    features: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """The output of a judge: one score per axis, or a status and no score at all.

    `exchanges`: every attempt, the last one last; empty for judges that never retry.
    """

    status: Status
    scores: Mapping[str, int] = field(default_factory=dict)
    evidence: str = ""
    detail: str = ""
    cost_usd: float = 0.0
    observations: Mapping[str, str] = field(default_factory=dict)
    exchanges: tuple[Exchange, ...] = ()
    people: tuple[Depicted, ...] = ()
    features: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, exchanges: tuple[Exchange, ...]) -> JudgeReply:
        """The reply of a call: it ended as its last attempt did, and cost what all attempts cost."""
        last = exchanges[-1]
        return cls(
            status=last.status,
            scores=last.scores,
            evidence=last.evidence,
            detail=last.detail,
            cost_usd=sum(exchange.cost_usd for exchange in exchanges),
            observations=last.observations,
            exchanges=exchanges,
            people=last.people,
            features=last.features,
        )


@dataclass(frozen=True, slots=True)
class Edit:
    """The final outcome of an edit."""

    key: str
    status: Status
    image: str | None
    detail: str = ""
    truth: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The final outcome of one judge for one edit. `call`: the call that it was parsed from."""

    key: str
    edit: str
    judge: str
    settings: str
    status: Status
    scores: Mapping[str, int]
    evidence: str = ""
    detail: str = ""
    observations: Mapping[str, str] = field(default_factory=dict)
    call: str = ""
    repeat: int = 0
    people: tuple[Depicted, ...] = ()


@dataclass(frozen=True, slots=True)
class Feature:
    """The features of one portrait that an edit should keep: a text per dimension, and the sentence made of them.

    `leaks`: words for race, ethnicity, gender or age that are in it even after a second request.
    """

    key: str
    image: str
    settings: str
    status: Status
    features: Mapping[str, str] = field(default_factory=dict)
    leaks: tuple[str, ...] = ()
    detail: str = ""

    @property
    def is_marked(self) -> bool:
        """Whether it is used despite a fault that a second answer did not fix."""
        return self.status is Status.OK and bool(self.leaks or self.detail)


@dataclass(frozen=True, slots=True)
class Adjudication:
    """A person's decision about one axis of one edit. The newest of an (edit, prompt, axis) counts.

    `axis`: one of the rubric's, or TARGET_GENDER. `score`: None where the person cannot tell, or withdraws an
    earlier decision (`withdrawn`).
    """

    edit: str
    prompt: str
    axis: str
    score: int | None
    reviewer: str
    reason: str
    at: str = ""
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """The input of the instruments: both images, and which measures to take. `source_key` names the source."""

    source_key: str
    source: bytes
    edited: bytes
    measures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of one instrument for one pair: figures, or a status and no figure at all."""

    status: Status
    figures: Mapping[str, float] = field(default_factory=dict)
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The final outcome of one measure of one pair of images; pairs with equal pixels share it."""

    key: str
    source: str
    image: str
    measure: str
    settings: str
    status: Status
    figures: Mapping[str, float]
    detail: str = ""
