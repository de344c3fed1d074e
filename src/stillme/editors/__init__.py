"""Editors: who edits a portrait. One backend per file, loaded by name when an audit uses it."""

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
    """Takes a picture and an instruction; returns a picture or the reason why not. Called from several threads."""

    def edit(self, request: EditRequest) -> EditReply: ...


class RemoteEditor(Protocol):
    """The same over a network: created, called and closed on one event loop, many edits at a time."""

    async def edit(self, request: EditRequest) -> EditReply: ...

    async def close(self) -> None: ...
