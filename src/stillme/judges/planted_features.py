"""What a simulated judge reads off a synthetic portrait: how its layers were made."""

from __future__ import annotations

from stillme.records import JudgeReply, JudgeRequest, Status


def judge(draw: int, request: JudgeRequest) -> JudgeReply:
    return JudgeReply(Status.REJECTED, detail="not known yet")
