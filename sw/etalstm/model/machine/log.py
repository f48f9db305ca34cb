"""Logs of compressed streams: see etalstm_hw.dma.log."""

from etalstm.model.machine.latencies import FIFO, LOG_BEATS
from etalstm.model.machine.state import BURST_BEATS, RING, compiled, record
from etalstm.model.machine.writer import give_writes, takes_writes

IDLE, BEGIN, LOOK, GATHER, BURST, INDEX, CONCLUDE = range(7)

LOG = record(
    "state", "stream", "position", "sent", "there", "complete", "burst", "left", "transfer", "transfer_beats", "final",
    "entered", "level", "total_head", "total_tail", "pushed_at", totals=RING, total_at=RING, positions=2,
)  # fmt: skip
"""The state machine; `level` beats wait, `left` of them may be written; `transfer` is 1 while one is offered."""


@compiled
def log_busy(log):
    """Tell whether a stream is being written."""
    return log.state != IDLE or log.transfer != 0


@compiled
def collects(log):
    """Tell whether a beat of a stream is taken."""
    return log.level < LOG_BEATS and log.total_tail - log.total_head < 2


@compiled
def collect(cycle, log, last):
    """Take a beat."""
    log.level += 1
    log.entered += 1
    if last:
        log.totals[log.total_tail % RING], log.total_at[log.total_tail % RING] = log.entered, cycle
        log.total_tail += 1
        log.entered = 0


@compiled
def begin_log(log, item):
    """Take a stream."""
    log.stream, log.state = item, BEGIN


@compiled
def step_log(cycle, log, instruction, hold, writer, data_taken, entered):
    """Do a cycle's work; `data_taken`: a beat of `data` went out; `entered`: beats of the stream before this cycle."""
    wanted = log.state == INDEX or log.state == BURST
    taken = wanted and not log.transfer and log.left == 0
    if log.transfer and takes_writes(writer) and not hold:
        give_writes(writer, log.transfer - 1, log.transfer_beats, log.final, instruction.kind, cycle)
        log.transfer = 0
    state = log.state
    if state == BEGIN:
        log.position = instruction.start if instruction.first else log.positions[instruction.log]
        log.sent = 0
        if not hold:
            log.state = LOOK
    elif state == LOOK:
        known = log.total_head < log.total_tail and log.total_at[log.total_head % RING] + FIFO <= cycle
        log.complete = known
        log.there = (log.totals[log.total_head % RING] if known else entered) - log.sent
        log.state = GATHER
    elif state == GATHER:
        to_boundary = BURST_BEATS - log.position % BURST_BEATS
        log.burst = min(log.there, to_boundary)
        if log.complete and log.there == 0:
            log.state = INDEX
        else:
            log.state = BURST if log.complete or log.there >= to_boundary else LOOK
    elif state == CONCLUDE and data_taken:
        log.total_head += 1
        log.state = IDLE
    if data_taken and state != CONCLUDE:
        log.left -= 1
        log.level -= 1
    if taken and state == BURST:
        log.transfer, log.transfer_beats, log.final = 1 + log.position, log.burst, 0
        log.position += log.burst
        log.sent += log.burst
        log.left = log.burst
        log.state = LOOK
    elif taken:
        log.transfer, log.transfer_beats, log.final = 1 + instruction.address, 1, 1
        log.positions[instruction.log] = log.position
        log.state = CONCLUDE


@compiled
def offers_data(log):
    """Tell whether a beat can be written."""
    return log.left != 0 or log.state == CONCLUDE
