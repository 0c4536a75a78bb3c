"""Published figures as records of their own kind, judged by the same code, mixed with nothing."""

from pytest_sremut.ledger.published.records import published_attempts, published_files

__all__ = ["published_attempts", "published_files"]
