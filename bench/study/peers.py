"""oTree and Potato: a venv of their own each, and the same study written the way their own guides show.

Neither is ever imported here. What is written goes to bench/out and is made anew for every measurement.
"""

from __future__ import annotations

import json
import subprocess
import venv
from pathlib import Path
from string import Template
from typing import Any

import yaml

from bench.study.pictures import ITEMS, POINTS, QUESTIONS, ROLES, name, picture, prompt

ROOT = Path(__file__).parents[2]
OUT = ROOT / "bench" / "out"
PINS = Path(__file__).with_name("pins")
ROOM = "raters"
REST_KEY = "loopback"
FIELDS = tuple(f"{output}_{question}" for output in ROLES[1:] for question in QUESTIONS)

OTREE_SETTINGS = Template(
    """
SESSION_CONFIGS = [dict(name="rate", app_sequence=["rate"], num_demo_participants=1)]
SESSION_CONFIG_DEFAULTS = dict(real_world_currency_per_point=1.00, participation_fee=0.00, doc="")
ROOMS = [dict(name="$room", display_name="Raters")]
LANGUAGE_CODE = "en"
REAL_WORLD_CURRENCY_CODE = "USD"
USE_POINTS = True
ADMIN_USERNAME = "admin"
ADMIN_PASSWORD = "loopback"
SECRET_KEY = "loopback"
"""
)

OTREE_APP = Template(
    """
from otree.api import *

doc = "Two edits of one portrait, rated side by side"


class C(BaseConstants):
    NAME_IN_URL = "rate"
    PLAYERS_PER_GROUP = None
    NUM_ROUNDS = $items


class Subsession(BaseSubsession):
    pass


class Group(BaseGroup):
    pass


def scale(label):
    return models.IntegerField(choices=[$points], label=label, widget=widgets.RadioSelectHorizontal)


class Player(BasePlayer):
$fields


class Rate(Page):
    form_model = "player"
    form_fields = $names

    @staticmethod
    def vars_for_template(player):
        item = player.round_number - 1
        shown = {role: f"images/{item:03}_{role}.jpg" for role in $roles}
        return dict(n=item + 1, prompt=f"Show the person in the role of number {item}", **shown)


page_sequence = [Rate]
"""
)

OTREE_PAGE = """
{{ block title }}Item {{ n }}{{ endblock }}
{{ block content }}
<p>{{ prompt }}</p>
<div style="display:flex;gap:1rem">
<img src="{{ static source }}" width="300" alt="Source">
<img src="{{ static a }}" width="300" alt="Image A">
<img src="{{ static b }}" width="300" alt="Image B">
</div>
{{ formfields }}
{{ next_button }}
{{ endblock }}
"""


def interpreter(peer: str) -> Path | None:
    """The peer's own Python, made with the peer when it is first needed; None where that fails."""
    pins, place = PINS / f"{peer}.txt", OUT / "venvs" / peer
    python, ready = place / "bin" / "python", place / "pins.txt"
    if ready.is_file() and ready.read_bytes() == pins.read_bytes():
        return python
    print(f"Installing {peer} into {place.relative_to(ROOT)}", flush=True)
    venv.create(place, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(pins)]
    if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
        return None
    ready.write_bytes(pins.read_bytes())
    return python


def write_pictures(folder: Path) -> None:
    folder.mkdir(parents=True)
    for item in range(ITEMS):
        for role in ROLES:
            (folder / name(item, role)).write_bytes(picture(item, role))


def write_otree(folder: Path) -> None:
    """A project with one app of 50 rounds, and a room that people enter by their label."""
    app = OTREE_APP.substitute(
        items=ITEMS,
        points=", ".join(POINTS),
        roles=ROLES,
        names=list(FIELDS),
        fields="\n".join(f'    {field} = scale("{field.replace("_", ": ")}")' for field in FIELDS),
    )
    (folder / "rate").mkdir(parents=True)
    (folder / "settings.py").write_text(OTREE_SETTINGS.substitute(room=ROOM))
    (folder / "rate" / "__init__.py").write_text(app)
    (folder / "rate" / "Rate.html").write_text(OTREE_PAGE)
    write_pictures(folder / "_static" / "images")


def write_potato(folder: Path) -> None:
    """A task with the same fields; people enter by the address that Prolific would send them to."""
    write_pictures(folder / "media")
    rows = [
        {"id": f"item{item:03}", "text": prompt(item)} | {role: f"media/{name(item, role)}" for role in ROLES}
        for item in range(ITEMS)
    ]
    (folder / "data").mkdir()
    (folder / "data" / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "config.yaml").write_text(yaml.safe_dump(_potato_settings(), sort_keys=False))


def _potato_settings() -> dict[str, Any]:
    shown = [
        {"key": role, "type": "image", "label": role, "display_options": {"max_width": 300, "alt_text": role}}
        for role in ROLES
    ]
    return {
        "annotation_task_name": "bench",
        "task_dir": ".",
        "output_annotation_dir": "annotation_output/",
        "data_files": ["data/items.jsonl"],
        "item_properties": {"id_key": "id", "text_key": "text"},
        "media_directory": "media",
        "user_config": {"allow_all_users": True, "users": []},
        "login": {"type": "url_direct", "url_argument": "PROLIFIC_PID"},
        "completion_code": "LOOPBACK",
        "secret_key": "loopback",
        "assignment_strategy": "fixed_order",
        "max_annotations_per_user": ITEMS,
        "max_annotations_per_item": -1,
        "hide_navbar": True,
        "jumping_to_id_disabled": True,
        "alert_time_each_instance": 10_000_000,
        "site_dir": "default",
        "instance_display": {
            "layout": {"direction": "horizontal", "gap": "16px"},
            "fields": [*shown, {"key": "text", "type": "text", "label": "Prompt"}],
        },
        "annotation_schemes": [_potato_scale(field) for field in FIELDS],
    }


def _potato_scale(field: str) -> dict[str, Any]:
    return {
        "annotation_type": "likert",
        "name": field,
        "description": field.replace("_", ": "),
        "size": len(POINTS),
        "min_label": "No change",
        "max_label": "Complete change",
        "label_requirement": {"required": True},
    }
