"""Evidence of an audit: a bundle that anybody can check, and the check that makes every printed number anew."""

from __future__ import annotations

from stillme.assurance.evidence.contents import BundleResult, bundle
from stillme.assurance.evidence.verification import DIFFERS, VerificationResult, verify

__all__ = ["DIFFERS", "BundleResult", "VerificationResult", "bundle", "verify"]
