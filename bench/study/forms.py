"""What a page's forms would send, as a browser without scripts fills them in."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Form:
    """`fields`: hidden inputs, and every box ticked; `choices`: radio -> its values; `buttons`: name and value."""

    action: str
    method: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    choices: dict[str, list[str]] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)

    def take(self, tag: str, kind: str, name: str, value: str) -> None:
        if tag == "button" or kind == "submit":
            if name:
                self.buttons.append((name, value))
        elif kind == "radio":
            self.choices.setdefault(name, []).append(value)
        elif kind in ("hidden", "checkbox"):
            self.fields.setdefault(name, []).append(value)

    def filled(self, turn: int) -> list[tuple[str, str]]:
        """What is sent, by any of its buttons; `turn` chooses another answer every time that it is asked."""
        chosen = [(name, values[turn % len(values)]) for name, values in self.choices.items()]
        plain = [(name, value) for name, values in self.fields.items() for value in values]
        return [*plain, *chosen, *([random.choice(self.buttons)] if self.buttons else [])]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(found.get("action", ""), found.get("method", "get").lower()))
            self._inside = True
        elif self._inside and tag in ("input", "button"):
            value = found.get("value", "on" if found.get("type") == "checkbox" else "")
            self.forms[-1].take(tag, found.get("type", ""), found.get("name", ""), value)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False


def forms(page: str) -> list[Form]:
    """The forms of a page that change something, in their order."""
    reader = _Reader()
    reader.feed(page)
    return [form for form in reader.forms if form.method == "post"]
