"""A Service is deleted."""

from minibench.cluster import Cluster
from minibench.faults import Saboteur
from minibench.harness.oracles.attentive import EndpointsReady


class GoneService:
    """What the benchmark itself builds; the tests build a stand-in of the same name."""

    def __init__(self, namespace, broken_service):
        self.cluster = Cluster()
        self.namespace = namespace
        self.broken_service = broken_service
        self.grader = EndpointsReady(self)

    def inject(self):
        Saboteur(self.namespace).inject("gone_service", self.broken_service)
