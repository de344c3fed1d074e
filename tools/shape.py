"""Prints the shape of the code and fails when it grows out of it: short functions, modules that say what they are.

python tools/shape.py src
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

MEDIAN_AT_MOST = 8
LONG = 50
LONG_SHARE_AT_MOST = 0.02


def main(folder: str) -> int:
    files = sorted(Path(folder).rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    silent = [path for path, tree in trees.items() if not ast.get_docstring(tree)]
    sizes = sorted(
        ((lines, name) for path, tree in trees.items() for lines, name in functions(path, tree)), reverse=True
    )
    median = statistics.median(lines for lines, _ in sizes)
    share = sum(lines > LONG for lines, _ in sizes) / len(sizes)
    print(f"{len(files)} modules, {len(sizes)} functions: median {median:g} code lines, {share:.1%} above {LONG}")
    print("longest: " + ", ".join(f"{name} {lines}" for lines, name in sizes[:3]))
    for path in silent:
        print(f"{path} does not open with what it is")
    return int(bool(silent) or median > MEDIAN_AT_MOST or share > LONG_SHARE_AT_MOST)


def functions(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield code_lines(node, lines), f"{path.name}:{node.name}"


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> int:
    """Lines of the body that are neither blank, comment nor docstring."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    if not body:
        return 0
    span = lines[body[0].lineno - 1 : node.end_lineno]
    return sum(1 for line in span if line.strip() and not line.strip().startswith("#"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
