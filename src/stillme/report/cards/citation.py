"""CITATION.cff of an audit: its data, the software that made it, and the study that its protocol comes from."""

from __future__ import annotations

from typing import Any

import yaml

import stillme
from stillme.protocol import Protocol
from stillme.report import sentences
from stillme.report.cards.facts import Known

SOFTWARE = "stillme: auditing image editors for soft erasure and stereotype replacement"
AUTHORS = [{"name": "The stillme authors"}]
STUDY = {
    "type": "unpublished",
    "title": "Evaluating Demographic Misrepresentation in Image-to-Image Portrait Editing",
    "authors": [{"name": "Anonymous"}],
    "notes": "The study that the protocol comes from.",
}


def text(known: Known) -> str:
    """In the Citation File Format 1.2.0. Who publishes the audit is for the publisher to fill in."""
    context, run = known.context, known.run
    data: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "If you use these results, please cite the audit, the software and the study.",
        "title": f"{context.name}: audit of {_editors(known)}",
        "type": "dataset",
        "authors": [{"name": f"The auditors of {context.name}"}],
        "version": run.id,
        "abstract": " ".join(_abstract(known)),
        "keywords": ["audit", "fairness-related harm", "image editing", "demographic misrepresentation"],
        "references": [_software(known), *_study(context.protocol)],
    }
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)


def _editors(known: Known) -> str:
    return ", ".join(party.name for party in known.context.editors)


def _abstract(known: Known) -> tuple[str, ...]:
    return sentences.audited(known.context)


def _software(known: Known) -> dict[str, Any]:
    made = {"type": "software", "title": SOFTWARE, "authors": AUTHORS, "version": stillme.__version__}
    protocol = known.context.protocol
    return {**made, "license": "MIT", "notes": f"Protocol {protocol.name}, SHA-256 {protocol.hash}."}


def _study(protocol: Protocol) -> list[dict[str, Any]]:
    """Of the built-in protocol; whoever writes another one knows where it comes from."""
    return [STUDY] if protocol.manifest.id == "stillme" else []
