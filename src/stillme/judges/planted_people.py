"""Whom a simulated judge sees in an edit: those whom the planted truth names."""

from __future__ import annotations

from stillme.records import JudgeReply, JudgeRequest, Status


def judge(draw: int, request: JudgeRequest) -> JudgeReply:
    return JudgeReply(Status.REJECTED, detail="not known yet")
