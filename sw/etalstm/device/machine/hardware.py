"""A machine as a device: on which transport it is opened, and where its sessions lie in its memory."""

import importlib
import re
import weakref

import numpy as np

from etalstm.device.access import exclusive
from etalstm.device.cards.xdma import XdmaTransport
from etalstm.device.device import Device
from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.integer_parts import parted_class
from etalstm.device.machine.integer_session import session_class
from etalstm.device.machine.parts import PartedSession, shape_of_part
from etalstm.device.machine.planning import first_room, plan_session
from etalstm.device.machine.session import HardwareSession
from etalstm.device.shape import TrainingShape
from etalstm.device.transport import Transport
from etalstm.errors import PlanError
from etalstm.network.slices import Parts, part_counts
from etalstm.plan.choose.sharing import Words, best_room
from etalstm.plan.memory.memory_map import Placement, find
from etalstm.plan.plan import Plan
from etalstm_hw.config import Config
from etalstm_hw.config import preset as named_preset


class HardwareDevice(Device):
    """A machine that trains, whatever its transport."""

    def __init__(self, name: str, preset: str, accelerator: Accelerator):
        super().__init__(name, preset)
        self.accelerator = accelerator
        self._sessions: weakref.WeakSet[HardwareSession] = weakref.WeakSet()

    def _create(self, shape: TrainingShape) -> HardwareSession | PartedSession:
        """Plan a network and place it in memory that no living session uses.

        If the whole batch does not fit, parts of it are worked on one after the other: as few as fit, of one slice at
        least. Of the numbers of groups that fit and that the slices allow, the fastest is taken.
        """
        make, of_parts = session_class(self.accelerator.config), parted_class(self.accelerator.config)
        for count in part_counts(shape.execution.slices):
            parts = Parts(shape.batch, shape.execution.slices, count)
            try:
                session = make(shape_of_part(shape, parts), self.accelerator, self._place, self._find, count)
            except PlanError as error:
                problem = error if count == 1 else PlanError(f"one of {count} slices does not fit: {error}")
                continue
            self._sessions.add(session)
            return of_parts(shape, parts, session) if count > 1 else session
        raise problem

    @property
    def memory_bytes(self) -> int:
        """Bytes of the machine's memory."""
        return self.accelerator.transport.memory_bytes

    @exclusive
    def best_slices(self, shape):
        """Tell how many slices use the channels best: one for each of the fastest groups that fit the memory."""
        try:
            return plan_session(self.accelerator, shape, first_room(shape), choose_slices=True).map.division.slices
        except PlanError:
            return self._fewest_slices(shape)

    @exclusive
    def best_shared_tokens(self, shape, batches):
        """Tell it by an estimate of the first layer's cycles; none where sharing takes memory that is not there.

        With integers there is no estimate, so none: of many tokens the array that chooses one takes longer than x.
        """
        if self.accelerator.config.integers:
            return None
        try:
            plan = plan_session(self.accelerator, shape, first_room(shape))
            room = best_room(plan, [words_of(plan.map.division, tokens) for tokens in batches])
            if room is None:
                return None
            sharing = plan_session(self.accelerator, shape.with_execution(shared_tokens=room), first_room(shape))
        except PlanError:
            return None
        same = sharing.groups == plan.groups and len(sharing.map.stored.segments) == len(plan.map.stored.segments)
        return room if same else None

    def _fewest_slices(self, shape: TrainingShape) -> int:
        """Give the smallest power of two of slices one of which fits the memory; 1 if none does."""
        for exponent in range(shape.batch.bit_length()):
            parts = Parts(shape.batch, 1 << exponent, 1 << exponent)
            try:
                of_part = shape_of_part(shape.with_execution(slices=1 << exponent), parts)
                plan_session(self.accelerator, of_part, first_room(shape), parts=parts.count)
                return 1 << exponent
            except PlanError:
                continue
        return 1

    def _release(self):
        self.accelerator.transport.close()

    def _place(self, plan: Plan, mover: HardwareSession) -> Placement:
        """Find memory that no other living session than `mover` uses; :class:`PlanError` if there is none."""
        memory_bytes = self.accelerator.transport.memory_bytes
        others = [session for session in self._sessions if session is not mover]
        placement = plan.place(memory_bytes, [part for session in others for part in session.addresses])
        if placement is None:
            raise PlanError(
                f"the network needs {plan.memory_bytes:,} bytes of memory beside the {len(others)} that are there, "
                f"the device has {self.memory_bytes:,}"
            )
        return placement

    def _find(self, size_bytes: int) -> range | None:
        taken = [part for session in self._sessions for part in session.addresses]
        return find(size_bytes, self.memory_bytes, taken)


def words_of(division: Parts, tokens: np.ndarray) -> tuple[int, Words]:
    """Count the distinct tokens of a batch, and the tokens of the parts that have most; -1 is padding."""
    parts = [division.sequences(part) for part in range(division.count)]
    of_parts = [np.where(sequences < 0, -1, tokens[:, sequences]) for sequences in parts]
    places = max(int(np.count_nonzero(part >= 0)) for part in of_parts)
    distinct = max(len(np.unique(part[part >= 0])) for part in of_parts)
    return len(np.unique(tokens[tokens >= 0])), Words(places, distinct)


# Imported when opened: a simulator lies above the devices, and a host of the board does not need one.
_SIMULATIONS = {"sim": ("etalstm_sim.transport", "SimTransport"), "xdma:sim": ("etalstm_sim.nodes", "SimulatedCard")}
_CARD = re.compile(r"xdma:(\d{1,4})")


def is_simulation(name: str) -> bool:
    """Say whether a device of that name is simulated."""
    return name in _SIMULATIONS


def is_hardware(name: str) -> bool:
    """Say whether :func:`open_hardware` takes that name."""
    return is_simulation(name) or _CARD.fullmatch(name) is not None


def open_hardware(name: str, preset: str = "sim", **options) -> HardwareDevice:
    """Open a transport, check the machine behind it and make it a device.

    Names are "sim", the Verilated machine; "xdma:N", card N; "xdma:sim", the host path of a card over the Verilated
    machine. `preset` is the configuration that the machine has, or for a simulation gets. The options are those of the
    transport: :class:`etalstm_sim.transport.SimTransport`, :class:`etalstm.device.cards.xdma.XdmaTransport`,
    :class:`etalstm_sim.nodes.SimulatedCard`.

    ``ValueError`` if there is no such preset, or an option is out of range; :class:`DeviceError` if the machine cannot
    be built, is not there, or is another one.
    """
    config = named_preset(preset)
    transport = _open_transport(name, config, options)
    try:
        return HardwareDevice(name, preset, Accelerator(transport, config))
    except BaseException:
        transport.close()
        raise


def _open_transport(name: str, config: Config, options: dict) -> Transport:
    if card := _CARD.fullmatch(name):
        return XdmaTransport(config, int(card[1]), **options)
    module, transport_class = _SIMULATIONS[name]
    return getattr(importlib.import_module(module), transport_class)(config, **options)
