// A machine that was compiled in one piece.
#pragma once
#include "glue.h"

struct Machine {
    Vregistered top;

    explicit Machine(VerilatedContext* context) : top(context) {}

    // The two halves of a clock cycle, from the falling edge on. Inputs are taken with the rising edge.
    void fall() {
        top.clk = 0;
        top.eval();
    }

    void rise() {
        top.clk = 1;
        top.eval();
    }

    void final() { top.final(); }

    template <class File> void trace(File& file) { top.trace(&file, 99); }
};
