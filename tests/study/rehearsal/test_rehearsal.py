"""A study rehearsed from publishing to the ratings in the run, with a fake Prolific, 30 bots, 3 returns, and commands
that are killed between any two steps: everything happens, and everything once."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import shutil
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from stillme.core.errors import InputError
from stillme.study import builder, ratings
from stillme.study.builder import Wanted
from stillme.study.db.store import connect
from stillme.study.db.tables import bonus, operation, payment, seat, sitting
from stillme.study.rehearsal import rehearse
from stillme.study.rehearsal.bots import MANNERS, Manner, Told
from stillme.study.rehearsal.rehearse import Crowd, Stage
from tests.command import stillme
from tests.study import bundles, deadly

TASKS, RATERS, ITEMS = 10, 3, 2
PLACES = TASKS * RATERS
KINDS = ("returns",) * 3 + ("inattentive", "tabs", "flaky", "plain") * 2
COME = (*KINDS, *["quick"] * (PLACES + 3 - len(KINDS)))
QUESTIONS = 5


@dataclass
class Play:
    """The stage, and how often its commands were killed."""

    stage: Stage
    run: Path
    engine: Engine
    deaths: Counter[str] = field(default_factory=Counter)

    def deadly(self, command: str, *more: str) -> tuple[int, str]:
        """Killed once at every moment, from the first, until it gets through; its code and its words."""
        moment = 0
        while True:
            moment += 1
            code, said = self.once(command, moment, *more)
            if code != -signal.SIGKILL:
                return code, said
            self.deaths[command] += 1

    def once(self, command: str, moment: int, *more: str) -> tuple[int, str]:
        words = self.stage.words(command, *more)
        return deadly.run(words, moment, self.stage.folder / "said", self.stage.environ)

    def prolific(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.stage.fake.base}/fake/state", timeout=30) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found

    def ask(self, asked: Any) -> Any:
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return connection.scalars(asked).all()


@pytest.fixture
def play(tmp_path: Path, finished: Path) -> Iterator[Play]:
    shutil.copytree(finished / "run", tmp_path / "run")
    wanted = Wanted(
        preset="exp1", size=TASKS * ITEMS, tasks=TASKS, raters=RATERS, minimum_seconds=0, contact="a@example.org"
    )
    builder.build(tmp_path / "run", tmp_path / "bundle", wanted)
    stage = rehearse.stage(tmp_path / "bundle", tmp_path / "stage")
    engine = connect(f"sqlite:///{stage.data / 'study.db'}")
    try:
        stage.open()
        yield Play(stage, tmp_path / "run", engine)
    finally:
        engine.dispose()
        stage.close()


@pytest.mark.slow
def test_a_study_from_publishing_to_the_ratings_in_the_run(play: Play) -> None:
    published(play)
    told = asyncio.run(come(play))
    check_people(play, told)
    approved(play)
    paid(play)
    taken_home(play)
    log = (play.stage.folder / "server.log").read_text(encoding="utf-8")
    assert "Traceback" not in log, log


def published(play: Play) -> None:
    """Killed at every moment, it makes one study; the webhook one subscription."""
    code, said = play.deadly("prolific publish", "--public", play.stage.study.base, "--go")
    assert code == 0, said
    assert play.deadly("prolific webhook", "--public", play.stage.study.base)[0] == 0
    assert [one["status"] for one in play.prolific()["studies"].values()] == ["ACTIVE"]
    assert play.deaths["prolific publish"] > 10


async def come(play: Play) -> list[Told]:
    """Everybody at once; the server is killed while they are at work, the fake Prolific too."""
    crowd = Crowd(play.stage, "rehearsal")

    async def kill() -> None:
        for process, mark in ((play.stage.study, 100), (play.stage.fake, 250)):
            while play.ask(select(func.count()).select_from(operation))[0] < mark:
                await asyncio.sleep(0.05)
            await asyncio.to_thread(process.kill)
            await asyncio.to_thread(process.start)

    killer = asyncio.create_task(kill())
    patient = (replace(MANNERS[kind], looks=60) for kind in COME)  # Prolific knows of a return before the study
    await crowd.fill(patient)
    await asyncio.wait_for(killer, 60)  # else everybody has left before the server could be killed
    return crowd.told


def check_people(play: Play, told: list[Told]) -> None:
    """30 have finished and handed in the code; 3 have returned, and their places were filled again."""
    assert Counter(one.end for one in told) == {"complete": PLACES, "gone": 3}
    assert len({one.code for one in told if one.code}) == 1
    assert play.deadly("prolific sync")[0] == 0
    assert Counter(one["status"] for one in play.prolific()["submissions"].values()) == {
        "AWAITING REVIEW": PLACES,
        "RETURNED": 3,
    }
    assert Counter(play.ask(select(sitting.c.state))) == {"complete": PLACES, "returned": 3}
    assert len(set(play.ask(select(seat.c.sitting)))) == PLACES


def approved(play: Play) -> None:
    """Whoever was careless is left to a person."""
    code, said = play.deadly("prolific approve")
    assert code == 0, said
    assert said.count("  look  ") == 2
    assert play.deadly("prolific sync")[0] == 0
    kept = Counter(one["status"] for one in play.prolific()["submissions"].values())
    assert kept == {"APPROVED": PLACES - 2, "AWAITING REVIEW": 2, "RETURNED": 3}


def paid(play: Play) -> None:
    """Each careful finisher gets the bonus once, though the command dies at every moment, also while it pays."""
    moment, unknown, code, seen = 1, 0, -signal.SIGKILL, {""}
    while code:
        state = (play.ask(select(payment.c.state)) or [""])[0]
        if state == "paying":
            unknown += 1
            settled(play)
            continue
        moment = 1 if state not in seen else moment + 1
        seen.add(state)
        code, said = play.once("prolific bonus", moment, "--go")
        assert code in (0, -signal.SIGKILL), said
        play.deaths["prolific bonus"] += code == -signal.SIGKILL
    assert unknown >= 2, "it was not killed while it paid"
    assert play.deaths["prolific bonus"] > 10
    payments = play.prolific()["payments"].values()
    assert sum(one["paid"] for one in payments) == 1, "prepared payments that nobody paid cost nothing"
    given = Counter(
        len(one["bonuses"]) for one in play.prolific()["submissions"].values() if one["status"] == "APPROVED"
    )
    assert given == {1: PLACES - 2}
    assert not any(
        one["bonuses"] for one in play.prolific()["submissions"].values() if one["status"] != "APPROVED"
    )
    assert len(play.ask(select(bonus.c.participant))) == PLACES - 2
    again, said = play.once("prolific bonus", 0, "--go")
    assert again == 0
    assert "No bonus is due" in said


def settled(play: Play) -> None:
    """A payment whose end is unknown is not tried again. A person looks, and says what they found."""
    code, said = play.once("prolific bonus", 0, "--go")
    assert code > 0
    assert "It is not known whether this was paid" in said
    found = re.search(r"payment (\w+): .* (\w+) at Prolific", said)
    assert found is not None, said
    was = "paid" if play.prolific()["payments"][found[2]]["paid"] else "unpaid"
    code, said = play.once("prolific bonus", 0, "--settled", found[1], was)
    assert code == 0, said


def taken_home(play: Play) -> None:
    """The export has everybody's answers under pseudonyms; the run takes them in."""
    folder = play.stage.folder / "export"
    play.stage.command("export", "--to", str(folder), "--format", "csv")
    with (folder / "ratings.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    whole = [row for row in rows if row["sitting_state"] == "complete"]
    assert len(whole) == PLACES * ITEMS * QUESTIONS
    assert {row["answer"] for row in whole} == {"scored"}
    assert len({row["rater"] for row in whole}) == PLACES
    text = "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
    for one in play.prolific()["submissions"].values():
        assert one["id"] not in text
        assert one["participant"] not in text
    key = play.stage.bundle.with_name("bundle.key.json")
    taken = ratings.take(play.run, folder, key)
    assert str(PLACES) in taken.words()


def command_here(stage: Stage, command: str, *more: str, **environ: str) -> str:
    """A command of the stage, in this process: starting one takes a second."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as said:
        for name, value in {**stage.environ, **environ}.items():
            patch.setenv(name, value)
        assert stillme(*stage.words(command, *more)) == 0
    return said.getvalue()


@pytest.mark.parametrize("own_processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_rehearsal_of_one_command_ends_with_an_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_processes: bool
) -> None:
    """What `make study-demo ONCE=1` does after it has made a bundle; the server and Prolific are processes anyway."""
    if not own_processes:
        monkeypatch.setattr(Stage, "command", command_here)
    bundles.write(tmp_path / "bundle", layout="pair", items=2, tasks=1, side=16)
    said: list[str] = []
    rehearse.rehearse(tmp_path / "bundle", tmp_path / "stage", bots=4, once=True, say=said.append)
    text = "\n".join(said)
    assert text.count("has finished and handed in") == 3, text  # of four, for three places
    assert "3 participants" in text
    assert re.search(r"[23] bonuses, .* are paid", text), text  # one of them may be the one who never reads
    assert (tmp_path / "stage/export/ratings.csv").is_file()
    with pytest.raises(InputError, match="earlier rehearsal"):
        rehearse.rehearse(tmp_path / "bundle", tmp_path / "stage", say=said.append)


class Small(Crowd):
    """A study of one place, whose first visitor returns while the second is being told that there is none."""

    def __init__(self) -> None:
        super().__init__(Stage.__new__(Stage))
        self._asked, self._gone = asyncio.Event(), asyncio.Event()

    async def _visit(self, manner: Manner) -> Told | None:
        if manner is MANNERS["returns"]:
            await self._asked.wait()
            self._gone.set()
        elif not self._gone.is_set():
            self._asked.set()
            await self._gone.wait()
            await asyncio.sleep(0.01)
            return None
        told = Told("rater")
        self.told.append(told)
        return told


def test_a_place_that_became_free_just_then_is_taken() -> None:
    async def fill() -> list[Told]:
        crowd = Small()
        await crowd.fill([MANNERS["returns"], MANNERS["quick"]])
        return crowd.told

    assert len(asyncio.run(fill())) == 2
