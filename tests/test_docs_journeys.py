"""The README and the journeys are followed as they are written: their files, their commands, in their order.

Only what has to be is changed: addresses (to servers on this machine), keys, and how large an audit is. The journey
with a model of diffusers is followed where torch is: tests/diffusers/test_journey.py.
"""

from __future__ import annotations

import asyncio
import csv
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from bench.judges.server import serving

from stillme.core import images
from stillme.sources import heads
from stillme.sources.selection.action_log import Action, Verb
from stillme.sources.selection.store import Store
from stillme.study.rehearsal import rehearse
from stillme.study.rehearsal.bots import MANNERS
from stillme.study.rehearsal.rehearse import Crowd, Stage
from tests import pages
from tests.editors import providers
from tests.pages import ROOT, Walk, start_and_stop
from tests.sources.selection import data

JOURNEYS = ROOT / "docs/journeys"
HEADS = "{id: heads, kind: synthetic}"
FEW = "{id: heads, kind: synthetic, settings: {groups: {race: [white, black], gender: [female], age: [20s, 60s]}}}"
PAIRS = {"calibrating: {portraits: 6}": "calibrating: {portraits: 1, repeats: false, disclosure: false}"}


def test_every_journey_is_followed() -> None:
    here = {page.name for page in JOURNEYS.glob("*.md")}
    assert here == {"diffusers.md", "gate.md", "hosted.md", "raters.md"}
    for page in JOURNEYS.glob("*.md"):
        typed = [one for one in pages.steps(page) if isinstance(one, pages.Command)]
        shown = re.findall(r"^(?:\$ )?stillme ", "\n".join(text for _, text in pages.blocks(page)), re.M)
        assert len(typed) == len(shown) > 5, f"{page.name}: a command that no test types"


# The README


@pytest.mark.slow
def test_the_readmes_commands_run_in_order(tmp_path: Path) -> None:
    page = ROOT / "README.md"
    typed = [" ".join(one.words) for one in pages.steps(page) if isinstance(one, pages.Command)]
    assert [words.split()[0] for words in typed] == ["demo", "init", "check", "run", "report"]
    Walk(page, tmp_path, instead={"run": make_small}).go()
    assert (tmp_path / "runs/audit/report.html").is_file() and (tmp_path / "runs/audit/report/tables").is_dir()


@pytest.mark.slow
def test_the_readmes_python_runs(tmp_path: Path) -> None:
    ((_, code),) = [block for block in pages.blocks(ROOT / "README.md") if block[0] == "python"]
    (tmp_path / "quickstart.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "quickstart.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "9 portraits" in done.stdout and done.stdout.count("lightens") >= 1


def make_small(walk: Walk, words: list[str]) -> None:
    """The same file with fewer groups and prompts; the whole one is what `make demo` runs."""
    path = walk.folder / "audit.yaml"
    text = path.read_text(encoding="utf-8")
    small = text.replace("settings: {}", "settings: {groups: {race: [white, black], gender: [male], age: [20s]}}")
    small = small.replace("prompts: all", "prompts: [O-01]")
    assert small.count("[male]") == 1 and "prompts: [O-01]" in small
    path.write_text(small, encoding="utf-8")
    done = walk.run(words)
    assert done.returncode == 0, done.stderr


# Gate a release


@pytest.mark.slow
def test_a_release_is_gated(tmp_path: Path) -> None:
    shorter = {"prompts: [O-01, O-05, V-02]": "prompts: [O-01]", **PAIRS}
    may_close = {
        "gate runs/release policy.yaml": (0, 5),
        "gate runs/release strict": (0, 5),
        "gate runs/next": (5,),
    }
    walk = Walk(JOURNEYS / "gate.md", tmp_path, shorter, may_close).go()
    assert "Verified" in walk.said["verify runs/release/evidence.zip"]
    assert {"gate.xml", "gate.sarif", "gate.md"} <= {path.name for path in tmp_path.iterdir()}
    assert "worse" in walk.said["compare runs/release runs/next --to compared"]


# Audit a hosted editor


@pytest.mark.slow
def test_hosted_editors_are_audited(tmp_path: Path) -> None:
    with hosted() as changes:
        keys = {"OPENAI_API_KEY": "sk-open-7", "GEMINI_API_KEY": "key-gem-7", "BFL_API_KEY": "key-bfl-7"}
        walk = Walk(
            JOURNEYS / "hosted.md",
            tmp_path,
            {**changes, HEADS: FEW, **PAIRS},
            instead={"review": start_and_stop()},
            environ=keys,
        ).go()
    said = walk.said["run audit.yaml --max-cost 60"]
    assert "8 refused" in said or "8 input_blocked" in said, said  # Black Forest Labs turns everybody away
    assert (tmp_path / "runs/hosted/report.html").is_file()
    holds_none(tmp_path, list(keys.values()))


@contextmanager
def hosted() -> Iterator[dict[str, str]]:
    """Services on this machine, and where the page has to name them."""
    picture = images.encode(heads.photograph(heads.load(heads.keys()[0])))
    part = providers.gemini_part(picture)
    with ExitStack() as stack:
        gpt = stack.enter_context(providers.Server(providers.openai_picture(picture)))
        gemini = stack.enter_context(providers.Server(providers.gemini_candidate("STOP", part)))
        bfl = stack.enter_context(providers.Server(providers.bfl({"status": "Request Moderated"})))
        judges = stack.enter_context(serving())
        at = {
            "gpt-image-2": gpt.url,
            "gemini-3.1-flash-image": gemini.url,
            "flux-2-pro": bfl.url,
            "gemini-3-flash-preview": judges.gemini_url,
            "gpt-5-mini-2025-08-07": judges.openai_url,
        }
        yield {f"{{model: {model}": f"{{base_url: '{url}', model: {model}" for model, url in at.items()}


def holds_none(folder: Path, secrets: list[str]) -> None:
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not [secret for secret in secrets if secret.encode() in content], path


# Run raters on Prolific


@pytest.mark.slow
def test_raters_are_run_on_prolific(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the page is on this machine, and the people are bots that a stand-in for Prolific sends."""
    monkeypatch.chdir(tmp_path)
    stage = rehearse.stage(tmp_path / "study", tmp_path / "stage")
    with ExitStack() as stack:
        people = People(stage, stack)
        walk = Walk(
            JOURNEYS / "raters.md",
            tmp_path,
            {"https://study.example.org": stage.study.base, "--contact": "--minimum-seconds 0 --contact"},
            instead={
                "study serve": people.serve,
                "study prolific status": people.pilot,
                "study prolific approve study --dry-run": people.others,
            },
            environ={"STILLME_PASSWORD": "only-for-a-test-1", "PROLIFIC_TOKEN": rehearse.TOKEN},
        )
        walk.go()
    assert "3" in walk.said["study prolific approve study"]
    with (tmp_path / "ratings/participants.csv").open(encoding="utf-8") as file:
        assert sum(row["state"] == "complete" for row in csv.DictReader(file)) == 6
    assert (tmp_path / "demo/small/analysis/analysis.md").is_file()


class People:
    """Whoever has to be there for the page's commands: the server, Prolific, and people."""

    def __init__(self, stage: Stage, stack: ExitStack) -> None:
        self.stage, self.stack = stage, stack
        self.crowd = Crowd(stage, "journey")

    def serve(self, walk: Walk, words: list[str]) -> None:
        """As the page has it, in the background, until the page is through."""
        self.stage.study.words = ("stillme", *words)
        self.stage.study.environ = walk.environ
        self.stack.callback(self.stage.close)
        self.stage.fake.start()
        walk.environ |= self.stage.environ
        self.stage.study.start()

    def pilot(self, walk: Walk, words: list[str]) -> None:
        self.come(3)
        assert walk.run(words).returncode == 0

    def others(self, walk: Walk, words: list[str]) -> None:
        self.come(3)
        assert walk.run(words).returncode == 0

    def come(self, number: int) -> None:
        asyncio.run(self.crowd.fill([replace(MANNERS["quick"], pace=0.0)] * number))


# One edit on the spot


def test_an_edit_is_measured_on_the_spot(tmp_path: Path) -> None:
    head = heads.photograph(heads.load(heads.keys()[0]))
    for name, quality in (("before.jpg", 95), ("after.jpg", 60)):
        (tmp_path / name).write_bytes(images.encode(head, quality=quality))
    Walk(ROOT / "docs/measures.md", tmp_path).go()
    assert (tmp_path / "seen.png").is_file()


# Portraits of people


@pytest.mark.slow
def test_portraits_are_chosen(tmp_path: Path) -> None:
    data.fairface(tmp_path / "fairface", heads.keys(), copies=1)
    (tmp_path / "here").mkdir()
    Walk(ROOT / "docs/sampling.md", tmp_path / "here", instead={"sources select": choose_everything}).go()
    assert (tmp_path / "here/portraits/portraits.csv").is_file()


def choose_everything(walk: Walk, words: list[str]) -> None:
    """What a person would choose is put into the tool's log."""
    start_and_stop()(walk, words)
    with Store.open_for_writing(walk.folder / "selection-work") as store:
        for number, one in enumerate(store.candidates()):
            at = f"2026-01-01T00:00:{number % 60:02}+00:00"
            action = Action(op=str(number), at=at, reviewer=words[-1], verb=Verb.CHOOSE, cell=one.cell)
            store.add_action(replace(action, after=[one.key])).result()
