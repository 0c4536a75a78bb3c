"""The cluster port and its adapters."""
