// What Vivado brings, as empty modules: names, directions and widths of the ports, from AMD PG195, PG276, UG974.
module IBUF(input I, output O); endmodule
module OBUFT(input I, input T, output O); endmodule
module IBUFDS(input I, input IB, output O); endmodule
module IBUFDS_GTE4(input I, input IB, input CEB, output O, output ODIV2); endmodule
module BUFG(input I, output O); endmodule
module FDPE #(parameter INIT = 1'b1) (input C, input CE, input PRE, input D, output Q); endmodule
module MMCME4_BASE #(
    parameter CLKIN1_PERIOD = 0.0, parameter CLKFBOUT_MULT_F = 5.0, parameter CLKOUT0_DIVIDE_F = 1.0
) (
    input CLKIN1, input CLKFBIN, input RST, input PWRDWN, output CLKFBOUT, output CLKOUT0, output LOCKED
); endmodule

module card_xdma(
    input sys_clk, input sys_clk_gt, input sys_rst_n,
    input [`LANES-1:0] pci_exp_rxp, input [`LANES-1:0] pci_exp_rxn,
    output [`LANES-1:0] pci_exp_txp, output [`LANES-1:0] pci_exp_txn,
    output axi_aclk, output axi_aresetn, input [1:0] usr_irq_req, output [1:0] usr_irq_ack,
    input m_axi_awready, input m_axi_wready, input [3:0] m_axi_bid, input [1:0] m_axi_bresp, input m_axi_bvalid,
    input m_axi_arready, input [3:0] m_axi_rid, input [`BITS-1:0] m_axi_rdata, input [1:0] m_axi_rresp,
    input m_axi_rlast, input m_axi_rvalid, output [3:0] m_axi_awid, output [63:0] m_axi_awaddr,
    output [7:0] m_axi_awlen, output [2:0] m_axi_awsize, output [1:0] m_axi_awburst, output m_axi_awvalid,
    output [`BITS-1:0] m_axi_wdata, output [`BITS/8-1:0] m_axi_wstrb, output m_axi_wlast, output m_axi_wvalid,
    output m_axi_bready, output [3:0] m_axi_arid, output [63:0] m_axi_araddr, output [7:0] m_axi_arlen,
    output [2:0] m_axi_arsize, output [1:0] m_axi_arburst, output m_axi_arvalid, output m_axi_rready,
    output [31:0] m_axil_awaddr, output m_axil_awvalid, input m_axil_awready, output [31:0] m_axil_wdata,
    output [3:0] m_axil_wstrb, output m_axil_wvalid, input m_axil_wready, input m_axil_bvalid,
    input [1:0] m_axil_bresp, output m_axil_bready, output [31:0] m_axil_araddr, output m_axil_arvalid,
    input m_axil_arready, input [31:0] m_axil_rdata, input [1:0] m_axil_rresp, input m_axil_rvalid,
    output m_axil_rready
); endmodule
