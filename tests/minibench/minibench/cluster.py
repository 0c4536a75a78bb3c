"""The benchmark's own cluster client. Like others, it ends the process without a kubeconfig."""

import os
import sys
from pathlib import Path


class Cluster:
    """Opened when first used, from `$KUBECONFIG` and its current context."""

    def __init__(self):
        if not Path(os.environ.get("KUBECONFIG", "")).is_file():
            print("no kubeconfig", file=sys.stderr)
            sys.exit(1)
        self._core = None

    @property
    def core(self):
        if self._core is None:
            from kubernetes import client, config

            config.load_kube_config(config_file=os.environ["KUBECONFIG"])
            self._core = client.CoreV1Api()
        return self._core
