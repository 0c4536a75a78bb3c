"""Records on disk: atomic writes, attempts, schemas, redaction."""
