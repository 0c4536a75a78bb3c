"""kr8s: an asynchronous client with its own transport."""

import json
import sys

import kr8s
from kr8s.objects import Namespace, Pod

SPACE = sys.argv[1]
COMMAND = ["sh", "-c", "echo hello; trap 'exit 0' TERM; sleep 3600 & wait"]

Namespace({"metadata": {"name": SPACE}}).create()
pod = Pod(
    {
        "metadata": {"name": "p", "namespace": SPACE, "labels": {"app": "p"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "busybox:1.36", "command": COMMAND}],
        },
    }
)
pod.create()
pod.wait("condition=Ready", timeout=30)
pod.label({"x": "y"})
said = pod.exec(["echo", "out"])
print(
    json.dumps(
        {
            "version": kr8s.__version__,
            "ready": pod.ready(),
            "labels": dict(pod.labels),
            "exec": said.stdout.decode(),
            "log": "\n".join(pod.logs()) + "\n",
            "listed": [item.name for item in kr8s.get("pods", namespace=SPACE)],
            "exists": Pod.get("p", namespace=SPACE).exists(),
        }
    )
)
pod.delete()
