"""The README as a package index shows it: there is no repository around it there, so its links and pictures are whole.

The build calls it (pyproject.toml, `tool.hatch.metadata.hooks.custom`). Where the repository is, `project.urls` says:
the address of the changelog without its last part.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Fills `readme`, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        base = metadata["urls"]["Changelog"].removesuffix("CHANGELOG.md")
        metadata["readme"] = {"content-type": "text/markdown", "text": whole(text, base)}


def whole(text: str, base: str) -> str:
    """The text with every relative link led to `base`, where a page is shown; pictures to the file itself."""
    raw = base.replace("/blob/", "/raw/")

    def led(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        if "://" in path or path.startswith("#"):
            return found[0]
        return f"{picture}[{words}]({raw if picture else base}{path})"

    return LINK.sub(led, text)
