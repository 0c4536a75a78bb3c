"""The ledger in its forms: Markdown, terminal lines, Stryker's schema, CI summary."""
