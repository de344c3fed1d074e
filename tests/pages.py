"""Pages of the documentation as things to do: files to write and commands to type, in the order in which they stand.

A YAML block whose first line is `# NAME.yaml` is that file. A line of a console block that begins with `$ stillme` is a
command. A test may change words (an address, a key, a size), and each has to stand on the page, so that a page that
no longer says it is noticed.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.web.tool import ended

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.M | re.S)
Instead = Callable[["Walk", list[str]], None]


@dataclass(frozen=True)
class File:
    name: str
    text: str


@dataclass(frozen=True)
class Command:
    line: str  # after `stillme`

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line, comments=True)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Fenced blocks: language and text."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def steps(page: Path) -> list[File | Command]:
    found: list[File | Command] = []
    for language, text in blocks(page):
        named = re.match(r"# ([\w-]+\.yaml)\b", text)
        if language == "yaml" and named:
            found.append(File(named[1], text))
        elif language == "console":
            typed = re.findall(r"^\$ stillme (.*)$", text, re.M)
            found += [Command(line) for line in typed]
    return found


@dataclass
class Walk:
    """A page that is followed in a folder. `codes`: how commands may end, by how they begin; else with 0.

    `instead`: what is done in place of commands that begin so, such as those that serve until they are stopped.
    """

    page: Path
    folder: Path
    changes: Mapping[str, str] = field(default_factory=dict)
    codes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    instead: Mapping[str, Instead] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def go(self) -> Walk:
        text = self.page.read_text(encoding="utf-8")
        missing = [word for word in (*self.changes, *self.codes, *self.instead) if word not in text]
        assert not missing, f"{self.page.name} no longer says {missing}"
        for step in steps(self.page):
            if isinstance(step, File):
                (self.folder / step.name).write_text(self.changed(step.text), encoding="utf-8")
            else:
                self._do(step)
        return self

    def changed(self, text: str) -> str:
        for old, new in self.changes.items():
            text = text.replace(old, new)
        return text

    def _do(self, command: Command) -> None:
        typed = " ".join(command.words)
        words = Command(self.changed(command.line)).words
        told = next((one for start, one in self.instead.items() if typed.startswith(start)), None)
        if told is not None:
            told(self, words)
            return
        done = self.run(words)
        fine = next((codes for start, codes in self.codes.items() if typed.startswith(start)), (0,))
        assert done.returncode in fine, f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        self.said[typed] = done.stdout

    def run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stillme", *words],
            cwd=self.folder,
            env={**os.environ, **self.environ},
            capture_output=True,
            text=True,
            check=False,
        )


def start_and_stop(greeting: str = "/enter?key=") -> Instead:
    """A tool starts, tells its address and stops by Ctrl-C."""

    def told(walk: Walk, words: list[str]) -> None:
        with subprocess.Popen(
            [sys.executable, "-m", "stillme", *words, "--port", "0"],
            cwd=walk.folder,
            env={**os.environ, **walk.environ},
            text=True,
            stdout=subprocess.PIPE,
        ) as tool:
            assert tool.stdout and any(greeting in line for line in tool.stdout)
            ended(tool, signal.SIGINT)
        assert tool.returncode == 0

    return told
