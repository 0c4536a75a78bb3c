"""Resource quantities: ``500m``, ``1.5Gi``, ``2e3``.

Rules kept here:

* a quantity is exact (`Fraction`), never a float;
* `canonical` writes it as the API server does: no fraction, the largest suffix that needs none, in
  the family (binary, decimal, exponent) that it came in.
"""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = ["canonical", "parse"]

_PATTERN = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(([eE][+-]?\d+)|[EPTGMKkmun]i?)?\Z")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_MAX_DIGITS = 60
_MAX_EXPONENT = 40
_SENTENCE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def parse(text: str) -> Fraction:
    """The amount that `text` names.

    Raises:
        ValueError: `text` is no quantity; the message is the API server's.
    """
    amount, _ = _split(text)
    return amount


def canonical(text: str) -> str:
    """`text` in the form in which the API server writes it.

    Raises:
        ValueError: `text` is no quantity; the message is the API server's.
    """
    amount, family = _split(text)
    if amount == 0:
        return "0"
    if family == "binary" and amount.denominator == 1 and abs(amount) >= 1024:
        for suffix, power in reversed(_BINARY.items()):
            unit = 1024**power
            if amount % unit == 0:
                return f"{amount // unit}{suffix}"
        return str(amount)
    # What is finer than a nano is rounded up, away from zero, as the real type does.
    nanos = amount * 10**9
    if nanos.denominator != 1:
        whole = abs(nanos.numerator) // nanos.denominator + 1
        amount = Fraction(whole if amount > 0 else -whole, 10**9)
    for suffix, power in sorted(_DECIMAL.items(), key=lambda item: -item[1]):
        scaled = amount / Fraction(10) ** power
        if scaled.denominator == 1:
            if family == "exponent":
                return f"{scaled}e{power}" if power else str(scaled)
            return f"{scaled}{suffix}"
    raise AssertionError("nanos are whole by now")


def _split(text: str) -> tuple[Fraction, str]:
    match = _PATTERN.match(text)
    if match is None or len(text) > _MAX_DIGITS:
        raise ValueError(_SENTENCE)
    sign, digits, suffix, exponent = match.groups()
    amount = Fraction(digits if not digits.endswith(".") else digits[:-1])
    if sign == "-":
        amount = -amount
    suffix = suffix or ""
    if exponent:
        power = int(exponent[1:])
        if abs(power) > _MAX_EXPONENT:
            raise ValueError(_SENTENCE)
        return amount * Fraction(10) ** power, "exponent"
    if suffix in _BINARY:
        return amount * 1024 ** _BINARY[suffix], "binary"
    if suffix not in _DECIMAL:
        raise ValueError(_SENTENCE)
    return amount * Fraction(10) ** _DECIMAL[suffix], "decimal"
