"""A gate as SARIF 2.1.0, for code scanning: what closes the gate is an error, what warns a warning.

A result stands at its rule's line of the policy. What passes is counted in the run's properties and is no result:
tools that show SARIF show every result as something to mend.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import stillme
from stillme.assurance.gate.results import CLOSED, COMPLETE, Gated, Result
from stillme.assurance.gate.verdicts import Effect
from stillme.core.text import plainly

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
HOME = "https://github.com/stillme/stillme"
_LEVEL = {Effect.CLOSES: "error", Effect.WARNS: "warning"}


def sarif(gated: Gated) -> bytes:
    shown = [one for one in gated.results if one.effect is not Effect.NONE]
    ids = list(dict.fromkeys(_id(one) for one in gated.results))
    about = {"name": "stillme gate", "version": stillme.__version__, "informationUri": HOME}
    driver = {**about, "rules": [_rule(id, gated) for id in ids]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, ids, gated) for one in shown],
        "invocations": [{"executionSuccessful": True, "exitCode": 0 if gated.is_open else CLOSED}],
        "properties": {"gate": gated.word, "run": gated.run, **gated.counts()},
    }
    return (json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n").encode()


def _id(one: Result) -> str:
    """A rule of the policy has its place in its id, so that two of a kind stay apart."""
    return COMPLETE if one.place is None else f"{one.kind}-{one.place + 1}"


def _rule(id: str, gated: Gated) -> dict[str, Any]:
    first = next(one for one in gated.results if _id(one) == id)
    return {"id": id, "name": plainly(first.rule), "shortDescription": {"text": plainly(first.rule)}}


def _result(one: Result, ids: list[str], gated: Gated) -> dict[str, Any]:
    uri = quote(_uri(gated.policy))
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": max(one.line, 1)}}
    key = hashlib.sha256(f"{_id(one)}\t{one.about}".encode("utf-8", "replace")).hexdigest()
    return {
        "ruleId": _id(one),
        "ruleIndex": ids.index(_id(one)),
        "kind": "fail",
        "level": _LEVEL[one.effect],
        "message": {"text": f"{one.verdict.value}: {plainly(one.said)}"},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"stillmeGate/v1": key},
        "properties": {name: value for name, value in one.plain().items() if name != "said"},
    }


def _uri(policy: Path) -> str:
    """Relative to where the command runs, as code scanning wants it, where the policy lies there."""
    here = Path.cwd()
    absolute = policy.absolute()
    return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else absolute.as_posix()
