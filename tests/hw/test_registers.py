from amaranth.sim import Simulator

from etalstm.hw.config import preset
from etalstm.hw.contract import MAGIC, Register
from etalstm.hw.registers import Registers


def test_identify_machine_and_build():
    config = preset("test")
    dut = Registers(config, build=0x600DF00D)
    found = {}

    async def read(context):
        context.set(dut.bus.rready, 1)
        for register in (Register.MAGIC, Register.PRESET, Register.BUILD):
            context.set(dut.bus.araddr, register)
            context.set(dut.bus.arvalid, 1)
            await context.tick()
            found[register] = context.get(dut.bus.rdata)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(read)
    simulator.run()
    assert found == {Register.MAGIC: MAGIC, Register.PRESET: config.digest, Register.BUILD: 0x600DF00D}
