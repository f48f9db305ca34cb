"""Cycles that the machine's parts take, each with the module that it is a property of.

A test holds those that a module declares (`LATENCY`, `PEArray.multiply_latency`, …) to the module.
"""

from etalstm_hw.contract.distance import JOIN_STAGES, ROUND_TRIP, STAGES

# etalstm_hw.fp.multiply, etalstm_hw.fp.add, etalstm_hw.fp.activation: LATENCY
MULTIPLIER, ADDER, ACTIVATION = 3, 5, 9

# etalstm_hw.compute.pe: operands pass a register before the multiplier.
PRODUCT = 1 + MULTIPLIER
SUM = PRODUCT + ADDER

# etalstm_hw.compute.compute: operands are at the PEs one cycle after their addresses are at the memories.
WRITE_PRODUCT, WRITE_SUM = PRODUCT + 1, SUM + 1

# etalstm_hw.compute.elementwise, `_arrive`: an activation's vector is read, stored, then passes the units bank by bank.
WRITE_ACTIVATION = ACTIVATION + 2

# etalstm_hw.compute.mac: cycles from a MAC's issue to the write of its sum; `_follow_sums`.
MAC_SUM = SUM + 1

# etalstm_hw.integer.pe: `LATENCY`. etalstm_hw.integer.array: from a captured term to the PEs' sums; the first of these
# is complete SUMMED cycles later, then one in each cycle.
INTEGER_PE = 4
CAPTURE, SUMMED = 1 + INTEGER_PE, 3

# Amaranth's FIFOs: cycles from a write to the first read. The buffered one has a register behind its memory.
FIFO, BUFFERED_FIFO = 1, 2

# etalstm_hw.program.queue: cycles from one instruction that leaves the queue's register to the next one.
REFILL = 2

# hw/sequencer.py: `_QUIET_CYCLES`, then the drain.
QUIET = 7

# etalstm_hw.axi.bursts: a transfer becomes bursts in the cycle after it was taken.
# etalstm_hw.axi.reader, etalstm_hw.axi.writer: the address of a burst stands in a register at the port one cycle later.
BURST, ADDRESS = 1, 1

# etalstm_hw.dma.load, etalstm_hw.axi.writer: `done` is a register.
# etalstm_hw.machine.channel: so is the count of completed instructions.
DONE, COUNTED = 1, 1

# etalstm_hw.machine.tree: cycles from a channel's word of its room to the broadcaster or the sequencer.
NEWS = STAGES + JOIN_STAGES

# etalstm_hw.machine.barrier: cycles from a channel's pulse to the count, in the middle, of what every channel has
# stored.
BARRIER = STAGES + 2

# etalstm_hw.machine.top: cycles from the end of the last program's work in the channels to the end of the drain.
DRAIN = ROUND_TRIP

# etalstm_hw.machine.top and hw/dma/: depths that are no parameter of the configuration.
PROGRAM_DEPTH, PROGRAM_BURSTS = 32, 2
READER_DEPTH = 128
LOAD_PLANS = 8
BLOCK_PLANS = 4
ARRAYS_AHEAD, BEATS_AHEAD = 4, 2
MAP_PLANS, MAP_DEPTH = 2, 32
STREAMS_AHEAD = 2
VECTOR_BEATS_AHEAD = 16
WRITES_OUTSTANDING, WRITES_AHEAD, WRITES_SHARED = 32, 8, 16
LOG_BEATS = 32

# etalstm_sim.simulation and etalstm_sim.transport: the memory behind a port that the Verilog is simulated with.
MEMORY_CYCLES, MEMORY_BURSTS = 32, 16

# etalstm_hw.program.buffer: instructions of the ring. etalstm_hw.axi.merge: a register for the address.
# etalstm_hw.program.rowmaps: cycles from a block to the next one's request.
PROGRAM_RING = 64
MERGE = 1
MAP_REQUEST = 3
