"""Cells that are no LSTM run from their declarations: the golden reference and the machine give the same bits."""

import numpy as np
import pytest

from etalstm.device import open_device
from etalstm.device.machine.windows import Windows
from etalstm.golden.passes import active_steps
from etalstm.golden.product import FloatProduct
from etalstm.golden.reference import cell_backward, cell_forward, column_norms, descend
from etalstm.network.cells.hlstm import HLSTM
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import LayerStorage, Storage
from etalstm.network.update_rule import UpdateRule
from etalstm.plan.passes.weights import needed_scale
from etalstm.plan.plan import Plan
from etalstm_hw import contract
from etalstm_hw.config import PRESETS
from tests.network.cells.two_stages import TWO_STAGES
from tests.plan.machine import InterpretedAccelerator

CONFIG = PRESETS["test"]
THRESHOLDS = (0.05, 0.02, 0.05, 0.02, 0.1, 0.1)  # as many as a cell has kinds
DELTA_THRESHOLD = 0.05
STEPS, BATCH, INPUTS, UNITS, LAYERS = 3, 5, 6, 19, 2
RULE = UpdateRule(0.1, 0.9, 0.01, 0.5)


class Machine:
    """An accelerator with a plan's arrays in its memory."""

    def __init__(self, accelerator, plan):
        self._accelerator, self._placement = accelerator, plan.place(accelerator.transport.memory_bytes)
        self._windows = Windows(accelerator.transport, plan.map.memory, self._placement)
        self.write, self.read = self._windows.write, self._windows.read
        for array in plan.map.memory.arrays.values():
            if not array.raw:
                self.write(array, np.zeros(array.shape, np.float32))

    def set_parameters(self, first, *values):
        for number, value in enumerate(values, first):
            self._accelerator.set_parameter(number, value)

    def run(self, programs):
        placement = self._placement
        self._accelerator.set_windows(placement.base, placement.stride, placement.window_bytes)
        for program in programs:
            self._accelerator.run(self._accelerator.load(program.image(), placement.programs))


@pytest.fixture(scope="module", params=["interpreted", "sim"])
def accelerator(request):
    if request.param == "interpreted":
        yield InterpretedAccelerator(CONFIG)
    else:
        with open_device("sim", "test", stall=0.5) as device:
            yield device.accelerator


def canonical(rows, gates):
    """Reorder rows from gate*H + unit to gates*unit + gate."""
    return rows.reshape(gates, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)


def assert_same_bits(name, actual, expected):
    assert actual.shape == expected.shape, name
    wrong = np.argwhere(actual.view(np.uint32) != expected.view(np.uint32))
    assert not wrong.size, f"{name}{wrong[0]}: got {actual[tuple(wrong[0])]}, expected {expected[tuple(wrong[0])]}"


class Iteration:
    """Random arguments of an iteration, and its expected results; matrices in host row order, [layer][product]."""

    def __init__(self, cell, lengths, storage, skipped, delta_threshold):
        self.cell, generator = cell, np.random.default_rng(4)

        def draw(*size, scale=1.0):
            return (generator.standard_normal(size) * scale).astype(np.float32)

        self.active = active_steps(lengths, STEPS)
        self.x, self.dy = (draw(STEPS, BATCH, n) * self.active[:, :, None] for n in (INPUTS, UNITS))
        self.h0, self.c0, self.dh, self.dc = (draw(LAYERS, BATCH, UNITS) for _ in range(4))
        self.matrices = []
        for inputs in (INPUTS, UNITS):
            sizes = cell.matrices(inputs, UNITS)
            self.matrices.append([(draw(*size, scale=0.5), draw(size[0], scale=0.5)) for size in sizes])
        self._forward(storage, skipped)
        self._backward(delta_threshold)

    def _forward(self, storage, skipped):
        self.passes, x = [], self.x
        for layer, pairs in enumerate(self.matrices):
            products = [
                FloatProduct(*(canonical(array, len(product.gates)) for array in pair))
                for product, pair in zip(self.cell.products, pairs, strict=True)
            ]
            states = self.h0[layer], self.c0[layer]
            forward, broadcasts = cell_forward(self.cell, products, x, *states, self.active, storage, skipped[layer])
            self.passes.append((products, forward, broadcasts))
            x = forward.y

    def _backward(self, delta_threshold):
        self.gradients, dy = [], self.dy
        for layer in reversed(range(LAYERS)):
            final = dy, self.dh[layer], self.dc[layer]
            self.gradients.insert(0, cell_backward(self.cell, *self.passes[layer], *final, delta_threshold))
            dy = self.gradients[0][0]


def load(machine, plan, data):
    for number, layer in enumerate(plan.map.layers):
        for arrays, (weights, bias) in zip(layer.products, data.matrices[number], strict=True):
            machine.write(arrays.rows, weights)
            machine.write(arrays.columns, weights)
            machine.write(arrays.bias, bias)
        machine.write(layer.h.step(0), data.h0[number])
        machine.write(layer.c.step(0), data.c0[number])
        machine.write(layer.dh.array, data.dh[number][None])
        machine.write(layer.dc.array, data.dc[number][None])
    machine.write(plan.map.layers[0].products[0].x.array, data.x)
    machine.write(plan.map.layers[-1].dy.array, data.dy)
    if plan.map.mask:
        machine.write(plan.map.mask.array, data.active.astype(np.float32))


def check_states(machine, plan, data):
    for layer, (_, forward, _) in zip(plan.map.layers, data.passes, strict=True):
        h = np.where(data.active[:, :, None], forward.y, np.float32(0))
        assert_same_bits(f"h{layer.number}", machine.read(layer.h.array)[1:], h)
        assert_same_bits(f"c{layer.number}", machine.read(layer.c.step(layer.c_at(STEPS))), forward.c[-1])


def check_gradients(machine, plan, data):
    assert_same_bits("dx", machine.read(plan.map.layers[0].products[0].dx.array), data.gradients[0][0])
    for layer, (_, dh0, dc0, products) in zip(plan.map.layers, data.gradients, strict=True):
        assert_same_bits(f"dh{layer.number}", machine.read(layer.dh.array)[0], dh0)
        assert_same_bits(f"dc{layer.number}", machine.read(layer.dc.array)[0], dc0)
        for arrays, (dw, db, _) in zip(layer.products, products, strict=True):
            name, gates = arrays.gradient.name, arrays.tiling.gates
            assert_same_bits(name, canonical(machine.read(arrays.gradient), gates), dw)
            assert_same_bits(f"bias {name}", canonical(machine.read(arrays.bias_gradient), gates), db)
            assert_same_bits(arrays.norms.name, machine.read(arrays.norms), column_norms(dw))


def check_update(machine, plan, data):
    for layer, (products, _, _), results in zip(plan.map.layers, data.passes, data.gradients, strict=True):
        for arrays, product, (dw, db, _) in zip(layer.products, products, results[3], strict=True):
            name, gates = arrays.columns.name, arrays.tiling.gates
            expected, _ = descend(product.weights, np.zeros_like(product.weights), dw, RULE, RULE.weight_decay)
            assert_same_bits(name, canonical(machine.read(arrays.columns), gates), expected)
            assert_same_bits(arrays.rows.name, machine.read(arrays.rows), machine.read(arrays.columns))
            expected, _ = descend(product.bias, np.zeros_like(product.bias), db, RULE, np.float32(0))
            assert_same_bits(arrays.bias.name, canonical(machine.read(arrays.bias), gates), expected)


@pytest.mark.parametrize("skipped", [(), ((0, 1), (1, 2))], ids=["all cells", "skipped cells"])
@pytest.mark.parametrize("lengths", [(STEPS,) * BATCH, (3, 1, 2, 3, 2)], ids=["whole", "unequal lengths"])
@pytest.mark.parametrize("policy", ["dense", "ms1", "ms1-bf16"])
@pytest.mark.parametrize("cell", [TWO_STAGES, HLSTM], ids=lambda cell: cell.name)
def test_cells_train_with_the_bits_of_the_reference(accelerator, cell, policy, lengths, skipped):
    compressed, cells = policy != "dense", np.zeros((LAYERS, STEPS), bool)
    for number in skipped:
        cells[number] = True
    thresholds = THRESHOLDS[: len(cell.kinds)] if compressed else (0.0,) * len(cell.kinds)
    delta_threshold = DELTA_THRESHOLD if compressed else 0.0
    data = Iteration(cell, lengths, LayerStorage(policy, thresholds), cells, delta_threshold)
    network, masked = NetworkShape(INPUTS, UNITS, LAYERS), min(lengths) < STEPS
    plan = Plan(CONFIG, network, BATCH, STEPS, Execution(storage=Storage(policy)), masked=masked, cell=cell)
    machine = Machine(accelerator, plan)
    load(machine, plan, data)
    machine.set_parameters(contract.PARAMETER_THRESHOLDS, *thresholds)
    machine.set_parameters(contract.PARAMETER_DELTA_THRESHOLD, delta_threshold, needed_scale(delta_threshold))
    machine.set_parameters(contract.PARAMETER_SCALE, RULE.scale, RULE.weight_decay, RULE.momentum, -RULE.learning_rate)
    forward, backward = plan.passes(cells)
    machine.run(forward)
    check_states(machine, plan, data)
    machine.run(backward)
    check_gradients(machine, plan, data)
    machine.run([plan.programs["update"]])
    check_update(machine, plan, data)
