"""What editors behind a network share: keys, prices, and how a call that failed becomes a reply.

Knows no provider. A failure is never turned into a refusal here: which words mean one is each backend's to say.
"""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from stillme import images
from stillme.backends import Lane, Made, Prepared, Price
from stillme.errors import FaultsError, SurroundingsError
from stillme.records import EditReply, Status
from stillme.remote import PACKAGE, Limits, RemoteError, Try, is_loopback
from stillme.strict import Document, Frozen, read_text

PRICES = Path(__file__).with_name("prices.yaml")
_UNDECIDED = (401, 403, 404)  # the key or the address is wrong: every call would end like this one


class PriceRow(Frozen):
    """One model's price of an edit; `tokens`: USD per million, by what the service counts."""

    service: str
    model: str
    low: float = Field(ge=0)
    expected: float = Field(ge=0)
    high: float = Field(ge=0)
    tokens: dict[str, float] = Field(default_factory=dict)
    seen: str


class PriceTable(Frozen):
    date: str
    prices: tuple[PriceRow, ...]


@lru_cache(maxsize=1)
def prices() -> PriceTable:
    document = Document(str(PRICES), read_text(PRICES))
    table = document.read_as(PriceTable)
    if table is None:
        raise FaultsError(document.faults)
    return table


def price_row(service: str, model: str) -> PriceRow | None:
    return next((row for row in prices().prices if (row.service, row.model) == (service, model)), None)


def prepared(
    effective: Mapping[str, Any], settings: Limits, priced: PriceRow | None, make: Callable[[], Made], **more: Any
) -> Prepared[Made]:
    """What every editor behind a network says of itself; `more` is said by the one at hand."""
    return Prepared(
        effective,
        settings.model_dump(mode="json"),
        make=make,
        price_usd=expected_usd(priced),
        price=price(priced),
        lane=Lane.REMOTE,
        concurrency=settings.concurrency,
        requires=(PACKAGE,),
        **more,
    )


def price(row: PriceRow | None) -> Price | None:
    return Price(row.low, row.expected, row.high, prices().date) if row else None


def expected_usd(row: PriceRow | None) -> float:
    return row.expected if row else 0.0


def cost_usd(row: PriceRow | None, counted: Mapping[str, float]) -> float:
    """From the tokens that the service counted, where it did and their price is known; else what is expected."""
    if row is None or not row.tokens or not counted:
        return expected_usd(row)
    return round(sum(row.tokens.get(kind, 0.0) * count for kind, count in counted.items()) / 1_000_000, 8)


def pixel_relevant(settings: Limits, *others: str) -> dict[str, object]:
    """The settings without those that say only where and how a service is asked.

    What is not set is not said, so that a setting which comes to be later leaves older keys as they are.
    """
    aside = {*Limits.model_fields, "base_url", *others}
    return settings.model_dump(mode="json", exclude=aside, exclude_none=True)


def check_key(key_env: str | None, service: str, base_url: str) -> None:
    """A hosted service wants a key, and a key travels encrypted."""
    if not key_env:
        raise ValueError(f"{service} wants a key; add key_env, the name of the environment variable that holds it")
    if not base_url.startswith("https://") and not is_loopback(base_url):
        raise ValueError(f"base_url: {service} is asked with a key, so the address must start with https://")


def key(key_env: str | None) -> str:
    return os.environ.get(key_env, "").strip() if key_env else ""


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
    tries = len(error.attempts)
    detail = error.message if tries < 2 else f"{error.message} (after {tries} attempts)"
    return EditReply(
        kind or error.kind,
        detail=detail,
        code=code or (str(error.status_code) if error.status_code else ""),
        request_id=error.request_id,
        notes=tried(error.attempts),
    )


def tried(attempts: tuple[Try, ...]) -> dict[str, str]:
    """A note of how earlier attempts of the same call ended; empty where the first was the last."""
    if len(attempts) < 2:
        return {}
    ended = Counter(f"{one.kind.label} {one.status_code or ''}".strip() for one in attempts[:-1])
    return {"earlier_attempts": ", ".join(f"{count} × {how}" for how, count in ended.items())}


def raise_if_hopeless(error: RemoteError, service: str, model: str, key_env: str | None) -> None:
    """A wrong key, a retired model, a wrong address: the run ends with a sentence; nothing is taken for data."""
    if error.status_code not in _UNDECIDED:
        return
    said = f"{service} answered {error.status_code} for the model '{model}': {error.message.rstrip('.')}."
    if error.status_code == 404:
        step = "The model may be retired, or base_url is wrong: mend the editor's settings and run again."
    else:
        step = f"Check the key{f' in {key_env}' if key_env else ''} and what it may be used for, then run again."
    raise SurroundingsError(said, step)
