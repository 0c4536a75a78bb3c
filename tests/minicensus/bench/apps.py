"""Two applications whose namespaces stand in a JSON file beside the code."""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent


class App:
    def __init__(self, name):
        with open(HERE / "apps.json") as file:
            facts = json.load(file)[name]
        self.name = name
        self.namespace = facts["namespace"]
        self.wrk = None


class Shop(App):
    def __init__(self):
        super().__init__("shop")


class Social(App):
    def __init__(self):
        super().__init__("social")
