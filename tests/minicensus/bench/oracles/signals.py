"""Graders that read functional signals."""

import json
import subprocess

from bench.oracles.base import Grader


class AlertGrader(Grader):
    def grade(self):
        command = ["kubectl", "exec", "-n", "observe", "deploy/prometheus", "--"]
        command += ["wget", "-qO-", "http://localhost:9090/api/v1/alerts"]
        alerts = json.loads(subprocess.check_output(command, text=True))["data"]["alerts"]
        return {"success": not alerts}


class LoadGrader(Grader):
    def __init__(self, problem, generator):
        super().__init__(problem)
        self.generator = generator

    def grade(self):
        return {"success": all(entry.ok for entry in self.generator.collect())}
