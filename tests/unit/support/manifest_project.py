"""A project with the shipped study, whose application is given as files.

root = make_project(tmp_path)        # the study says `application: manifests:apps/social`
write(root, "b.yaml", SERVICE)       # a file of the application
"""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

__all__ = [
    "APPLICATION",
    "CONFIG_MAP",
    "DEPLOYMENT",
    "FILES",
    "MEDIA",
    "SERVICE",
    "STUDY",
    "make_project",
    "write",
]

REPOSITORY = Path(__file__).parents[3]
STUDY = PurePosixPath("audits/missing_service_social_network/study.yaml")
APPLICATION = PurePosixPath("apps/social")

SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: user-service
spec:
  type: ClusterIP
  ports:
  - name: "9090"
    port: 9090
    targetPort: 9090
  selector:
    service: user-service
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: user-service
  namespace: social-network
  labels: {service: user-service}
spec:
  replicas: 1
  selector:
    matchLabels: {service: user-service}
  template:
    metadata:
      labels: {service: user-service, app: user-service}
    spec:
      containers:
      - name: user-service
        image: example.org/social:1
"""
MEDIA = DEPLOYMENT.replace("user-service", "media-service").replace("  replicas: 1\n", "")
CONFIG_MAP = """\
{"apiVersion": "v1", "kind": "ConfigMap",
 "metadata": {"name": "user-service"}, "data": {"service-config.json": "{}\\n"}}
"""
# The order of the files and of their documents is none in which one would create them.
FILES = {
    "a.yaml": f"---\n# nothing here\n---\n{DEPLOYMENT}---\n{MEDIA}---\n",
    "b.yml": SERVICE,
    "c.json": CONFIG_MAP,
    "README.md": "kind: Secret\n",
}


def make_project(root: Path) -> Path:
    """The study with all that it refers to, and `FILES`."""
    for name in ("mutants", "contracts", str(STUDY.parent)):
        shutil.copytree(REPOSITORY / name, root / name)
    study = root / STUDY
    text = study.read_text()
    assert text.count("demo:social-network") == 1
    study.write_text(text.replace("demo:social-network", f"manifests:{APPLICATION}"))
    for name, content in FILES.items():
        write(root, name, content)
    return root


def write(root: Path, name: str, content: str | bytes) -> None:
    """A file of the application."""
    path = root / APPLICATION / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
