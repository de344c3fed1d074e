"""The ordinal mixed model of every axis: how persons differ first, then what groups, editors and judges do."""

from __future__ import annotations

from collections.abc import Iterator

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.tables import Tabled, number, plain_tables, probability, share, whole, word

FIRST, PART = "How persons, prompts and edits differ", "The ordinal model"


def components(audit: Audit) -> Iterator[Tabled]:
    """First of all: they say what an edit is worth."""
    shown = (
        word("axis", names=audit.labels),
        word("factor"),
        whole("levels"),
        number("sd", "SD (logits)"),
        share("share", "of the variance"),
    )
    notes = ("Where persons have a large share, edits of one person are alike: persons count, not edits.",)
    yield Tabled("components", FIRST, "Variance components", audit.model.components, shown, notes, first=True)


def build(audit: Audit) -> Iterator[Tabled]:
    labels, found = audit.labels, audit.model
    tested = (word("axis", names=labels), word("term"), number("chi2", "χ²", 1), whole("df"), probability("p"))
    yield Tabled("model_tests", PART, "Likelihood-ratio tests", found.tests, (*tested, word("why")))
    titles = {
        "odds": "Odds of a higher score against the reference group",
        "marginal": "Modelled probability of each outcome",
        "splits": "Are odds proportional? Log-odds at each cut",
        "fits": "What was fitted",
    }
    yield from plain_tables(found, PART, "model", titles, labels)
