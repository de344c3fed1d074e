"""How an audit starts: a commented audit.yaml, a protocol to change, the demo."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import webbrowser
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from stillme.core.errors import InputError, disk
from stillme.core.yaml import Document, path_from, unknown
from stillme.protocol import BUILTIN

WHOLE = {"groups": "{}", "prompts": "all", "share": "0.15"}  # of the demo; a share keeps it within minutes
MEASURED = {"off": "", "note": ""}
UNMEASURED = {
    "off": "# ",
    "note": "# To measure as well: pip install 'stillme[vision]', then uncomment these lines and those above.\n",
}


@dataclass(frozen=True)
class StarterConfig:
    """What a configuration is made of: the parts of the template that differ (templates/parts), and its size."""

    editors: str = "planted"
    judges: str = "planted"
    about: str = ""  # comments on what it is for, at its head
    size: str = ""  # a file of words; empty: the whole design
    budget: str = "null"  # USD
    policy: bool = False  # a gate's policy is written beside it


STARTS = {
    "demo": StarterConfig(),
    "diffusers": StarterConfig(editors="diffusers", judges="hosted", about="diffusers", size="first", budget="10"),
    "hosted": StarterConfig(editors="hosted", judges="hosted", about="hosted", size="first", budget="25"),
    "raters": StarterConfig(about="raters", size="small"),
    "release": StarterConfig(editors="served", judges="hosted", about="release", budget="100", policy=True),
}


def init(file: Path, protocol: Path | None, journey: str = "demo") -> list[Path]:
    """Writes a commented configuration, and on wish a copy of the protocol. Never overwrites anything."""
    if journey not in STARTS:
        raise InputError(f"--for: {unknown(journey, 'way to start', STARTS)}.")
    start = STARTS[journey]
    policy = file.with_name("policy.yaml") if start.policy else None
    for path in (file, protocol, policy):
        if path is not None and path.exists():
            raise InputError(f"{path} exists already.", "Give another name, or move it away.")
    name = _valid_name(file.stem)
    run = f"runs/{name}"
    size = _read_size(start.size) if start.size else WHOLE
    words = size | MEASURED | {"share": "1.0", "run_folder": str(file.parent / run), "policy": str(policy or "")}
    text = _fill_template(file, start, run=run, name=name, **words)
    written = [file]
    with disk(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        if protocol is not None:
            shutil.copytree(BUILTIN, protocol)
            written.append(protocol)
            text = text.replace("protocol: builtin", f"protocol: {_as_yaml(path_from(file, protocol))}")
        file.write_text(text, encoding="utf-8")
    if policy is not None:
        from stillme.assurance.gate import start as write_policy  # heavy, and rarely wanted

        written.append(write_policy(policy, protocol=protocol))
    return written


def _valid_name(stem: str) -> str:
    """What an audit in a file of this name may be called: letters, digits and what may stand between them.

    >>> _valid_name("my audit"), _valid_name("2024"), _valid_name("é")
    ('my-audit', 'audit-2024', 'audit')
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")
    is_text = plain and isinstance(Document("", plain).data, str)
    return plain if is_text else f"audit-{plain}".rstrip("-")


def _as_yaml(path: str) -> str:
    """A path as it stands in YAML: as it is, where that is read as itself.

    >>> _as_yaml("./mine"), _as_yaml("./mine #2")
    ('./mine', '"./mine #2"')
    """
    return path if Document("", f"key: {path}").data == {"key": path} else json.dumps(path)


def demo(folder: Path, small: bool) -> Path:
    """The demo's configuration, written once; a second demo goes on with the first one's run."""
    file = folder / ("small.yaml" if small else "audit.yaml")
    words = (_read_size("small") if small else WHOLE) | (MEASURED if _can_measure() else UNMEASURED)
    text = _fill_template(file, STARTS["demo"], run="small" if small else "run", name="demo", **words)
    with disk(file):
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(text, encoding="utf-8")
    return file


def open_in_browser(page: Path) -> bool:
    """Open a page in the browser that this machine prefers; return whether there is one."""
    return webbrowser.open(page.resolve().as_uri())


def _can_measure() -> bool:
    return importlib.util.find_spec("cv2") is not None


def _fill_template(file: Path, start: StarterConfig, **words: str) -> str:
    words |= {"file": str(file), "budget": start.budget}
    parts = {
        "about": f"about-{start.about}.txt" if start.about else "",
        "size": f"size-{'first' if start.size else 'whole'}.yaml",
        "editors": f"editors-{start.editors}.yaml",
        "judges": f"judges-{start.judges}.yaml",
    }
    filled = {
        name: _read_template(f"parts/{part}").format(**words) if part else "" for name, part in parts.items()
    }
    return _read_template("audit.yaml").format(**words, **filled)


def _read_size(size: str) -> dict[str, str]:
    """The words that make an audit small."""
    lines = [line.split(": ", 1) for line in _read_template(f"{size}.txt").splitlines() if line]
    return dict(lines)


def _read_template(name: str) -> str:
    return resources.files("stillme.cli").joinpath(f"templates/{name}").read_text(encoding="utf-8")
