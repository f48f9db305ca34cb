"""What the tests run on several ranks: the rank program of one check, named by the first argument."""

import sys
from dataclasses import replace

import numpy as np

from etalstm.comparison import RandomRun, compare
from etalstm.delta_inputs import DeltaInputs
from etalstm.device import TrainingShape, open_device
from etalstm.device.golden import GoldenDevice, GoldenSession
from etalstm.errors import DeviceError, DivergedError, EtaLstmError
from etalstm.golden.totals import add_arrays
from etalstm.network import NetworkShape, initial_parameters
from etalstm.ranks.device import RanksDevice
from etalstm.ranks.exchange import ordered_total
from etalstm.ranks.pipeline_device import PipelineDevice
from etalstm.ranks.process import as_rank
from etalstm.ranks.team import find_team
from etalstm.ranks.worker import Call
from etalstm.ranks.world import find_world
from etalstm.slices import slice_ranges, tree_total
from etalstm.storage import Storage

NETWORK = NetworkShape(3, 5, 2)
PRUNED = Storage("ms1-bf16", 0.05)
SHAPES = {
    "dense": TrainingShape(NETWORK, 8, 4, slices=4),
    "masked, of unequal slices": TrainingShape(NETWORK, 9, 6, masked=True, slices=4, storage=PRUNED),
    "a slice a rank": TrainingShape(NETWORK, 8, 3, slices=4, inputs=DeltaInputs(0.1, 2)),
    "bf16 weights": TrainingShape(NETWORK, 12, 3, slices=8, weight_format="bf16"),
    "shared tokens": TrainingShape(NETWORK, 8, 5, masked=True, slices=8, shared_tokens=6),
}


def ranks_device(open_one=open_device, name="golden", **options):
    return RanksDevice(find_team(), open_one, name, "test", {}, **options)


def passes(name="golden"):
    """Every shape gives on all ranks together what one device gives: all that a session can tell."""
    with ranks_device(name=name) as device, open_device("golden") as one:
        for what, shape in SHAPES.items():
            sessions = {"one": one.create(shape), "ranks": device.create(shape)}
            pruned = shape.storage.compressed
            run = RandomRun(2, "per-step", 1, 0.3 if pruned else 0.0, 0.001 if pruned else 0.0)
            found = compare(sessions, shape, run)
            assert found.words > 0, what
            assert not found.mismatched_words, f"{what}: {found}"
            print(what, sessions["ranks"].counters().keys() == sessions["one"].counters().keys())


DEEP = NetworkShape(3, 5, 3)
PIPELINED = {
    "dense": TrainingShape(DEEP, 8, 4, slices=4),
    "masked, of unequal slices": TrainingShape(
        DEEP, 21, 6, masked=True, slices=16, storage=Storage(("ms1-bf16", "dense", "ms1"), 0.05)
    ),
    "delta inputs": TrainingShape(DEEP, 8, 3, slices=4, inputs=DeltaInputs((0.1, (0.2, 0.1), 0.05), 2)),
    "bf16 weights": TrainingShape(DEEP, 12, 3, slices=4, weight_format="bf16"),
    "shared tokens": TrainingShape(DEEP, 8, 5, masked=True, slices=8, shared_tokens=6),
}


def pipeline_device(depth, open_one=open_device, name="golden", **options):
    return PipelineDevice(find_team(), open_one, name, "test", {}, depth=depth, **options)


class Piped:
    """A session whose two passes are called as one, where :func:`compare` calls one after the other."""

    def __init__(self, session):
        self._session = session

    def __getattr__(self, name):
        return getattr(self._session, name)

    def forward(self, x, lengths, h0, c0, skipped, tokens):
        """Keep the inputs; give the outputs of an evaluation."""
        self._inputs = {"lengths": lengths, "h0": h0, "c0": c0, "skipped_cells": skipped, "tokens": tokens}
        self._x = x
        return self._session.forward(x, **self._inputs)

    def backward(self, dy, dh=None, dc=None, delta_threshold=0.0):
        """Run both passes with a loss whose gradient is `dy`, and no gradients of the states."""
        ranges = slice_ranges(dy.shape[1], self._session.shape.slices)
        _, back = self._session.forward_backward(
            self._x, lambda number, y: dy[:, ranges[number]],
            delta_threshold=delta_threshold, measured=True, **self._inputs,
        )  # fmt: skip
        return back


def pipeline(depth=2, name="golden"):
    """Every shape gives in a pipeline what one device gives."""
    with pipeline_device(int(depth), name=name) as device, open_device("golden") as one:
        for what, shape in PIPELINED.items():
            each = {"one": one.create(shape), "pipeline": device.create(shape)}
            pruned = shape.storage.compressed
            threshold = 0.001 if pruned and "dense" not in shape.storage.policy else 0.0
            run = RandomRun(2, "per-step", 1, 0.3 if pruned else 0.0, threshold)
            found = compare({key: Piped(session) for key, session in each.items()}, shape, run)
            assert found.words > 0, what
            assert not found.mismatched_words, f"{what}: {found}"
            print(what, each["pipeline"].counters().keys() == each["one"].counters().keys())


def without_words(session):
    """Give what a session counts, but for the words of streams: each rank's streams end with a part of a word."""
    return [replace(usage, words=0) for usage in session.usage()]


def measures(depth=1):
    """What a session measures of its passes is that of one device."""
    shape = replace(SHAPES["masked, of unequal slices"], inputs=DeltaInputs(0.1, 3))
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
    """Fails in a backward pass, after a layer, on one rank."""

    def _backward(self, dy, dh, dc, delta_threshold):
        def fail_below(layer, gradients):
            if told:
                told(layer, gradients)
            if layer == self.shape.network.layers - 1 and find_world().rank == 1:
                raise DeviceError("the card has left the bus")

        told, self.when_whole = self.when_whole, fail_below
        try:
            super()._backward(dy, dh, dc, delta_threshold)
        finally:
            self.when_whole = told


class FailingDevice(GoldenDevice):
    """Makes sessions that fail."""

    def _create(self, shape):
        return FailingSession(shape)


def open_failing(name, preset):
    """Open a device that fails on rank 1."""
    return FailingDevice(preset)


def failure(depth=1):
    """A rank that fails is named; the others do not wait for it, and the session can be used again."""
    shape, depth = SHAPES["dense"], int(depth)
    with pipeline_device(depth, open_failing) if depth > 1 else ranks_device(open_failing) as device:
        session = device.create(shape)
        session.load(initial_parameters(NETWORK, 0))
        for _ in range(2):
            try:
                session.forward_backward(np.ones(shape.x_shape, np.float32), lambda _, y: y)
            except DeviceError as error:
                assert str(error).startswith("rank 1 on "), error
                assert str(error).endswith("the card has left the bus"), error
            else:
                raise AssertionError("rank 1 did not fail")


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
        session.forward_backward(np.ones(shape.x_shape, np.float32), loss)
        assert len(calls) == 2 + shape.slices, calls


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
            refused(expected, device.create, TrainingShape(NETWORK, batch, 3, slices=slices))
        assert device.best_slices(TrainingShape(NETWORK, 12, 3)) == 4
    with pipeline_device(2) as device:
        odd, low = TrainingShape(NETWORK, 8, 3, slices=7), TrainingShape(NetworkShape(3, 5), 8, 3, slices=8)
        refused("7 slices can be divided among 1, 7 pipelines, so that each has a whole subtree; ", device.create, odd)
        refused("a layer for each stage at least: pipeline must be at most 1, got 2", device.create, low)
        session = device.create(TrainingShape(NETWORK, 8, 3, slices=8))
        session.load(initial_parameters(NETWORK, 0))
        y = session.forward(np.ones(session.shape.x_shape, np.float32)).y
        refused("forward and backward pass overlap: call forward_backward()", session.backward, y)
        assert device.best_slices(TrainingShape(NETWORK, 12, 3)) == 12
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
    """Run the check that the first argument names."""
    globals()[sys.argv[1]](*sys.argv[2:])
    print(f"{sys.argv[1]} done")
    return 0


if __name__ == "__main__":
    sys.exit(main() if sys.argv[1] == "sums" else as_rank(main))
