"""Prints the shape of the code, and fails where it has grown out of it.

python tools/shape.py src

It reports long functions, long files, and the share of private functions that are used exactly once (a hint that they read
better inline). It fails for functions over 60 lines, for a package with too many entries, and for modules that do not say what
they are. Short functions are no aim: a function is as long as its idea.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

MAX_FUNCTION_LINES = 60  # one idea; twice the screen of a reader is two
MAX_FILE_LINES = 600  # one subject
MAX_ENTRIES = 20  # packages and modules side by side that a newcomer can keep in mind
FIXED = {"__init__.py", "__main__.py", "py.typed", "__pycache__"}  # every package has them


def main(folder: str) -> int:
    files = sorted(Path(folder).rglob("*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    sizes = sorted(
        ((lines, name) for path, tree in trees.items() for lines, name in functions(path, tree)), reverse=True
    )
    once, private = used_once(texts, trees)
    lengths = sorted(((len(text.splitlines()), str(path)) for path, text in texts.items()), reverse=True)
    entries = [
        f"{package.parent}: {len(names)} entries"
        for package in Path(folder).glob("*/__init__.py")
        if len(names := [path for path in package.parent.iterdir() if path.name not in FIXED]) > MAX_ENTRIES
    ]
    lines = sum(count for count, _ in lengths)
    comments = sum(len(re.findall(r"^\s*#|  # ", text, re.M)) for text in texts.values())
    mean = sum(count for count, _ in sizes) / len(sizes)
    print(
        f"{len(files)} files, {lines:,} lines, {comments / lines:.1%} with a comment; "
        f"{len(sizes):,} functions of {mean:.1f} lines on average; "
        f"{once / max(1, private):.0%} of {private:,} private ones are used once"
    )
    print("longest functions: " + ", ".join(f"{name} {count}" for count, name in sizes[:3]))
    too_long = [f"{name} {count}" for count, name in lengths if count > MAX_FILE_LINES]
    print(f"files over {MAX_FILE_LINES} lines: {', '.join(too_long) or 'none'}")
    faults = [
        f"{path} does not open with what it is" for path, tree in trees.items() if not ast.get_docstring(tree)
    ]
    faults += [
        f"{name} has {count} lines; {MAX_FUNCTION_LINES} at most"
        for count, name in sizes
        if count > MAX_FUNCTION_LINES
    ]
    faults += [f"{entry}; {MAX_ENTRIES} at most" for entry in entries]
    print(*faults, sep="\n", end="\n" if faults else "")
    return int(bool(faults))


def functions(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every function with the lines of its body; a command's options, which stand in its signature, are no code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.body[0].lineno + 1, f"{path}:{node.name}"


def used_once(texts: dict[Path, str], trees: dict[Path, ast.Module]) -> tuple[int, int]:
    """How many private functions are named once besides their definition, and how many there are."""
    uses = []
    for path, tree in trees.items():
        words = Counter(re.findall(r"\w+", texts[path]))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        uses += [words[name] - 1 for name in names if name.startswith("_") and not name.startswith("__")]
    return sum(count == 1 for count in uses), len(uses)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
