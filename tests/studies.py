"""A small run with every experiment, and raters who answer a bundle that was built from it by a rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stillme import pipeline
from stillme.engine.progress import Progress
from stillme.plan import config
from stillme.study.builder import Built, Wanted, build
from stillme.study.builder import key as keys
from stillme.study.builder.key import Key
from stillme.study.bundle import CHECK
from stillme.study.db import seats
from stillme.study.db.deal import Screen, questions
from stillme.study.server.export import export
from tests.conftest import dump_audit
from tests.study.db.test_core import KEYS, Desk, op

EDITORS = ("zebrafish-one", "zebrafish-two")  # words that stand in no text
SECRET = "s" * 64
Rule = Callable[[Key, Screen, str, str], str]  # key, screen, output, question -> what is answered


def make_run(folder: Path, **stereotype: object) -> Path:
    """4 people; 8 cases of the mitigation, 16 edits of the diagnosis, 2 sentences about occupations.

    `stereotype`: what else is asked of that experiment.
    """
    groups = {"race": ["white", "black"], "gender": ["female", "male"], "age": ["20s"]}
    dump_audit(
        folder / "audit.yaml",
        sources=[{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}],
        editors=[{"id": name, "kind": "planted", "settings": {"truth": "even"}} for name in EDITORS],
        experiments={
            "diagnose": {"prompts": ["O-01", "V-02"]},
            "mitigate": {"sample": 8, "prompts": ["O-01", "V-02"]},
            "stereotype": {"prompts": ["W-01", "W-30"], **stereotype},
        },
    )
    loaded = config.load(folder / "audit.yaml")
    pipeline.run(loaded, Progress())
    return loaded.run


def built(run: Path, folder: Path, preset: str, **more: object) -> Built:
    return build(run, folder, Wanted(preset, **{"secret": SECRET, "minimum_seconds": 1.0, **more}))  # type: ignore[arg-type]


class Raters:
    """A study of a bundle on a real database, whose raters answer by a rule."""

    def __init__(self, folder: Path, made: Built) -> None:
        self.folder, self.bundle = folder, made.bundle
        self.key = keys.read(made.key)
        self.desk = Desk(f"sqlite:///{folder / 'study.db'}", made.bundle)
        self.exports = 0

    def sit(self, name: str, task: str = "") -> str:
        return self.desk.take(self.desk.enter(name), task or self.bundle.tasks[0].id)

    def rate(self, sat: str, rule: Rule, items: int | None = None) -> None:
        for screen in self.desk.do(lambda c: seats.sit(c, sat)).deal.screens[:items]:
            given = [
                op("answer", screen.item, field, self._said(rule, screen, field, output, question.id), ms=4000)
                for field, output, question in questions(self.bundle, screen)
            ]
            self.desk.send(sat, op("open", screen.item), *given)
            self.desk.now += self.bundle.minimum_seconds
            assert self.desk.send(sat, op("done", screen.item))[0].refused == ""

    def _said(self, rule: Rule, screen: Screen, field: str, output: str, question: str) -> str:
        if field == CHECK and screen.check is not None:
            return self.bundle.question[screen.check.of].options[screen.check.option - 1].value
        return rule(self.key, screen, output, question)

    def whole(self, name: str, rule: Rule, task: str = "") -> str:
        sat = self.sit(name, task)
        self.rate(sat, rule)
        self.desk.finish(sat)
        return sat

    def exported(self, form: str = "parquet") -> Path:
        self.exports += 1
        folder = self.folder / f"export-{self.exports}"
        export(self.desk.engine, self.bundle, KEYS, folder, form, say=lambda _: None)  # type: ignore[arg-type]
        return folder

    def close(self) -> None:
        self.desk.engine.dispose()
