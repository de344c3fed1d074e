"""Who comes through the link: anybody who names themselves in a pilot, else whom Prolific vouches for."""

from __future__ import annotations

import re

from sqlalchemy import Connection, select
from starlette.requests import Request

from stillme.study.db.people import Launch, RefusedError
from stillme.study.db.tables import meta
from stillme.study.server.desk import Study

PARAMETERS = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


async def launched(request: Request) -> Launch:
    """Who it is, checked as far as the entry mode asks for; a kind sentence if it cannot be told."""
    study: Study = request.app.state.study
    if study.serving.entry == "plain":
        return plain(request.query_params.get("PROLIFIC_PID", ""), request.query_params.get("SESSION_ID", ""))
    assert study.launches is not None, "somebody has to check who comes from Prolific"
    return await study.launches.launched(request.query_params)


def plain(name: str, submission: str = "") -> Launch:
    """A pilot's own name, or the ids of a link as they stand."""
    if not _NAME.fullmatch(name) or (submission and not _NAME.fullmatch(submission)):
        raise RefusedError(
            "This link lacks your participant id, or it is not one. Please use the whole link.", "welcome"
        )
    return Launch(name, "pilot", submission or f"pilot-{name}")


def is_paused(connection: Connection) -> bool:
    """Whether coordinators let nobody new in at the moment."""
    return connection.scalar(select(meta.c.value).where(meta.c.key == "paused")) == "yes"
