"""The run on disk: one SQLite ledger and images named by their hash. Rows are only appended."""

from stillme.ledger.run import Run

__all__ = ["Run"]
