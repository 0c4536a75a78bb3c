"""Part of the miniature benchmark."""
