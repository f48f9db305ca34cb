"""cocotb bench that runs a training iteration and writes its cost to a file; ``simulators`` starts it."""

import json
import os
from pathlib import Path

import cocotb
from cocotb.task import bridge

from etalstm.device.shape import TrainingShape
from etalstm.network.shape import NetworkShape
from etalstm_hw.config import Config
from etalstm_sim.benches.cocotb_transport import CocotbTransport
from etalstm_sim.trials.speed.iteration import run_iteration


@cocotb.test()
async def takes_its_time(dut):
    """Run :func:`run_iteration` with the arguments that the environment names."""
    arguments = json.loads(os.environ["ITERATION"])
    config, shape = Config(**arguments["config"]), arguments["shape"]
    transport = await CocotbTransport.open(dut, config, memory_bytes=arguments["memory_bytes"])
    network = NetworkShape(**shape.pop("network"))
    result = await bridge(run_iteration)(transport, config, TrainingShape(network, **shape))
    Path(arguments["result"]).write_text(json.dumps(result), encoding="utf-8")
