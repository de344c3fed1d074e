"""The pages about deploying and data: commands and options that they name exist, files that they name are there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from stillme.cli.main import app

DOCS = Path(__file__).resolve().parents[3] / "docs"
DEPLOY = DOCS / "deploy"
PAGES = (DOCS / "study-deploy.md", DOCS / "study-data.md", *sorted(DEPLOY.glob("*.service")))


def commands() -> Iterator[list[str]]:
    """Every `stillme study …` in a page's blocks of commands or in a unit."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"```(?:sh|ini)\n(.*?)```", text, re.S) if page.suffix == ".md" else [text]
        for line in "\n".join(blocks).splitlines():
            if found := re.search(r"\bstillme study .*", line):
                yield shlex.split(found[0], comments=True)


def test_every_command_and_option_exists() -> None:
    named = list(commands())
    assert {"serve", "backup", "restore", "export", "erase"} <= {words[2] for words in named}
    for words in named:
        command: Any = typer.main.get_command(app)
        rest = words[1:]
        while below := getattr(command, "commands", None):
            name, rest = rest[0], rest[1:]
            assert name in below, f"there is no {' '.join(words)}"
            command = below[name]
        options = {option for one in command.params for option in one.opts}
        for word in rest:
            assert not word.startswith("--") or word in options, f"{word} of {' '.join(words)}"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    units = [path for path in DEPLOY.iterdir() if path.suffix in (".service", ".timer")]
    for path in units:  # a program that is there stands for ours
        text = path.read_text(encoding="utf-8").replace("/opt/stillme/bin/stillme", "/bin/true")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / path.name) for path in units)],
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0 and "stillme" not in said.stderr, said.stderr


def program(name: str) -> str:
    """Of the system, or what `make test` put beside the environment; empty where it is not here."""
    places = [Path(sys.prefix) / "servers/usr" / folder / name for folder in ("bin", "sbin")]
    return shutil.which(name) or next((str(path) for path in places if path.is_file()), "")


@pytest.mark.skipif(not program("caddy"), reason="Caddy is not here")
def test_caddy_takes_its_file() -> None:
    command = [program("caddy"), "validate", "--adapter", "caddyfile", "--config", str(DEPLOY / "Caddyfile")]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


@pytest.mark.skipif(not program("nginx"), reason="nginx is not here")
def test_nginx_takes_its_file(tmp_path: Path) -> None:
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    site, whole = tmp_path / "site.conf", tmp_path / "nginx.conf"
    subject = ["-subj", "/CN=study.example.org", "-days", "1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject]
    files = ["-keyout", str(tmp_path / "privkey.pem"), "-out", str(tmp_path / "fullchain.pem")]
    subprocess.run([*made, *files], check=True, capture_output=True)
    for folder in ("/etc/letsencrypt/live/study.example.org", "/var/log/nginx"):
        text = text.replace(folder, str(tmp_path))
    site.write_text(text, encoding="utf-8")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    passing = " ".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
    whole.write_text(
        f"pid {tmp_path}/pid; events {{}} http {{ access_log off; {passing} include {site}; }}\n", encoding="utf-8"
    )
    command = [program("nginx"), "-t", "-e", str(tmp_path / "error.log"), "-c", str(whole)]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
