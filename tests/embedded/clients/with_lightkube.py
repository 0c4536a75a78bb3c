"""lightkube: typed models, watches, server-side apply."""

import json
import sys
from importlib.metadata import version

from lightkube import ApiError, Client
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod

SPACE = sys.argv[1]
COMMAND = ["sh", "-c", "echo hello; trap 'exit 0' TERM; sleep 3600 & wait"]

client = Client(field_manager="smoke")
client.create(Namespace(metadata=ObjectMeta(name=SPACE)))
client.create(
    Pod(
        metadata=ObjectMeta(name="p", namespace=SPACE, labels={"app": "p"}),
        spec=PodSpec(
            terminationGracePeriodSeconds=1,
            containers=[Container(name="main", image="busybox:1.36", command=COMMAND)],
        ),
    )
)
pod = client.wait(Pod, "p", namespace=SPACE, for_conditions=["Ready"])
client.patch(Pod, "p", {"metadata": {"labels": {"x": "y"}}}, namespace=SPACE)
applied = client.apply(
    ConfigMap(metadata=ObjectMeta(name="c", namespace=SPACE), data={"a": "b"}), force=True
)
try:
    client.get(Pod, "nope", namespace=SPACE)
    missing = None
except ApiError as error:
    missing = [error.status.code, error.status.reason]
print(
    json.dumps(
        {
            "version": version("lightkube"),
            "ready": True,
            "labels": client.get(Pod, "p", namespace=SPACE).metadata.labels,
            "missing": missing,
            "log": "".join(client.log("p", namespace=SPACE)),
            "applied": applied.data,
            "listed": [item.metadata.name for item in client.list(Pod, namespace=SPACE)],
        }
    )
)
client.delete(Namespace, SPACE)
