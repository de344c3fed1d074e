"""Network editors: prices, and the reply of a call that failed.

Knows no provider. A failure is never turned into a refusal here: each backend knows which codes mean one.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pydantic import Field

from stillme.core import images
from stillme.core.records import EditReply, Status
from stillme.core.yaml import StrictModel
from stillme.engine import hosted
from stillme.engine.backends import Price
from stillme.engine.http import HttpAttempt, RemoteError

PRICES = Path(__file__).with_name("prices.yaml")


class PriceRow(StrictModel):
    """One model's price of an edit; `tokens`: USD per million, by what the service counts."""

    service: str
    model: str
    low: float = Field(ge=0)
    expected: float = Field(ge=0)
    high: float = Field(ge=0)
    tokens: dict[str, float] = Field(default_factory=dict)
    seen: str


class PriceTable(StrictModel):
    date: str
    prices: tuple[PriceRow, ...]


@lru_cache(maxsize=1)
def prices() -> PriceTable:
    return hosted.table(PRICES, PriceTable)


def price_row(service: str, model: str) -> PriceRow | None:
    return next((row for row in prices().prices if (row.service, row.model) == (service, model)), None)


def price(row: PriceRow | None) -> Price | None:
    return Price(row.low, row.expected, row.high, prices().date) if row else None


def expected_usd(row: PriceRow | None) -> float:
    return row.expected if row else 0.0


def cost_usd(row: PriceRow | None, counted: Mapping[str, float]) -> float:
    """From the tokens that the service counted, if it did and their price is known; else the expected price."""
    if row is None or not row.tokens or not counted:
        return expected_usd(row)
    return round(sum(row.tokens.get(kind, 0.0) * count for kind, count in counted.items()) / 1_000_000, 8)


def picture(text: object) -> bytes | None:
    """The bytes behind base64 in a reply; None where there are none."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


@lru_cache(maxsize=16)  # a portrait is asked about for each of its prompts
def media_type(content: bytes) -> str:
    return images.media_type(content) or "application/octet-stream"


def failed(error: RemoteError, code: str = "", kind: Status | None = None) -> EditReply:
    """The reply of a call that failed: the provider's own code where there is one, else the HTTP status."""
    n_attempts = len(error.attempts)
    detail = error.message if n_attempts < 2 else f"{error.message} (after {n_attempts} attempts)"
    return EditReply(
        kind or error.kind,
        detail=detail,
        code=code or (str(error.status_code) if error.status_code else ""),
        request_id=error.request_id,
        notes=earlier_attempts(error.attempts),
    )


def earlier_attempts(attempts: tuple[HttpAttempt, ...]) -> dict[str, str]:
    """A note on how earlier attempts of the same call ended; empty where the first was the last."""
    if len(attempts) < 2:
        return {}
    outcomes = Counter(f"{attempt.kind.label} {attempt.status_code or ''}".strip() for attempt in attempts[:-1])
    return {"earlier_attempts": ", ".join(f"{count} × {outcome}" for outcome, count in outcomes.items())}
