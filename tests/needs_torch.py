"""A backend whose extra is missing."""

import torch  # noqa: F401
