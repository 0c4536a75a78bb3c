"""Who asks, and what they may do.

Rules kept here:

* the admin (the holder of the kubeconfig's token, or anybody when there is none) may do everything;
* everybody else may do what stored Roles and ClusterRoles, bound to them, say; nothing otherwise;
* every authenticated user may ask reviews about himself;
* a service account's token ends with its time, and with the account: a new one of the same name is
  another account;
* whatever a service account asked for is remembered, allowed or not, as an audit log would.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from pytest_sremut.embedded.meta.errors import ApiStatus, forbidden, unauthorized
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.registry import Registry

__all__ = ["ADMIN", "ANONYMOUS", "Attributes", "Authorizer", "Tokens", "User"]

RBAC = "rbac.authorization.k8s.io"
MASTERS = "system:masters"
ACCOUNT_PREFIX = "system:serviceaccount:"
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user and the groups that he belongs to."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def is_admin(self) -> bool:
        """Whether he may do everything."""
        return MASTERS in self.groups


ADMIN = User(name="kubernetes-admin", groups=(MASTERS, "system:authenticated"))
ANONYMOUS = User(name="system:anonymous", groups=("system:unauthenticated",))


def account(namespace: str, name: str) -> User:
    """The user that a service account is."""
    return User(
        name=f"{ACCOUNT_PREFIX}{namespace}:{name}",
        groups=(
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What is asked for."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full_resource(self) -> str:
        """``pods/log``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True, kw_only=True)
class _Issued:
    """Whose a token is, and how long: `uid` is the account's when it was issued."""

    namespace: str
    name: str
    uid: str
    expires: datetime | None  # None: with the account


class Tokens:
    """Bearer tokens: the admin's, and those of service accounts.

    Args:
        admin: the admin's token; empty lets everybody in as admin.
    """

    def __init__(self, admin: str = "") -> None:
        self._admin = admin
        self._issued: dict[str, _Issued] = {}
        self._registry: Registry | None = None

    def attach(self, registry: Registry) -> None:
        """Say where the service accounts are; without one, tokens outlive their accounts."""
        self._registry = registry

    def issue(self, namespace: str, name: str, expires: datetime | None = None) -> str:
        """A new token for a service account, good until `expires` or until the account goes."""
        token = f"sremut-{secrets.token_urlsafe(32)}"
        self._issued[token] = _Issued(
            namespace=namespace, name=name, uid=self._uid(namespace, name), expires=expires
        )
        return token

    def user(self, headers: Mapping[str, str]) -> User:
        """Who sends these headers (by lower-case name).

        Raises:
            ApiStatus: 401, the token is not one of ours; 403, no right to act for another.
        """
        scheme, _, token = headers.get("authorization", "").partition(" ")
        found = ANONYMOUS if self._admin else ADMIN
        if scheme.lower() == "bearer" and token.strip():
            found = self._known(token.strip())
        acted_for = headers.get("impersonate-user")
        if acted_for is None:
            return found
        if not found.is_admin:
            raise forbidden(
                "users", acted_for, f'User "{found.name}" cannot impersonate resource "users"'
            )
        parts = acted_for.removeprefix(ACCOUNT_PREFIX).split(":")
        if acted_for.startswith(ACCOUNT_PREFIX) and len(parts) == 2:
            return account(*parts)
        groups = (
            tuple(headers.get("impersonate-group", "").split(","))
            if headers.get("impersonate-group")
            else ()
        )
        return User(name=acted_for, groups=(*groups, "system:authenticated"))

    def _known(self, token: str) -> User:
        issued = self._issued.get(token)
        if issued is not None and self._holds(issued):
            return account(issued.namespace, issued.name)
        admin = not self._admin or hmac.compare_digest(token.encode(), self._admin.encode())
        if issued is None and admin:
            return ADMIN
        raise unauthorized()

    def _holds(self, issued: _Issued) -> bool:
        if self._registry is None:
            return True
        if issued.expires is not None and self._registry.now() >= issued.expires:
            return False
        return self._uid(issued.namespace, issued.name) == issued.uid

    def _uid(self, namespace: str, name: str) -> str:
        found = self._registry and self._registry.get("serviceaccounts", namespace, name)
        return str(found["metadata"]["uid"]) if found else ""


class Authorizer:
    """Decides by the roles and bindings that a registry holds."""

    open_paths = frozenset(("/healthz", "/livez", "/readyz", "/version", "/version/"))
    # Of everybody who is known at all, as the role system:discovery has it.
    discovery_paths = ("/api", "/apis", "/openapi")

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        # (user, verb, group, resource, namespace, allowed), each once, in the order of their first
        self._asked: dict[tuple[str, str, str, str, str, bool], None] = {}

    def asked(self) -> list[JsonObject]:
        """What service accounts asked for until now, each kind of request once."""
        keys = ("user", "verb", "group", "resource", "namespace", "allowed")
        return [dict(zip(keys, entry, strict=True)) for entry in self._asked]

    def may_read(self, user: User, path: str) -> bool:
        """Whether `user` may read a path that is no resource."""
        if user.is_admin or path in self.open_paths:
            return True
        found = any(path == root or path.startswith(f"{root}/") for root in self.discovery_paths)
        return found and "system:authenticated" in user.groups

    def check(self, user: User, attributes: Attributes) -> None:
        """Refuse what `user` may not do.

        Raises:
            ApiStatus: 403, worded as the real server words it.
        """
        allowed = self.allows(user, attributes)
        if user.name.startswith(ACCOUNT_PREFIX) and len(self._asked) < _REMEMBERED:
            what = (attributes.verb, attributes.group, attributes.full_resource)
            self._asked[user.name, *what, attributes.namespace, allowed] = None
        if not allowed:
            raise self._refusal(user, attributes)

    def allows(self, user: User, attributes: Attributes) -> bool:
        """Whether `user` may do that."""
        if user.is_admin:
            return True
        if attributes.resource.startswith("selfsubject") and user is not ANONYMOUS:
            return True
        return any(
            _rule_allows(rule, attributes) for rule in self._rules_for(user, attributes.namespace)
        )

    def rules(self, user: User, namespace: str) -> list[JsonObject]:
        """The rules that apply to `user` in a namespace."""
        if user.is_admin:
            return [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        return list(self._rules_for(user, namespace))

    def _rules_for(self, user: User, namespace: str) -> Iterator[JsonObject]:
        for binding in self._registry.list(f"clusterrolebindings.{RBAC}"):
            yield from self._bound(user, binding, "")
        if namespace:
            for binding in self._registry.list(f"rolebindings.{RBAC}", namespace):
                yield from self._bound(user, binding, namespace)

    def _bound(self, user: User, binding: JsonObject, namespace: str) -> Iterator[JsonObject]:
        subjects = binding.get("subjects") or []
        if not any(_is_subject(user, subject, namespace) for subject in subjects):
            return
        reference = binding.get("roleRef") or {}
        name = reference.get("name", "")
        if reference.get("kind") == "ClusterRole":
            role = self._registry.get(f"clusterroles.{RBAC}", "", name)
        else:
            role = self._registry.get(f"roles.{RBAC}", namespace, name)
        if role is not None:
            yield from role.get("rules") or []

    @staticmethod
    def _refusal(user: User, attributes: Attributes) -> ApiStatus:
        key = attributes.resource
        if attributes.group:
            key += f".{attributes.group}"
        scope = (
            f'in the namespace "{attributes.namespace}"'
            if attributes.namespace
            else ("at the cluster scope")
        )
        return forbidden(
            key,
            attributes.name,
            f'User "{user.name}" cannot {attributes.verb} resource "{attributes.full_resource}" '
            f'in API group "{attributes.group}" {scope}',
        )


def _is_subject(user: User, subject: JsonObject, namespace: str) -> bool:
    name = subject.get("name", "")
    match subject.get("kind"):
        case "User":
            return bool(name == user.name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            home = subject.get("namespace") or namespace
            return user.name == f"{ACCOUNT_PREFIX}{home}:{name}"
    return False


def _rule_allows(rule: JsonObject, attributes: Attributes) -> bool:
    names = rule.get("resourceNames")
    return (
        _has(rule.get("verbs"), attributes.verb)
        and _has(rule.get("apiGroups"), attributes.group)
        and (
            _has(rule.get("resources"), attributes.full_resource)
            or (
                bool(attributes.subresource)
                and f"*/{attributes.subresource}" in (rule.get("resources") or [])
            )
        )
        and (not names or attributes.name in names)
    )


def _has(values: list[str] | None, wanted: str) -> bool:
    return "*" in (values or []) or wanted in (values or [])
