"""Which cluster is this? Read each time it is asked, since a context can be pointed elsewhere."""

from __future__ import annotations

from pytest_sremut.cluster.port import ClusterIdentity, Failed, KubeApi, ObjectRef, Present
from pytest_sremut.errors import ClusterUnavailableError

__all__ = ["read_identity"]


def read_identity(api: KubeApi, server: str) -> ClusterIdentity:
    """UID of the kube-system namespace and the server's version.

    Raises:
        ClusterUnavailableError: Either cannot be read; an absent kube-system is no identity.
    """
    namespace = api.get(ObjectRef(kind="Namespace", namespace="", name="kube-system"))
    if isinstance(namespace, Failed):
        raise _unread(namespace)
    if not isinstance(namespace, Present):
        raise ClusterUnavailableError("namespace kube-system does not exist")
    version = api.version()
    if isinstance(version, Failed):
        raise _unread(version)
    uid, release = namespace.body["metadata"].get("uid"), version.get("gitVersion")
    if not isinstance(uid, str) or not uid or not isinstance(release, str):
        raise ClusterUnavailableError("the cluster tells neither its UID nor its version")
    return ClusterIdentity(kube_system_uid=uid, server_version=release, server=server)


def _unread(failed: Failed) -> ClusterUnavailableError:
    return ClusterUnavailableError(
        f"which cluster this is cannot be told: {failed}",
        status=failed.status,
        reason=failed.reason,
    )
