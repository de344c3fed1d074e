"""The audit card: what was audited, what was found, how sure, and what the results may and may not be used for.

The words stand in templates/audit-card.md; whatever a number decides comes from `facts`.
"""

from __future__ import annotations

import json

from stillme.analysis.numbers import INTERVAL
from stillme.report.build import Context
from stillme.report.cards.facts import Data
from stillme.sources.selection.cards import markdown

# What holds of every audit, whatever it found; the JSON card carries it as well.
INTENDED = (
    "Comparing how the named editors, at the recorded versions and settings, treat portraits of people of "
    "different perceived race, gender presentation and apparent age.",
    "Deciding what to look into, mend and measure again before an editor is released.",
)
LIMITS = (
    "Perceived race, gender presentation and apparent age are perceptions of annotators and judges from pictures. "
    "They say nothing about how a person identifies.",
    "The results are about these portraits, prompts, settings and dates. Another version of an editor is another "
    "editor.",
    "Where no difference was shown, none was shown: that is not evidence of none.",
    "Judges have errors of their own, which may differ between groups; calibration and people's ratings say how "
    "far.",
)
MISUSE = (
    "Not a certificate: no result here says that an editor treats everybody alike.",
    "Not for sorting, recognising or identifying people, nor for training or testing classifiers of race, gender "
    "or age.",
    "Not a ranking of editors without the intervals, the denominators and what is missing.",
)


def data(told: Data) -> str:
    """The card for machines."""
    whole = {**told, "intended_use": list(INTENDED), "limits": list(LIMITS), "misuse": list(MISUSE)}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def page(told: Data, context: Context) -> str:
    """The card for people."""
    outcomes = [(name, context.outcomes[name].label) for name in context.tables.outcomes_by_editor]
    cells = {(rate["editor"], rate["outcome"]): rate for rate in told["rates"]}
    said = {
        "told": told,
        "outcomes": outcomes,
        "cells": cells,
        "names": {party["id"]: party["name"] for party in (*told["editors"], *told["judges"])},
        "interval": INTERVAL,
        "intended": INTENDED,
        "limits": LIMITS,
        "misuse": MISUSE,
    }
    return markdown("stillme.report.cards").get_template("audit-card.md").render(said)
