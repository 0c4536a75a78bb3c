"""Which cluster is this? Read each time it is asked, since a context can be pointed elsewhere."""

from __future__ import annotations

from pytest_sremut.cluster.port import ClusterIdentity, Failed, KubeApi, ObjectRef, Present
from pytest_sremut.errors import ClusterUnavailableError

__all__ = ["read_identity", "read_uid"]


def read_identity(api: KubeApi, server: str) -> ClusterIdentity:
    """UID of the kube-system namespace and the server's version.

    Raises:
        ClusterUnavailableError: Either cannot be read; an absent kube-system is no identity.
    """
    uid = read_uid(api)
    version = api.version()
    if isinstance(version, Failed):
        raise _unread(version)
    release = version.get("gitVersion")
    if not isinstance(release, str):
        raise ClusterUnavailableError("the cluster does not tell its version")
    return ClusterIdentity(kube_system_uid=uid, server_version=release, server=server)


def read_uid(api: KubeApi) -> str:
    """UID of the kube-system namespace.

    Raises:
        ClusterUnavailableError: It cannot be read; an absent kube-system is no identity.
    """
    namespace = api.get(ObjectRef(kind="Namespace", namespace="", name="kube-system"))
    if isinstance(namespace, Failed):
        raise _unread(namespace)
    if not isinstance(namespace, Present):
        raise ClusterUnavailableError("namespace kube-system does not exist")
    uid = namespace.body["metadata"].get("uid")
    if not isinstance(uid, str) or not uid:
        raise ClusterUnavailableError("the cluster does not tell its UID")
    return uid


def _unread(failed: Failed) -> ClusterUnavailableError:
    return ClusterUnavailableError(
        f"which cluster this is cannot be told: {failed}",
        status=failed.status,
        reason=failed.reason,
    )
