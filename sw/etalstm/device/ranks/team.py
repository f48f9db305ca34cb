"""All ranks, as rank 0 commands them, and what each does with its own device.

The arguments of a call are for one rank alone: rank 0 has cut the batch.
"""

import hashlib
import importlib.metadata
import platform
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from etalstm import errors
from etalstm.device import Device, Outputs, Session, TrainingShape
from etalstm.device.ranks.exchange import Exchange, Total, digest
from etalstm.device.ranks.stage import StageSession, shape_of_stage
from etalstm.errors import DeviceError
from etalstm.host.mpi import World, find_world
from etalstm.network.pipeline_grid import Grid
from etalstm_hw import config, contract

LOCAL_RANK = "RANK"  # in a device's name: the number of the rank on its host


_ERRORS = {kind.__name__: kind for kind in (*vars(errors).values(), ValueError, MemoryError) if isinstance(kind, type)}


class Call(NamedTuple):
    """What rank 0 asks of a rank: a method of :class:`Worker`, or of one of its sessions."""

    name: str
    arguments: tuple = ()
    session: int | None = None


class Failure(NamedTuple):
    """What went wrong on a rank: the error's class and message, and where it came from."""

    kind: str
    message: str
    host: str
    log: str

    def error(self, rank: int) -> Exception:
        """Give the error for rank 0 to raise; it names the rank."""
        known = _ERRORS.get(self.kind)
        text = f"rank {rank} on {self.host}: {self.message}"
        if known is not None:
            return known(text)
        unknown = DeviceError(f"{text} ({self.kind})")
        unknown.log = self.log
        return unknown


def attempt(work: Callable, *arguments) -> Any:
    """Call a function; give what it gives, or a :class:`Failure`."""
    try:
        return work(*arguments)
    except Exception as error:  # whatever it is, rank 0 raises it
        log = getattr(error, "log", "") or traceback.format_exc()
        return Failure(type(error).__name__, str(error), platform.node(), log)


class RankSession:
    """A rank's session of its part of the batch, and the sums of all ranks' gradients.

    What is not named here is the session's own. Arguments have been checked, so hooks are called: by their names
    without the underscore, but for ``store_as`` and ``send_as``, which change the session's shape.
    """

    def __init__(self, inner: Session, exchange: Exchange):
        self._inner, self._exchange = inner, exchange
        self._sums: list[np.ndarray] = []  # of this rank's gradients, with integers
        if not self._exact:
            inner.when_whole = exchange.give

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name if name in ("store_as", "send_as") else f"_{name}")

    @property
    def _exact(self) -> bool:
        return self._inner.shape.execution.arithmetic.exact

    def forward(self, skipped, shared, exponents, x, lengths, h0, c0) -> Outputs:
        """Run the part's forward pass; `exponents` are those of integers, of δ and of operands."""
        self._inner._skipped, self._inner._shared = skipped, shared
        self._inner._set_exponents(*exponents)
        return self._inner._forward(x, lengths, h0, c0)

    def backward(self, exponents, dy, dh, dc, delta_threshold: float) -> None:
        """Run the part's backward pass; the gradients of all ranks are added meanwhile, but with integers.

        A rank that fails takes part in the sums all the same, so that no other rank waits for it.
        """
        self._inner._set_exponents(*exponents)
        if self._exact:
            self._inner._backward(dy, dh, dc, delta_threshold)
            self._sums = self._inner._gradient_sums()  # before any rank waits for others to add theirs
            return
        self._exchange.begin()
        try:
            self._inner._backward(dy, dh, dc, delta_threshold)
        finally:
            self._exchange.give_rest()

    def add_sums(self) -> None:
        """Add, with integers, the sums of all ranks, in any order: the backward pass stands on all of them."""
        self._inner._take_gradient_sums(list(map(self._exchange.add_integers, self._sums)))

    def update(self, rule) -> None:
        """Change weights and velocities by the sum of all ranks' gradients."""
        if not self._exact:
            self._inner._take_gradients([total.gradients for total in self._exchange.totals()])
        self._inner._update(rule)

    def totals(self) -> list[Total]:
        """Give the sums of all ranks' gradients."""
        if not self._exact:
            return self._exchange.totals()
        norms, _ = self._inner._norm_terms()
        return list(map(Total, self._inner._gradients(), norms))

    def digest(self, name: str) -> str:
        """Give a digest of the weights or the velocities: they must be equal on all ranks."""
        return digest(getattr(self, name)())


class Worker:
    """The devices and sessions of a rank."""

    def __init__(self, world: World):
        self._world, self._thread = world, ThreadPoolExecutor(1, "gradients")
        self._devices: dict[int, Device] = {}
        self._sessions: dict[int, RankSession | StageSession] = {}

    def do(self, call: Call) -> Any:
        """Do what a call says."""
        of = self if call.session is None else self._sessions[call.session]
        return getattr(of, call.name)(*call.arguments)

    def introduce(self, preset: str) -> dict[str, str | int]:
        """Say what must be the same on all ranks: this package, the preset's numbers, the contract with the machine."""
        numbers = repr(config.preset(preset)).encode()
        return {
            "version": importlib.metadata.version("etalstm"),
            "preset": hashlib.blake2b(numbers, digest_size=8).hexdigest(),
            "contract": contract.VERSION,
        }

    def open(self, number: int, open_device: Callable[..., Device], name: str, preset: str, options: dict) -> None:
        """Open this rank's device."""
        if name.endswith(LOCAL_RANK):
            name = name.removesuffix(LOCAL_RANK) + str(self._world.local_rank)
        self._devices[number] = open_device(name, preset, **options)

    def create(self, device: int, number: int, shape: TrainingShape) -> None:
        """Make a session for a part of a batch.

        A layer's gradients are exchanged beside the passes of those below, with integers the sums of all behind them.
        """
        inner = self._devices[device].create(replace(shape, layers_apart=not shape.execution.arithmetic.exact))
        exchange = Exchange(self._world.gradients, self._thread, shape.network)
        self._sessions[number] = RankSession(inner, exchange)

    def create_stage(self, device: int, number: int, shape: TrainingShape, grid: Grid) -> None:
        """Make a session for the stage of a pipeline that this rank has; all ranks do so together."""
        role = grid.role(self._world.rank)
        communicator = self._world.stage_communicator(grid.depth)
        of_stage = shape_of_stage(shape, role, self._devices[device].memory_bytes)
        sessions = [self._devices[device].create(of_stage) for _ in range(role.most_kept)]
        exchange = Exchange(communicator, self._thread, of_stage.network)
        messages = self._world.layers, self._world.losses
        self._sessions[number] = StageSession(sessions, role, exchange, self._thread, *messages)

    def drop(self, numbers: list[int]) -> None:
        """Forget sessions, whose memory is free then."""
        for number in numbers:
            self._sessions.pop(number, None)

    def close(self, number: int) -> None:
        """Close a device."""
        self._devices.pop(number).close()

    def device(self, number: int) -> Device:
        """Give an open device of this rank."""
        return self._devices[number]


def serve(world: World) -> None:
    """Do what rank 0 asks for, on another rank, until rank 0 ends."""
    worker = Worker(world)
    while (call := world.receive(0)) is not None:
        world.answer(attempt(worker.do, call))


class Team:
    """Lets every rank do a call at the same time, rank 0 too, and gives what came of it.

    `own` is what rank 0 does itself; `losses` go to and from the last stages of pipelines.
    """

    def __init__(self, world: World):
        self._world, self.own, self.size, self.losses = world, Worker(world), world.size, world.losses
        self._numbers = count()
        self._unused: list[int] = []

    def new_number(self) -> int:
        """Give a number for a device or a session."""
        return next(self._numbers)

    def forget(self, session: int) -> None:
        """Let all ranks drop a session at the next call."""
        self._unused.append(session)

    def each(self, calls: Sequence[Call]) -> list[Any]:
        """Let every rank do its own call; give the results, rank 0's first.

        Once all ranks have answered, the error of the first rank that failed is raised; its message names the rank.
        """
        if self._unused:
            dropped, self._unused = self._unused, []
            self.all(Call("drop", (dropped,)))
        self._world.ask(calls[1:])
        return _checked([attempt(self.own.do, calls[0]), *self._world.answers()])

    def others(self, call: Call) -> list[Any]:
        """Let every rank but rank 0 do a call; raises as :meth:`each`."""
        self._world.ask([call] * (self.size - 1))
        return _checked(self._world.answers(), first=1)

    def all(self, call: Call) -> list[Any]:
        """Let every rank do the same call."""
        return self.each([call] * self.size)

    def meet(self, preset: str) -> None:
        """Check that all ranks have one program and one configuration; :class:`DeviceError` names one that differs."""
        mine, *others = self.all(Call("introduce", (preset,)))
        for rank, other in enumerate(others, start=1):
            for name, value in mine.items():
                if other[name] != value:
                    raise DeviceError(
                        f"rank {rank} has {name} {other[name]}, rank 0 has {value}: "
                        "all ranks need the same program and preset"
                    )


def _checked(results: list[Any], first: int = 0) -> list[Any]:
    """Give results of the ranks from `first` on, or raise the first of their failures."""
    for rank, result in enumerate(results, start=first):
        if isinstance(result, Failure):
            raise result.error(rank)
    return results


@cache
def find_team() -> Team | None:
    """Give all ranks, to rank 0; None in a process that mpiexec has not started, or has started alone."""
    world = find_world()
    return Team(world) if world else None
