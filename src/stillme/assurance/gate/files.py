"""The gate's files: Markdown for the summary of a workflow, JUnit XML for test reports, SARIF for code scanning.

Names come from files that anybody wrote: each format drops or escapes what it cannot hold.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import stillme
from stillme.analysis.numbers import bracket, count, percent, points
from stillme.assurance.gate.results import (
    CLOSED,
    COMPLETE,
    Effect,
    GateResult,
    RuleResult,
    Verdict,
    format_threshold,
)
from stillme.core.atomic import replace_file
from stillme.core.errors import disk
from stillme.core.text import plainly


@dataclass(frozen=True)
class Files:
    """Where to write what; None: nowhere."""

    junit: Path | None = None
    sarif: Path | None = None
    markdown: Path | None = None


def write(gated: GateResult, files: Files) -> list[Path]:
    """Write the files that are wanted, each whole or not at all; everything is made before anything is written."""
    contents: list[tuple[Path, bytes]] = []
    if files.junit is not None:
        contents.append((files.junit, junit(gated)))
    if files.sarif is not None:
        contents.append((files.sarif, sarif(gated)))
    if files.markdown is not None:
        contents.append((files.markdown, markdown(gated).encode("utf-8", "replace")))
    for path, content in contents:
        with disk(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content)
    return [path for path, _ in contents]


# Markdown


def markdown(gated: GateResult) -> str:
    """One page, the gate first."""
    return "\n".join(_page(gated)) + "\n"


def _page(gated: GateResult) -> Iterator[str]:
    yield f"## {_escape(gated.name)}: {gated.word}"
    yield from ("", _escape(gated.summary), "")
    yield "| gate | verdict | rule | about | number | 95 % interval | n | persons | allowed |"
    yield "|---|---|---|---|---:|---:|---:|---:|---:|"
    for result in gated.results:
        yield "| " + " | ".join(_escape(cell) for cell in _cells(result)) + " |"
    yield ""
    for result in gated.results:
        if result.verdict is not Verdict.PASS:
            yield f"- **{result.verdict.value}**, {_escape(result.rule)}: {_escape(result.message)}"
    yield from ("", f"Of {_escape(gated.run)}, by {_escape(str(gated.policy))}.")


def _cells(result: RuleResult) -> tuple[str, ...]:
    figure = result.figure
    number = interval = ""
    if figure.estimate is not None:
        number = f"{points(figure.estimate)} points" if figure.is_difference else percent(figure.estimate)
    if figure.is_counted:
        interval = "counted"
    elif figure.low is not None or figure.high is not None:
        interval = bracket(figure.low, figure.high)
    return (
        "" if result.effect is Effect.NONE else result.effect.value,
        result.verdict.value,
        result.rule,
        result.about,
        number,
        interval,
        *("" if number is None else count(number) for number in (figure.n, figure.persons)),
        format_threshold(figure),
    )


def _escape(text: str) -> str:
    """As text, whatever a name holds: no markup, no tags, no new lines."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", plainly(text)).replace("\\<", "&lt;").replace("\\>", "&gt;")


# JUnit XML: a test per verdict. What closes the gate is a failure; what is left out is skipped.

_NOT_IN_XML = re.compile(
    "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # as XML 1.0 defines characters


def junit(gated: GateResult) -> bytes:
    failures = sum(result.effect is Effect.CLOSES for result in gated.results)
    skipped = sum(result.verdict is Verdict.SKIPPED for result in gated.results)
    numbers = {"tests": len(gated.results), "failures": failures, "errors": 0, "skipped": skipped}
    counts = {name: str(number) for name, number in numbers.items()}
    root = ElementTree.Element("testsuites", {"name": "stillme gate", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _xml_text(gated.name), **counts, "time": "0"})
    for result in gated.results:
        _add_case(suite, result)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add_case(suite: ElementTree.Element, result: RuleResult) -> None:
    name = _xml_text(f"{result.rule}: {result.about}" if result.about else result.rule)
    case = ElementTree.SubElement(suite, "testcase", classname=f"stillme.gate.{_xml_text(result.kind)}", name=name)
    case.set("time", "0")
    message = _xml_text(result.message)
    if result.effect is Effect.CLOSES:
        ElementTree.SubElement(case, "failure", type=result.verdict.value, message=message).text = message
    elif result.verdict is Verdict.SKIPPED:
        ElementTree.SubElement(case, "skipped", message=message)
    else:
        warning = "" if result.effect is Effect.NONE else "warning, "
        ElementTree.SubElement(case, "system-out").text = f"{warning}{result.verdict.value}: {message}"


def _xml_text(text: str) -> str:
    return _NOT_IN_XML.sub("", text)


# SARIF 2.1.0: what closes the gate is an error, what warns a warning, each at its rule's line of the policy.

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
HOME = "https://github.com/stillme/stillme"
_LEVELS = {Effect.CLOSES: "error", Effect.WARNS: "warning"}


def sarif(gated: GateResult) -> bytes:
    """What passes is counted in the run's properties and is no result: tools that show SARIF show every result as
    something to fix."""
    first_by_id: dict[str, RuleResult] = {}
    for result in gated.results:
        first_by_id.setdefault(_sarif_id(result), result)
    rules = [
        {"id": id, "name": plainly(first.rule), "shortDescription": {"text": plainly(first.rule)}}
        for id, first in first_by_id.items()
    ]
    driver = {"name": "stillme gate", "version": stillme.__version__, "informationUri": HOME, "rules": rules}
    results = [result for result in gated.results if result.effect is not Effect.NONE]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(result, list(first_by_id), gated.policy) for result in results],
        "invocations": [{"executionSuccessful": True, "exitCode": 0 if gated.is_open else CLOSED}],
        "properties": {"gate": gated.word, "run": gated.run, **gated.counts()},
    }
    return (json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n").encode()


def _sarif_id(result: RuleResult) -> str:
    """A rule of the policy has its index in its id, so that two rules of one kind differ."""
    return COMPLETE if result.place is None else f"{result.kind}-{result.place + 1}"


def _sarif_result(result: RuleResult, ids: list[str], policy: Path) -> dict[str, Any]:
    # Code scanning wants a path relative to where the command runs, where the policy lies there.
    path, here = policy.absolute(), Path.cwd()
    uri = quote((path.relative_to(here) if path.is_relative_to(here) else path).as_posix())
    location = {"artifactLocation": {"uri": uri}, "region": {"startLine": max(result.line, 1)}}
    id = _sarif_id(result)
    key = hashlib.sha256(f"{id}\t{result.about}".encode("utf-8", "replace")).hexdigest()
    return {
        "ruleId": id,
        "ruleIndex": ids.index(id),
        "kind": "fail",
        "level": _LEVELS[result.effect],
        "message": {"text": f"{result.verdict.value}: {plainly(result.message)}"},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"stillmeGate/v1": key},
        "properties": {name: value for name, value in result.to_dict().items() if name != "said"},
    }
