import pytest

from etalstm_boards.resources import designs
from etalstm_boards.resources.units import LEAST_LINES, Hierarchy
from etalstm_hw.config import preset
from tests.boards.machines import SMALL


def module(name, lines=1, uses=(), serial=0):
    """A module with an input and an output, so many statements, and instances of other modules."""
    body = [f"  input \\i${serial} ;", "  output o;", *(f"  assign a{n} = \\i${serial} ;" for n in range(lines))]
    for n, other in enumerate(uses):
        body += [f"  {other}  u{n} (", "    .o(o)", "  );"]
    return "\n".join([f"module {name} (\\i${serial} , o);", *body, "endmodule"]) + "\n"


def units(text, top="top"):
    return {unit.name: unit for unit in Hierarchy(text, top).units().values()}


def test_small_modules_belong_to_their_users():
    found = units(module("top", uses=["\\top.a"]) + module("\\top.a"))
    assert list(found) == ["top"]
    assert "module \\top.a " in found["top"].text


def test_large_modules_are_units_after_which_come_their_users():
    found = units(module("top", uses=["\\top.a"]) + module("\\top.a", LEAST_LINES))
    assert list(found) == ["top.a", "top"]
    assert "(* blackbox *)\nmodule \\top.a " in found["top"].text
    assert "assign a7" not in found["top"].text


def test_many_copies_are_one_unit():
    copies = [f"\\top.pe_{n}" for n in range(5)]
    found = units(module("top", uses=copies) + "".join(map(module, copies)))
    key = next(iter(found["top"].uses))
    assert list(found) == ["top.pe", "top"]
    assert found["top"].uses == {key: 5}
    assert found["top"].text.count("  \\top.pe_0  ") == 5
    assert found["top"].text.count("(* blackbox *)") == 1


def test_copies_below_a_small_module_are_counted_for_its_user():
    text = module("top", uses=["\\top.a", "\\top.b"]) + module("adder")
    text += module("\\top.a", uses=["adder", "adder"]) + module("\\top.b", uses=["adder"])
    found = units(text)
    assert sum(found["top"].uses.values()) == 3


def test_serial_numbers_of_the_design_do_not_change_a_unit():
    one, other = (units(module("top", serial=n))["top"] for n in (17, 4711))
    assert one == other
    assert one.ports == ("i$0", "o")


def test_modules_are_equal_whatever_their_serial_numbers():
    text = module("top", uses=["\\top.a", "\\top.b"]) + module("\\top.a", LEAST_LINES, serial=8)
    text = text.replace("    .o(o)\n", "    .o(o),\n    .\\i$8 (x)\n", 1).replace("    .o(o)\n", "    .\\i$9 (x)\n")
    text += module("\\top.b", LEAST_LINES, serial=9)
    found = units(text)
    assert list(found) == ["top.a", "top"]
    assert list(found["top"].uses.values()) == [2]
    ((_, ports),) = found["top"].stubs.values()
    assert found["top"].text.count(f".\\{ports[0]} (x)") == 2


def test_signals_are_declared_in_an_order_of_their_own():
    one, other = (f"  wire \\$9{n} ;\n  wire \\$100 ;\n  assign \\$100 = \\$9{n} ;\n" for n in (8, 9))
    swapped = "".join(other.splitlines(keepends=True)[n] for n in (1, 0, 2))
    texts = [f"module top (o);\n  output o;\n{body}endmodule\n" for body in (one, swapped)]
    assert units(texts[0]) == units(texts[1])


def test_a_declaration_keeps_its_attributes():
    body = '  (* keep = "true" *)\n  wire b;\n  wire a;\n  assign b = a;\n'
    text = units(f"module top (o);\n  output o;\n{body}endmodule\n")["top"].text
    assert '  wire a;\n  (* keep = "true" *)\n  wire b;\n' in text


def test_zeros_of_a_memory_are_left_out():
    zeros, ones = ("".join(f"    m{v}[{n}] = 8'h0{v};\n" for n in range(3)) for v in (0, 1))
    body = "".join(f"  initial begin\n{values}  end\n" for values in (zeros, ones))
    text = units(f"module top (o);\n  output o;\n{body}endmodule\n")["top"].text
    assert "m0" not in text
    assert ones in text


def test_a_missing_top_is_refused():
    with pytest.raises(ValueError, match="no module 'abacus' in the Verilog, which has: top"):
        Hierarchy(module("top"), "abacus")


def test_a_machine_on_its_card_has_the_same_units_and_the_shells():
    alone, whole = (
        Hierarchy(text, top).units()
        for text, top in (
            (designs.machine(SMALL), designs.MACHINE),
            (designs.on_card(SMALL), designs.SHELL),
        )
    )
    assert alone.keys() < whole.keys()
    with pytest.raises(ValueError, match="the card's memory ports have 256 bits of data"):
        designs.on_card(preset("test"))
    others = {unit.name for key, unit in whole.items() if key not in alone}
    assert all(name.startswith("shell") for name in others) and {"shell", "shell.bridge"} <= others
