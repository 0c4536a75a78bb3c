"""The rights that an audit needs, as a manifest that grants them and as a table to ask for.

The manifest is the table: what it grants is read back from it, so neither can say less than the
other. Rights that only make a record richer stand in a second manifest and are never required; what
only an application with ConfigMaps needs stands in a third, and is required for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from importlib import resources
from string import Template
from typing import Any, Final

from pytest_sremut.cluster.overlap import overlapped
from pytest_sremut.cluster.port import Failed, KubeApi, Right
from pytest_sremut.errors import UsageError

__all__ = ["ACCOUNT", "CREATE_NAMESPACE", "lacking", "manifest", "observed", "required"]

ACCOUNT: Final = "sremut"
"""Name of the service account unless another is asked for."""

CREATE_NAMESPACE: Final = Right(verb="create", group="", resource="namespaces")
"""Needed only where the study's namespace is not there; no Role can grant it."""

_CONFIG_MAPS: Final = "rbac_configmaps.yaml"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def manifest(
    namespace: str, account: str = ACCOUNT, *, observe: bool = False, configmaps: bool = False
) -> str:
    """YAML documents that create the account and grant it what an audit in `namespace` needs.

    Args:
        namespace: The study's; it must exist before this is applied.
        account: Name of the service account.
        observe: Also grant the reads that only make the record richer.
        configmaps: Also grant what an application with ConfigMaps needs.
    Raises:
        UsageError: One of the names cannot be one.
    """
    for what, name in (("namespace", namespace), ("account", account)):
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"--{what}: found {name!r}; allowed: up to 63 lower-case letters, digits and "
                "hyphens, no hyphen at an end"
            )
    more = {_CONFIG_MAPS: configmaps, "rbac_observe.yaml": observe}
    texts = [_template(name) for name in ("rbac.yaml", *(n for n, asked in more.items() if asked))]
    return "---\n".join(
        Template(text).substitute(NAMESPACE=namespace, ACCOUNT=account) for text in texts
    )


def required(namespace: str, *, configmaps: bool = False) -> list[Right]:
    """Every right without which an audit in `namespace` cannot run, the namespace being there.

    `configmaps` says whether its application has any.
    """
    names = ("rbac.yaml", _CONFIG_MAPS) if configmaps else ("rbac.yaml",)
    return [right for name in names for right in _rights(_template(name), namespace)]


def observed(namespace: str) -> list[Right]:
    """Every right that only makes the record richer."""
    return list(_rights(_template("rbac_observe.yaml"), namespace))


def lacking(
    api: KubeApi, namespace: str, *, create: bool = False, configmaps: bool = False
) -> list[str] | Failed:
    """What the user of `api` lacks, a phrase each (`create pods/exec in namespace x`).

    Args:
        api: Asked about its own user, right by right; nothing is tried.
        namespace: The study's.
        create: Whether the namespace is not there and has to be created.
        configmaps: Whether the application has ConfigMaps.
    Returns:
        Empty when nothing is missing; Failed when the server does not say.
    """
    missing: list[str] = []
    needed = [
        *required(namespace, configmaps=configmaps),
        *([CREATE_NAMESPACE] if create else []),
    ]
    answers = overlapped([partial(api.allowed, right) for right in needed])
    for right, answer in zip(needed, answers, strict=True):
        if isinstance(answer, Failed):
            return answer
        if not answer:
            missing.append(str(right))
    return missing


def _template(name: str) -> str:
    return (resources.files("pytest_sremut.cluster") / name).read_text(encoding="utf-8")


def _rights(text: str, namespace: str) -> Iterator[Right]:
    import yaml

    filled = Template(text).substitute(NAMESPACE=namespace, ACCOUNT=ACCOUNT)
    for document in yaml.safe_load_all(filled):
        for rule in document.get("rules", ()):
            yield from _of_rule(rule, document["metadata"].get("namespace", ""))


def _of_rule(rule: dict[str, Any], scope: str) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    # A namespace counts as lying in itself: so a Role can grant it.
                    inside = name if resource == "namespaces" and name else scope
                    yield Right(
                        verb=verb, group=group, resource=resource, namespace=inside, name=name
                    )
