"""The paths of a DSP slice: operands, pre-adder, multiplier, adder, result; behind each there may be a register."""

from etalstm_boards.resources.delays import Delay
from etalstm_boards.resources.graph import Graph
from etalstm_boards.resources.nets import Pin, is_clock
from etalstm_boards.resources.step import Step
from etalstm_boards.resources.synthesis import Cell

_MULTIPLY = Step(Delay.DSP_MULTIPLY.ps, multipliers=1)
_ADD = Step(Delay.DSP_ADD.ps, chains=1)
_PREADD = Step(Delay.DSP_PREADD.ps, chains=1)
_OUT, _REGISTERED_OUT = Step(Delay.DSP_OUT.ps), Step(Delay.DSP_REGISTER_OUT.ps)
_SETUP = Step(Delay.DSP_SETUP.ps)
_ENABLES = {"A": "CEA2", "B": "CEB2", "D": "CED", "AD": "CEAD", "C": "CEC", "M": "CEM", "P": "CEP", "OPMODE": "CECTRL"}
_FACTORS = {"A": "A", "ACIN": "A", "B": "B", "BCIN": "B", "D": "D"}  # the others are operands of the adder
_CASCADES = ("ACIN", "BCIN", "PCIN")  # from the slice below, without a net
_COPIES = {"ACOUT": "A", "BCOUT": "B"}  # of an operand, for the slice above


def add_dsp(graph: Graph, cell: Cell):
    """Add a DSP slice's paths to a graph.

    Yosys connects the enables of the registers that a slice has; those of others are absent or 0.
    """
    registers = {name for name, enable in _ENABLES.items() if cell.inputs.get(enable, ["0"]) != ["0"]}
    preadded, factor, addend, total = (graph.inner() for _ in range(4))
    preadds = any(isinstance(bit, int) for bit in cell.inputs.get("D", ()))

    def stage(source: int, target: int, step: Step, register: str):
        if register in registers:
            graph.end(source, step, Pin.INNER, cell.name)
            graph.start(target, Step(), cell.name)
        else:
            graph.edge(source, target, step, Pin.INNER)

    def operand(port: str, bits: list, register: str, target: int):
        pin = Pin.INNER if port in _CASCADES else Pin.ROUTED
        if register in registers:
            graph.start(target, Step(), cell.name)
            for bit in bits:
                graph.end(bit, _SETUP, pin, cell.name)
        else:
            graph.edges_between(bits, [target], Step(), pin)

    stage(preadded, factor, _PREADD, "AD")
    stage(factor, addend, _MULTIPLY, "M")
    if "P" in registers:
        graph.end(addend, _ADD, Pin.INNER, cell.name)
    else:
        graph.edge(addend, total, _ADD, Pin.INNER)
    for port, bits in cell.inputs.items():
        if is_clock(cell, port):
            continue
        if port.startswith(("CE", "RST")):
            for bit in bits:
                graph.end(bit, _SETUP, Pin.ROUTED, cell.name)
        elif port in _FACTORS:
            before = preadded if preadds and _FACTORS[port] != "B" else factor
            operand(port, bits, _FACTORS[port], before)
        else:
            operand(port, bits, port, addend)
    _add_outputs(graph, cell, registers, total)


def _add_outputs(graph: Graph, cell: Cell, registers: set[str], total: int):
    for port, bits in cell.outputs.items():
        operand = _COPIES.get(port)
        if (operand or "P") in registers:
            for bit in bits:
                graph.start(bit, _REGISTERED_OUT, cell.name)
        elif operand is None:
            graph.edges_between([total], bits, _OUT, Pin.INNER)
        else:
            for bit, out in zip(cell.inputs.get(operand, ()), bits, strict=False):
                graph.edge(bit, out, _OUT, Pin.ROUTED)
