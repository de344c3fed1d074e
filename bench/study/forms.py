"""What a page's forms would send, as a browser without scripts fills them in."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Form:
    """`fields`: hidden inputs, every box ticked, the first button that has a name; `choices`: radio -> values."""

    action: str
    method: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    choices: dict[str, list[str]] = field(default_factory=dict)
    has_button: bool = False

    def take(self, tag: str, kind: str, name: str, value: str) -> None:
        if tag == "button" or kind == "submit":
            if name and not self.has_button:
                self.fields[name] = [value]
                self.has_button = True
        elif kind == "radio":
            self.choices.setdefault(name, []).append(value)
        elif kind in ("hidden", "checkbox"):
            self.fields.setdefault(name, []).append(value)

    def filled(self, turn: int) -> list[tuple[str, str]]:
        """What is sent; `turn` chooses the answer of a question that was answered otherwise before."""
        chosen = [(name, values[turn % len(values)]) for name, values in self.choices.items()]
        return [*((name, value) for name, values in self.fields.items() for value in values), *chosen]


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
