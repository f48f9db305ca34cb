from etalstm_sim.compiled.lint import lint
from etalstm_sim.compiled.registered import MODULE, registered

PORTS = [
    {"name": "clk", "direction": "input", "width": 1},
    {"name": "rst", "direction": "input", "width": 1},
    {"name": "data", "direction": "input", "width": 8},
    {"name": "sum", "direction": "output", "width": 9},
]


def test_every_input_passes_a_register_and_no_output_does():
    text = registered(PORTS, "adder")
    for line in ("input [7:0] data", "output [8:0] sum", "data_taken <= data;", "rst_taken <= rst;", "adder adder ("):
        assert line in text
    for connection in (".clk(clk)", ".rst(rst_taken)", ".data(data_taken)", ".sum(sum)"):
        assert connection in text
    assert "clk_taken" not in text and "sum_taken" not in text


def test_lints_around_a_design(echo_design):
    lint(echo_design.verilog + registered(echo_design.ports, "top"), MODULE)
