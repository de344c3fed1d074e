"""A run with judges behind a network (real services on loopback), and what its report and exports say of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from bench.judges.server import serving
from bench.judges.switches import Switches

from stillme import pipeline
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.plan.config import Config
from stillme.plan.design import load_design
from stillme.report import publish
from stillme.steps import forecast
from tests.report.test_build import Text

Load = Callable[..., Config]
KEY = "STILLME_TEST_KEY"


def hosted(url: str, kind: str, model: str, role: str) -> dict[str, object]:
    settings = {"model": model, "base_url": url, "backoff_s": 0.01, "temperature": 0.1}
    return {"id": kind, "kind": kind, "key_env": KEY, "role": role, "settings": settings}


def test_a_run_with_hosted_judges_is_told_whole(
    load_audit: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "sk-test-0123456789")
    with serving(Switches(refused=0.1, malformed=0.1, rate_limited=0.1)) as server:
        rows = [
            hosted(server.gemini_url, "gemini", "gemini-3-flash-preview", "primary"),
            hosted(server.openai_url, "openai", "gpt-5-mini", "secondary"),
        ]
        config = load_audit(judges=rows, judging={"repeats": 0.5})
        report = pipeline.run(config, Progress())
    judges = {one.judge: one for one in forecast.look_ahead(config).judges}
    assert all(one.missing == one.repeats_missing == 0 < one.repeats_done for one in judges.values())
    with Run.open_readonly(config.run) as seen:
        findings, context, _ = publish.findings_and_context(seen, load_design(seen))
        spent = seen.spent_usd()
    assert sum(party.cost_usd or 0 for party in context.judges) == pytest.approx(spent) and spent > 0
    assert findings is not None and findings.judging is not None
    itself = findings.judging.itself
    assert (itself["exact"].drop_nulls() == 1).all(), "these services say the same to the same question"
    looked = itself.group_by("judge").agg(pl.col("asked").max())
    assert dict(looked.iter_rows()) == {name: one.repeats_done for name, one in judges.items()}
    said = Text(report.read_text(encoding="utf-8")).text
    for words in (
        "temperature: gpt-5-mini takes no temperature",
        "Agreement of each judge with itself by axis",
        "Judge openai: attempts",
    ):
        assert words in said, words
    pipeline.export(config.run, tmp_path / "tables", "csv")
    assert {"score", "score_again"} <= set(pl.read_csv(tmp_path / "tables/repeats.csv").columns)
    assert "| score_again |" in (tmp_path / "tables/columns.md").read_text()
