"""cocotb bench of the host's bridge: bursts of the host against the memory, and the answers it gets."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiBus, AxiMaster, AxiResp

from etalstm_sim.benches.axi_memory import AxiMemory
from etalstm_sim.benches.unkindness import pauses
from etalstm_sim.benches.watch import BRIDGED, HOST, rules_of, start_watch

MEMORY_BYTES = 1 << 20
SEED = 8


async def begin(dut, stall):
    """A master, a memory, a reset."""
    cocotb.log.info("seed %d", SEED)
    cocotb.start_soon(Clock(dut.clk, 4, "ns").start())
    memory = AxiMemory(dut, ["port"], MEMORY_BYTES, stall=stall, seed=SEED, rules={"port": BRIDGED}, strobes=True)
    start_watch(dut, "host", rules_of(dut, "host", **HOST))
    master = AxiMaster(AxiBus.from_prefix(dut, "host_"), dut.clk, dut.rst)
    channels = (
        *(getattr(master.read_if, f"{name}_channel") for name in ("ar", "r")),
        *(getattr(master.write_if, f"{name}_channel") for name in ("aw", "w", "b")),
    )
    for number, channel in enumerate(channels if stall else ()):
        channel.set_pause_generator(pauses(stall, f"{SEED} {number}"))
    dut.rst.value = 1
    await ClockCycles(dut.clk, 3)
    dut.rst.value = 0
    return master, memory


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5, 0.9])
async def moves_every_byte_whatever_the_bursts(dut, stall):
    """Random places and lengths, several at once, with IDs: all bytes arrive, and come back in order."""
    master, memory = await begin(dut, stall)
    generator = random.Random(SEED)
    page, jobs = 16384, []
    for number in range(24):
        address = number * page + generator.randrange(4096)
        data = generator.randbytes(generator.choice([1, 31, 64, 500, 4096, 9000]))
        jobs.append((address, data, master.init_write(address, data, awid=number % 16)))
    for address, data, event in jobs:
        await event.wait()
        assert event.data.resp == AxiResp.OKAY
        assert memory.bytes[address : address + len(data)].tobytes() == data, f"{len(data)} bytes at {address:#x}"
    reads = [(a, d, master.init_read(a, len(d), arid=n % 16)) for n, (a, d, _) in enumerate(jobs)]
    for address, data, event in reads:
        await event.wait()
        assert event.data.resp == AxiResp.OKAY
        assert event.data.data == data, f"{len(data)} bytes at {address:#x}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5])
async def an_error_in_any_part_reaches_the_host(dut, stall):
    """One faulty beat in the middle of a long burst; the burst after it is answered well."""
    master, memory = await begin(dut, stall)
    for place in (0, 32, 1000, 4064):
        memory.inject(0x4000 + place, 0x4000 + place + 1)
        assert (await master.write(0x4000, bytes(4096))).resp == AxiResp.SLVERR, f"a write with a fault at {place}"
        assert (await master.read(0x4000, 4096)).resp == AxiResp.SLVERR, f"a read with a fault at {place}"
        memory.clear_faults()
        assert (await master.write(0x4000, bytes(4096))).resp == AxiResp.OKAY
        assert (await master.read(0x4000, 4096)).resp == AxiResp.OKAY


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def keeps_up_with_the_memory(dut):
    """A beat of the memory in every cycle, but for a few at the start, reading and writing."""
    master, _ = await begin(dut, 0.0)
    beats = 16384 // 32
    for work in (master.write(0, bytes(16384)), master.read(0, 16384)):
        start = cocotb.utils.get_sim_time("ns")
        await work
        cycles = (cocotb.utils.get_sim_time("ns") - start) / 4
        assert cycles <= 1.15 * beats + 40, f"{cycles:.0f} cycles for {beats} beats"
