"""What paths go through a primitive, start there or end there."""

from etalstm_boards.resources.delays import Delay
from etalstm_boards.resources.dsp_paths import add_dsp
from etalstm_boards.resources.graph import Graph
from etalstm_boards.resources.nets import Pin, is_clock
from etalstm_boards.resources.step import Step
from etalstm_boards.resources.synthesis import Cell

_LUT = Step(Delay.LUT.ps, luts=1)
_MUX = Step(Delay.MUX.ps)
_CARRY_ENTRY = Step(Delay.CARRY_ENTRY.ps, chains=1)
_CARRY_STEPS = {"CO": Step(Delay.CARRY_PASS.ps), "O": Step(Delay.CARRY_EXIT.ps)}
_RAM_ADDRESSES = {"DPO": "DPRA", "SPO": "A"}  # RAM64X1D and its kin; those with DOA … DOH read by ADDRA … ADDRH
_FLIP_FLOP = Delay.FLIP_FLOP_OUT, Delay.FLIP_FLOP_DATA
_STORES = {  # by the beginning of the type, and whether there is an output register: clock to output, setup
    ("RAMB", False): (Delay.BLOCK_RAM_OUT, Delay.BLOCK_RAM_SETUP),
    ("RAMB", True): (Delay.BLOCK_RAM_REGISTER_OUT, Delay.BLOCK_RAM_SETUP),
    ("URAM", False): (Delay.ULTRA_RAM_OUT, Delay.ULTRA_RAM_SETUP),
    ("URAM", True): (Delay.ULTRA_RAM_REGISTER_OUT, Delay.ULTRA_RAM_SETUP),
    ("RAM", False): (Delay.LUT_RAM_OUT, Delay.LUT_RAM_SETUP),
    ("SRL", False): (Delay.LUT_RAM_OUT, Delay.LUT_RAM_SETUP),
}


def add_primitive(graph: Graph, cell: Cell):
    """Add a primitive's paths to a graph."""
    kind = cell.type
    if kind == "INV" or (kind.startswith("LUT") and kind[3:].isdigit()):
        _add_logic(graph, cell, _LUT, ())
    elif kind.startswith("MUXF"):
        _add_logic(graph, cell, _MUX, ("I0", "I1"))
    elif kind == "CARRY4":
        _add_carry(graph, cell)
    elif kind == "DSP48E2":
        add_dsp(graph, cell)
    elif kind.startswith("FD"):
        _add_flip_flop(graph, cell)
    else:
        _add_memory(graph, cell)


def _add_logic(graph: Graph, cell: Cell, step: Step, in_slice: tuple[str, ...]):
    for outs in cell.outputs.values():
        for port, bits in cell.inputs.items():
            graph.edges_between(bits, outs, step, Pin.SLICE if port in in_slice else Pin.ROUTED)


def _add_carry(graph: Graph, cell: Cell):
    """Add four bits of a carry chain. The chain counts where a path enters it."""
    for port, step in _CARRY_STEPS.items():
        for n, out in enumerate(cell.outputs[port]):
            operands = cell.inputs["S"][: n + 1] + cell.inputs["DI"][: n + 1]
            graph.edges_between(operands, [out], _CARRY_ENTRY, Pin.SLICE)
            graph.edges_between(cell.inputs["CYINIT"], [out], _CARRY_ENTRY, Pin.ROUTED)
            for bit in cell.inputs["CI"]:
                if graph.nets.is_carry(bit):
                    graph.edge(bit, out, step, Pin.INNER)
                else:
                    graph.edge(bit, out, _CARRY_ENTRY, Pin.ROUTED)


def _add_flip_flop(graph: Graph, cell: Cell):
    out, setup = _FLIP_FLOP
    for bits in cell.outputs.values():
        for bit in bits:
            graph.start(bit, Step(out.ps), cell.name)
    for port, bits in cell.inputs.items():
        for bit in () if is_clock(cell, port) else bits:
            if port == "D":
                graph.end(bit, Step(setup.ps), Pin.DATA, cell.name)
            else:
                graph.end(bit, Step(Delay.FLIP_FLOP_CONTROL.ps), Pin.ROUTED, f"{cell.name} ({port})")


def _add_memory(graph: Graph, cell: Cell):
    """Add a memory or a shift register: distributed ones are read through a LUT."""
    kinds = (kind for (kind, registered) in _STORES if registered == cell.registered and cell.type.startswith(kind))
    out, setup = _STORES.get((next(kinds, ""), cell.registered), _FLIP_FLOP)
    for port, bits in cell.outputs.items():
        address = _read_address(cell.type, port)
        for bit in bits:
            graph.start(bit, Step(out.ps), cell.name)
        graph.edges_between(cell.inputs.get(address, ()) if address else (), bits, _LUT, Pin.ROUTED)
    for port, bits in cell.inputs.items():
        for bit in () if is_clock(cell, port) else bits:
            graph.end(bit, Step(setup.ps), Pin.ROUTED, cell.name)


def _read_address(kind: str, port: str) -> str | None:
    """Name the port with a combinational path to an output: the address of distributed RAMs and shift registers."""
    if kind.startswith("SRL"):
        return "A"
    if not kind.startswith("RAM") or kind.startswith("RAMB"):
        return None
    return _RAM_ADDRESSES.get(port) or port.replace("DO", "ADDR")
