import pytest

from etalstm_boards.resources.units import LEAST_LINES, Hierarchy


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


def test_a_missing_top_is_refused():
    with pytest.raises(ValueError, match="no module 'abacus' in the Verilog, which has: top"):
        Hierarchy(module("top"), "abacus")
