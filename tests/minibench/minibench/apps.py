"""Applications that the benchmark deploys itself: the objects that a file beside this one lists."""

import json
from pathlib import Path

from minibench.cluster import Cluster

HERE = Path(__file__).resolve().parent


class Shop:
    """Like others it takes notes beside its files, and keeps a release record in the cluster."""

    def __init__(self):
        given = json.loads((HERE / "shop.json").read_text())
        self.place = given["namespace"]
        self.objects = given["objects"]
        self.core = Cluster().core

    def deploy(self):
        """All objects, once."""
        from kubernetes.utils import create_from_dict

        if self._records():
            raise RuntimeError("cannot re-use a name that is still in use")
        (HERE / "shop.lock").write_text("deployed\n")
        self._record()
        for body in self.objects:
            create_from_dict(self.core.api_client, body, namespace=self.place)
        print(f"deployed {len(self.objects)} objects")

    def take_away(self):
        """What is there of it."""
        from kubernetes.client import AppsV1Api
        from kubernetes.client.exceptions import ApiException

        apps = AppsV1Api(self.core.api_client)
        for body in self.objects:
            name = body["metadata"]["name"]
            try:
                if body["kind"] == "Service":
                    self.core.delete_namespaced_service(name, self.place)
                else:
                    apps.delete_namespaced_deployment(name, self.place)
            except ApiException as error:
                if error.status != 404:
                    raise
        for name in self._records():
            self.core.delete_namespaced_config_map(name, self.place)
        print("taken away")

    def _records(self):
        there = self.core.list_namespaced_config_map(self.place, label_selector="owner=minibench")
        return [item.metadata.name for item in there.items]

    def _record(self):
        metadata = {"name": "release.shop.v1", "labels": {"owner": "minibench"}}
        self.core.create_namespaced_config_map(self.place, {"metadata": metadata, "data": {}})


class HalfAShop(Shop):
    """Gives up on its way."""

    def deploy(self):
        self.objects = self.objects[:3]
        super().deploy()
        raise RuntimeError("timed out waiting for the condition")


class Leaflet:
    """Lies in no cluster: what it does is to write, and to fail where it is asked to."""

    def __init__(self, place, how="well"):
        self.place = place
        self.how = how

    def deploy(self):
        print("before", sorted(path.name for path in HERE.glob("*.lock")))
        (HERE / "leaflet.lock").write_text(self.place)
        return {"leaflets": 1}

    def take_away(self):
        if self.how == "well":
            return
        raise SystemExit(3)
