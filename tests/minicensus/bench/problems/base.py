"""What problems share."""

from functools import wraps

from bench.apps import Shop, Social
from bench.faults import Faults
from bench.kube import Kube


def marked(method):
    @wraps(method)
    def wrapper(self, *args, **kwargs):
        result = method(self, *args, **kwargs)
        self.is_broken = True
        return result

    return wrapper


class Problem:
    fault = ""
    grader_class = None

    def __init__(self, app="shop", service="cart", namespace=None):
        if app == "shop":
            self.app = Shop()
        elif app == "social":
            self.app = Social()
        else:
            raise ValueError(app)
        self.kube = Kube()
        self.service = service
        self.namespace = namespace or self.app.namespace
        self.grader = self.make_grader()

    def make_grader(self):
        return self.grader_class(problem=self) if self.grader_class else None

    @marked
    def break_it(self):
        Faults(self.namespace).inject(self.fault, self.service)
