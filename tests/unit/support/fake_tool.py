"""What stands behind the executables `kind`, `docker`, `podman` and `kubectl` of `kind_fakes`.

Run as a script, by itself. It knows the argument vectors that the real programs document and
refuses others; its world is one directory, shared by all of them. It is started often, so it
imports nearly nothing (`json` alone costs more than all it does), and its world is a literal.
"""

# ruff: noqa: PTH102, PTH105, PTH113, PTH119, PTH123, PTH211

from __future__ import annotations

import fcntl
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PLATFORM = "linux/amd64"
ENVIRONMENT = (
    "KUBECONFIG",
    "KUBECACHEDIR",
    "KIND_EXPERIMENTAL_PROVIDER",
    "KIND_CLUSTER_NAME",
    "BUILDX_NO_DEFAULT_ATTESTATIONS",
)
EMPTY = '{"id": "sha256:0", "repoTags": []}'
INFO = {
    "{{.OSType}}": "linux",
    "{{.Host.OS}}": "linux",
    "{{.Architecture}}": "x86_64",
    "{{.Host.Arch}}": "amd64",
    "{{.ServerVersion}}": "29.9.2",
    "{{.Version.Version}}": "5.8.1",
    "{{.DockerRootDir}}": "/var/lib/docker",
    "{{.Store.GraphRoot}}": "/var/lib/podman",
}


def main(world: str, argv: list[str]) -> int:
    arguments = [os.path.basename(argv[0]), *argv[1:]]
    with World(world) as state:
        said = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        with open(f"{world}/calls", "a") as calls:
            calls.write(f"{ {'argv': arguments, 'environment': said}!r}\n")
        rule = matching(state["rules"], arguments)
        code = act(state, arguments) if rule.get("effect", not rule) else 0
    sys.stdout.write(rule.get("stdout", ""))
    sys.stderr.write(rule.get("stderr", ""))
    sys.stdout.flush()
    sys.stderr.flush()
    if set(rule) & {"hang", "stubborn", "leave_child", "signal"}:
        linger(world, rule)
    return int(rule.get("code", code))


def linger(world: str, rule: dict[str, Any]) -> None:
    """Not end, in one of several ways."""
    import signal
    import subprocess
    import time

    if rule.get("leave_child"):
        subprocess.Popen(["/bin/sleep", "600"])
    if rule.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(f"{world}/hanging", "w") as file:
        file.write(str(os.getpid()))
    if "signal" in rule:
        os.kill(rule["target"], rule["signal"])
    time.sleep(600)


class World:
    """The world's state, alone with it."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def __enter__(self) -> dict[str, Any]:
        self.lock = open(f"{self.directory}/facts.lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        with open(f"{self.directory}/facts") as file:
            self.state: dict[str, Any] = eval(file.read(), {})
        return self.state

    def __exit__(self, *_: object) -> None:
        with open(f"{self.directory}/facts.new", "w") as file:
            file.write(repr(self.state))
        os.replace(f"{self.directory}/facts.new", f"{self.directory}/facts")
        self.lock.close()


def matching(rules: list[dict[str, Any]], arguments: list[str]) -> dict[str, Any]:
    """The first rule whose words all stand in the call; it is used up."""
    for rule in rules:
        if set(rule["match"].split()) <= set(arguments) and rule["times"]:
            rule["times"] -= 1
            return rule
    return {}


def act(state: dict[str, Any], arguments: list[str]) -> int:  # noqa: C901  # one branch for each command of the tool
    options = {
        key: value
        for key, equals, value in (word.partition("=") for word in arguments)
        if equals and key.startswith("--")
    }
    plain = [word for word in arguments if not word.startswith("-")]
    match plain[0], plain[1:]:
        case "kind", ["version"]:
            print(state["kind_version"])
        case "kind", ["create", "cluster"]:
            return create(state, options)
        case "kind", ["export", "kubeconfig"]:
            write_kubeconfig(options)
        case "kind", ["delete", "cluster"]:
            hook(state, "delete", options["--name"])
            state["clusters"].pop(options["--name"], None)
        case "kind", ["export", "logs", place]:
            return export_logs(state, options["--name"], place)
        case "kind", ["load", "image-archive", archive]:
            with open(archive) as file:
                reference = file.read()
            for node in state["clusters"][options["--name"]]:
                state["images"].setdefault(node["name"], []).append(reference)
        case (("docker" | "podman"), ["info", form]):
            for word, value in INFO.items():
                form = form.replace(word, value)
            print(form)
        case "docker", ["version", "{{.Client.APIVersion}} {{.Server.APIVersion}}"]:
            print(state["api"])
        case (("docker" | "podman"), ["ps", selected, "{{.ID}} {{.Names}}"]):
            name = selected.removeprefix("label=io.x-k8s.kind.cluster=")
            for node in state["clusters"].get(name, []):
                print(node["id"], node["name"])
        case (("docker" | "podman"), ["build", context]):
            assert options["--platform"] == PLATFORM
            assert os.path.isfile(f"{context}/Dockerfile")
            state["built"].append(options["--tag"])
        case (("docker" | "podman"), ["save", reference]):
            assert reference in state["built"]
            with open(options["--output"], "w") as file:
                file.write(reference)
        case (("docker" | "podman"), ["exec", node, "crictl", "images"]):
            tags = [f'{{"repoTags": ["{tag}"]}}' for tag in state["images"].get(node, [])]
            print(f'{{"images": [{", ".join([*tags, EMPTY])}]}}')
        case (("docker" | "podman"), ["exec", node, "ctr", "images", "tag", old, new]):
            assert old in state["images"][node]
            state["images"][node].append(new)
        case "kubectl", ["version"]:
            print("Client Version: v1.36.2\nKustomize Version: v5.8.1")
        case _:
            sys.stderr.write(f"unknown call: {arguments}\n")
            return 64
    return 0


def create(state: dict[str, Any], options: dict[str, str]) -> int:
    name = options["--name"]
    if name in state["clusters"]:
        sys.stderr.write(f'ERROR: node(s) already exist for a cluster with the name "{name}"\n')
        return 1
    with open(options["--config"]) as file:
        lines = file.read().splitlines()
    roles = [line.removeprefix("- role: ") for line in lines if line.startswith("- role: ")]
    state["count"] += 1
    names = [f"{name}-{role}{number or ''}" for number, role in enumerate(roles)]
    state["clusters"][name] = [
        {"id": f"{state['count']:x}".rjust(3, "c") + f"{number:061x}", "name": node}
        for number, node in enumerate(names)
    ]
    if state["write_kubeconfig"]:
        write_kubeconfig(options)
    hook(state, "create", name, options["--kubeconfig"], str(len(roles)))
    return 0


def hook(state: dict[str, Any], what: str, *arguments: str) -> None:
    if state[what]:
        import subprocess

        subprocess.run([*state[what], *arguments], check=True)


def write_kubeconfig(options: dict[str, str]) -> None:
    context = f"kind-{options['--name']}"
    with open(options["--kubeconfig"], "w") as file:
        file.write(
            f"{{apiVersion: v1, kind: Config, current-context: {context},\n"
            f"clusters: [{{name: {context}, cluster: {{server: 'https://127.0.0.1:9'}}}}],\n"
            f"users: [{{name: {context}, user: {{}}}}],\n"
            f"contexts: [{{name: {context}, context: {{cluster: {context}, user: {context}}}}}]}}\n"
        )


def export_logs(state: dict[str, Any], name: str, place: str) -> int:
    if name not in state["clusters"]:
        sys.stderr.write(f'ERROR: unknown cluster "{name}"\n')
        return 1
    files = {"docker-info.txt": "HTTP Proxy: http://u:hunter2@proxy\n"}
    for node in state["clusters"][name]:
        inside = node["name"]
        os.mkdir(f"{place}/{inside}")
        files[f"{inside}/inspect.json"] = '[{"Config": {"Env": ["SECRET=hunter2"]}}]'
        files[f"{inside}/kubelet.log"] = "started\nAuthorization: Bearer hunter2hunter2\n"
        os.symlink("/etc/passwd", f"{place}/{inside}/link")
    for path, text in files.items():
        with open(f"{place}/{path}", "w") as file:
            file.write(text)
    print(place)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
