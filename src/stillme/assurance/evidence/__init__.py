"""Evidence of an audit: a bundle that anybody can check, and the check that makes every printed number anew."""

from __future__ import annotations

from stillme.assurance.evidence.checking import DIFFERS, Verified, verify
from stillme.assurance.evidence.packing import Bundled, bundle

__all__ = ["DIFFERS", "Bundled", "Verified", "bundle", "verify"]
