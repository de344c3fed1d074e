"""The environment variables that hold keys: whether each is set. What is in them is never read, kept or shown."""

from __future__ import annotations

import os
from collections.abc import Mapping

# Editors and judges read the variable that their row names (key_env); these are the names that the docs use.
OPENAI, GEMINI, BFL = "OPENAI_API_KEY", "GEMINI_API_KEY", "BFL_API_KEY"
HUB = "HF_TOKEN"
PROLIFIC, PROLIFIC_FILE = "PROLIFIC_TOKEN", "PROLIFIC_TOKEN_FILE"
KNOWN: Mapping[str, str] = {
    OPENAI: "editors and judges of OpenAI",
    GEMINI: "editors and judges of Google",
    BFL: "editors of Black Forest Labs",
    HUB: "gated weights of the Hugging Face hub, such as FLUX.2-dev",
    PROLIFIC: "recruiting on Prolific",
    PROLIFIC_FILE: "the same, as the path of a file that only you can read",
    "PROLIFIC_WEBHOOK_SECRET": "what Prolific signs its messages with, where you set it yourself",
    "STILLME_DATABASE": "a study in PostgreSQL instead of SQLite",
    "STILLME_KEY": "what callers of `stillme editors serve` have to send",
}


def is_set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


def look() -> dict[str, bool]:
    return {variable: is_set(variable) for variable in KNOWN}
