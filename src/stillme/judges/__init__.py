"""Judges: who scores an edit. One file a backend; `ensemble` combines their scores and is pure."""

from __future__ import annotations

from typing import Protocol

from stillme.records import JudgeReply, JudgeRequest

INSTRUMENT = "instrument"  # the kind of judge that measurements are read by; it is never asked
READ_BY_INSTRUMENT = ("skin_tone_shift", "change")  # measures of which it needs at least one
BACKENDS = {"planted": "stillme.judges.planted", INSTRUMENT: "stillme.judges.instrument"}


class Judge(Protocol):
    """Looks at source and edit, scores every axis asked, or says why not. Called from several threads."""

    def judge(self, request: JudgeRequest) -> JudgeReply: ...
