"""What is checked before a study is served."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from stillme.core.errors import InputError, SetupError
from stillme.study.prolific import hooks
from stillme.study.rehearsal.fake.deliver import signed
from stillme.study.server import serve
from stillme.study.server.app import make_app
from stillme.study.server.serve import Options, data_folder, open_study
from tests.study import bundles
from tests.study.postgres import Server


def options(folder: Path, **more: object) -> Options:
    if not (folder / "bundle").exists():
        bundles.write(folder / "bundle")
    return Options(str(folder / "bundle"), str(data_folder(folder / "bundle")), **more)  # type: ignore[arg-type]


def test_a_study_is_opened_again_as_it_was(tmp_path: Path) -> None:
    for _ in range(2):
        open_study(options(tmp_path)).store.close()
    assert (tmp_path / "bundle-data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "bundle-data" / "secret").stat().st_mode & 0o777 == 0o600


def test_another_secret_is_refused_before_anybody_comes_back_as_a_stranger(tmp_path: Path) -> None:
    open_study(options(tmp_path)).store.close()
    (tmp_path / "bundle-data" / "secret").write_text("x" * 64)
    with pytest.raises(SetupError, match="is not the one that this study was begun with"):
        open_study(options(tmp_path))


def test_sqlite_has_one_process(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="served by one process"):
        serve.serve(options(tmp_path, workers=2, port=0))


def test_people_from_prolific_need_an_address_to_come_to(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="need the address"):
        serve.serve(options(tmp_path, entry="signed", port=0))


def test_a_study_below_the_floor_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROLIFIC_TOKEN", "token")
    bundles.write(tmp_path / "bundle", estimated_minutes=(40, 60))
    with pytest.raises(InputError, match=r"6.00 USD an hour; the floor is 12.00.* --below-floor"):
        serve.serve(options(tmp_path, entry="signed", public="https://study.example.org", port=0))


def test_what_stays_is_not_looked_through_while_people_wait(tmp_path: Path) -> None:
    made = serve.app(options(tmp_path))
    try:
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()
        made.state.study.store.close()


def test_webhooks_are_fresh_by_the_machines_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROLIFIC_TOKEN", "token")
    monkeypatch.setenv(hooks.VARIABLE, "a-secret-of-the-workspace")
    monkeypatch.setattr(serve, "_newest", lambda connection: time.time() + 3600)  # its clock was wrong for a while
    study = open_study(options(tmp_path, entry="signed", public="https://study.example.org"))
    body, headers = signed("a-secret-of-the-workspace", {"id": "e1", "body": {}}, int(time.time()))
    with TestClient(make_app(study), base_url="https://study.example.org") as prolific:
        assert prolific.post(hooks.PATH, content=body, headers=headers).status_code == 200
    study.store.close()


def test_a_database_that_went_away_is_said_and_nothing_is_called_saved(
    postgres_server: Server, tmp_path: Path
) -> None:
    made = options(tmp_path, database=postgres_server.database())
    study = open_study(made)
    with TestClient(make_app(study), base_url="http://127.0.0.1") as browser:
        browser.get("/p/start?PROLIFIC_PID=anna")
        assert browser.get("/guide").status_code == 200
        postgres_server.stop()
        try:
            lost = browser.get("/guide")
            assert lost.status_code == 503 and "was not saved" in lost.text
        finally:
            postgres_server.start()
        assert browser.get("/guide").status_code == 200
    study.store.close()
