"""The VECTOR engine: see etalstm_hw.compute.elementwise and etalstm_hw.compute.elements."""

from etalstm.model.machine.latencies import ACTIVATION, WRITE_ACTIVATION, WRITE_PRODUCT, WRITE_SUM
from etalstm.model.machine.queues import offered, take
from etalstm.model.machine.state import NEVER, VECTOR, VECTORS, compiled, complete, record
from etalstm_hw.contract import SLOTS, Counter, Source, VectorOp

_ACTIVATION = int(Counter.ACTIVATION)
WRITES = 128  # cycles ahead that writes of the scratch memory are known
SCRATCH, PARAMETER, QUEUE = int(Source.SCRATCH), int(Source.PARAMETER), int(Source.QUEUE)
MULTIPLY, SIGMOID, TANH, PACK = (int(getattr(VectorOp, name)) for name in ("MULTIPLY", "SIGMOID", "TANH", "PACK"))

ENGINE = record(
    "valid", "op", "a", "b", "after", "end", "inner", "outer", "has_b", "has_parameter", "last_write", "units_free",
    "pe_at", "scratch_at", "queue_at", "waiting_at", writes=WRITES,
)  # fmt: skip
"""The element at the output, what has been read of it, and until when what is issued keeps ports and units busy."""


@compiled
def slot(cycle):
    """Give the number of a cycle's slot, its bits reversed: see etalstm_hw.compute.shares."""
    number, reverse = cycle % SLOTS, 0
    for _ in range(5):
        reverse = reverse << 1 | number & 1
        number >>= 1
    return reverse


@compiled
def _is_activation(engine):
    """Tell whether the activation units execute the element: they pack, too."""
    return engine.op == SIGMOID or engine.op == TANH or engine.op == PACK


@compiled
def _blocked_until(cycle, engine, sizes):
    """Read ahead what the element needs; give the first cycle in which it may be issued, as far as the PEs let it."""
    function = engine.op == SIGMOID or engine.op == TANH
    first = cycle
    if engine.after and cycle <= engine.last_write:
        return engine.last_write + 1
    if not function and sizes.scratch_reads == 1 and engine.b == SCRATCH and not engine.has_b:
        engine.has_b = 1
        engine.scratch_at = cycle
        first = cycle + 1
    if not function and engine.a == PARAMETER and engine.b == PARAMETER and not engine.has_parameter:
        engine.has_parameter = 1
        first = cycle + 1
    if function or engine.op == PACK:
        return max(first, engine.units_free, engine.last_write - WRITE_ACTIVATION + 1)
    earliest = WRITE_PRODUCT if engine.op == MULTIPLY else WRITE_SUM
    return max(first, engine.last_write - earliest + 1)


@compiled
def _issue(cycle, engine, sizes, done, counted, wakes):
    """Note what the element occupies, and its instruction's completion with the last one."""
    if _is_activation(engine):
        first, last = cycle + WRITE_ACTIVATION, cycle + ACTIVATION + 1 + sizes.groups
        engine.units_free = cycle + sizes.groups
        counted[_ACTIVATION] += sizes.lanes
    else:
        first = last = cycle + (WRITE_PRODUCT if engine.op == MULTIPLY else WRITE_SUM)
        engine.pe_at = cycle
    for write in range(first, last + 1):
        engine.writes[write % WRITES] = write
    engine.last_write = last
    if engine.a == SCRATCH:
        engine.scratch_at = cycle
    elif engine.a == QUEUE:
        engine.queue_at = cycle
    engine.has_b = engine.has_parameter = 0
    if engine.end:
        complete(done, wakes, VECTOR, last)


@compiled
def _advance(engine, instruction):
    """Put the instruction's next element to the output; tell whether it is the last."""
    engine.valid = 1
    engine.op, engine.a, engine.b = instruction.op, instruction.a_source, instruction.b_source
    engine.after = instruction.serial and engine.inner == 0 and engine.outer != 0
    engine.inner += 1
    if engine.inner == instruction.inner:
        engine.inner = 0
        engine.outer += 1
    engine.end = engine.outer == instruction.outer
    if engine.end:
        engine.outer = 0
    return engine.end


@compiled
def step_vector(cycle, engine, queue, table, sizes, done, counted, wakes):
    """Issue the element at the output if nothing keeps it, and bring the next."""
    issued, following = False, cycle + 1
    if engine.valid:
        free = _blocked_until(cycle, engine, sizes)
        if free > cycle:
            following = free
        else:
            activation = _is_activation(engine)
            shared = sizes.elementwise + sizes.forward + sizes.backward > 0
            issued = activation or not shared or slot(cycle) < sizes.elementwise
            if issued:
                _issue(cycle, engine, sizes, done, counted, wakes)
            else:
                engine.waiting_at = cycle
    if not engine.valid or issued:
        engine.valid = 0
        if offered(queue, cycle):
            if _advance(engine, table[queue.current]):
                take(queue, wakes, cycle)
        else:
            following = NEVER
    wakes[VECTORS] = following
