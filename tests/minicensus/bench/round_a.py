"""One half of an import cycle."""

from bench import round_b


def inject():
    round_b.help_out()


def scale():
    from bench.kube import Kube

    Kube().sh("kubectl scale deployment cart -n shop --replicas=0")
