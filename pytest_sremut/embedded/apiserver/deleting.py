"""delete and deletecollection.

Rules kept here:

* an object that stays for a while is answered as it is now, one that is gone by a ``Status``; some
  kinds are always answered as objects, as recorded.
"""

from __future__ import annotations

from pytest_sremut.embedded.apiserver.answers import Response, success
from pytest_sremut.embedded.apiserver.negotiation import negotiate
from pytest_sremut.embedded.apiserver.options import delete_options
from pytest_sremut.embedded.apiserver.reading import selection_of, shape_of, storage_of, warnings_of
from pytest_sremut.embedded.apiserver.requests import Request
from pytest_sremut.embedded.apiserver.routes import Route
from pytest_sremut.embedded.meta.errors import not_found
from pytest_sremut.embedded.meta.jsonvalue import JsonObject
from pytest_sremut.embedded.registry.registry import Registry

__all__ = ["delete", "delete_collection"]

# Deleting one of these answers the object, not a Status.
RETURNED_WHEN_DELETED = frozenset(
    (
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "resourcequotas",
        "serviceaccounts",
        "services",
        "storageclasses.storage.k8s.io",
    )
)
JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)


def delete(registry: Registry, request: Request, route: Route) -> Response:
    """Answer a DELETE of an object.

    Raises:
        ApiStatus: anything that can be wrong with it.
    """
    form = negotiate(request)
    options = delete_options(request)
    table = route.table
    key = storage_of(table)
    old = registry.get(key, route.namespace, route.name)
    if old is None:
        raise not_found(table.key, route.name)
    value = registry.delete(
        key,
        route.namespace,
        route.name,
        uid=options.uid,
        resource_version=options.resource_version,
        grace_period=options.grace_period,
        propagation=options.propagation,
        dry_run=options.dry_run,
    )
    warnings = warnings_of(table)
    if table.key == "jobs.batch" and options.propagation is None:
        warnings += (JOB_WARNING,)
    stays = "deletionTimestamp" in (value or {}).get("metadata", {})
    if value is not None and (stays or key in RETURNED_WHEN_DELETED):
        body = form.one(table, shape_of(table)(value), registry.now())
    else:
        details: JsonObject = {"name": route.name}
        if table.group:
            details["group"] = table.group
        details |= {"kind": table.plural, "uid": old["metadata"]["uid"]}
        body = success(details)
    return Response(body=body, media=form.media, warnings=warnings)


def delete_collection(registry: Registry, request: Request, route: Route) -> Response:
    """Answer a DELETE of a collection: every selected object, each by the same options.

    Raises:
        ApiStatus: 400, 406, 415 or 422.
    """
    form = negotiate(request)
    options = delete_options(request)
    selection = selection_of(request, route)
    key = selection.storage
    revision = registry.revision
    found = [item for item in registry.list(key, route.namespace) if selection.matches(item)]
    for item in found:
        metadata = item["metadata"]
        registry.delete(
            key,
            metadata.get("namespace", ""),
            metadata["name"],
            grace_period=options.grace_period,
            propagation=options.propagation,
            dry_run=options.dry_run,
        )
    shown = [shape_of(route.table)(item) for item in found]
    body = form.many(route.table, shown, {"resourceVersion": str(revision)}, registry.now())
    return Response(body=body, media=form.media, warnings=warnings_of(route.table))
