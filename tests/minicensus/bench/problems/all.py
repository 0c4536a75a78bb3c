"""The problems."""

from bench.faults import Faults
from bench.load.generator import Generator
from bench.oracles.compound import AllOf
from bench.oracles.network import DnsGrader, EndpointGrader, PolicyGrader
from bench.oracles.pods import (
    ForgetfulGrader,
    GuardedGrader,
    ImageGrader,
    PodGlance,
    PodsAndDeployments,
    Sleeper,
)
from bench.oracles.signals import AlertGrader, LoadGrader
from bench.problems.base import Problem, marked


class ServiceGone(Problem):
    fault = "service_gone"
    grader_class = PodsAndDeployments


class ServiceGoneSeen(ServiceGone):
    grader_class = EndpointGrader

    def __init__(self, port, **given):
        self.port = port
        super().__init__(**given)


class ServiceGoneCompound(ServiceGone):
    def make_grader(self):
        return AllOf(PodsAndDeployments(self), DnsGrader(self))


class WrongImage(Problem):
    fault = "image"
    grader_class = PodsAndDeployments


class WrongImageByField(WrongImage):
    grader_class = ImageGrader


class WrongImageForgotten(WrongImage):
    grader_class = ForgetfulGrader


class WrongImageGuarded(WrongImage):
    grader_class = GuardedGrader


class WrongSelector(Problem):
    fault = "selector"
    grader_class = DnsGrader


class VolumeSettled(Problem):
    fault = "volume"
    grader_class = PodsAndDeployments


class NodeSelectorGlanced(Problem):
    fault = "node_selector"
    grader_class = PodGlance


class Values(Problem):
    fault = "values"
    grader_class = PodsAndDeployments


class Elsewhere(Problem):
    grader_class = PodsAndDeployments

    @marked
    def break_it(self):
        Faults("another-place").inject("image", self.service)


class Script(Problem):
    fault = "script"
    grader_class = PodsAndDeployments


class Flag(Problem):
    grader_class = AlertGrader

    def __init__(self, flag):
        super().__init__()
        self.flag = flag

    @marked
    def break_it(self):
        Faults(self.namespace).inject("flag", self.flag)


class Plain(Problem):
    """A fault without arguments."""

    def __init__(self, fault, grader=PodsAndDeployments):
        self.grader_class = grader
        super().__init__()
        self.fault = fault

    @marked
    def break_it(self):
        Faults(self.namespace).inject(self.fault)


class Policy(Plain):
    def __init__(self):
        super().__init__("policy", grader=PolicyGrader)


class Chosen(Problem):
    fault = "chosen"
    grader_class = PodsAndDeployments


class InModule(Problem):
    grader_class = PodsAndDeployments

    def __init__(self, module):
        super().__init__()
        self.module = module

    @marked
    def break_it(self):
        Faults(self.namespace).inject("module", self.module)


class Loaded(Problem):
    fault = "selector"

    def make_grader(self):
        return LoadGrader(self, Generator(self.namespace))


class Scaled(Problem):
    fault = "scale"
    grader_class = PodsAndDeployments


class Configured(Problem):
    fault = "configuration"
    grader_class = PodsAndDeployments


class Ungraded(Problem):
    fault = "scale"


class Sleepy(Problem):
    fault = "scale"
    grader_class = Sleeper
