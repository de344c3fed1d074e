"""How an audit starts: a commented audit.yaml, a protocol to change, the demo."""

from __future__ import annotations

import importlib.util
import shutil
from importlib import resources
from pathlib import Path

from stillme.errors import InputError, disk
from stillme.protocol import BUILTIN
from stillme.strict import path_from

WHOLE = {"groups": "{}", "prompts": "all", "share": "0.15"}  # of the demo; a share keeps it within minutes
MEASURED = {"off": "", "note": ""}
UNMEASURED = {
    "off": "# ",
    "note": "# To measure as well: pip install 'stillme[vision]', then uncomment these lines and those above.\n",
}


def init(file: Path, protocol: Path | None) -> list[Path]:
    """Writes a commented configuration, and on wish a copy of the protocol. Never overwrites anything."""
    for path in (file, protocol):
        if path is not None and path.exists():
            raise InputError(f"{path} exists already.", "Give another name, or move it away.")
    words = WHOLE | MEASURED | {"share": "1.0"}
    text = _template(file, run=f"runs/{file.stem}", name=file.stem, **words)
    written = [file]
    with disk(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        if protocol is not None:
            shutil.copytree(BUILTIN, protocol)
            written.append(protocol)
            text = text.replace("protocol: builtin", f"protocol: {path_from(file, protocol)}")
        file.write_text(text, encoding="utf-8")
    return written


def demo(folder: Path, small: bool) -> Path:
    """The demo's configuration, written once; a second demo goes on with the first one's run."""
    file = folder / ("small.yaml" if small else "audit.yaml")
    words = (_few() if small else WHOLE) | (MEASURED if _can_measure() else UNMEASURED)
    text = _template(file, run="small" if small else "run", name="demo", **words)
    with disk(file):
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(text, encoding="utf-8")
    return file


def _can_measure() -> bool:
    return importlib.util.find_spec("cv2") is not None


def _template(file: Path, **words: str) -> str:
    return _shipped("audit.yaml").format(file=file, **words)


def _few() -> dict[str, str]:
    """The words that make the demo small."""
    lines = [line.split(": ", 1) for line in _shipped("small.txt").splitlines() if line]
    return dict(lines)


def _shipped(name: str) -> str:
    return resources.files("stillme").joinpath(f"templates/{name}").read_text(encoding="utf-8")
