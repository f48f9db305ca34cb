"""The AXI checker passes what AXI allows and names each breach of a rule: cycle, port, channel, rule."""

import re
from pathlib import Path

import pytest

from etalstm.errors import DeviceError, ProtocolError
from etalstm_sim.protocol import ADDRESS_FIRST, ALIGNED_BURSTS, WHOLE_BEATS, WHOLE_STROBES, rules
from tests.sim.traces import IDLE, RESET, Trace, ar, aw, b, r, w

ROOT = Path(__file__).parent.parent.parent

# What is legal: traces that nothing may be said about.
LEGAL = {
    "a read": ({}, [ar(length=1), r(rlast=False), r()]),
    "a write": ({}, [aw(length=1), w(wlast=False), w(), b()]),
    "data and address in one cycle": ({"promises": ADDRESS_FIRST}, [aw() | w(), b()]),
    "data before their address": ({}, [w(), IDLE, aw(), b()]),
    "some data before their address": ({}, [w(wlast=False), aw(length=1), w(), b()]),
    "data of two bursts before their addresses": ({}, [w(), w(wlast=False), w(), aw(), aw(length=1), b(), b()]),
    "ready before valid, and long after it": ({}, [{"arready": True}, *[ar(ready=False)] * 9, ar(), r()]),
    "a new payload after the handshake": ({}, [ar(address=4), ar(address=8), r(data=1), r(data=2)]),
    "the longest burst that ends at a boundary": ({}, [ar(address=4096 - 64, length=15)]),
    "responses of other ids first": ({"ids": 2}, [ar(), ar(id=1), r(rid=1), r()]),
    "read data of two ids interleaved": (
        {"ids": 2},
        [ar(length=1), ar(id=1, length=1), r(rlast=False), r(rid=1, rlast=False), r(rid=1), r()],
    ),
    "writes answered in another order": ({"ids": 2}, [aw(), aw(id=1), w(), w(), b(bid=1), b()]),
    "an answer in the cycle of the next request": ({"reads": 1}, [ar(), r() | ar(), r()]),
    "narrow beats with the strobes of their bytes": (
        {},
        [aw(address=2, length=1, size=1), w(strobe=0xC, wlast=False), w(strobe=0x3), b()],
    ),
    "no strobe at all": ({"promises": WHOLE_STROBES}, [aw(), w(strobe=0), b()]),
    "an unaligned burst of whole beats": (
        {},
        [aw(address=1, length=1), w(strobe=0xE, wlast=False), w(), b()],
    ),
    "errors": ({}, [ar(), aw(), w(), r(rresp=2), b(bresp=3)]),
    "a valid that falls with the reset": ({}, [ar(ready=False), ar(ready=False) | RESET, RESET, IDLE, ar(), r()]),
    "requests forgotten by a reset": ({"reads": 1}, [ar(), RESET, IDLE, ar(), r()]),
}

# What is not: rule, channel, how the port is made, cycles; the last one is the breach.
BROKEN = [
    ("held", "AR", {}, [ar(ready=False), IDLE]),
    ("held", "AW", {}, [aw(ready=False), IDLE]),
    ("held", "W", {}, [w(ready=False), IDLE]),
    ("held", "R", {}, [ar(), r(ready=False), IDLE]),
    ("held", "B", {}, [aw(), w(), b(ready=False), IDLE]),
    *(
        ("stable", name, {"ids": 2}, [show(ready=False), show(**{field: value})])
        for name, show in (("AR", ar), ("AW", aw))
        for field, value in {"address": 4, "length": 1, "size": 1, "burst": 0, "id": 1}.items()
    ),
    ("stable", "W", {}, [w(ready=False), w(data=1 << 31)]),
    ("stable", "W", {}, [w(ready=False), w(strobe=1)]),
    ("stable", "W", {}, [w(ready=False), w(wlast=False)]),
    ("stable", "R", {}, [ar(), r(ready=False), r(data=1)]),
    ("stable", "R", {}, [ar(), r(ready=False), r(rresp=2)]),
    ("stable", "R", {}, [ar(), r(ready=False), r(rlast=False)]),
    ("stable", "R", {"ids": 2}, [ar(), ar(id=1), r(ready=False), r(rid=1)]),
    ("stable", "B", {}, [aw(), w(), b(ready=False), b(bresp=2)]),
    ("stable", "B", {"ids": 2}, [aw(), aw(id=1), w(), w(), b(ready=False), b(bid=1)]),
    *(
        ("reset", name, {}, [RESET, *between, show() | last])
        for name, show in {"AR": ar, "AW": aw, "W": w, "R": r, "B": b}.items()
        for between, last in (([], RESET), ([RESET], {}))
    ),
    ("length", "AR", {}, [ar(length=16)]),
    ("length", "AW", {}, [aw(length=16)]),
    ("length", "AW", {"burst_beats": 1}, [aw(length=1)]),
    ("burst", "AR", {}, [ar(burst=0)]),
    ("burst", "AW", {}, [aw(burst=2)]),
    ("size", "AR", {}, [ar(size=3)]),
    ("size", "AW", {"promises": WHOLE_BEATS}, [aw(size=1)]),
    ("aligned", "AR", {"promises": ALIGNED_BURSTS}, [ar(address=2)]),
    ("aligned", "AW", {"promises": ALIGNED_BURSTS}, [aw(address=6)]),
    ("boundary", "AR", {}, [ar(address=4092, length=1)]),
    ("boundary", "AW", {}, [aw(address=3 * 4096 - 60, length=15)]),
    ("id", "AR", {}, [ar(id=1)]),
    ("id", "AW", {"ids": 4}, [aw(id=4)]),
    ("id", "R", {"ids": 2}, [ar(), r(rid=1)]),
    ("id", "B", {"ids": 2}, [aw(id=1), w(), b()]),
    ("outstanding", "AR", {"reads": 2}, [ar(), ar(), ar()]),
    ("outstanding", "AW", {"writes": 2}, [aw(), w(), aw(), w(), aw()]),
    ("last", "W", {}, [aw(length=1), w()]),
    ("last", "W", {}, [aw(), w(wlast=False)]),
    ("last", "W", {}, [w(), aw(length=1)]),
    ("last", "W", {}, [w(wlast=False), aw()]),
    ("last", "W", {}, [*[w(wlast=False)] * 16]),
    ("last", "W", {}, [w(), w(wlast=False), w(), aw(), aw()]),
    ("last", "R", {}, [ar(length=1), r()]),
    ("last", "R", {}, [ar(), r(rlast=False)]),
    ("strobe", "W", {}, [aw(size=1), w()]),
    ("strobe", "W", {}, [aw(length=1, size=1), w(strobe=0x3, wlast=False), w(strobe=0x3)]),
    ("strobe", "W", {}, [aw(address=1), w()]),
    ("strobe", "W", {}, [w(strobe=0x8), aw(size=0)]),
    ("strobe", "W", {"promises": WHOLE_STROBES}, [aw(), w(strobe=0x7)]),
    ("order", "W", {"promises": ADDRESS_FIRST}, [w(ready=False)]),
    ("order", "W", {"promises": ADDRESS_FIRST}, [aw(), w(), w()]),
    ("order", "W", {"promises": ADDRESS_FIRST}, [w() | aw(ready=False), w() | aw(ready=False)]),
    ("unasked", "R", {}, [r()]),
    ("unasked", "R", {}, [ar() | r()]),
    ("unasked", "R", {}, [ar(), r(), r()]),
    ("unasked", "R", {}, [ar(), RESET, IDLE, r()]),
    ("unasked", "B", {}, [b()]),
    ("unasked", "B", {}, [aw(), b()]),
    ("unasked", "B", {}, [w(), b()]),
    ("unasked", "B", {}, [aw(length=1), w(wlast=False), w() | b()]),
    ("unasked", "B", {"ids": 2}, [aw(), aw(id=1), w(), b(bid=1)]),
    ("response", "R", {}, [ar(), r(rresp=1)]),
    ("response", "B", {}, [aw(), w(), b(bresp=1)]),
]


@pytest.mark.parametrize(("how", "cycles"), LEGAL.values(), ids=LEGAL)
def test_passes_what_is_legal(how, cycles):
    Trace(**how).show(*cycles)


@pytest.mark.parametrize(("rule", "channel", "how", "cycles"), BROKEN)
def test_names_a_breach(rule, channel, how, cycles):
    trace = Trace(**how)
    trace.show(*cycles[:-1])
    with pytest.raises(ProtocolError) as found:
        trace.show(cycles[-1])
    error = found.value
    assert (error.cycle, error.port, error.channel, error.rule) == (len(cycles) - 1, "port3", channel, rule), error


def test_every_rule_is_broken_here_and_stands_in_the_documentation():
    assert {rule for rule, *_ in BROKEN} == set(rules())
    page = (ROOT / "docs" / "trust.md").read_text().partition("## The protocol is checked")[2]
    assert re.findall(r"^\| `(\w+)` \|", page, re.M) == rules()


def test_the_message_says_everything():
    with pytest.raises(DeviceError) as found:
        Trace().show(IDLE, aw(ready=False), aw(address=4))
    assert str(found.value) == (
        "AXI broken in cycle 2 at port3, channel AW, rule 'stable': AWADDR changed before AWREADY came"
    )


def test_the_first_breach_stays():
    trace = Trace()
    for cycle in (r(), ar(length=16), IDLE):
        with pytest.raises(ProtocolError, match=r"in cycle 0 .* 'unasked'"):
            trace.show(cycle)
