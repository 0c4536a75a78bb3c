"""Takes credentials out of text: headers, tokens, URLs with a password, private keys.

A belt to the braces of `redaction`: whatever text is kept passes through here. Scrubbing a
scrubbed text changes nothing.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["REDACTED", "looks_secret", "scrub_bytes", "scrub_text"]

REDACTED: Final = "[redacted]"

# Words inside a name. `key` alone would hit `keyspace` and every map key, so only in company.
_SECRET_NAME: Final = re.compile(
    r"passw(or)?d|passphrase|pwd|secret|token|credential|cookie|session_?id|authorization"
    r"|private_?key|(api|access|auth|signing|encryption)[_-]?key|dsn|connection_?string",
    re.IGNORECASE,
)

_PATTERNS: Final = (
    # The rest of the line: schemes such as Digest spread over commas and blanks.
    (
        re.compile(
            r"(?P<keep>\b(?:proxy-)?authorization[\"']?\s*[:=]\s*+)(?!\[redacted\])[^\r\n]+",
            re.IGNORECASE,
        ),
        rf"\g<keep>{REDACTED}",
    ),
    (
        re.compile(
            r"(?P<keep>\b(?:set-)?cookie[\"']?\s*:\s*+)(?!\[redacted\])[^\r\n]+", re.IGNORECASE
        ),
        rf"\g<keep>{REDACTED}",
    ),
    (
        re.compile(r"(?P<keep>\b(?:bearer|basic)\s+)[A-Za-z0-9+/=._~-]{6,}", re.IGNORECASE),
        rf"\g<keep>{REDACTED}",
    ),
    # A JSON Web Token, wherever it stands.
    (re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"), REDACTED),
    (
        re.compile(r"(?P<keep>[a-z][a-z0-9+.-]{0,30}://)[^\s/@\"']{1,500}@", re.IGNORECASE),
        rf"\g<keep>{REDACTED}@",
    ),
    (
        re.compile(
            r"(?P<keep>(?:passw(?:or)?d|passphrase|secret|token"
            r"|(?:api|access|auth|private)[_-]?key)[A-Za-z0-9_-]{0,20}[\"']?\s*[:=]\s*+[\"']?+)"
            r"(?!\[redacted\])[^\s\"',;&}]+",
            re.IGNORECASE,
        ),
        rf"\g<keep>{REDACTED}",
    ),
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
            r".*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        REDACTED,
    ),
)


def looks_secret(name: str) -> bool:
    """Whether a variable or annotation of that name is likely to hold a secret."""
    return _SECRET_NAME.search(name) is not None


def scrub_text(text: str) -> str:
    """The text with credentials replaced by `[redacted]`; all else is kept as it is."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def scrub_bytes(data: bytes) -> bytes:
    """`scrub_text` for bytes of any encoding; bytes that are no credential are kept exactly."""
    return scrub_text(data.decode("latin-1")).encode("latin-1")
