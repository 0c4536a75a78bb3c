"""Options of requests: dry run, field managers, field validation, deletion, listing.

Rules kept here:

* options are checked before anything is looked up, with the sentences of the options object they
  belong to (``CreateOptions``, ``DeleteOptions``, ...).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pytest_sremut.embedded.apiserver.decode import VALIDATION_MODES, Notices, parse_delete_options
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.meta.errors import ApiStatus, Cause, bad_request, invalid
from pytest_sremut.embedded.meta.jsonvalue import JsonObject

__all__ = ["DeleteOptions", "WriteOptions", "delete_options", "unsupported", "write_options"]

POLICIES = ("Foreground", "Background", "Orphan")
MAX_MANAGER = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of create, update and patch."""

    dry_run: bool
    manager: str
    notices: Notices
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """Options of delete; `None` is what the kind does by default."""

    dry_run: bool = False
    grace_period: int | None = None
    propagation: str | None = None
    uid: str | None = None
    resource_version: str | None = None


def unsupported(options: str, field: str, found: Any, allowed: tuple[str, ...]) -> ApiStatus:
    """422: `field` of `options` has none of the values that are `allowed`."""
    listed = ", ".join(f'"{value}"' for value in allowed)
    shown = ",".join(f'"{item}"' for item in (found if isinstance(found, list) else [found]))
    if isinstance(found, list):
        shown = f"[{shown}]"
    cause = Cause(
        field=field,
        reason="FieldValueNotSupported",
        message=f"Unsupported value: {shown}: supported values: {listed}",
    )
    return invalid(f"{options}.meta.k8s.io", "", [cause])


def _dry_run(values: list[str], options: str) -> bool:
    if not values:
        return False
    if values != ["All"] and set(values) != {"All"}:
        raise unsupported(options, "dryRun", values, ("All",))
    return True


def write_options(request: Request, options: str, *, apply: bool = False) -> WriteOptions:
    """Options of a writing request; `options` is their kind.

    Raises:
        ApiStatus: 400 or 422.
    """
    dry_run = _dry_run(request.every("dryRun"), options)
    mode = request.first("fieldValidation") or "Warn"
    if mode not in VALIDATION_MODES:
        raise unsupported(options, "fieldValidation", mode, ("Ignore", "Strict", "Warn"))
    manager = request.first("fieldManager")
    force = request.first("force")
    if apply and not manager:
        cause = Cause(
            field="fieldManager",
            reason="FieldValueRequired",
            message="Required value: is required for apply patch",
        )
        raise invalid("PatchOptions.meta.k8s.io", "", [cause])
    if len(manager) > MAX_MANAGER:
        cause = Cause(
            field="fieldManager",
            reason="FieldValueTooLong",
            message=f"Too long: may not be more than {MAX_MANAGER} bytes",
        )
        raise invalid(f"{options}.meta.k8s.io", "", [cause])
    if force and not apply and options == "PatchOptions":
        cause = Cause(
            field="force",
            reason="FieldValueForbidden",
            message="Forbidden: may not be specified for non-apply patch",
        )
        raise invalid("PatchOptions.meta.k8s.io", "", [cause])
    return WriteOptions(
        dry_run=dry_run,
        manager=manager or _agent(request),
        notices=Notices(mode),
        force=request.flag("force"),
    )


def _agent(request: Request) -> str:
    """The manager of a client that names none: the program in its ``User-Agent``."""
    agent = request.headers.get("user-agent", "").partition("/")[0].strip()
    return "".join(char for char in agent if char.isprintable())[:MAX_MANAGER] or "unknown"


def delete_options(request: Request) -> DeleteOptions:
    """Options of a delete, from the body or the query.

    Raises:
        ApiStatus: 400, 415 or 422.
    """
    if request.body:
        body = parse_delete_options(request.body, request.headers.get("content-type", ""))
        return _from_body(body)
    body = {}
    grace = request.integer("gracePeriodSeconds")
    if grace is not None:
        body["gracePeriodSeconds"] = grace
    if request.first("propagationPolicy"):
        body["propagationPolicy"] = request.first("propagationPolicy")
    if request.first("orphanDependents"):
        body["orphanDependents"] = request.flag("orphanDependents")
    body["dryRun"] = request.every("dryRun")
    return _from_body(body)


def _from_body(body: JsonObject) -> DeleteOptions:
    dry_run = _dry_run(list(body.get("dryRun") or []), "DeleteOptions")
    policy, orphan = body.get("propagationPolicy"), body.get("orphanDependents")
    if policy and orphan is not None:
        cause = Cause(
            field="propagationPolicy",
            message=f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot '
            "be both set",
        )
        raise invalid("DeleteOptions.meta.k8s.io", "", [cause])
    if policy and policy not in POLICIES:
        raise unsupported("DeleteOptions", "propagationPolicy", policy, (*POLICIES, "nil"))
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    preconditions = body.get("preconditions") or {}
    result = DeleteOptions(
        dry_run=dry_run,
        grace_period=body.get("gracePeriodSeconds"),
        propagation=policy or None,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
    )
    if result.grace_period is not None and result.grace_period < 0:
        # Negative means: as soon as can be, which is one second.
        result = replace(result, grace_period=1)
    return result


def list_number(request: Request, name: str) -> int | None:
    """A ``resourceVersion`` of a request; ``None`` when it is not there.

    Raises:
        ApiStatus: 400.
    """
    text = request.first(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise bad_request(
            f'invalid resource version: {name}: Invalid value: "{text}": strconv.ParseUint: '
            f'parsing "{text}": invalid syntax'
        )
    return int(text)
