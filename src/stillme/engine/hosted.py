"""What every backend behind a network shares: keys, dated tables, and what ends a run at once.

Knows no provider, and neither edits nor scores.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stillme.core.errors import ConfigIssuesError, SetupError
from stillme.core.yaml import Document, Model, read_text
from stillme.engine.backends import ExecutionMode, Price
from stillme.engine.http import PACKAGES, ClientConfig, RemoteError, is_loopback

UNDECIDED = (401, 403, 404)  # the key or the address is wrong: every call would end like this one


def table(path: Path, model: type[Model]) -> Model:
    """A dated table that comes with the package."""
    document = Document(str(path), read_text(path))
    content = document.read_as(model)
    if content is None:
        raise ConfigIssuesError(document.faults)
    return content


def remote_fields(settings: ClientConfig, price: Price | None) -> dict[str, Any]:
    """The fields that every editor and judge behind a network fills in the same way."""
    return {
        "inputs": settings.model_dump(mode="json"),
        "price_usd": price.expected if price else 0.0,
        "price": price,
        "mode": ExecutionMode.REMOTE,
        "concurrency": settings.concurrency,
        "requires": PACKAGES,
    }


def relevant(settings: ClientConfig, *others: str) -> dict[str, object]:
    """The settings without those that say only where and how a service is asked.

    What is not set is left out, so that a setting which is added later leaves older keys as they are.
    """
    excluded = {*ClientConfig.model_fields, "base_url", *others}
    return settings.model_dump(mode="json", exclude=excluded, exclude_none=True)


def check_key(key_env: str | None, service: str, base_url: str) -> None:
    """A hosted service wants a key, and a key travels encrypted."""
    if not key_env:
        raise ValueError(f"{service} wants a key; add key_env, the name of the environment variable that holds it")
    if not base_url.startswith("https://") and not is_loopback(base_url):
        raise ValueError(f"base_url: {service} is asked with a key, so the address must start with https://")


def key(key_env: str | None) -> str:
    return os.environ.get(key_env, "").strip() if key_env else ""


def inner(body: Any) -> Mapping[str, Any]:
    """The error object in a body, which some services wrap and others do not."""
    if not isinstance(body, dict):
        return {}
    wrapped = body.get("error")
    return wrapped if isinstance(wrapped, dict) else body


def raise_if_hopeless(error: RemoteError, service: str, model: str, key_env: str | None) -> None:
    """A wrong key, a retired model, a wrong address: the run ends with a sentence; nothing is taken for data."""
    if error.status_code not in UNDECIDED:
        return
    message = f"{service} answered {error.status_code} for the model '{model}': {error.message.rstrip('.')}."
    if error.status_code == 404:
        step = "The model may be retired, or base_url is wrong: mend its settings and run again."
    else:
        step = f"Check the key{f' in {key_env}' if key_env else ''} and what it may be used for, then run again."
    raise SetupError(message, step)
