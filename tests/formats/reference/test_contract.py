"""What is written about the contract is the contract."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from etalstm.cli.hw.contract import FILES, render
from etalstm.cli.main import run
from etalstm.formats.reference.contract import describe
from etalstm_hw import contract
from etalstm_hw.contract import Counter, Opcode, Register
from etalstm_hw.contract.image import check_of

FOLDER = Path(__file__).parents[3] / "docs" / "contract"
DESCRIBED = describe()


@pytest.mark.parametrize("format", FILES)
def test_the_committed_files_are_current(format):
    assert (FOLDER / FILES[format]).read_text() == render(format), (
        "etalstm_hw.contract has changed: run `eta-lstm hw contract` in the repository, and commit docs/contract"
    )


def test_every_field_is_explained_in_the_table_or_above_it():
    for entry in [*DESCRIBED["instructions"], {"name": "header"} | DESCRIBED["header"]]:
        named = set(re.findall(r"\w+", entry["text"]))
        explained = {field["name"].partition("_")[0] for field in entry["fields"] if field["text"]}  # a_outer: a_inner
        for field in entry["fields"]:
            told = field["text"] or field["name"] in named or field["name"].partition("_")[0] in explained
            assert told, f"{entry['name']}.{field['name']} is explained nowhere in etalstm_hw.contract"


@pytest.mark.parametrize("kind", ["registers", "counters"])
def test_every_register_and_counter_is_explained(kind):
    for entry in DESCRIBED[kind]:
        assert entry["text"], f"{entry['name']} has no comment in etalstm_hw.contract"


def test_registers_and_counters_are_all_there():
    assert {entry["name"]: entry["offset"] for entry in DESCRIBED["registers"]} == {r.name: int(r) for r in Register}
    assert sum(entry["count"] for entry in DESCRIBED["counters"]) == Counter.COUNT
    assert all(entry["offset"] == Register.COUNTER + 8 * Counter[entry["name"]] for entry in DESCRIBED["counters"])


def test_the_json_is_plain_and_holds_every_enumeration():
    read = json.loads(render("json"))
    enums = {entry["name"]: {m["name"]: m["value"] for m in entry["members"]} for entry in read["enums"]}
    assert enums["Status"] == {status.name: int(status) for status in contract.Status}
    assert {"Opcode", "Engine", "Memory", "Cycle", "BoardRegister"} <= set(enums)
    assert read["constants"][0] == {"name": "INSTRUCTION_BITS", "value": 256, "text": read["constants"][0]["text"]}


def compiled(folder, language, program):
    compiler = shutil.which({"c": "gcc", "c++": "g++"}[language])
    source = folder / "program.txt"
    source.write_text(program)
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-std={'c99' if language == 'c' else 'c++17'}"]
    subprocess.run([compiler, *flags, "-I", FOLDER, "-x", language, source, "-o", folder / "program"], check=True)
    return subprocess.run([folder / "program"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_headers_constants_are_the_contracts(tmp_path, language):
    expected = {f"{entry['name']}": entry["value"] for entry in DESCRIBED["constants"]}
    expected |= {f"REG_{register.name}": int(register) for register in Register}
    expected |= {f"STATUS_{status.name}": int(status) for status in contract.Status}
    expected |= {f"BOARD_STATUS_{bit.name}": int(bit) for bit in contract.BoardStatus}
    expected |= {f"VECTOR_OP_{op.name}": int(op) for op in contract.VectorOp}
    lines = "".join(f'    printf("%llu\\n", (unsigned long long)ETALSTM_{name});\n' for name in expected)
    program = f'#include <stdio.h>\n#include "etalstm_contract.h"\nint main(void) {{\n{lines}    return 0;\n}}\n'
    values = [int(line) for line in compiled(tmp_path, language, program).split()]
    assert dict(zip(expected, values, strict=True)) == expected


@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_header_encodes_instructions_as_the_contract_does(tmp_path, language):
    generator = np.random.default_rng(1)
    lines, expected = [], []
    for number, opcode in enumerate(Opcode, 70000):
        fields = {name: int(generator.integers(1 << width)) for name, (_, width) in contract.layout(opcode).items()}
        del fields["opcode"]
        word = contract.encode(opcode, **fields)
        expected += [word, word | check_of(word, number) << contract.CHECK_OFFSET]
        lines.append("memset(&i, 0, sizeof i);")
        lines.append(f"etalstm_set(&i, ETALSTM_HEADER_OPCODE, ETALSTM_OPCODE_{opcode.name});")
        for name, value in fields.items():
            place = f"ETALSTM_{'HEADER' if name in contract.HEADER else opcode.name}_{name.upper()}"
            lines.append(f"etalstm_set(&i, {place}, {value}u); if (etalstm_get(&i, {place}) != {value}u) return 1;")
        print_it = 'for (int n = 7; n >= 0; --n) printf(n ? "%08x" : "%08x\\n", i.words[n]);'
        lines += [print_it, f"etalstm_seal(&i, {number}u);", print_it]
    body = "\n    ".join(lines)
    program = (
        '#include <stdio.h>\n#include <string.h>\n#include "etalstm_contract.h"\n'
        f"int main(void) {{\n    etalstm_instruction i;\n    {body}\n    return 0;\n}}\n"
    )
    assert [int(line, 16) for line in compiled(tmp_path, language, program).split()] == expected


def test_the_command_writes_all_or_one(tmp_path, capsys):
    assert run(["hw", "contract", "-o", str(tmp_path / "new")]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(FILES.values())
    capsys.readouterr()
    assert run(["hw", "contract", "--format", "h"]) == 0
    assert capsys.readouterr().out == (tmp_path / "new" / FILES["h"]).read_text()
    assert run(["hw", "contract", "--format", "json", "-o", str(tmp_path / "one.json")]) == 0
    assert json.loads((tmp_path / "one.json").read_text()) == DESCRIBED
    assert run(["hw", "contract", "--format", "pdf"]) == 2
    assert "format must be one of md, h, json, got 'pdf'" in capsys.readouterr().err
