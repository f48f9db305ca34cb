"""What the tests run on several ranks: checks, each an argument with its own arguments behind colons."""

import sys
from dataclasses import replace

import numpy as np

from etalstm.device import TrainingShape, open_device
from etalstm.device.comparison import RandomRun, compare
from etalstm.device.golden import GoldenDevice, GoldenSession
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.ranks.device import RanksDevice
from etalstm.device.ranks.exchange import ordered_total
from etalstm.device.ranks.pipeline import PipelineDevice
from etalstm.device.ranks.team import Call, find_team, serve
from etalstm.errors import DeviceError, DivergedError, EtaLstmError
from etalstm.golden.fast.sums import add_arrays
from etalstm.host.mpi import as_rank, find_world
from etalstm.network.arithmetic import arithmetic_named
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.slices import slice_ranges, tree_total
from etalstm.network.storage import Storage
from etalstm_hw import config
from tests.plan.machine import InterpretedAccelerator

NETWORK = NetworkShape(3, 5, 2)
PRUNED = Storage("ms1-bf16", 0.05)
SHAPES = {
    "dense": TrainingShape(NETWORK, 8, 4, Execution(slices=4)),
    "masked, of unequal slices": TrainingShape(NETWORK, 9, 6, Execution(slices=4, storage=PRUNED), masked=True),
    "a slice a rank": TrainingShape(NETWORK, 8, 3, Execution(slices=4, delta_inputs=DeltaInputs(0.1, 2))),
    "bf16 weights": TrainingShape(NETWORK, 12, 3, Execution(slices=8, weight_format="bf16")),
    "shared tokens": TrainingShape(NETWORK, 8, 5, Execution(slices=8, shared_tokens=6), masked=True),
}


def ranks_device(open_one=open_device, name="golden", preset="test", **options):
    return RanksDevice(find_team(), open_one, name, preset, {}, **options)


def check_counters(session, name):
    """They are those of all passes, whenever they are read."""
    found = session.counters()
    assert found == session.counters()
    if name == "golden":
        assert found == {"cycles": 0}, found
    else:
        assert set(found["passes"]) == {"forward", "backward", "update"}, found
        assert found["cycles"] >= max(found["passes"].values()) > 0, found


def passes(name="golden"):
    """Every shape gives on all ranks together what one device gives: all that a session can tell."""
    with ranks_device(name=name) as device, open_device("golden") as one:
        for what, shape in SHAPES.items():
            sessions = {"one": one.create(shape), "ranks": device.create(shape)}
            pruned = shape.execution.storage.compressed
            run = RandomRun(2, "per-step", 1, 0.3 if pruned else 0.0, 0.001 if pruned else 0.0)
            found = compare(sessions, shape, run)
            assert found.words > 0, what
            assert not found.mismatched_words, f"{what}: {found}"
            check_counters(sessions["ranks"], name)


INT8 = arithmetic_named("int8", 15)
INTEGERS = {
    "dense": TrainingShape(NETWORK, 8, 4, Execution(slices=4, arithmetic=INT8)),
    "masked, of unequal slices": TrainingShape(
        NetworkShape(5, 9, 2), 9, 6, Execution(slices=4, storage=PRUNED, arithmetic=INT8), masked=True
    ),
    "delta inputs": TrainingShape(
        NETWORK, 8, 5, Execution(slices=4, delta_inputs=DeltaInputs(0.1, 3), arithmetic=INT8), masked=True
    ),
}


def open_interpreted(name, preset):
    """Open a machine that the interpreter is."""
    return HardwareDevice(name, preset, InterpretedAccelerator(config.preset(preset)))


def counts_of_delta(session):
    """Give what a session counts of δ, and its products."""
    return [(usage.delta_kept, usage.delta_digits, usage.saturated, usage.products) for usage in session.usage()]


def integers(name="interpreter"):
    """Machines with integers on all ranks together have golden's bits, which one rank has."""
    open_one = open_interpreted if name == "interpreter" else open_device
    with ranks_device(open_one, name, "test-int8") as device, open_device("golden") as one:
        for what, shape in INTEGERS.items():
            sessions = {"one": one.create(shape), "ranks": device.create(shape)}
            pruned = shape.execution.storage.compressed
            found = compare(sessions, shape, RandomRun(3, "per-step", 1, 0.3 if pruned else 0.0, 0.001 * pruned))
            assert found.words > 0, what
            assert not found.mismatched_words, f"{what}: {found}"
            assert counts_of_delta(sessions["ranks"]) == counts_of_delta(sessions["one"]), what
            if name != "interpreter":  # which has no clock
                check_counters(sessions["ranks"], name)


DEEP = NetworkShape(3, 5, 3)
PIPELINED = {
    "dense": TrainingShape(DEEP, 8, 4, Execution(slices=4)),
    "masked, of unequal slices": TrainingShape(
        DEEP, 21, 6, Execution(slices=16, storage=Storage(("ms1-bf16", "dense", "ms1"), 0.05)), masked=True
    ),
    "delta inputs": TrainingShape(
        DEEP, 8, 3, Execution(slices=4, delta_inputs=DeltaInputs((0.1, (0.2, 0.1), 0.05), 2))
    ),
    "bf16 weights": TrainingShape(DEEP, 12, 3, Execution(slices=4, weight_format="bf16")),
    "shared tokens": TrainingShape(DEEP, 8, 5, Execution(slices=8, shared_tokens=6), masked=True),
}


def pipeline_device(depth, open_one=open_device, name="golden", preset="test", **options):
    return PipelineDevice(find_team(), open_one, name, preset, {}, depth=depth, **options)


class Piped:
    """A session whose two passes are called as one, where :func:`compare` calls one after the other."""

    def __init__(self, session):
        self._session = session

    def __getattr__(self, name):
        return getattr(self._session, name)

    def forward(self, x, lengths, h0, c0, skipped, tokens):
        """Keep the inputs; give the outputs of an evaluation."""
        self._inputs = {"lengths": lengths, "h0": h0, "c0": c0, "skipped_cells": skipped, "tokens": tokens}
        self._x, self._outputs = x, self._session.forward(x, **self._inputs)
        return self._outputs

    def backward(self, dy, dh=None, dc=None, delta_threshold=0.0):
        """Run both passes with a loss whose gradient is `dy`, and no gradients of the states."""
        ranges = slice_ranges(dy.shape[1], self._session.shape.execution.slices)
        outputs, back = self._session.forward_backward(
            self._x, lambda number, y: dy[:, ranges[number]],
            delta_threshold=delta_threshold, measured=True, **self._inputs,
        )  # fmt: skip
        assert all(np.array_equal(*(getattr(each, name) for each in (outputs, self._outputs))) for name in "yhc")
        return back


def pipeline(depth=2, name="golden"):
    """Every shape gives in a pipeline what one device gives."""
    with pipeline_device(int(depth), name=name) as device, open_device("golden") as one:
        for what, shape in PIPELINED.items():
            each = {"one": one.create(shape), "pipeline": device.create(shape)}
            pruned = shape.execution.storage.compressed
            threshold = 0.001 if pruned and "dense" not in shape.execution.storage.policy else 0.0
            run = RandomRun(2, "per-step", 1, 0.3 if pruned else 0.0, threshold)
            found = compare({key: Piped(session) for key, session in each.items()}, shape, run)
            assert found.words > 0, what
            assert not found.mismatched_words, f"{what}: {found}"
            check_counters(each["pipeline"], name)


INTEGERS_PIPELINED = {
    "dense": TrainingShape(DEEP, 8, 4, Execution(slices=4, arithmetic=INT8)),
    "masked, of unequal slices": TrainingShape(
        DEEP, 9, 6, Execution(slices=4, storage=PRUNED, arithmetic=INT8), masked=True
    ),
    "delta inputs": TrainingShape(
        DEEP, 8, 5, Execution(slices=4, delta_inputs=DeltaInputs(0.1, 3), arithmetic=INT8), masked=True
    ),
}


def integers_pipeline(depth=2, name="interpreter"):
    """Machines with integers in a pipeline have golden's bits, which one rank has."""
    open_one = open_interpreted if name == "interpreter" else open_device
    with pipeline_device(int(depth), open_one, name, "test-int8") as device, open_device("golden") as one:
        for what, shape in INTEGERS_PIPELINED.items():
            each = {"one": one.create(shape), "pipeline": device.create(shape)}
            pruned = shape.execution.storage.compressed
            run = RandomRun(3, "per-step", 1, 0.3 if pruned else 0.0, 0.001 * pruned)
            found = compare({key: Piped(session) for key, session in each.items()}, shape, run)
            assert found.words > 0, what
            assert not found.mismatched_words, f"{what}: {found}"
            assert counts_of_delta(each["pipeline"]) == counts_of_delta(each["one"]), what


def without_words(session):
    """Give what a session counts, but for the words of streams: each rank's streams end with a part of a word."""
    return [replace(usage, words=0) for usage in session.usage()]


def measures(depth=1):
    """What a session measures of its passes is that of one device."""
    shape = SHAPES["masked, of unequal slices"].with_execution(delta_inputs=DeltaInputs(0.1, 3))
    x = np.random.default_rng(0).standard_normal(shape.x_shape).astype(np.float32)
    inputs = {"lengths": [6, 5, 1, 2, 6, 3, 4, 6, 2], "measured": True}
    found = []
    with pipeline_device(int(depth)) if int(depth) > 1 else ranks_device() as device, open_device("golden") as one:
        for each in (one, device):
            session = each.create(shape)
            session.load(initial_parameters(NETWORK, 0))
            session.forward_backward(x, lambda _, y: y, **inputs)
            found.append((without_words(session), session.contributions().tolist()))
            session.store_as(Storage())
            session.send_as(DeltaInputs())
            _, back = session.forward_backward(x, lambda _, y: y, **inputs)
            found[-1] += (without_words(session), back.dx.tobytes(), session.gradients()[0].weights.tobytes())
    for one, ranks in zip(*found, strict=True):
        assert one == ranks, (one, ranks)


def sums():
    """The sum of all ranks' arrays is the tree's; every rank runs this."""
    world = find_world()
    arrays = np.random.default_rng(0).standard_normal((world.size, 1001)).astype(np.float32)
    expected = tree_total(arrays, world.size, add_arrays)
    assert ordered_total(world.gradients, arrays[world.rank]).tobytes() == expected.tobytes()
    assert expected.tobytes() != np.sum(arrays, axis=0).tobytes()  # the order matters


class FailingSession(GoldenSession):
    """Fails once in a pass; a backward pass after its last layer."""

    def __init__(self, shape, fail):
        super().__init__(shape)
        self._fail = fail

    def _forward(self, x, lengths, h0, c0):
        self._fail("forward")
        return super()._forward(x, lengths, h0, c0)

    def _backward(self, dy, dh, dc, delta_threshold):
        def fail_below(layer, gradients):
            if told:
                told(layer, gradients)
            self._fail("backward")

        told, self.when_whole = self.when_whole, fail_below
        try:
            super()._backward(dy, dh, dc, delta_threshold)
        finally:
            self.when_whole = told


class FailingDevice(GoldenDevice):
    """Its sessions fail once, in one kind of pass, on one rank."""

    def __init__(self, preset, rank, way):
        super().__init__(preset)
        self._rank, self._way = rank, way

    def _fail(self, way):
        if way == self._way and find_world().rank == self._rank:
            self._way = None
            raise DeviceError("the card has left the bus")

    def _create(self, shape):
        return FailingSession(shape, self._fail)


def open_failing(name, preset, **options):
    """Open a device that fails."""
    return FailingDevice(preset, **options)


def gradients_of(session, loss=lambda _, y: y):
    """Give all gradients of a pass over ones."""
    session.forward_backward(np.ones(session.shape.x_shape, np.float32), loss)
    return [layer.weights.tobytes() + layer.bias.tobytes() for layer in session.gradients()]


def expected_gradients(shape):
    """Give those of one device."""
    with open_device("golden") as one:
        session = one.create(shape)
        session.load(initial_parameters(shape.network, 0))
        return gradients_of(session)


def failure(depth=1):
    """A rank that fails is named, whichever it is; none waits for it, and the session can be used again."""
    shape, depth = SHAPES["dense"], int(depth)
    expected = expected_gradients(shape)
    for rank in range(find_world().size):
        for way in ("forward", "backward"):
            options = {"rank": rank, "way": way}
            opened = pipeline_device(depth, open_failing, **options) if depth > 1 else None
            with opened or ranks_device(open_failing, **options) as device:
                session = device.create(shape)
                session.load(initial_parameters(NETWORK, 0))
                try:
                    gradients_of(session)
                except DeviceError as error:
                    text = str(error)
                    assert text.startswith(f"rank {rank} on ") and text.endswith("the card has left the bus"), error
                else:
                    raise AssertionError(f"rank {rank} did not fail")
                assert gradients_of(session) == expected, (rank, way)


def diverged():
    """A loss that fails ends the passes of all stages, once; the weights stay, and the session can be used again."""
    shape, calls = SHAPES["dense"], []

    def loss(number, y):
        calls.append(number)
        if len(calls) == 2:
            raise DivergedError("the loss is nan")
        return y

    with pipeline_device(2) as device:
        session = device.create(shape)
        session.load(initial_parameters(NETWORK, 0))
        before = session.parameters()
        try:
            session.forward_backward(np.ones(shape.x_shape, np.float32), loss)
        except DivergedError as error:
            assert str(error) == "the loss is nan", error
        else:
            raise AssertionError("nothing was raised")
        assert len(calls) == 2, calls
        assert all(np.array_equal(a.weights, b.weights) for a, b in zip(before, session.parameters(), strict=True))
        assert gradients_of(session, loss) == expected_gradients(shape)
        assert len(calls) == 2 + shape.execution.slices, calls
        refused("measured must be True", session.contributions)
        refused("dy must be finite", gradients_of, session, lambda _, y: y * np.float32(np.inf))


def refused(expected, work, *arguments):
    """What is wrong is said."""
    try:
        work(*arguments)
    except (EtaLstmError, ValueError) as error:
        assert expected in str(error), error
    else:
        raise AssertionError(f"nothing was refused: {expected}")


def refusals():
    """What cannot be divided is refused, with the numbers that could be."""
    with ranks_device() as device:
        for slices, batch, expected in (
            (6, 12, "6 slices can be divided among 1, 2, 6 ranks, so that each has a whole subtree; there are 4 ranks, "
                    "for which slices could be 4, 8, 12"),
            (1, 3, "for which slices could be no number"),
        ):  # fmt: skip
            refused(expected, device.create, TrainingShape(NETWORK, batch, 3, Execution(slices=slices)))
        assert device.best_slices(TrainingShape(NETWORK, 12, 3)) == 4
    with pipeline_device(2) as device:
        odd, low = (
            TrainingShape(NETWORK, 8, 3, Execution(slices=7)),
            TrainingShape(NetworkShape(3, 5), 8, 3, Execution(slices=8)),
        )
        refused("7 slices can be divided among 1, 7 pipelines, so that each has a whole subtree; ", device.create, odd)
        refused("a layer for each stage at least: pipeline must be at most 1, got 2", device.create, low)
        session = device.create(TrainingShape(NETWORK, 8, 3, Execution(slices=8)))
        session.load(initial_parameters(NETWORK, 0))
        y = session.forward(np.ones(session.shape.x_shape, np.float32)).y
        refused("forward and backward pass overlap: call forward_backward()", session.backward, y)
        assert device.best_slices(TrainingShape(NETWORK, 12, 3)) == 8
        assert device.best_slices(TrainingShape(NETWORK, 90, 3)) == 16
    refused("pipeline must divide the number of ranks, 4, got 3", pipeline_device, 3)
    refused("no such preset", RanksDevice, find_team(), open_device, "golden", "no such preset", {})


def strayed():
    """Weights that are not the same on all ranks are found before they are saved."""
    with ranks_device() as device:
        session = device.create(SHAPES["dense"])
        session.load(initial_parameters(NETWORK, 0))
        find_team().own.do(Call("load", (initial_parameters(NETWORK, 1),) * 2, session.number))
        try:
            session.parameters()
        except DeviceError as error:
            assert str(error).startswith("the parameters of rank 1 are not those of rank 0"), error
        else:
            raise AssertionError("nobody noticed")


def main() -> int:
    """Run the checks that the arguments name, one after the other."""
    for check in sys.argv[1:]:
        name, *arguments = check.split(":")
        globals()[name](*arguments)
        print(f"{check} done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main() if sys.argv[1:] == ["sums"] else as_rank(main, serve))
