"""What the commands around a release print: bundle, verify, compare, lint, gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stillme.analysis.numbers import plural, points
from stillme.cli.render import WIDTH, wrap
from stillme.core.text import plainly, table

if TYPE_CHECKING:
    from stillme.assurance.compare import ComparisonResult
    from stillme.assurance.evidence import BundleResult, VerificationResult
    from stillme.assurance.gate import GateResult
    from stillme.stats.lint import Linted

MAX_LISTED = 12  # faults and differences that are printed one by one

# Evidence


def render_bundle(bundle: BundleResult) -> str:
    manifest = bundle.manifest
    sizes = f"{len(manifest.files):,} files, {bundle.n_bytes / 2**20:,.1f} MB"
    return f"Bundle: {sizes}, SHA-256 over all files {manifest.sha256}\n{bundle.path}"


def render_verification(verified: VerificationResult) -> str:
    """Without what could steer a terminal: what a bundle says may be a stranger's words."""
    return "\n".join(plainly(line) for line in _verification(verified))


def _verification(verified: VerificationResult) -> Iterator[str]:
    manifest, compared = verified.manifest, verified.compared
    yield f"{verified.path}: {len(manifest.files):,} files, SHA-256 over all {manifest.sha256}"
    yield from verified.notes
    yield from _first_few(verified.faults, "faults")
    if verified.keys:
        yield f"{verified.keys:,} rows of the ledger have the key that their content gives."
    if verified.numbers:
        counts = ", ".join(f"{number:,} in {kind}" for kind, number in compared.counts.items() if number)
        yield f"{verified.numbers:,} numbers were made anew from the ledger: {counts}."
    yield from _first_few(compared.differences, "differences")
    if verified.holds:
        ending = "Verified: every file is as it was packed, and every printed number is the ledger's."
        pictures = " Of pictures, and of pages to browse them, only the hashes were checked."
        yield f"{ending}{pictures if manifest.images else ''}"
        return
    numbers = {"faults": len(verified.faults), "differences": len(compared.differences)}
    wrong = " and ".join(plural(number, noun) for noun, number in numbers.items() if number)
    newer = " Verify it with the versions that made it before you conclude anything." if verified.notes else ""
    yield f"Not verified: {wrong}.{newer}"


def _first_few(items: Sequence[object], noun: str) -> Iterator[str]:
    yield from (f"  {item}" for item in items[:MAX_LISTED])
    if len(items) > MAX_LISTED:
        yield f"  and {len(items) - MAX_LISTED:,} more {noun}"


# Two versions


def render_versions(compared: ComparisonResult) -> str:
    """What was compared, the tables that are needed first, its findings."""
    from stillme.analysis.tables.tables import text
    from stillme.assurance.compare.findings import scope, sentences
    from stillme.assurance.compare.tables import tables

    heading = list(scope(compared))
    lines = [line for sentence in heading for line in wrap(sentence)]
    for one in (one.briefly() for one in tables(compared) if one.first):
        lines += ["", one.title, text(one)]
    lines += [""]
    for sentence in sentences(compared)[len(heading) :]:
        lines += wrap(f"- {sentence}", rest="  ")
    return "\n".join(lines)


# Tables of results


def render_lint(linted: Sequence[Linted]) -> str:
    """Table by table: what was checked, what was found, what fits."""
    lines = [line for one in linted for line in (*_lint_table(one), "")]
    bad = sum(1 for one in linted if one.errors)
    ending = f"{bad} cannot be right as printed." if bad else "no errors."
    return "\n".join([*lines, f"{_count(len(linted), 'table')}: {ending}"])


def _lint_table(linted: Linted) -> Iterator[str]:
    n_errors = len(linted.errors)
    n_warnings = len(linted.findings) - n_errors
    verdict = _count(n_errors, "error") if n_errors else "passes"
    if n_warnings:
        verdict += f", {'' if n_errors else 'with '}{_count(n_warnings, 'warning')}"
    yield f"{linted.table}: {verdict}"
    checked = ", ".join(f"{ran.rule} ({ran.checked:,})" for ran in linted.ran if ran.checked)
    sentences = [f"checked: {checked or 'nothing that these columns allow'}"]
    findings = sorted(linted.findings, key=lambda finding: finding.severity.value == "warning")
    sentences += [f"{finding.severity.value.upper()}, {finding.rule}: {finding.said}" for finding in findings]
    sentences += [f"{'fits' if ran.checked else 'not checked'}: {ran.said}." for ran in linted.ran if ran.said]
    for sentence in sentences:
        yield from wrap(sentence, "  ", "      ")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


# A gate

_GATE_HEAD = ("gate", "verdict", "rule", "about", "number", "allowed")
_RULE, _ABOUT = 2, 3  # the columns that give way where a row does not fit
_UNITS = "In percent, or in percentage points where no % stands; brackets are 95 % intervals."


def render_gate(gated: GateResult) -> str:
    """Every verdict in a line, a sentence on whatever did not pass, the gate last."""
    head = f"{plainly(gated.name)}: {plainly(gated.run)} by {gated.policy}"
    rows = []
    for result in gated.results:
        thresholds = {"≥": result.figure.at_least, "≤": result.figure.at_most}
        limit = " ".join(f"{sign} {points(value)}" for sign, value in thresholds.items() if value is not None)
        effect = "" if result.effect.value == "none" else result.effect.value
        names = (plainly(result.rule), plainly(result.about))
        rows.append((effect, result.verdict.value, *names, result.number, limit))
    lines = [*wrap(head, rest="  ", long_words=True), ""]
    lines += [table(_GATE_HEAD, _fit_names(rows), right={4, 5}), "", _UNITS]
    ranks = {"fail": 0, "undecided": 0, "skipped": 1}
    unpassed = [result for result in gated.results if result.verdict.value in ranks]
    for result in sorted(unpassed, key=lambda result: ranks[result.verdict.value]):
        sentence = f"{result.verdict.value}, {plainly(result.rule)}: {plainly(result.message)}"
        lines += ["", *wrap(sentence, rest="  ")]
    return "\n".join([*lines, "", gated.summary])


def _fit_names(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows with names as short as the numbers beside them require."""
    widths = [max(map(len, column)) for column in zip(_GATE_HEAD, *rows, strict=True)]
    others = sum(width for index, width in enumerate(widths) if index not in (_RULE, _ABOUT))
    available = WIDTH - 2 * (len(_GATE_HEAD) - 1) - others
    rule = min(widths[_RULE], max(available // 2, available - widths[_ABOUT]))
    limits = {_RULE: rule, _ABOUT: available - rule}
    for index, limit in limits.items():
        cells = [row[index] if len(row[index]) <= limit else f"{row[index][: limit - 1]}…" for row in rows]
        rows = [(*row[:index], cell, *row[index + 1 :]) for row, cell in zip(rows, cells, strict=True)]
    return list(rows)
