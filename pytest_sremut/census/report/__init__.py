"""The census as documents, and the command that writes them."""
