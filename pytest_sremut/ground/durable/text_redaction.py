"""Takes credentials out of text: headers, tokens, URLs with a password, private keys.

`evidence.redaction` decides which fields are kept; every text that is kept passes through here.
Two rules:

- what *looks* like a credential goes, wherever it stands (`redact_text`, `redact_bytes`);
- what is *known* to be one goes too, however it looks: `protect` names values of this process, and
  each is found as it is, in base64, URL-encoded, escaped, and broken over lines.

`redact_json` does so in JSON, where keys tell more than patterns, and a Kubernetes object that
somebody returned is reduced as our own objects are. Redacting twice changes nothing more.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

__all__ = [
    "REDACTED",
    "looks_random",
    "looks_secret",
    "protect",
    "redact_bytes",
    "redact_json",
    "redact_text",
    "secrets_of",
]

REDACTED: Final = "[redacted]"

_SHORTEST: Final = 8  # characters; a shorter value would be found where it does not stand
_NAME: Final = (
    r"passw(?:or)?d|passphrase|secret|token|credential|connection_?string|session_?id"
    r"|(?:api|access|auth|private|signing|encryption)[_-]?key|client-(?:key|certificate)-data"
)
# Words inside a name. `key` alone would hit `keyspace` and every map key, so only in company.
_SECRET_NAME: Final = re.compile(rf"{_NAME}|pwd|cookie|authorization|dsn", re.IGNORECASE)

# Whether any pattern can match at all: most texts are short and plain.
_SUSPICIOUS: Final = re.compile(
    rf"{_NAME}|dsn|authorization|cookie|bearer\s|basic\s|eyJ|://|-----BEGIN|LS0tLS1CRUdJTi",
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
    # PEM and the same in base64, as kubeconfigs and Secrets carry it.
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
            r".*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        REDACTED,
    ),
    (re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=_-]*(?:\r?\n[ \t]*[A-Za-z0-9+/=_-]{20,})*"), REDACTED),
    (
        re.compile(
            rf"(?P<keep>(?:{_NAME}|\bdsn)[A-Za-z0-9_-]{{0,20}}\\?[\"']?\s*[:=]\s*+\\?[\"']?+)"
            r"(?!\[redacted\])[^\s\"'\\,;&}]+",
            re.IGNORECASE,
        ),
        rf"\g<keep>{REDACTED}",
    ),
)
# A Secret printed as text: every value under `data`, whatever its key is called.
_A_SECRET: Final = re.compile(r"\bkind\\?[\"']?\s*:\s*\\?[\"']?Secret(?:List)?\b")
_DATA_OF_JSON: Final = re.compile(
    r"(?P<keep>\\?\"(?:data|stringData)\\?\"\s*:\s*)\{[^{}]*\}", re.DOTALL
)
_DATA_OF_YAML: Final = re.compile(
    r"(?P<keep>^(?P<indent>[ \t]*)(?:- )?(?:data|stringData):)[ \t]*"
    r"(?:\r?\n(?P=indent)[ \t]+[^\r\n]*)+",
    re.MULTILINE,
)


def looks_secret(name: str) -> bool:
    """Whether a variable or annotation of that name is likely to hold a secret."""
    return _SECRET_NAME.search(name) is not None


_RUN: Final = re.compile(r"[A-Za-z0-9+/=_-]{20,}")
_CLASSES: Final = (re.compile("[a-z]"), re.compile("[A-Z]"), re.compile("[0-9]"))


def looks_random(value: str) -> bool:
    """Whether a text holds something like a generated key: 20 characters or more in a row, of
    lower case, upper case and digits at least two, digits among them."""
    return any(
        sum(one.search(run) is not None for one in _CLASSES) >= 2 and _CLASSES[2].search(run)
        for run in _RUN.findall(value)
    )


def redact_text(text: str) -> str:
    """The text with credentials replaced by `[redacted]`; all else is kept as it is."""
    text = _without_known(text)
    if not _SUSPICIOUS.search(text):
        return text
    if _A_SECRET.search(text):
        text = _DATA_OF_JSON.sub(rf'\g<keep>"{REDACTED}"', text)
        text = _DATA_OF_YAML.sub(rf"\g<keep> '{REDACTED}'", text)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def redact_bytes(data: bytes) -> bytes:
    """`redact_text` for bytes of any encoding; bytes that are no credential are kept exactly."""
    return redact_text(data.decode("latin-1")).encode("latin-1")


def redact_json(
    value: Any,
    *,
    reduce: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> Any:
    """A fresh JSON value with every text redacted.

    A text under a key that looks secret goes whole; booleans, numbers and null stay.

    Args:
        value: JSON-ready.
        reduce: Given the kind and body of each Kubernetes object in it, what of it may be kept.
    """
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, list | tuple):
        return [redact_json(item, reduce=reduce) for item in value]
    if not isinstance(value, Mapping):
        return value
    if reduce is not None and _is_object(value):
        return dict(reduce(str(value["kind"]), value))
    return {
        redact_text(str(key)): (
            _without_texts(item) if looks_secret(str(key)) else redact_json(item, reduce=reduce)
        )
        for key, item in value.items()
    }


def _is_object(value: Mapping[str, Any]) -> bool:
    body = isinstance(value.get("metadata"), Mapping) or isinstance(value.get("items"), list)
    return isinstance(value.get("kind"), str) and isinstance(value.get("apiVersion"), str) and body


def _without_texts(value: Any) -> Any:
    if isinstance(value, str):
        return REDACTED if value else value
    if isinstance(value, list | tuple):
        return [_without_texts(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _without_texts(item) for key, item in value.items()}
    return value


# -- known values ------------------------------------------------------------------------------

# A line may end inside a value; a kubelet's time stands at the beginning of the next one then.
_LINE_END: Final = r"\\?\r?\n(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}Z )?[ \t]*"
_GAP: Final = rf"(?:{_LINE_END})?"
_BREAK: Final = re.compile(_LINE_END)
_PLAIN: Final = re.compile(r"/.*|[a-z]+(?:[-._][a-z]+)*|[0-9.:]*", re.DOTALL)


class _Known:
    """The values of this process that are never to be kept, as one pattern."""

    lock = threading.Lock()
    values: frozenset[str] = frozenset()
    forms: tuple[str, ...] = ()  # longest first: one may begin another


def protect(values: Iterable[str]) -> None:
    """Let no text that is redacted from now on hold these values, in this process.

    Values of fewer than eight characters are left out.
    """
    with _Known.lock:
        more = frozenset(value for value in values if len(value) >= _SHORTEST) - _Known.values
        if more:
            _Known.values |= more
            forms = {form for value in _Known.values for form in _forms(value)}
            _Known.forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """Values of variables whose name looks secret. A path, a number or a plain name is none: to
    take those out of texts would take away what the texts are about."""
    return [
        value
        for name, value in environ.items()
        if looks_secret(name) and not _PLAIN.fullmatch(value)
    ]


def _without_known(text: str) -> str:
    if not _Known.forms:
        return text
    joined = _BREAK.sub("", text)  # finding is fast, and a pattern with all the breaks is not
    for form in _Known.forms:
        if form in joined:
            text = re.sub(_GAP.join(map(re.escape, form)), REDACTED, text)
            joined = _BREAK.sub("", text)
    return text


def _forms(value: str) -> set[str]:
    """A value as it may stand in a text: itself, escaped, URL-encoded, in base64."""
    data = value.encode("utf-8", "surrogateescape")
    forms = {value, json.dumps(value)[1:-1], quote(data, safe=""), quote_plus(data)}
    forms.add(data.decode("latin-1"))  # `redact_bytes` sees every byte as a character
    for before in range(3):
        # Inside a longer base64 text it begins at any of three places. Characters that it shares
        # with its neighbours are left out.
        whole = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        shared = 1 if (before + len(data)) % 3 else 0
        inner = whole[(0, 2, 3)[before] : len(whole) - shared]
        forms |= {inner, inner.replace("+", "-").replace("/", "_")}
    return {form for form in forms if len(form) >= _SHORTEST}
