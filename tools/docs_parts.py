"""Writes the parts of the documentation that mirror the protocol's data and the code, so that no page can disagree.

python tools/docs_parts.py          name the parts that are not current; exit code 1 if there are any
python tools/docs_parts.py --write  write them

A part stands between `<!-- part: NAME -->` and `<!-- end -->`. What is between is made here.
"""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from stillme import editors, judges, measures, sources
from stillme.assurance.gate.results import CLOSED
from stillme.core.errors import IncompleteError, InputError, SetupError, StillmeError
from stillme.core.records import Status
from stillme.ledger.frames import COLUMNS
from stillme.protocol import builtin

ROOT = Path(__file__).parent.parent
PART = re.compile(r"(<!-- part: ([a-z-]+) -->\n)(.*?)(<!-- end -->)", re.S)
PROTOCOL = builtin()


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


# The protocol


def axes() -> str:
    rows = []
    for axis in PROTOCOL.rubrics.axes:
        neutral = "none" if axis.neutral is None else str(axis.neutral)
        points = " · ".join(f"{point}: {words}" for point, words in axis.scale.items())
        rows.append((f"`{axis.id}`", axis.label, neutral, points))
    return table(("axis", "label", "nothing changed", "points"), rows)


def outcomes() -> str:
    rows = []
    for name, one in PROTOCOL.rubrics.outcomes.items():
        bound = f"≥ {one.at_least}" if one.at_least is not None else f"≤ {one.at_most}"
        claimed = "primary" if name in PROTOCOL.analysis.primary.outcomes else ""
        rows.append((f"`{name}`", one.label, f"`{one.axis}`", bound, claimed))
    return table(("outcome", "label", "axis", "counts where the score is", "claims"), rows)


def groups() -> str:
    rows = [
        (f"`{name}`, as perceived", " · ".join(f"{group.label} (`{group.id}`)" for group in found))
        for name, found in PROTOCOL.groups.dimensions.items()
    ]
    return table(("dimension", "groups, in the order of every table"), rows)


def prompts() -> str:
    rows = [
        (one.id, one.label, one.category, one.subcategory, one.printed_subcategory or "", code(one.may_change))
        for one in PROTOCOL.prompts.prompts
    ]
    return table(("prompt", "label", "category", "by content", "as printed", "may change"), rows)


def presets() -> str:
    known = PROTOCOL.presets
    fields = [name for name in type(next(iter(known.values()))).model_fields if name != "label"]
    rows = [(f"`{field}`", *(told(getattr(one, field)) for one in known.values())) for field in fields]
    return table(("choice", *(f"`{name}`" for name in known)), rows)


def told(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def endpoints() -> str:
    found = PROTOCOL.analysis
    rows = [
        ("rates of outcomes that claims may be about", code(found.primary.outcomes)),
        ("signed axes whose net direction claims may be about", code(found.primary.net)),
        ("two rates may be called alike within", f"± {found.equivalence_points:g} percentage points"),
        ("two groups may be called alike within, in Cliff's delta", f"± {found.alike_delta:g}"),
        *((f"no worse on `{axis}` within", f"{by:g} points") for axis, by in found.noninferiority.items()),
        ("raters' ordinal alpha for claims", f"≥ {found.reliability.confirmatory:g}"),
        ("below it nothing may rest on an axis", f"{found.reliability.exploratory:g}"),
    ]
    return table(("declared", "value"), rows)


# The code


def kinds() -> str:
    packages = [
        ("source", sources.BACKENDS),
        ("reader of a data set", sources.READERS),
        ("editor", editors.BACKENDS),
        ("judge", judges.BACKENDS),
        ("measure", measures.BACKENDS),
    ]
    rows = [
        (what, f"`{kind}`", first_sentence(module)) for what, found in packages for kind, module in found.items()
    ]
    return table(("a", "`kind:`", "what it is"), rows)


def first_sentence(module: str) -> str:
    words = " ".join((importlib.import_module(module).__doc__ or "").split("\n\n")[0].split())
    return re.sub(r"^\w+: ", "", words)


def statuses() -> str:
    refused = {"input": "refused on the way in", "output": "refused on the way out", "model": "refused in words"}
    shown = [one for one in Status if one not in (Status.PENDING, Status.LEFT_OUT)]
    rows = [(f"`{one}`", "yes" if one.is_final else "no", refused.get(one.stage, "")) for one in shown]
    return table(("status", "final", "a refusal"), rows)


def exit_codes() -> str:
    rows = [
        ("0", "complete; a gate is open; a bundle verifies"),
        (str(StillmeError.exit_code), "a bug in stillme"),
        (str(InputError.exit_code), "something in your files or on the command line; nothing was changed"),
        (
            str(SetupError.exit_code),
            "something on this machine: a lock, disk space, a key, an extra, a file",
        ),
        (str(IncompleteError.exit_code), "incomplete: run again to resume"),
        (str(CLOSED), "a gate is closed"),
        ("130", "stopped by Ctrl-C: run again to resume"),
    ]
    return table(("code", "what it says"), rows)


def extras() -> str:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    rows = [
        (f"`stillme[{name}]`", ", ".join(re.split(r"[<>=~;]", one)[0].strip() for one in needs))
        for name, needs in found.items()
        if name not in ("dev", "bench")
    ]
    return table(("extra", "brings"), rows)


def columns() -> str:
    return table(("column", "what it is"), [(f"`{name}`", words) for name, words in COLUMNS.items()])


def figures() -> str:
    rows = [
        (f"`{kind}`", f"`{name}`", words) for kind, of in measures.FIGURES.items() for name, words in of.items()
    ]
    return table(("measure", "figure", "what it is"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "axes": axes,
    "outcomes": outcomes,
    "groups": groups,
    "prompts": prompts,
    "presets": presets,
    "endpoints": endpoints,
    "kinds": kinds,
    "statuses": statuses,
    "exit-codes": exit_codes,
    "extras": extras,
    "columns": columns,
    "figures": figures,
}


def current(text: str) -> str:
    """The page with every part as it should be."""
    return PART.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}\n{found[4]}", text)


def stale(write: bool) -> list[str]:
    """The pages whose parts are not current."""
    found = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if current(text) != text:
            found.append(str(page.relative_to(ROOT)))
            if write:
                page.write_text(current(text), encoding="utf-8")
    return found


if __name__ == "__main__":
    written = "--write" in sys.argv
    pages = stale(written)
    for name in pages:
        print(f"{name}: {'written' if written else 'not current; run: python tools/docs_parts.py --write'}")
    sys.exit(1 if pages and not written else 0)
