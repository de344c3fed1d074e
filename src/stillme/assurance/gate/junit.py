"""A gate as JUnit XML: a test a verdict. What closes the gate is a failure; what is left out is skipped.

Names come from files that anybody wrote, so characters that XML cannot hold are taken away.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from stillme.assurance.gate.results import Gated, Result
from stillme.assurance.gate.verdicts import Effect, Verdict

# everything but the characters of XML 1.0
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(gated: Gated) -> bytes:
    failures = sum(one.effect is Effect.CLOSES for one in gated.results)
    skipped = sum(one.verdict is Verdict.SKIPPED for one in gated.results)
    counts = {"tests": len(gated.results), "failures": failures, "errors": 0, "skipped": skipped}
    told = {name: str(number) for name, number in counts.items()}
    root = ElementTree.Element("testsuites", {"name": "stillme gate", **told})
    suite = ElementTree.SubElement(root, "testsuite", {"name": allowed_text(gated.name), **told, "time": "0"})
    for one in gated.results:
        _case(suite, one)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _case(suite: ElementTree.Element, one: Result) -> None:
    name = allowed_text(f"{one.rule}: {one.about}" if one.about else one.rule)
    case = ElementTree.SubElement(suite, "testcase", classname=f"stillme.gate.{allowed_text(one.kind)}", name=name)
    case.set("time", "0")
    said = allowed_text(one.said)
    if one.effect is Effect.CLOSES:
        ElementTree.SubElement(case, "failure", type=one.verdict.value, message=said).text = said
    elif one.verdict is Verdict.SKIPPED:
        ElementTree.SubElement(case, "skipped", message=said)
    else:
        told = (
            f"{one.verdict.value}: {said}"
            if one.effect is Effect.NONE
            else f"warning, {one.verdict.value}: {said}"
        )
        ElementTree.SubElement(case, "system-out").text = told


def allowed_text(text: str) -> str:
    return _FORBIDDEN.sub("", text)
