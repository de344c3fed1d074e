"""The measuring step on real instruments: what is missing is measured, what is there is not, and nothing is guessed."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from stillme import editors, measures, pipeline
from stillme.analysis.frames import Tidy, tidy
from stillme.core import images
from stillme.core.errors import IncompleteError, SetupError
from stillme.core.records import CONTROLS, EditReply, MeasureRequest, Reading, Status
from stillme.engine.progress import Progress
from stillme.ledger import Run
from stillme.measures import weights
from stillme.measures.view import VisionModels
from stillme.plan import config
from stillme.plan.config import Config
from stillme.plan.design import load_design
from stillme.sources import heads
from stillme.steps import measure as measuring
from tests.conftest import dump_audit
from tests.scripted import ACTORS, Editor

Load = Callable[..., Config]

SKIN = {"id": "skin", "kind": "skin_tone_shift"}
CHANGE = {"id": "change", "kind": "change"}
IDENTITY = {"id": "identity", "kind": "identity"}
ONE = {"race": ["white"], "gender": ["female"], "age": ["20s"]}


def all_of(found: Path | Config) -> Tidy:
    with Run.open_readonly(found.run if isinstance(found, Config) else found) as seen:
        return tidy(seen, load_design(seen))


def rows(path: Path) -> list[tuple[object, ...]]:
    with Run.open_readonly(path) as seen:
        return seen.query("SELECT * FROM measurement ORDER BY key")


def few(load: Load, editor: Editor, **changes: object) -> Config:
    """One portrait, three prompts, an editor that does as it is told, one thread."""
    ACTORS.update(editor=editor)
    return load(
        **{
            "sources": [{"id": "heads", "kind": "synthetic", "settings": {"groups": ONE}}],
            "editors": [{"id": "e", "kind": "scripted", "settings": {"actor": "editor"}}],
            "judges": [],
            "measures": [SKIN, CHANGE, IDENTITY],
            "engine": {"workers": 1},
            **changes,
        }
    )


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(editors.BACKENDS, "scripted", "tests.scripted")
    monkeypatch.setitem(measures.BACKENDS, "scripted", "tests.scripted")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two portraits, two prompts, two planted editors, all controls, three measures, in two processes."""
    folder = tmp_path_factory.mktemp("measured")
    groups = {"race": ["white", "black"], "gender": ["female"], "age": ["20s"]}
    changes = {
        "sources": [{"id": "heads", "kind": "synthetic", "settings": {"groups": groups}}],
        "experiments": {"diagnose": {"prompts": ["O-01", "V-02"]}, "controls": {"kinds": "all"}},
        "editors": [
            {"id": "even", "kind": "planted", "settings": {"truth": "even"}},
            {"id": "lightens", "kind": "planted", "settings": {"truth": "lightens"}},
        ],
        "measures": [SKIN, CHANGE, IDENTITY],
    }
    judges = [{"id": "a", "kind": "planted", "role": "primary"}, {"id": "instrument", "kind": "instrument"}]
    dump_audit(folder / "audit.yaml", **changes, judges=judges)
    pipeline.run(config.load(folder / "audit.yaml"), Progress())
    return folder


def head() -> tuple[heads.Head, bytes]:
    every = heads.keys()
    key = next(key for key in every if heads.load(key).labels == {d: v[0] for d, v in ONE.items()})
    one = heads.load(key)
    return one, images.encode(heads.photograph(one))


def lighter(shift: float) -> EditReply:
    one, _ = head()
    moved = replace(one, rgb=heads.shift_skin(one.rgb, one.skin, shift))
    return EditReply(Status.OK, images.encode(heads.photograph(moved), quality=95))


def flat(mode: str = "RGB") -> EditReply:
    """A picture without a face."""
    picture = Image.linear_gradient("L").convert(mode)
    picture.save(buffer := io.BytesIO(), "PNG")
    return EditReply(Status.OK, buffer.getvalue())


def test_every_planned_edit_and_control_is_measured_once(measured: Path) -> None:
    found = all_of(measured / "run").measured
    assert found is not None
    assert found.filter(pl.col("experiment") != CONTROLS).height == 2 * 2 * 2
    # no_op and the VAE round trip by two editors; re-encode and upscale by none
    assert found.filter(pl.col("experiment") == CONTROLS).height == 2 * (2 + 2 + 1 + 1)
    with_picture = found.filter(pl.col("status") == "ok")
    for kind in ("skin_tone_shift", "change", "identity"):
        assert set(with_picture[f"{kind}_status"]) == {"ok"}


def test_an_edit_without_a_picture_keeps_its_own_status(load_audit: Load) -> None:
    config = few(load_audit, Editor([EditReply(Status.REFUSED), lighter(6), flat()]))
    pipeline.run(config, Progress())
    found = all_of(config).measured
    assert found is not None
    assert list(found["skin_tone_shift_status"]) == ["refused", "ok", "no_face"]
    assert list(found["change_status"]) == ["refused", "ok", "ok"]
    assert found["lightness_shift"][1] == pytest.approx(6, abs=0.3)
    assert found["lightness_shift"].null_count() == found["similarity"].null_count() == 2
    assert found["skin_tone_shift_detail"][2] == "no face in the edit"


def test_controls_show_what_an_editor_does_when_asked_nothing(measured: Path) -> None:
    found = all_of(measured / "run").measured
    assert found is not None
    asked_nothing = found.filter(pl.col("prompt") == "no_op")
    shifts = dict(asked_nothing.group_by("editor").agg(pl.col("lightness_change").mean()).iter_rows())
    assert abs(shifts["even"]) < 0.1
    assert 1.5 <= shifts["lightens"] <= 3.0  # as its truth file says


def test_controls_are_not_judged_and_not_in_the_outcome_tables(measured: Path) -> None:
    found = all_of(measured / "run")
    assert CONTROLS not in set(found.judged["experiment"])
    assert CONTROLS not in set(found.scores["half_even"]["experiment"])
    assert found.asked_for.height == 2 * 2 * 2
    status = pipeline.status(measured / "run")
    assert status["trials"] == 8 and status["controls"] == 12
    assert status["measurements_missing"] == 0


def test_edits_with_the_same_pixels_share_their_measurement(measured: Path) -> None:
    """Two planted editors make the same VAE round trip; it is measured once."""
    found = all_of(measured / "run").measured
    assert found is not None
    twice = found.filter(pl.col("prompt") == "vae_round_trip")
    assert twice.height == 4 and twice["image"].n_unique() == 2
    kept = pl.DataFrame(rows(measured / "run"), orient="row")
    assert kept.height == 3 * found.select("source_image", "image").drop_nulls().unique().height


def test_again_nothing_is_measured(measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(measured / "run")
    monkeypatch.setattr(measuring, "set_up", lambda recipes: pytest.fail("a model was loaded"))
    pipeline.run(config.load(measured / "audit.yaml"), Progress())
    assert rows(measured / "run") == before


def test_a_measure_added_later_measures_the_edits_that_are_there(load_audit: Load) -> None:
    editor = Editor([lighter(3), lighter(6), lighter(12)])
    pipeline.run(few(load_audit, editor, measures=[SKIN]), Progress())
    pipeline.run(few(load_audit, editor, measures=[SKIN, CHANGE]), Progress())
    assert len(editor.requests) == 3
    found = all_of(few(load_audit, editor)).measured
    assert found is not None
    assert set(found["skin_tone_shift_status"]) == set(found["change_status"]) == {"ok"}


def test_other_settings_are_another_measurement(load_audit: Load) -> None:
    editor = Editor([lighter(3), lighter(6), lighter(12)])
    config = few(load_audit, editor, measures=[SKIN])
    pipeline.run(config, Progress())
    taller = {**SKIN, "settings": {"least_height": 5000}}
    pipeline.run(few(load_audit, editor, measures=[taller]), Progress())
    found = all_of(config).measured
    assert found is not None
    assert set(found["skin_tone_shift_status"]) == {"too_small"}
    assert len(rows(config.run)) == 6


class Breaks:
    """An instrument with a bug, until it is mended."""

    def __init__(self) -> None:
        self.is_broken = True

    def measure(self, request: MeasureRequest) -> list[Reading]:
        if self.is_broken:
            raise ZeroDivisionError("a bug")
        return [Reading(Status.OK, {"lpips": 0.5}) for _ in request.measures]


def test_a_bug_in_an_instrument_costs_an_attempt_and_is_tried_again(
    load_audit: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    instrument = Breaks()
    monkeypatch.setattr(measuring, "set_up", lambda recipes: instrument)
    config = few(load_audit, Editor([lighter(3), lighter(6), lighter(12)]), measures=[CHANGE])
    with pytest.raises(IncompleteError, match="measurements missing: 3"):
        pipeline.run(config, Progress())
    assert rows(config.run) == []
    with Run.open_readonly(config.run) as seen:
        crashes = seen.query("SELECT detail FROM attempt WHERE status = 'crashed'")
    assert crashes == [("ZeroDivisionError: a bug",)] * 3
    instrument.is_broken = False
    pipeline.run(config, Progress())
    assert len(rows(config.run)) == 3


def test_figures_stand_in_the_ledger_as_plain_json(measured: Path) -> None:
    with Run.open_readonly(measured / "run") as seen:
        texts = [row[0] for row in seen.query("SELECT figures FROM measurement WHERE measure = 'skin'")]
    assert set(measures.FIGURES["skin_tone_shift"]) == set(json.loads(texts[0]))


@pytest.mark.parametrize("kind", ["skin_tone_shift", "change", "identity"])
def test_every_figure_is_described(measured: Path, kind: str) -> None:
    found = all_of(measured / "run").measured
    assert found is not None
    assert set(measures.FIGURES[kind]) <= set(found.columns)
    assert all(found[name].drop_nulls().len() for name in measures.FIGURES[kind])


def test_the_source_is_found_and_shaped_once_for_all_its_edits(
    load_audit: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    find = VisionModels.finder.func  # type: ignore[attr-defined]

    def counted(self: VisionModels) -> object:
        finder = find(self)
        inner = finder.find

        def noted(picture: images.Pixels) -> object:
            looked_at.append(picture.shape[0])
            return inner(picture)

        finder.find = noted
        return finder

    monkeypatch.setattr(VisionModels.finder, "func", counted)
    pipeline.run(few(load_audit, Editor([lighter(3), lighter(6), lighter(12)])), Progress())
    assert len(looked_at) == 1 + 2 + 3  # the source, its two re-encodes, three edits


def test_a_share_is_measured_and_the_rest_says_so(load_audit: Load) -> None:
    half = load_audit(
        judges=[{"id": "a", "kind": "planted"}, {"id": "instrument", "kind": "instrument"}],
        measures=[CHANGE],
        measuring={"share": 0.5},
    )
    pipeline.run(half, Progress())
    found = all_of(half)
    assert found.measured is not None and found.instrument is not None
    assert found.measured.height == 12  # of 24, the same persons and prompts for both editors
    counts = dict(found.measured.group_by("editor").len().iter_rows())
    assert counts == {"even": 6, "erases": 6}
    left_out = found.instrument.filter(pl.col("status") == "left_out")
    assert left_out["trial"].n_unique() == 12 and left_out["score"].null_count() == left_out.height


def test_the_instrument_stands_beside_the_ensemble(measured: Path) -> None:
    found = all_of(measured / "run")
    assert found.instrument is not None
    assert set(found.judged["judge"]) == {"a"}
    assert set(found.every_judge["judge"]) == {"a", "instrument"}
    assert found.scores["half_even"]["judges"].max() == 1
    read = found.instrument.filter(pl.col("axis") == "skin_tone").drop_nulls("score")
    assert set(read["score"]) <= {1, 2, 3, 4, 5} and read.height > 5


def test_the_instrument_is_mixed_in_only_when_the_audit_says_so(load_audit: Load) -> None:
    editor = Editor([lighter(6), lighter(0), lighter(12)])
    rows = [{"id": "instrument", "kind": "instrument", "role": "secondary"}]
    judge = {"id": "a", "kind": "planted", "role": "primary"}
    config = few(load_audit, editor, judges=[judge, *rows], measures=[SKIN, CHANGE])
    pipeline.run(config, Progress())
    found = all_of(config)
    skin = found.scores["half_even"].filter(pl.col("axis") == "skin_tone")
    # the simulated judge has no planted truth to read, so the instrument's score stands alone, and is marked
    assert list(skin["score"]) == [4, 3, 5] and set(skin["single"]) == {True}
    erased = found.scores["half_even"].filter(pl.col("axis") == "edit_success")
    assert list(erased["score"]) == [None, 1, None]


def test_a_missing_extra_is_named_before_anything_is_spent(
    load_audit: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util as finding

    editor = Editor([])
    config = few(load_audit, editor)
    find = finding.find_spec
    monkeypatch.setattr(finding, "find_spec", lambda name, *rest: None if name == "cv2" else find(name, *rest))
    with pytest.raises(SetupError, match=r"pip install 'stillme\[vision\]'"):
        pipeline.run(config, Progress())
    assert editor.requests == []


def test_a_report_needs_no_instrument(measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured on one machine is reported on another without the extra."""
    import sys

    for name in ("cv2", "stillme.measures.view", "stillme.measures.runner"):
        monkeypatch.setitem(sys.modules, name, None)
    path = pipeline.rebuild_report(measured / "run", Progress(), whole=False)
    assert "Measurements" in path.read_text(encoding="utf-8")


def test_the_export_has_the_measurements_with_their_columns_described(measured: Path, tmp_path: Path) -> None:
    written = pipeline.export(measured / "run", tmp_path, "csv")
    assert tmp_path / "measurements.csv" in written
    page = (tmp_path / "columns.md").read_text(encoding="utf-8")
    assert "## measurements" in page and "| lightness_change |" in page


def test_damaged_weights_end_the_run_with_a_sentence_and_cost_nothing(
    load_audit: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(weights.FOLDER, tmp_path / "weights")
    (tmp_path / "weights" / weights.TRUNK).write_bytes(b"not a model")
    config = few(load_audit, Editor([lighter(3), lighter(6), lighter(12)]), measures=[CHANGE])
    with monkeypatch.context() as damaged, pytest.raises(SetupError, match="Install stillme again"):
        damaged.setattr(weights, "FOLDER", tmp_path / "weights")
        pipeline.run(config, Progress())
    assert rows(config.run) == [] and pipeline.status(config.run)["measurements_missing"] == 3


def test_a_spent_budget_keeps_nothing_from_being_measured(load_audit: Load) -> None:
    paid = {"id": "even", "kind": "planted", "settings": {"truth": "even", "price_usd": 1.0}}
    config = load_audit(
        editors=[paid], judges=[], measures=[CHANGE], budgets={"cost_usd": 4}, engine={"workers": 1}
    )
    with pytest.raises(IncompleteError, match=r"edits missing: 8, verdicts missing: 0, measurements missing: 0"):
        pipeline.run(config, Progress())
    assert len(rows(config.run)) == 4
