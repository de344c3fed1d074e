"""Groups, axes, outcomes and prompts are spelled in the protocol's files and nowhere else in the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from stillme.protocol import Protocol

SOURCE = Path(__file__).parent.parent / "src/stillme"


def words(protocol: Protocol) -> set[str]:
    groups = {group for d in protocol.groups.dimensions for group in protocol.groups.ids(d)}
    return (
        groups
        | set(protocol.axes)
        | set(protocol.rubrics.outcomes)
        | set(protocol.prompt)
        | set(protocol.presets) - {"default"}
    )


def constants(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_no_code_spells_what_the_protocol_says(protocol: Protocol) -> None:
    spelled = [
        f"{path.relative_to(SOURCE)}:{line}: {word}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, word in constants(path)
        if word in words(protocol)
    ]
    assert spelled == []
