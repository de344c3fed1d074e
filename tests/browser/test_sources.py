"""From a data set to an audit's portraits, by the commands that a newcomer types and by keyboard in real Chromium.

On the sample of FairFace where it lies beside the project, else on rendered heads.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from stillme.core import images
from stillme.sources import heads
from stillme.sources.selection.action_log import Verb
from stillme.sources.selection.store import Store
from tests.browser.conftest import IN_CHROMIUM, Open, expect
from tests.conftest import audit_data
from tests.sources.selection import data

ROOT = Path(__file__).parent.parent.parent
SAMPLE = ROOT.parent / "shared/data/fairface_sample"
pytestmark = [*IN_CHROMIUM, pytest.mark.slow]


def stillme(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "stillme", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A selection that was sampled into two pools and screened."""
    made = tmp_path_factory.mktemp("choosing")
    source = SAMPLE if SAMPLE.is_dir() else data.fairface(made / "fairface", heads.keys(), copies=2)
    stillme(made, "sources", "init", str(source))
    said = stillme(made, "sources", "sample", "--pools", "2")
    assert re.search(r"\d+ candidates in 2 pools \(seeds 1, 2\) for 84 cells, from 168 rows", said), said
    assert "cannot be filled" not in said
    assert "meets each criterion" in stillme(made, "sources", "screen")
    return made


@pytest.fixture
def served(folder: Path) -> Iterator[str]:
    """The tool as a process of its own; its link."""
    command = [sys.executable, "-m", "stillme", "sources", "select", "--reviewer", "anna", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout
        link = next(found[1] for line in process.stdout if (found := re.search(r"anna\s+(http\S+)", line)))
        yield link
        process.send_signal(signal.SIGINT)
        assert "Everything" in process.stdout.read()


RANKS = "cards => cards.map(card => Number(/rank (\\d+) of/.exec(card.innerText)[1]))"


def choose_by_keyboard(page: Any) -> None:
    """The first by the pre-screen, on every page; what one would do in a hurry, and never with a mouse."""
    ranks = page.locator("[data-candidate]").evaluate_all(RANKS)
    page.keyboard.press(str(ranks.index(min(ranks)) + 1))
    expect(page.locator("#status")).to_have_class(re.compile("saved"))


def to_the_first_cell(page: Any) -> None:
    page.wait_for_selector("body[data-ready=yes]")
    for _ in range(60):
        page.keyboard.press("Tab")
        if "/cell/" in (page.evaluate("document.activeElement.getAttribute('href')") or ""):
            page.keyboard.press("Enter")
            page.wait_for_url("**/cell/**")
            return
    raise AssertionError("no cell can be reached by the Tab key")


def test_a_data_set_becomes_84_portraits_of_an_audit(folder: Path, served: str, open_context: Open) -> None:
    page = open_context().new_page()
    page.goto(served)
    to_the_first_cell(page)
    seen = [page.url]
    while True:
        page.wait_for_selector("body[data-ready=yes]")
        choose_by_keyboard(page)
        if len(seen) == 84:
            break
        page.keyboard.press("n")
        page.wait_for_url(lambda url: url != seen[-1])
        seen.append(page.url)
    assert len(set(seen)) == 84
    page.goto(served.split("/enter")[0])
    assert "84 of 84 decided" in page.inner_text("main")

    with Store.open_readonly(folder / "selection-work") as store:
        log = [action for action in store.actions() if action.verb is Verb.CHOOSE]
        pool_of = {one.key: one.pool for one in store.candidates()}
    by_pool = Counter(pool_of[key] for action in log for key in action.after)
    assert len(log) == 84 and sum(by_pool.values()) == 84 and set(by_pool) == {1, 2}
    assert all(action.milliseconds is not None and action.criteria for action in log)
    counted = stillme(folder, "sources", "status")
    assert re.search(rf"anna\s+84 of 84\s+0\s+{by_pool[1]}\s+{by_pool[2]}\s+84\s", counted), counted

    stillme(folder, "sources", "export", "selection.yaml", "portraits")
    table = pl.read_parquet(folder / "portraits/portraits.parquet")
    assert table.height == 84 and table["cell"].n_unique() == 84
    assert Counter(table["pool"].to_list()) == by_pool
    for row in table.iter_rows(named=True):
        facts = images.inspect((folder / "portraits" / row["path"]).read_bytes())
        assert (facts.width, facts.height) == (row["width"], row["height"]) and min(
            facts.width, facts.height
        ) == 1024

    audit = audit_data(sources=[{"id": "chosen", "kind": "portraits", "settings": {"folder": "portraits"}}])
    (folder / "audit.yaml").write_text(yaml.safe_dump(audit), encoding="utf-8")
    plan = stillme(folder, "check", "audit.yaml")
    assert "84 portraits × 3 prompts" in plan
    assert re.search(r"(?s)84 of (the )?84 portraits.*whatever the prompt", plan), plan
