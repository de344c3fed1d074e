"""Every target."""

from __future__ import annotations

from tests.fuzz import archives, ledger, pictures, prolific, replies, settings, tables, web

TARGETS = (
    *settings.TARGETS,
    *pictures.TARGETS,
    *replies.TARGETS,
    *tables.TARGETS,
    *archives.TARGETS,
    *ledger.TARGETS,
    *prolific.TARGETS,
    *web.TARGETS,
)
