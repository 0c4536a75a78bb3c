"""`KubeApi` over HTTP, on the official `kubernetes` package's configuration and connection pool.

Objects stay plain JSON and the raw bytes are what the server sent: nothing goes through the
library's generated models, which would drop unknown fields and rename the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, cast

from pytest_sremut.cluster import decode
from pytest_sremut.cluster.pod_exec import run_in_pod
from pytest_sremut.cluster.port import (
    Absent,
    Deleted,
    ExecResult,
    Failed,
    Kind,
    Listing,
    ObjectRef,
    Present,
    Right,
    WatchEvent,
)
from pytest_sremut.cluster.resources import READ_ONLY, RESOURCES, collection_path, object_path
from pytest_sremut.cluster.transport import Answer, NoAnswerError, Transport
from pytest_sremut.errors import ClusterUnavailableError
from pytest_sremut.ground.durable.text_redaction import redact_text

__all__ = ["KubeClient", "load"]

_READ_TIMEOUT: Final = 10.0
_WRITE_TIMEOUT: Final = 30.0
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_PAGE: Final = 500
_RESTARTS: Final = 3  # of a list whose continue token expired
_LONGEST_LINE: Final = 16 << 20  # of a watch


def load(kubeconfig: Path, context: str) -> KubeClient:
    """A client for one context of one kubeconfig file. Raises UsageError."""
    return KubeClient(Transport.load(kubeconfig, context))


class KubeClient:
    """See `KubeApi`. Safe to use from several threads."""

    def __init__(
        self,
        transport: Transport,
        *,
        read_timeout: float = _READ_TIMEOUT,
        write_timeout: float = _WRITE_TIMEOUT,
    ) -> None:
        self._transport = transport
        self._read_timeout = read_timeout
        self._write_timeout = write_timeout

    @property
    def server(self) -> str:
        """Base address of the API server, to be shown: credentials in it are left out."""
        return redact_text(self._transport.server)

    def close(self) -> None:
        """Close every kept connection."""
        self._transport.close()

    # -- reads -----------------------------------------------------------------------------------

    def get(self, ref: ObjectRef) -> Present | Absent | Failed:
        """GET one object."""
        answer = self._transport.request("GET", object_path(ref), timeout=self._read_timeout)
        return decode.decode_object(answer, ref, f"get {ref}")

    def list(
        self, kind: Kind, namespace: str, *, labels: str = "", fields: str = ""
    ) -> Listing | Failed:
        """All pages of a list; begun anew (three times at most) when the server forgets its place.

        `raw` is the bytes of the pages, one after another, each ended by a newline if several.
        """
        result: Listing | Failed | None = None
        for _ in range(_RESTARTS + 1):
            result = self._list_once(kind, namespace, labels=labels, fields=fields)
            if result is not None:
                return result
        return Failed(
            what=f"list {kind} in {namespace or 'all namespaces'}",
            status=410,
            reason="Expired",
            message=f"the list expired while it was read, {_RESTARTS + 1} times",
        )

    def _list_once(
        self, kind: Kind, namespace: str, *, labels: str, fields: str
    ) -> Listing | Failed | None:
        what = f"list {kind} in {namespace or 'all namespaces'}"
        row = RESOURCES[kind]
        # Items of a list carry neither; a dump of one alone should still say what it is.
        identity = {"kind": kind, "apiVersion": row.api_version}
        query = {"limit": str(_PAGE)}
        query |= {"labelSelector": labels} if labels else {}
        query |= {"fieldSelector": fields} if fields else {}
        items: list[Mapping[str, Any]] = []
        raw: list[bytes] = []
        while True:
            answer = self._transport.request(
                "GET", collection_path(kind, namespace), query=query, timeout=self._read_timeout
            )
            page = decode.decode_list(answer, kind, what)
            if isinstance(page, Failed):
                return None if page.status == 410 and raw else page
            found, version, token = page
            items += [{**identity, **item} for item in found]
            raw.append(cast(Answer, answer).body)
            if not token:
                return Listing(items=tuple(items), resource_version=version, raw=b"\n".join(raw))
            query["continue"] = token

    def watch(
        self, kind: Kind, namespace: str, *, resource_version: str, timeout: float, labels: str = ""
    ) -> Iterator[WatchEvent]:
        """Events after `resource_version`, in order, until `timeout` or the server's own end.

        Raises:
            ClusterError: With reason Expired: the version is too old, list again.
            ClusterUnavailableError: The connection broke or brought something else.
        """
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, int(timeout) + 1)),
        }
        query |= {"labelSelector": labels} if labels else {}
        what = f"watch {kind} in {namespace or 'all namespaces'}"
        path, rest = collection_path(kind, namespace), b""
        for chunk in self._stream(path, query, "application/json", timeout, what):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                raise ClusterUnavailableError(
                    f"{what}: an event without an end", reason="Malformed"
                )
            for line in filter(None, lines):
                yield decode.decode_event(line, kind, what)

    def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        follow: bool = False,
        since: str = "",
        timeout: float,
    ) -> Iterator[bytes]:
        """Chunks of the log with the kubelet's timestamps, as sent."""
        query = {"timestamps": "true"}
        query |= {"container": container} if container else {}
        query |= {"follow": "true"} if follow else {}
        query |= {"sinceTime": since} if since else {}
        path = f"{object_path(ObjectRef(kind='Pod', namespace=namespace, name=pod))}/log"
        what = f"logs of Pod {namespace}/{pod}"
        yield from self._stream(path, query, "text/plain", timeout, what)

    def exec(
        self, namespace: str, pod: str, argv: Sequence[str], *, timeout: float
    ) -> ExecResult | Failed:
        """Run a command in the pod's default container."""
        result = run_in_pod(self._transport, namespace, pod, argv, timeout=timeout)
        if isinstance(result, Failed):
            return replace(result, message=redact_text(result.message))
        return result

    def version(self) -> Mapping[str, Any] | Failed:
        """GET /version."""
        answer = self._transport.request("GET", "/version", timeout=self._read_timeout)
        if not isinstance(answer, Answer) or answer.status != 200:
            return decode.failure(answer, "get /version")
        try:
            return decode.json_of(answer)
        except decode.MalformedError as error:
            return Failed(
                what="get /version", status=answer.status, reason="Malformed", message=str(error)
            )

    def allowed(self, right: Right) -> bool | Failed:
        """POST a SelfSubjectAccessReview, which stores nothing."""
        what = f"ask whether we may {right}"
        resource, _, subresource = right.resource.partition("/")
        asked = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": right.namespace,
            "name": right.name,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
        }
        answer = self._transport.request("POST", _REVIEWS, body=body, timeout=self._read_timeout)
        if not isinstance(answer, Answer) or answer.status not in (200, 201):
            return decode.failure(answer, what)
        try:
            status = decode.json_of(answer).get("status")
        except decode.MalformedError as error:
            return Failed(what=what, status=answer.status, reason="Malformed", message=str(error))
        allowed = status.get("allowed") if isinstance(status, Mapping) else None
        if not isinstance(allowed, bool):
            message = "the review says neither yes nor no"
            return Failed(what=what, status=answer.status, reason="Malformed", message=message)
        return allowed

    def _stream(
        self, path: str, query: Mapping[str, str], content_type: str, timeout: float, what: str
    ) -> Iterator[bytes]:
        pieces = self._transport.stream(
            path, query=query, content_type=content_type, timeout=timeout
        )
        try:
            for piece in pieces:
                if isinstance(piece, Answer):
                    decode.refuse(piece, what)
                yield piece
        except NoAnswerError as error:
            decode.refuse(error.answer, what)

    # -- writes ----------------------------------------------------------------------------------

    def create(self, body: Mapping[str, Any], *, namespace: str, manager: str = "") -> Present:
        """POST an object; `manager` becomes its field manager (the client's own without one)."""
        kind = _kind_of(body)
        where = namespace if RESOURCES[kind].namespaced else ""
        name = body["metadata"].get("name") or body["metadata"].get("generateName")
        answer = self._transport.request(
            "POST",
            collection_path(kind, where),
            query={"fieldManager": manager} if manager else None,
            body=body,
            timeout=self._write_timeout,
        )
        return decode.decode_written(
            answer, kind, body["metadata"].get("name", ""), f"create {kind} {where}/{name}"
        )

    def replace(self, body: Mapping[str, Any], *, namespace: str) -> Present:
        """PUT an object."""
        kind = _kind_of(body)
        where = namespace if RESOURCES[kind].namespaced else ""
        ref = ObjectRef(kind=kind, namespace=where, name=body["metadata"]["name"])
        answer = self._transport.request(
            "PUT", object_path(ref), body=body, timeout=self._write_timeout
        )
        return decode.decode_written(answer, kind, ref.name, f"replace {ref}")

    def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str,
        resource_version: str = "",
        grace_period: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
    ) -> Deleted | Absent:
        """DELETE with a UID precondition. Raises ValueError without a UID."""
        if not uid:
            raise ValueError(f"delete {ref} without a UID")
        if ref.kind in READ_ONLY:
            raise ValueError(f"{ref} is of a kind that is never written")
        preconditions = {"uid": uid}
        preconditions |= {"resourceVersion": resource_version} if resource_version else {}
        body: dict[str, Any] = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": preconditions,
        }
        if grace_period is not None:
            body["gracePeriodSeconds"] = grace_period
        if propagation is not None:
            body["propagationPolicy"] = propagation
        answer = self._transport.request(
            "DELETE", object_path(ref), body=body, timeout=self._write_timeout
        )
        if isinstance(answer, Answer) and answer.status == 404 and decode.absent(answer, ref):
            return Absent(ref=ref)
        return Deleted(body=decode.decode_deleted(answer, ref, f"delete {ref}"))


def _kind_of(body: Mapping[str, Any]) -> Kind:
    kind = body.get("kind")
    allowed = sorted(RESOURCES.keys() - READ_ONLY)
    if kind not in allowed:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(allowed)}")
    return cast(Kind, kind)
