"""Makes the bundle of a human study from a run: samples items, deals them into tasks, renders pictures, freezes words."""

from __future__ import annotations
