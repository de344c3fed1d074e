"""What is released: one version, a wheel and an sdist with what they need and nothing else, papers in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import stillme
from tests.conftest import dump_audit, in_ci, load_tool

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Titles of sections as `## 1.2.3 (2026-11-18)`; the newest may not be out yet
TITLE = re.compile(r"## (\d+\.\d+\.\d+) \((unreleased|\d{4}-\d\d-\d\d)\)")


release = load_tool("release")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel that is made from it; nothing is fetched."""
    if not (ROOT / ".git").exists() and not in_ci():
        pytest.skip("what belongs into a release is what is under version control, and this is no clone")
    sdist, wheel = release.build(tmp_path_factory.mktemp("dist"), isolated=False)
    return sdist, wheel


@pytest.mark.slow
def test_wheel_and_sdist_hold_what_is_under_version_control(built: tuple[Path, Path]) -> None:
    """And, while somebody is at work, what is not yet: a release itself is stricter."""
    sdist, wheel = built
    release.check_wheel(wheel, new=True)
    release.check_sdist(sdist, new=True)


@pytest.mark.slow
def test_a_wheel_that_lacks_or_adds_something_is_refused(built: tuple[Path, Path], tmp_path: Path) -> None:
    changed = tmp_path / built[1].name
    with zipfile.ZipFile(built[1]) as whole, zipfile.ZipFile(changed, "w") as part:
        for name in whole.namelist():
            if name != "stillme/cli/templates/audit.yaml":
                part.writestr(name, b"")
        part.writestr("stillme/demo/face.jpg", b"")
    said = r"not under version control: stillme/demo/face\.jpg; it lacks: stillme/cli/templates/audit\.yaml"
    with pytest.raises(release.WrongError, match=said):
        release.check_wheel(changed, new=True)


@pytest.mark.slow
def test_the_wheel_alone_runs_an_audit_and_writes_its_whole_report(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    """Unpacked, outside of the tree, with the tests' own packages beside it; `make release` installs it for real."""
    zipfile.ZipFile(built[1]).extractall(tmp_path / "wheel")
    dump_audit(tmp_path / "audit.yaml")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    clean["PYTHONPATH"] = str(tmp_path / "wheel")

    def python(*words: str) -> str:
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=True).stdout

    assert Path(python("-c", "import stillme; print(stillme.__file__)").strip()).is_relative_to(tmp_path / "wheel")
    python("-m", "stillme", "run", "audit.yaml")
    python("-m", "stillme", "report", "run")
    made = {path.name for path in (tmp_path / "run/report").iterdir()}
    assert {"tables", "figures", "browse", "pictures", "cards"} <= made


@pytest.mark.slow
def test_a_package_index_shows_the_readme_with_links_and_pictures_that_lead_somewhere(
    built: tuple[Path, Path],
) -> None:
    """There is no repository around it there: what leads nowhere by itself leads to where the changelog is said to be."""
    with zipfile.ZipFile(built[1]) as wheel:
        told = wheel.read(next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))).decode()
    base = PROJECT["urls"]["Changelog"].removesuffix("CHANGELOG.md")
    assert "Description-Content-Type: text/markdown" in told
    led = re.findall(r"\]\(([^)\s]+)\)", told)
    assert len(led) > 20 and all(one.startswith("https://") for one in led)
    assert f"{base}docs/limits.md" in led
    assert re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", told) == [
        f"{base.replace('/blob/', '/raw/')}docs/images/before-after.webp"
    ]
    here = [one.removeprefix(base) for one in led if one.startswith(base)]
    assert here and all((ROOT / path.partition("#")[0]).exists() for path in here)


def test_the_version_is_written_in_one_place() -> None:
    assert "version" in PROJECT["dynamic"] and "version" not in PROJECT
    assert metadata.version("stillme") == stillme.__version__, "install again: pip install -e ."


def test_the_citation_is_of_this_version_and_has_what_the_format_asks_for() -> None:
    """Fields of the Citation File Format 1.2.0 that have to be there, and the kinds of those that we use."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0" and cited["type"] == "software" and cited["message"]
    assert str(cited["version"]) == stillme.__version__
    assert cited["license"] == PROJECT["license"] == "MIT"
    assert cited["title"] and all({"name"} <= set(one) or {"family-names"} <= set(one) for one in cited["authors"])
    known = {
        "cff-version",
        "message",
        "title",
        "type",
        "authors",
        "version",
        "license",
        "keywords",
        "abstract",
        "doi",
    }
    assert set(cited) <= known | {"date-released", "repository-code", "url", "identifiers", "references"}


def test_the_licence_is_said_alike_everywhere() -> None:
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])


def test_the_changes_begin_with_this_version_and_are_told_in_sentences() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.startswith("# Changes\n")
    titles = re.findall(r"^## .*$", text, flags=re.MULTILINE)
    found = [TITLE.fullmatch(title) for title in titles]
    assert all(found), f"a section is titled like `## 1.2.3 (2026-11-18)`: {titles}"
    versions = [tuple(map(int, one[1].split("."))) for one in found if one]
    assert ".".join(map(str, versions[0])) == stillme.__version__
    assert versions == sorted(set(versions), reverse=True), "the newest first, each once"
    assert [one[1] for one in found[1:] if one and one[2] == "unreleased"] == []
    changes = re.split(r"^- ", re.sub(r"^#.*$", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    assert [change for change in changes if not change.strip().endswith((".", ")"))] == []


def test_pythons_that_are_named_are_those_that_are_allowed() -> None:
    named = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert named == ["3.11", "3.12", "3.13"] and PROJECT["requires-python"] == ">=3.11"
