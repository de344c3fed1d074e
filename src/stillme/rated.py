"""Takes the ratings of a human study into the run that its bundle was made from."""

from __future__ import annotations
