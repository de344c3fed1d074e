"""Capabilities and prices of judges' models, from a dated table, and the parameters that are therefore sent.

Knows no wire format. A parameter that a model does not support is never dropped silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from stillme.core.yaml import StrictModel
from stillme.engine import hosted as hosting
from stillme.engine.backends import Price
from stillme.engine.http import ClientConfig

MODELS = Path(__file__).with_name("models.yaml")
PICTURES_PER_CALL = 2  # the source and the edited picture
Parameter = Literal["temperature", "effort", "max_output_tokens", "seed", "detail"]
PARAMETERS: tuple[Parameter, ...] = ("temperature", "effort", "max_output_tokens", "seed", "detail")
HOSTED: Mapping[str, Any] = {"effort": "low", "max_output_tokens": 8192, "concurrency": 64}
SERVED: Mapping[str, Any] = {"max_output_tokens": 2048, "concurrency": 16, "timeout_s": 900, "deadline_s": 3600}
STARTS_AT = 16  # calls at a time, at a service that others ask too

Usd = Annotated[float, Field(ge=0)]


class Prices(StrictModel):
    """USD per million tokens. Without a price of its own, cached input costs as much as any other."""

    input: Usd
    output: Usd
    cached: Usd | None = None


class Tokens(StrictModel):
    """The tokens that a call is expected to need."""

    text: int
    image: int
    answer: int
    thoughts: tuple[int, int, int]

    @property
    def input(self) -> int:
        return self.text + PICTURES_PER_CALL * self.image

    @property
    def all(self) -> int:
        return self.input + self.answer + self.thoughts[1]


class Row(StrictModel):
    """models.yaml: the parameters that one model supports, and its prices."""

    service: str
    names: tuple[str, ...]
    takes: tuple[Parameter, ...]
    usd: Prices
    tokens: Tokens
    cautions: dict[str, str] = Field(default_factory=dict)
    seen: str


class Table(StrictModel):
    """models.yaml."""

    date: str
    batch_share: dict[str, float]
    usual: Tokens
    models: tuple[Row, ...]

    def row(self, service: str, model: str) -> Row | None:
        return next((row for row in self.models if row.service == service and model in row.names), None)


@lru_cache(maxsize=1)
def table() -> Table:
    return hosting.table(MODELS, Table)


class Settings(ClientConfig):
    """A parameter that is null is not sent. reasks: of unreadable answers. price: instead of the table's."""

    model: str = Field(min_length=1)
    temperature: float | None = Field(default=0.1, ge=0, le=2)  # as the published study says
    effort: str | None = Field(default=None, pattern="^[a-z]+$")
    max_output_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = None
    on_unsupported: Literal["drop", "fail"] = "drop"
    mode: Literal["live", "batch"] = "live"
    batch_wait_s: float = Field(default=86400, ge=0)
    reasks: int = Field(default=2, ge=0, le=5)
    price: Prices | None = None
    most_bytes: int = Field(default=4_000_000, ge=1)  # an answer is a few thousand


def usual(data: Any, hosted: bool, home: str) -> Any:
    """Resolve defaults that depend on where a model runs, so that a run has them spelled out. Null stays null."""
    if not isinstance(data, dict):
        return data
    start = {"starts_at": STARTS_AT} if hosted and data.get("base_url", home) == home else {}
    return {**(HOSTED if hosted else SERVED), **start, **data}


@dataclass(frozen=True)
class ModelCapabilities:
    """The parameters that a model supports, and its prices."""

    sent: Mapping[str, Any]  # parameter, by our name -> value
    dropped: Mapping[str, str]  # parameter -> why
    tokens: Tokens
    usd: Prices | None
    batch_share: float
    date: str
    caveats: tuple[str, ...]

    def price(self, share: float) -> Price | None:
        if self.usd is None:
            return None
        usd, tokens = self.usd, self.tokens
        low, expected, high = (
            round((usd.input * tokens.input + usd.output * (tokens.answer + thoughts)) * share / 1_000_000, 8)
            for thoughts in tokens.thoughts
        )
        return Price(low, expected, high, self.date)

    def cost(self, usage: Mapping[str, int], share: float) -> float:
        """USD of the tokens that a service counted; the expected cost where it counted none."""
        if self.usd is None:
            return 0.0
        if not usage:
            price = self.price(share)
            return price.expected if price else 0.0
        usd, cached = self.usd, usage.get("cached", 0)
        cached_usd = usd.input if usd.cached is None else usd.cached
        input_usd = usd.input * max(0, usage.get("input", 0) - cached) + cached_usd * cached
        return round((input_usd + usd.output * usage.get("output", 0)) * share / 1_000_000, 8)


def resolve_parameters(settings: Settings, service: str) -> ModelCapabilities:
    """Check the settings against the table. An unsupported parameter is dropped with a note, or is an error."""
    models = table()
    row = models.row(service, settings.model)
    values: dict[str, Any] = {name: getattr(settings, name, None) for name in PARAMETERS}
    requested = {name: value for name, value in values.items() if value is not None}
    dropped: dict[str, str] = {
        name: f"{settings.model} takes no {name}" for name in requested if row and name not in row.takes
    }
    if dropped and settings.on_unsupported == "fail":
        raise ValueError(f"{'; '.join(dropped.values())}. Set it to null, or on_unsupported to drop")
    sent = {name: value for name, value in requested.items() if name not in dropped}
    if row:
        caveats = tuple(caution for name, caution in row.cautions.items() if name in sent)
    else:
        cost = "" if settings.price else ", and what it costs is not counted"
        caveats = (
            f"Nothing is known here of the model '{settings.model}': every parameter is sent as it is set{cost}.",
        )
    return ModelCapabilities(
        sent=sent,
        dropped=dropped,
        tokens=row.tokens if row else models.usual,
        usd=settings.price or (row.usd if row else None),
        batch_share=models.batch_share.get(service, 1.0),
        date=models.date,
        caveats=caveats,
    )
