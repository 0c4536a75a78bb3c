"""The registry: literal ids, helpers, comprehensions, lambdas and partials."""

from functools import partial

from bench.problems.all import (
    Chosen,
    Configured,
    Elsewhere,
    Flag,
    InModule,
    Loaded,
    NodeSelectorGlanced,
    Plain,
    Policy,
    Scaled,
    Script,
    ServiceGone,
    ServiceGoneCompound,
    ServiceGoneSeen,
    Sleepy,
    Ungraded,
    Values,
    VolumeSettled,
    WrongImage,
    WrongImageByField,
    WrongImageForgotten,
    WrongImageGuarded,
    WrongSelector,
)

APPS = ("shop", "social")
SETTLED_ELSEWHERE = None


def image_problem(app):
    return partial(WrongImage, app=app, service=f"{app}-front")


def modules():
    found = {}
    for name in ("round_a", "leaning", "torn"):
        found[f"module-{name}"] = lambda name=name: InModule(name)
    return found


class Catalogue:
    def __init__(self):
        self.problems = {
            "service-gone": ServiceGone,
            "service-gone-social-1": lambda: ServiceGone(app="social", service="user"),
            "service-gone-seen": lambda: ServiceGoneSeen(9090),
            "service_gone_compound": ServiceGoneCompound,
            "wrong-selector": partial(WrongSelector, service="cart"),
            "image-by-field": WrongImageByField,
            "image-forgotten": WrongImageForgotten,
            "image-guarded": WrongImageGuarded,
            "volume-settled": VolumeSettled,
            "node-selector-glanced": NodeSelectorGlanced,
            "values": Values,
            "elsewhere": Elsewhere,
            "script": Script,
            "policy": Policy,
            "opaque": lambda: Plain("unknown_manifest"),
            "chosen": Chosen,
            "foreign": lambda: Plain("foreign"),
            "nothing": lambda: Plain("nothing"),
            "load": Loaded,
            "scaled": Scaled,
            "configured": Configured,
            "ungraded": Ungraded,
            "sleepy": Sleepy,
            "unmade": SETTLED_ELSEWHERE,
            **{f"image-{app}": image_problem(app) for app in APPS},
            **{f"flag-{name}": partial(Flag, name) for name in ("cartFailure", "cartMood")},
        }
        self.problems.update(modules())
