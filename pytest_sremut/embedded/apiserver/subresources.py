"""Scale, binding, eviction, finalize, tokens.

Rules kept here:

* a scale is a view of its workload: writing it writes `spec.replicas`, by the same preconditions;
* an eviction is a deletion that a disruption budget can refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from pytest_sremut.embedded.apiserver.answers import Response, success
from pytest_sremut.embedded.apiserver.decode import decode_object, parse_delete_options
from pytest_sremut.embedded.apiserver.negotiation import negotiate
from pytest_sremut.embedded.apiserver.options import write_options
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.apiserver.routes import Route
from pytest_sremut.embedded.apiserver.writing import patched
from pytest_sremut.embedded.meta.errors import (
    Cause,
    bad_request,
    conflict,
    invalid,
    not_found,
    too_many_requests,
)
from pytest_sremut.embedded.meta.jsonvalue import JsonObject, clone, encode, timestamp
from pytest_sremut.embedded.meta.schema import type_of
from pytest_sremut.embedded.meta.selectors import format_label_selector, selector_of
from pytest_sremut.embedded.registry.registry import Registry

__all__ = ["bind", "evict", "finalize", "issue_token", "scale"]

DEFAULT_TOKEN_SECONDS = 3600
MIN_TOKEN_SECONDS = 600


def scale(registry: Registry, request: Request, route: Route) -> Response:
    """Answer GET, PUT and PATCH of a scale.

    Raises:
        ApiStatus: anything that can be wrong with it.
    """
    form = negotiate(request)
    key = route.table.key
    old = registry.get(key, route.namespace, route.name)
    if old is None:
        raise not_found(key, route.name)
    if route.verb == "get":
        return Response(body=_scale_of(old), media=form.media)
    kind = "UpdateOptions" if route.verb == "update" else "PatchOptions"
    options = write_options(request, kind)
    if route.verb == "update":
        content_type = request.headers.get("content-type", "")
        wanted = decode_object(
            route.table, request.body, content_type, options.notices, kind="Scale"
        )
    else:
        wanted = patched(
            request, type_of("", "Scale"), route.table, _scale_of(old), options.notices
        )
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    metadata = wanted.get("metadata") or {}
    if metadata.get("name", route.name) != route.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({route.name})"
        )
    if replicas < 0:
        cause = Cause(
            field="spec.replicas",
            message=f"Invalid value: {replicas}: must be greater than or equal to 0",
        )
        raise invalid("Scale.autoscaling", route.name, [cause])
    value = clone(old)
    value["spec"]["replicas"] = replicas
    for precondition in ("uid", "resourceVersion"):
        if metadata.get(precondition):
            value["metadata"][precondition] = metadata[precondition]
    result = registry.update(key, value, dry_run=options.dry_run)
    return Response(
        body=_scale_of(result), media=form.media, warnings=tuple(options.notices.warnings)
    )


def _scale_of(value: JsonObject) -> JsonObject:
    metadata = {
        key: value["metadata"][key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in value["metadata"]
    }
    status: JsonObject = {"replicas": (value.get("status") or {}).get("replicas", 0)}
    selector = (value.get("spec") or {}).get("selector")
    if selector:
        status["selector"] = format_label_selector(selector)
    replicas = (value.get("spec") or {}).get("replicas", 0)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def bind(registry: Registry, request: Request, route: Route) -> Response:
    """Answer a POST of a Binding: put a pod on a node.

    Raises:
        ApiStatus: no such pod, or it has a node already.
    """
    form = negotiate(request)
    options = write_options(request, "CreateOptions")
    content_type = request.headers.get("content-type", "")
    body = decode_object(route.table, request.body, content_type, options.notices, kind="Binding")
    node = (body.get("target") or {}).get("name", "")
    if not node:
        cause = Cause(field="target.name", reason="FieldValueRequired", message="Required value")
        raise invalid("Binding", route.name, [cause])
    pod = registry.get("pods", route.namespace, route.name)
    if pod is None:
        raise not_found("pods", route.name)
    assigned = (pod.get("spec") or {}).get("nodeName", "")
    if assigned or "deletionTimestamp" in pod["metadata"]:
        why = f'pod {route.name} is already assigned to node "{assigned}"'
        if not assigned:
            why = f"pod {route.name} is being deleted, cannot be assigned to a host"
        raise conflict("pods/binding", route.name, why)
    value = clone(pod)
    value["spec"]["nodeName"] = node
    registry.update("pods", value, dry_run=options.dry_run)
    return Response(status=201, body=success(code=201), media=form.media)


def evict(registry: Registry, request: Request, route: Route) -> Response:
    """Answer a POST of an Eviction.

    Raises:
        ApiStatus: no such pod, a precondition fails, or a budget refuses.
    """
    form = negotiate(request)
    options = write_options(request, "CreateOptions")
    content_type = request.headers.get("content-type", "")
    body = decode_object(route.table, request.body, content_type, options.notices, kind="Eviction")
    name = (body.get("metadata") or {}).get("name", route.name)
    if name != route.name:
        raise bad_request("name in URL does not match name in Eviction object")
    pod = registry.get("pods", route.namespace, route.name)
    if pod is None:
        raise not_found("pods", route.name)
    _check_budgets(registry, pod)
    wanted = parse_delete_options(encode(body.get("deleteOptions") or {}), "application/json")
    preconditions = wanted.get("preconditions") or {}
    registry.delete(
        "pods",
        route.namespace,
        route.name,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        grace_period=wanted.get("gracePeriodSeconds"),
        dry_run=options.dry_run or bool(wanted.get("dryRun")),
    )
    return Response(status=201, body=success(code=201), media=form.media)


def _check_budgets(registry: Registry, pod: JsonObject) -> None:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending"):
        return
    namespace = pod["metadata"]["namespace"]
    labels = pod["metadata"].get("labels")
    for budget in registry.list("poddisruptionbudgets.policy", namespace):
        spec = budget.get("spec") or {}
        selector = spec.get("selector")
        if selector is None or not selector_of(selector).matches(labels):
            continue
        matching = [
            item
            for item in registry.list("pods", namespace)
            if selector_of(selector).matches(item["metadata"].get("labels"))
            and "deletionTimestamp" not in item["metadata"]
        ]
        healthy = sum(1 for item in matching if _ready(item))
        needed = _needed(spec, len(matching))
        if healthy - 1 < needed:
            name = budget["metadata"]["name"]
            cause = {
                "reason": "DisruptionBudget",
                "message": f"The disruption budget {name} needs {needed} healthy pods and has "
                f"{healthy} currently",
            }
            raise too_many_requests(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                details={"causes": [cause]},
            )


def _ready(pod: JsonObject) -> bool:
    return any(
        item.get("type") == "Ready" and item.get("status") == "True"
        for item in (pod.get("status") or {}).get("conditions") or []
    )


def _needed(spec: JsonObject, total: int) -> int:
    if "maxUnavailable" in spec:
        return max(0, total - _share(spec["maxUnavailable"], total))
    return _share(spec.get("minAvailable", 1), total)


def _share(value: int | str, total: int) -> int:
    """A number or a percentage of `total`, rounded up."""
    if isinstance(value, int):
        return value
    digits = value.rstrip("%")
    return -(-total * int(digits) // 100) if digits.isascii() and digits.isdigit() else 0


def finalize(registry: Registry, request: Request, route: Route) -> Response:
    """Answer a PUT of a namespace's finalizers; the last one gone removes it.

    Raises:
        ApiStatus: anything that can be wrong with it.
    """
    form = negotiate(request)
    options = write_options(request, "UpdateOptions")
    content_type = request.headers.get("content-type", "")
    body = decode_object(route.table, request.body, content_type, options.notices)
    old = registry.get("namespaces", "", route.name)
    if old is None:
        raise not_found("namespaces", route.name)
    value = clone(old)
    finalizers = (body.get("spec") or {}).get("finalizers")
    if finalizers:
        value["spec"]["finalizers"] = finalizers
    else:
        value["spec"].pop("finalizers", None)
    result = registry.update("namespaces", value, subresource="finalize", dry_run=options.dry_run)
    if not finalizers and "deletionTimestamp" in old["metadata"] and not options.dry_run:
        registry.remove("namespaces", "", route.name, uid=old["metadata"]["uid"])
    return Response(body=result, media=form.media)


def issue_token(
    registry: Registry,
    request: Request,
    route: Route,
    issue: Callable[[str, str, datetime], str],
) -> Response:
    """Answer a POST of a TokenRequest; `issue` makes a token for an account.

    Raises:
        ApiStatus: no such account, or a time that is too short.
    """
    form = negotiate(request)
    options = write_options(request, "CreateOptions")
    content_type = request.headers.get("content-type", "")
    body = decode_object(
        route.table, request.body, content_type, options.notices, kind="TokenRequest"
    )
    if registry.get("serviceaccounts", route.namespace, route.name) is None:
        raise not_found("serviceaccounts", route.name)
    spec = {"expirationSeconds": DEFAULT_TOKEN_SECONDS, **(body.get("spec") or {})}
    seconds = spec["expirationSeconds"]
    if not MIN_TOKEN_SECONDS <= seconds <= 2**32:
        cause = Cause(
            field="spec.expirationSeconds",
            message=f"Invalid value: {seconds}: may not specify a duration less than 10 minutes",
        )
        raise invalid("TokenRequest.authentication.k8s.io", "", [cause])
    expires = registry.now() + timedelta(seconds=seconds)
    return Response(
        status=201,
        body={
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": route.name, "namespace": route.namespace},
            "spec": spec,
            "status": {
                "token": issue(route.namespace, route.name, expires),
                "expirationTimestamp": timestamp(expires),
            },
        },
        media=form.media,
    )
