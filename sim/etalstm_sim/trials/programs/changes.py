"""Programs of training iterations, and changes of one field in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from etalstm.device import TrainingShape
from etalstm.network.arithmetic import INT8
from etalstm.network.execution import BF16, Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage
from etalstm.plan.plan import Plan
from etalstm.plan.program.walk import walk
from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract import Opcode, Status
from etalstm_sim.checks.model import Ending, Model
from etalstm_sim.checks.refusals import OPCODES, Change, Expected, Sizes, expected, is_weaker

NETWORKS = {
    "stacked": TrainingShape(NetworkShape(4, 4, 2), 2, 2, Execution(storage=Storage("ms1", 0.05)), masked=True),
    "looped": TrainingShape(NetworkShape(4, 4, 1), 2, 12, Execution(storage=Storage("ms1", 0.05)), masked=True),
    "rows": TrainingShape(NetworkShape(20, 20, 1), 2, 2, Execution(storage=Storage("ms1", 0.05))),
    "groups": TrainingShape(
        NetworkShape(4, 4, 1), 2, 2, Execution(storage=Storage("ms1-bf16", 0.05), slices=2, weight_format=BF16)
    ),
}
"""Networks whose programs, taken together, have every instruction of a machine whose products are float32."""

int8 = partial(Execution.read, arithmetic=INT8.name)
NETWORKS_OF_INTEGERS = {
    "stacked": TrainingShape(NetworkShape(4, 4, 2), 2, 2, int8(storage="ms1", theta=0.05), masked=True),
    "looped": TrainingShape(NetworkShape(4, 4, 1), 2, 12, int8(storage="ms1", theta=0.05), masked=True),
    "blocks": TrainingShape(NetworkShape(20, 20, 1), 3, 2, int8(storage="ms1-bf16", theta=0.05)),
    "slices": TrainingShape(NetworkShape(4, 4, 1), 9, 2, int8(slices=3, delta_bits=8)),
}
"""Networks of integers: arrays that are sent several times, sums that are added to, one digit of δ and two."""


def networks_of(config: Config) -> dict[str, TrainingShape]:
    """Give the networks whose programs a machine runs."""
    return NETWORKS_OF_INTEGERS if config.integers else NETWORKS


@dataclass(frozen=True)
class Network:
    """A network of :func:`networks_of`, planned.

    Members
    -------
    name : str
    shape : TrainingShape
    plan : Plan
    sizes : Sizes
    """

    name: str
    shape: TrainingShape
    plan: Plan
    sizes: Sizes

    @classmethod
    def planned(cls, name: str, config: Config) -> "Network":
        """Plan a network; each slice of the batch gets a group of channels, but not of integers."""
        shape = networks_of(config)[name]
        plan = Plan(
            config,
            shape.network,
            shape.batch,
            shape.steps,
            shape.execution,
            masked=shape.masked,
            groups=1 if config.integers else shape.execution.slices,
        )
        window_beats = plan.map.memory.window_bytes // config.beat_bytes
        return cls(name, shape, plan, Sizes(config, window_beats, plan.groups))

    @cached_property
    def programs(self) -> dict[str, list[int]]:
        """The words of each program, in the order in which an iteration runs them."""
        return {name: program.words for name, program in self.plan.programs.items()}


@dataclass(frozen=True)
class Case:
    """A program with a change, and its ending by the contract and by the model.

    Members
    -------
    number : int
    network : str
    change : Change
    words : list of int
        Of the changed program.
    expected : Expected
    ending : Ending
    """

    number: int
    network: str
    change: Change
    words: list[int]
    expected: Expected
    ending: Ending


class Cases:
    """Gives cases by their numbers.

    Parameters
    ----------
    config : Config
    seed : int
        Of all cases; a case is this seed and its number.

    Members
    -------
    networks : dict from name to Network
    """

    def __init__(self, config: Config, seed: int):
        self.networks = {name: Network.planned(name, config) for name in networks_of(config)}
        self._seed = seed
        self._models = {name: _model_after_iteration(network) for name, network in self.networks.items()}

    def change(self, number: int) -> tuple[Network, Change]:
        """Draw what a case changes, and the network whose program it is."""
        draw = np.random.default_rng([self._seed, number])
        network = _choose(draw, self.networks)
        program = _choose(draw, {name: name for name in network.programs})
        return network, drawn_change(draw, program, network.programs[program])

    def case(self, number: int) -> Case:
        """Draw a case, and predict how it ends."""
        network, change = self.change(number)
        words = network.programs[change.program]
        changed = change.of(words)
        prediction = expected(words, change, _addresses(changed, change.number), network.sizes)
        unordered = change.number if is_weaker(change) and not prediction.same else None
        ending = self._models[network.name].ending(changed, unordered=unordered)
        return Case(number, network.name, change, changed, prediction, ending)


def _model_after_iteration(network: Network) -> Model:
    model = Model(network.sizes)
    for name, words in network.programs.items():
        if model.run(words).promised != Status.DONE:
            raise AssertionError(f"the model refuses the program {name} of {network.name}")
    return model


def drawn_change(draw: np.random.Generator, program: str, words: list[int]) -> Change:
    """Draw an instruction, a field, and a value: 0, all ones, a neighbour, or one with a bit turned."""
    number = int(draw.integers(len(words)))
    fields = contract.layout(Opcode(words[number] & OPCODES))
    field = list(fields)[draw.integers(len(fields))]
    offset, width = fields[field]
    ones = (1 << width) - 1
    before = words[number] >> offset & ones
    if field == "turns":
        return Change(program, number, field, before, max(0, before - 1 + 2 * int(draw.integers(2))))
    values = [0, ones, before + 1 & ones, before - 1 & ones, *(before ^ 1 << n for n in range(width))]
    others = [value for value in values if value != before]
    return Change(program, number, field, before, others[draw.integers(len(others))])


def _choose(draw: np.random.Generator, choices: Mapping):
    return choices[list(choices)[draw.integers(len(choices))]]


def _addresses(words: list[int], number: int):
    """Give the addresses of an instruction in all its executions, lazily."""
    return (step.address for step in walk(words) if step.number == number)
