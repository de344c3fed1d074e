"""A backend whose extra is missing."""

import torch  # type: ignore[import-not-found]  # noqa: F401
