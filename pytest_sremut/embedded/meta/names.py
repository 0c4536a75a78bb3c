"""Names, labels and annotations: what is well-formed, and the sentence when it is not.

Rules kept here:

* each check returns a list of problems, empty when all is well;
* the sentences are the real server's, to the odd double blank.
"""

from __future__ import annotations

import re

__all__ = ["dns_label", "dns_subdomain", "label_value", "port_name", "qualified_name"]

MAX_LABEL = 63
MAX_SUBDOMAIN = 253
MAX_PORT_NAME = 15

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def _problems(text: str, limit: int, form: re.Pattern[str], sentence: str) -> list[str]:
    """About a text of bounded length and of one form."""
    long = [_too_long(limit)] if len(text) > limit else []
    return long if form.match(text) else [*long, sentence]


def dns_label(name: str) -> list[str]:
    """RFC 1123 label: names of Services and Namespaces."""
    return _problems(
        name,
        MAX_LABEL,
        _LABEL,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
        "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    )


def dns_subdomain(name: str) -> list[str]:
    """RFC 1123 subdomain: names of most objects."""
    return _problems(
        name,
        MAX_SUBDOMAIN,
        _SUBDOMAIN,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
        "'-' or '.', and must start and end with an alphanumeric character (e.g. "
        "'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    )


def qualified_name(name: str) -> list[str]:
    """``prefix/name``: keys of labels and annotations."""
    prefix, slash, rest = name.partition("/")
    problems = []
    if slash and "/" in rest:
        return [
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
            "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') "
            "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if slash:
        if not prefix:
            problems.append("prefix part must be non-empty")
        problems += [f"prefix part {problem}" for problem in dns_subdomain(prefix) if prefix]
        name = rest
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > MAX_LABEL:
        problems.append(f"name part {_too_long(MAX_LABEL)}")
    if not _NAME_PART.match(name):
        problems.append(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start "
            "and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
            "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )
    return problems


def label_value(value: str) -> list[str]:
    """The value of a label."""
    return _problems(
        value,
        MAX_LABEL,
        _VALUE,
        "a valid label must be an empty string or consist of alphanumeric characters, '-', "
        "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  "
        "or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    )


def port_name(name: str) -> list[str]:
    """IANA service name: names of container ports and named target ports."""
    problems = []
    if len(name) > MAX_PORT_NAME:
        problems.append(_too_long(MAX_PORT_NAME))
    if not re.fullmatch(r"[-a-z0-9]+", name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems
