"""Editors: who edits a portrait. One file a backend, found by name when an audit asks for it."""

from __future__ import annotations

from typing import Protocol

from stillme.core.records import EditReply, EditRequest

BACKENDS = {
    "planted": "stillme.editors.planted",
    "openai": "stillme.editors.openai",
    "gemini": "stillme.editors.gemini",
    "bfl": "stillme.editors.bfl",
    "flux2": "stillme.editors.flux2",
    "qwen": "stillme.editors.qwen",
    "step1x": "stillme.editors.step1x",
}
CONTROLS = {"stillme": "stillme.editors.control"}  # makes negative controls; no audit lists it
VAE_ROUND_TRIP = "vae_round_trip"  # the control that an editor with an autoencoder makes itself


class Editor(Protocol):
    """Gets a picture and a sentence, gives back a picture or says why not. Called from several threads."""

    def edit(self, request: EditRequest) -> EditReply: ...


class RemoteEditor(Protocol):
    """The same, waiting for a network: made, asked and closed on one event loop, many edits at a time."""

    async def edit(self, request: EditRequest) -> EditReply: ...

    async def close(self) -> None: ...
