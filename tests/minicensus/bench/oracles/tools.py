"""Module functions that graders import."""


def lookup(kube, namespace, name):
    words = ["nslookup", name]
    answer = kube.sh(f"kubectl exec deploy/probe -n {namespace} -- {' '.join(words)}")
    return "Address" in answer
