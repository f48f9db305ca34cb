"""An isolator between a manager that breaks off anywhere and a memory that minds the rules."""

import random

import pytest
from amaranth.sim import Simulator

from etalstm_boards.isolate import Isolator
from etalstm_hw.axi.axi import AXI4

BUS = AXI4(16, 32, 1)
PAYLOAD = {"aw": ("awaddr", "awlen"), "w": ("wdata", "wstrb", "wlast"), "ar": ("araddr", "arlen")}


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(6))
def test_the_memory_sees_only_whole_transactions(stall, seed):
    generator = random.Random(f"{stall} {seed}")
    dut = Isolator(BUS)
    port, manager = dut.port, dut.manager

    async def bench(context):
        # a manager's own view: offers, and the beats that its accepted addresses still lack
        lengths, beats, offered = [], [], {}
        bursts, answers, reads, expected = [], [], [], 0
        strobed = made_up = 0
        break_at = generator.randrange(20, 200)
        quiet_at = None
        for cycle in range(4000):
            broken = cycle >= break_at
            # what the manager offers in this cycle
            for channel in ("aw", "ar"):
                valid = getattr(manager, f"{channel}valid")
                if broken:
                    context.set(valid, 0)
                elif not context.get(valid) and generator.random() < 0.5:
                    length = generator.randrange(4)
                    context.set(valid, 1)
                    context.set(getattr(manager, f"{channel}len"), length)
                    context.set(getattr(manager, f"{channel}addr"), generator.randrange(1 << 16))
                    if channel == "aw":
                        beats += [n == length for n in range(length + 1)]
            if broken:
                context.set(manager.wvalid, 0)
            elif not context.get(manager.wvalid) and beats and generator.random() < 0.7:
                context.set(manager.wvalid, 1)
                context.set(manager.wdata, 0xC0DE)
                context.set(manager.wstrb, 15)
                context.set(manager.wlast, beats.pop(0))
            context.set(manager.rready, not broken and generator.random() >= stall)
            context.set(manager.bready, not broken and generator.random() >= stall)
            context.set(dut.stop, cycle >= break_at + 3)
            # what the memory does
            for name in ("awready", "wready", "arready"):
                context.set(getattr(port, name), generator.random() >= stall)
            if not context.get(port.bvalid) and answers and generator.random() >= stall:
                answers.pop(0)
                context.set(port.bvalid, 1)
            if not context.get(port.rvalid) and reads and generator.random() >= stall:
                reads[0] -= 1
                context.set(port.rvalid, 1)
                context.set(port.rlast, reads[0] == 0)
                if not reads[0]:
                    reads.pop(0)
            if context.get(dut.quiet) and quiet_at is None:
                quiet_at = cycle
            taken = {}
            for channel, names in PAYLOAD.items():
                shown = tuple(context.get(getattr(port, name)) for name in names)
                if channel in offered:
                    assert context.get(getattr(port, f"{channel}valid")), f"cycle {cycle}: {channel} was taken back"
                    assert shown == offered[channel], (
                        f"cycle {cycle}: {channel} changed from {offered[channel]} to {shown}"
                    )
                offered.pop(channel, None)
                if context.get(getattr(port, f"{channel}valid")):
                    if context.get(getattr(port, f"{channel}ready")):
                        taken[channel] = shown
                    else:
                        offered[channel] = shown
            ends = {c: context.get(getattr(port, f"{c}valid") & getattr(port, f"{c}ready")) for c in ("b", "r")}
            gone = {
                c: context.get(getattr(manager, f"{c}valid") & getattr(manager, f"{c}ready")) for c in ("aw", "ar", "w")
            }
            if "aw" in taken:
                lengths.append(taken["aw"][1] + 1)
            if "w" in taken:
                strobed += taken["w"][1] == 15
                made_up += taken["w"][1] == 0
                bursts.append(taken["w"][2])
            if "ar" in taken:
                reads.append(taken["ar"][1] + 1)
            while lengths and len(bursts) >= lengths[0]:
                length = lengths.pop(0)
                assert bursts[:length] == [0] * (length - 1) + [1], f"cycle {cycle}: a burst of {length} ended wrongly"
                del bursts[:length]
                answers.append(length)
                expected += 1
            await context.tick()
            for channel, end in ends.items():
                if end:
                    context.set(getattr(port, f"{channel}valid"), 0)
            for channel, went in gone.items():
                if went:
                    context.set(getattr(manager, f"{channel}valid"), 0)
            if quiet_at is not None and cycle > quiet_at + 20:
                break
        assert quiet_at is not None, "the port never became quiet"
        assert not lengths and not bursts and not answers and not reads, "quiet with something under way"
        assert not context.get(port.bvalid) and not context.get(port.rvalid)
        assert strobed > 0 and expected > 0

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
