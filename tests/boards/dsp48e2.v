// A model of the DSP48E2 slice, written from the figures and tables of AMD UG579: what integer multiplication needs.
// What is not modelled, and is used all the same, ends the simulation.
module DSP48E2 #(
    parameter AREG = 1, ACASCREG = 1, BREG = 1, BCASCREG = 1, DREG = 1, ADREG = 1, CREG = 1, MREG = 1, PREG = 1,
    parameter INMODEREG = 1, OPMODEREG = 1, ALUMODEREG = 1, CARRYINREG = 1, CARRYINSELREG = 1,
    parameter AMULTSEL = "A", BMULTSEL = "B", PREADDINSEL = "A", USE_MULT = "MULTIPLY"
) (
    input CLK,
    input signed [29:0] A, input signed [17:0] B, input signed [47:0] C, input signed [26:0] D,
    input [4:0] INMODE, input [8:0] OPMODE, input [3:0] ALUMODE, input CARRYIN, input [2:0] CARRYINSEL,
    input CEA1, CEA2, CEB1, CEB2, CEC, CED, CEAD, CEM, CEP, CECTRL, CEINMODE, CEALUMODE, CECARRYIN,
    input RSTA, RSTB, RSTC, RSTD, RSTM, RSTP, RSTCTRL, RSTINMODE, RSTALUMODE, RSTALLCARRYIN,
    output signed [47:0] P
);
    // Figure "Input Register and Pre-adder": one register of a port is its second one.
    reg signed [29:0] a1, a2;
    reg signed [17:0] b1, b2;
    reg signed [26:0] d1, ad1;
    reg signed [47:0] c1, p1;
    reg signed [44:0] m1;
    reg [8:0] opmode1;
    wire signed [29:0] a_first = AREG == 2 ? a1 : A, a_second = AREG == 0 ? A : a2;
    wire signed [17:0] b_first = BREG == 2 ? b1 : B, b_second = BREG == 0 ? B : b2;
    wire signed [26:0] d = DREG == 0 ? D : d1;
    wire signed [47:0] c = CREG == 0 ? C : c1;
    wire [8:0] opmode = OPMODEREG == 0 ? OPMODE : opmode1;

    // Table "INMODE": 0 chooses the first register of A, 1 gates A, 2 lets D pass, 3 subtracts, 4 the first of B.
    wire signed [26:0] a_chosen = INMODE[1] ? 27'sd0 : INMODE[0] ? a1[26:0] : a_second[26:0];
    wire signed [26:0] d_chosen = INMODE[2] ? d : 27'sd0;
    wire signed [26:0] ad_sum = INMODE[3] ? d_chosen - a_chosen : d_chosen + a_chosen;
    wire signed [26:0] ad = ADREG == 0 ? ad_sum : ad1;
    wire signed [26:0] factor = AMULTSEL == "AD" ? ad : a_chosen;
    wire signed [17:0] b = INMODE[4] ? b1 : b_second;
    wire signed [44:0] product = factor * b;
    wire signed [44:0] m = MREG == 0 ? product : m1;

    // Tables "OPMODE": the product comes by X and Y together, so they are one term here.
    wire signed [47:0] xy = opmode[3:0] == 4'b0101 ? 48'(m) : opmode[3:0] == 4'b1100 ? c : 48'sd0;
    wire signed [47:0] z = opmode[6:4] == 3'b010 ? p1 : opmode[6:4] == 3'b011 ? c : 48'sd0;
    wire signed [47:0] w = opmode[8:7] == 2'b01 ? p1 : opmode[8:7] == 2'b11 ? c : 48'sd0;
    wire signed [47:0] sum = z + w + xy;
    assign P = PREG == 0 ? sum : p1;

    always @(posedge CLK) begin
        if (CEA1) a1 <= A;
        if (CEA2) a2 <= a_first;
        if (CEB1) b1 <= B;
        if (CEB2) b2 <= b_first;
        if (CED) d1 <= D;
        if (CEAD) ad1 <= ad_sum;
        if (CEC) c1 <= C;
        if (CEM) m1 <= product;
        if (CECTRL) opmode1 <= OPMODE;
        if (CEP) p1 <= sum;
        if (!(opmode[3:0] inside {4'b0000, 4'b0101, 4'b1100}) || !(opmode[6:4] inside {3'b000, 3'b010, 3'b011})
            || !(opmode[8:7] inside {2'b00, 2'b01, 2'b11}))
            $fatal(1, "OPMODE %b is not modelled", opmode);
        if (ALUMODE != 0 || CARRYIN || CARRYINSEL != 0 || RSTA || RSTB || RSTC || RSTD || RSTM || RSTP || RSTCTRL
            || RSTINMODE || RSTALUMODE || RSTALLCARRYIN || CEINMODE || CEALUMODE || CECARRYIN)
            $fatal(1, "subtraction, carries, resets and registers of INMODE and ALUMODE are not modelled");
    end
    initial
        if (INMODEREG != 0 || ALUMODEREG != 0 || CARRYINREG != 0 || CARRYINSELREG != 0 || BMULTSEL != "B"
            || PREADDINSEL != "A" || USE_MULT != "MULTIPLY" || ACASCREG > AREG || BCASCREG > BREG)
            $fatal(1, "a parameter is not modelled");
endmodule
