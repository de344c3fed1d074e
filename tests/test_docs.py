"""What is written is true: pages hang together, generated parts are current, examples run, settings can be read.

The README's and the journeys' commands are followed in test_docs_journeys.py.
"""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import ValidationError

from stillme.assurance.gate import policy
from stillme.cli.main import app
from stillme.core.yaml import Document
from stillme.plan.audit import Audit
from stillme.protocol import Protocol
from tests import pages
from tests.conftest import audit_data
from tests.pages import ROOT

DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *DOCS, *(ROOT / "bench").glob("*.md"), *(ROOT / "tools").glob("*/*.md")])
OTHER_FILES = {  # pieces of files that are no audit: their first key, and what is read by another test
    "conflicts": "mitigation.yaml",
    "effects": "a planted truth",
    "aliases": "a reader's settings in selection.yaml",
}


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its fenced blocks and its code."""
    return re.sub(r"`[^`\n]*`", "", pages.FENCE.sub("", page.read_text(encoding="utf-8")))


# Pages hang together


def links(page: Path) -> list[tuple[str, str]]:
    """Where links of a page lead: file (empty: the page itself) and anchor."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [(path, anchor) for path, _, anchor in (one.partition("#") for one in found) if "://" not in path]


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    text = pages.FENCE.sub("", page.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head) for head in heads]
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in plain}


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        waiting += [(page.parent / path).resolve() for path, _ in links(page) if path]
    assert not [names(page) for page in DOCS if page not in reached]


def test_the_make_targets_on_pages_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    every = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    wanted = set(re.findall(r"(?:`|^)make ([a-z-]+)", every, re.M))
    assert {"demo", "test", "check", "bench"} <= wanted
    for target in wanted:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_the_walks_lead_through_files_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    paths = re.findall(r"`([\w/]+(?:\.py|\.js|/))`", text)
    assert len(paths) > 50
    assert [path for path in paths if not (ROOT / "src/stillme" / path).exists() and path != "files/"] == []


def test_ci_runs_what_the_readme_calls() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "make test" in script and "make demo" in script


# What is generated is current


def test_the_page_of_commands_is_current() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "tools/help_page.py")], capture_output=True, text=True, check=True
    )
    assert made.stdout.strip() == (ROOT / "docs/commands.md").read_text(encoding="utf-8").strip(), (
        "run: python tools/help_page.py --write"
    )


def test_the_generated_parts_of_pages_are_current() -> None:
    """What differs says which command refreshes it: python tools/docs_parts.py --write"""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/docs_parts.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def commands(group: typer.Typer, before: str = "") -> set[str]:
    """Every command and group, as it is typed after `stillme`."""
    found = {f"{before}{one.name or one.callback.__name__}" for one in group.registered_commands if one.callback}
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        found |= {f"{before}{inner.name}"} | commands(inner.typer_instance, f"{before}{inner.name} ")
    return found


def typed(page: Path) -> list[list[str]]:
    """What a page types after `stillme`, in blocks and between backticks, word by word; without the page of commands,
    which is made of their help."""
    text = page.read_text(encoding="utf-8")
    lines = [line for language, block in pages.blocks(page) if language != "python" for line in block.splitlines()]
    found = [line.partition("#")[0].partition(" | ")[0] for line in lines]
    found += [one.replace("\n", " ") for one in re.findall(r"`([^`]+)`", pages.FENCE.sub("", text))]
    every = [re.match(r"(?:\$ )?stillme (.+)", line.strip()) for line in found]
    return [one[1].split() for one in every if one and page.name != "commands.md"]


def test_every_command_on_a_page_is_a_command() -> None:
    """By its name; what the README and the journeys type is run as well."""
    known = commands(app)
    grouped = {one.split()[0] for one in known if " " in one}
    for page in PAGES:
        for words in typed(page):
            if not re.fullmatch("[a-z]+", words[0]):
                continue
            said = " ".join(words[:2]) if words[0] in grouped and words[1:] else words[0]
            assert said in known, f"{names(page)}: stillme {said}"


@cache
def whole_command() -> Any:
    return typer.main.get_command(app)


def options_of(words: list[str]) -> set[str]:
    """The options of the command that a line names, and of the groups that it is in."""
    one, found = whole_command(), set[str]()
    for word in [*words, ""]:
        found |= {name for param in one.params for name in (*param.opts, *param.secondary_opts)}
        inner = getattr(one, "commands", {}).get(word)
        if inner is None:
            return found | {"--help"}
        one = inner
    return found


def test_every_option_on_a_page_is_an_option_of_its_command() -> None:
    tried = 0
    for page in PAGES:
        for words in typed(page):
            known = options_of(words)
            for word in (
                re.sub(r"[=,;:.)…].*", "", one.strip("[]()")) for one in words if one.startswith(("--", "[--"))
            ):
                tried += 1
                assert word in known, f"{names(page)}: stillme {' '.join(words)}"
    assert tried > 50


def test_every_table_of_the_analysis_stands_on_its_page() -> None:
    page = (ROOT / "docs/analyse.md").read_text(encoding="utf-8")
    listed = {one.split("…")[0] for one in re.findall(r"`([a-z_]+…?)`", page)}
    code = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "src/stillme/analysis/tables/parts").glob("*.py")
    )
    tables = {name.split("{")[0] for name in re.findall(r'Tabled\(\s*f?"([^"]+)"', code)}
    assert len(tables) > 30
    assert not [name for name in tables if not any(name == one or name.startswith(one) for one in listed)]


# What can be tried is tried


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_examples_on_pages_run(page: Path) -> None:
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


WITH_EXAMPLES = [
    path.stem
    for path in sorted((ROOT / "src/stillme/stats").glob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_code_run(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(f"stillme.stats.{module}"))
    assert tried and failed == 0


WITH_SETTINGS = [page for page in PAGES if any(language == "yaml" for language, _ in pages.blocks(page))]


@pytest.mark.parametrize("page", WITH_SETTINGS, ids=names)
def test_settings_on_pages_can_be_read(page: Path, protocol: Protocol, tmp_path: Path) -> None:
    """Whole files as they are, pieces of an audit in an audit."""
    for language, text in pages.blocks(page):
        if language != "yaml":
            continue
        document = Document(names(page), text)
        assert not document.faults, document.faults
        if "rules" in document.data:
            (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
            assert policy.read(tmp_path / "policy.yaml", protocol).rules
        elif not OTHER_FILES.keys() & document.data.keys():
            reads_as_an_audit(audit_data() | document.data)


def reads_as_an_audit(data: dict[str, object]) -> None:
    try:
        Audit.model_validate(data)
    except ValidationError as error:
        raise AssertionError(str(error)) from None


# Words


def test_words_that_we_do_not_use() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8").casefold()
        for word in ("debiased", "unbiased", "fair model"):
            assert word not in text or page.name == "wording.md", f"{page.name}: {word}"
