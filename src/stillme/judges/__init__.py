"""Judges: who scores an edit. One file a backend; `ensemble` combines their scores and is pure."""

from __future__ import annotations

from typing import Protocol

from stillme.records import JudgeReply, JudgeRequest

BACKENDS = {"planted": "stillme.judges.planted"}


class Judge(Protocol):
    """Looks at source and edit, scores every axis asked, or says why not. Called from several threads."""

    def judge(self, request: JudgeRequest) -> JudgeReply: ...
