"""Editors: who edits a portrait. One file a backend, found by name when an audit asks for it."""

from __future__ import annotations

from typing import Protocol

from stillme.records import EditReply, EditRequest

BACKENDS = {"planted": "stillme.editors.planted"}


class Editor(Protocol):
    """Gets a picture and a sentence, gives back a picture or says why not. Called from several threads."""

    def edit(self, request: EditRequest) -> EditReply: ...
