// A machine whose channels are objects of one class beside the core, so that they share their code.
//
// The code of a channel then fits a processor's cache, and is compiled once. At an edge, core and channels see each
// other's signals from before the edge. After the edge they exchange signals until nothing changes: as the design has no
// combinational loop, that is the state to which the design in one piece settles.
#pragma once
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "sockets.h"

struct Machine {
    Vregistered top;
    std::vector<Socket> sockets;
    std::vector<std::unique_ptr<Channel>> channels;

    explicit Machine(VerilatedContext* context) : top(context), sockets(sockets_of(top)) {
        for (unsigned n = 0; n < CHANNELS; ++n)
            channels.push_back(std::make_unique<Channel>(context, ("channel" + std::to_string(n)).c_str()));
    }

    // The two halves of a clock cycle, from the falling edge on. Inputs are taken with the rising edge.
    void fall() { clock(false); }

    void rise() {
        clock(true);
        settle();
    }

    void final() {
        top.final();
        for (auto& channel : channels) channel->final();
    }

    template <class File> void trace(File& file) {
        top.trace(&file, 99);
        for (auto& channel : channels) channel->trace(&file, 99);
    }

private:
    static constexpr unsigned MOST_EXCHANGES = 64;  // more than signals can need from channel to channel

    void clock(bool high) {
        top.clk = high;
        top.eval();
        for (auto& channel : channels) {
            set_clock(*channel, high);
            channel->eval();
        }
    }

    void settle() {
        for (unsigned n = 0; n < MOST_EXCHANGES; ++n) {
            if (take_all()) top.eval();
            if (!give_all()) return;
        }
        throw std::runtime_error("the channels and the core do not settle");
    }

    bool take_all() {
        bool changed = false;
        for (unsigned n = 0; n < CHANNELS; ++n) changed |= take(sockets[n], *channels[n]);
        return changed;
    }

    bool give_all() {
        bool changed = false;
        for (unsigned n = 0; n < CHANNELS; ++n) {
            if (!give(sockets[n], *channels[n])) continue;
            channels[n]->eval();
            changed = true;
        }
        return changed;
    }
};
