"""Writes what an installation of stillme consists of, as CycloneDX JSON: every distribution that it needs, by version.

python tools/sbom.py [--extras vision,study] [--to sbom.json]

Read off what is installed beside this Python, so it tells what runs here. The same installation gives the same file.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = "stillme"
EVERY = "vision,attributes,hosted,serve,sources,study,postgres,stores,web"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extras", default=EVERY, help="extras whose distributions are listed too")
    parser.add_argument("--to", type=Path, default=Path("sbom.json"))
    asked = parser.parse_args()
    found, missing = needed({name for name in asked.extras.split(",") if name})
    asked.to.write_text(json.dumps(sheet(found), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{asked.to}: {len(found) - 1} distributions that stillme {found[ROOT].version} needs")
    if missing:
        print(f"not installed, so not listed: {', '.join(sorted(missing))}")
    return 0


def needed(extras: set[str]) -> tuple[dict[str, Distribution], set[str]]:
    """Name -> distribution, of stillme and whatever it needs, directly or not; and names that are not installed."""
    found: dict[str, Distribution] = {}
    asked: dict[str, set[str]] = {}
    missing: set[str] = set()
    waiting = [(ROOT, extras)]
    while waiting:
        name, wanted = waiting.pop()
        if name in found and wanted <= asked[name]:
            continue
        asked[name] = asked.get(name, set()) | wanted
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            missing.add(name)
            continue
        waiting += [(canonicalize_name(one.name), set(one.extras)) for one in wants(found[name], asked[name])]
    return found, missing


def wants(one: Distribution, extras: set[str]) -> list[Requirement]:
    every = [Requirement(text) for text in one.requires or ()]
    return [r for r in every if r.marker is None or any(r.marker.evaluate({"extra": e}) for e in (*extras, ""))]


def sheet(found: dict[str, Distribution]) -> dict[str, Any]:
    components = [component(found[name]) for name in sorted(found) if name != ROOT]
    named = "\n".join(f"{one['name']}=={one['version']}" for one in components)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, named)}",
        "version": 1,
        "metadata": {"component": {**component(found[ROOT]), "type": "application"}},
        "components": components,
        "dependencies": [
            {"ref": ref(found[name]), "dependsOn": below(found[name], found)} for name in sorted(found)
        ],
    }


def component(one: Distribution) -> dict[str, Any]:
    name = canonicalize_name(one.metadata["Name"])
    told = {"type": "library", "bom-ref": ref(one), "name": name, "version": one.version, "purl": ref(one)}
    licence = one.metadata.get("License-Expression") or ""
    if licence:
        told["licenses"] = [{"expression": licence}]
    elif classified := [
        c.rpartition(" :: ")[2] for c in one.metadata.get_all("Classifier") or () if "License ::" in c
    ]:
        told["licenses"] = [{"license": {"name": name}} for name in classified]
    return told


def ref(one: Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(one.metadata['Name'])}@{one.version}"


def below(one: Distribution, found: dict[str, Distribution]) -> list[str]:
    names = {canonicalize_name(Requirement(text).name) for text in one.requires or ()}
    return sorted(ref(found[name]) for name in names if name in found and found[name] is not one)


if __name__ == "__main__":
    sys.exit(main())
