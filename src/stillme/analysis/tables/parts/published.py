"""As the seed computes it, not adjusted for persons, beside what holds up."""

from __future__ import annotations

from collections.abc import Iterator

from stillme.analysis.tables.audit import Audit
from stillme.analysis.tables.tables import Tabled, number, plain, probability, whole, word
from stillme.stats.comparability import comparability, pairs

PART = "As the seed computes it, beside what holds up"


def build(audit: Audit) -> Iterator[Tabled]:
    if not audit.has_reference:
        return
    frame = comparability(audit.scores, audit.protocol, audit.seed)
    shown = (
        word("axis", names=audit.labels),
        word("editor"),
        number("edits_h", "H per edit", 1),
        probability("edits_p", "p per edit"),
        number("edits_epsilon2", "ε²", 3),
        number("deff", "design effect"),
        probability("p_over_deff", "p of H ÷ deff"),
        number("persons_h", "H of persons", 1),
        probability("persons_p", "p of persons"),
        probability("permuted_p", "p permuted"),
        number("delta", "Cliff's δ"),
        whole("persons"),
    )
    notes = (
        "Per edit: Kruskal–Wallis with every edit counted as if it were a person, as in the seed; where persons "
        "differ it names a difference in 45 to 86 of 100 audits without any. No claim rests on it.",
    )
    yield Tabled("seed_tests", PART, "Do scores differ between groups?", frame, shown, notes)
    dunn = pairs(audit.scores, audit.protocol, frame)
    yield Tabled("dunn", PART, "Which groups, where a difference is named", dunn, plain(dunn, audit.labels))
