"""A load generator that writes rounds into its log."""

from dataclasses import dataclass

from bench.kube import Kube


@dataclass
class Entry:
    ok: bool
    text: str = ""


class Generator:
    def __init__(self, namespace):
        self.namespace = namespace
        self.kube = Kube()

    def collect(self):
        log = self.kube.core.read_namespaced_pod_log("load", self.namespace)
        return [Entry(ok="error" not in line, text=line) for line in log.splitlines()]
