"""Backends of other packages: found by their entry points, as a user finds them on the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from stillme.ledger import Run
from tests.command import stillme

Write = Callable[..., Path]
MODULE = "acme_mirror"
EDITOR = """
    from stillme.core.records import EditReply, Status
    from stillme.core.yaml import StrictModel
    from stillme.engine.backends import ExecutionMode, PreparedEditor

    class Settings(StrictModel):
        flip: bool = False

    class Mirror:
        def edit(self, request):
            return EditReply(Status.OK, request.image)

    def prepare(settings, context):
        named = settings.model_dump(mode="json")
        return PreparedEditor(
            effective={"backend": "mirror", **named},
            inputs=named,
            make=Mirror,
            mode=ExecutionMode.MODEL,
        )
"""
SOURCE = """
    from stillme.engine.backends import PreparedSource
    from stillme.sources import synthetic
    from stillme.sources.synthetic import Settings, prepare
"""
JUDGE = "from stillme.judges.planted import Settings, prepare"
MEASURE = "from stillme.measures.change import Settings, prepare"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs a distribution as pip would: a module, and a dist-info folder next to it."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def do(code: str, part: str = "editors", kind: str = "mirror", name: str = "acme-mirror") -> None:
        info = site / f"{name.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        info.joinpath("entry_points.txt").write_text(f"[stillme.{part}]\n{kind} = {MODULE}\n")
        site.joinpath(f"{MODULE}.py").write_text(dedent(code))

    yield do
    sys.modules.pop(MODULE, None)


def editor(kind: str = "mirror", **settings: object) -> dict[str, object]:
    return {"editors": [{"id": "acme", "kind": kind, "settings": settings}]}


def test_a_plugin_edits_in_a_process_of_its_own(install: Callable[..., None], write_audit: Write) -> None:
    install(EDITOR)
    audit = write_audit(**editor(flip=True), judges=[])
    assert stillme("run", audit) == 0
    with Run.open_readonly(audit.parent / "run") as run:
        assert run.query("SELECT DISTINCT status FROM edit") == [("ok",)]
        (settings,) = run.query("SELECT content FROM settings WHERE kind = 'editor'")
        assert settings == ('{"backend":"mirror","flip":true}',)


@pytest.mark.parametrize(
    ("part", "code", "row"),
    [
        ("sources", SOURCE, {"id": "heads", "kind": "mirror"}),
        ("judges", JUDGE, {"id": "j", "kind": "mirror", "role": "primary"}),
        ("measures", MEASURE, {"id": "m", "kind": "mirror"}),
    ],
)
def test_every_part_of_an_audit_takes_plugins(
    part: str, code: str, row: dict[str, object], install: Callable[..., None], write_audit: Write
) -> None:
    install(code, part)
    assert stillme("check", write_audit(**{part: [row]})) == 0


def test_an_unknown_kind_lists_what_there_is(
    install: Callable[..., None], write_audit: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    install(EDITOR)
    assert stillme("check", write_audit(**editor("miror"))) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "'miror' is not a kind of editor; known: planted, openai" in message and "step1x, mirror" in message


def test_settings_that_a_plugin_does_not_know_are_named(
    install: Callable[..., None], write_audit: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    install(EDITOR)
    assert stillme("check", write_audit(**editor(flop=True))) == 2
    assert "editors[0].settings.flop" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("raise OSError('no licence')", "OSError: no licence"),
        ("x = 1", "TypeError: acme_mirror needs `Settings` and `prepare`"),
        (EDITOR.replace("make=Mirror", "made=Mirror"), "unexpected keyword argument 'made'"),
        (EDITOR + "\n    prepare = lambda settings, context: None\n", "returned a NoneType, not a PreparedEditor"),
    ],
)
def test_a_plugin_that_is_broken_is_named(
    code: str,
    fault: str,
    install: Callable[..., None],
    write_audit: Write,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(code)
    assert stillme("check", write_audit(**editor())) == 3
    message = " ".join(capsys.readouterr().err.split())
    assert "The kind 'mirror' of editors comes from the plug-in acme-mirror 1.2, which cannot be used:" in message
    assert fault in message


def test_a_kind_of_stillme_cannot_be_taken_over(
    install: Callable[..., None], write_audit: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    install(EDITOR, kind="planted")
    assert stillme("check", write_audit()) == 3
    message = " ".join(capsys.readouterr().err.split())
    assert (
        "The kind 'planted' of editors is claimed more than once: by stillme itself and the plug-in acme-mirror 1.2"
        in message
    )


def test_two_plugins_cannot_share_a_kind(
    install: Callable[..., None], write_audit: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    install(EDITOR)
    install(EDITOR, name="other-mirror")
    assert stillme("check", write_audit(**editor())) == 3
    message = capsys.readouterr().err
    assert "acme-mirror 1.2" in message and "other-mirror 1.2" in message
