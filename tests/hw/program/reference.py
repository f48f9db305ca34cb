"""What a program's loops, address registers and relative waits mean, in plain Python."""

from collections import Counter

from etalstm_hw.contract import ADDRESS_BITS, ADVANCES, ENGINE_OF, HEADER, TARGET_BITS, Opcode, decode, encode
from etalstm_hw.stream import CHANNEL_ENGINES


def walk(words):
    """Go through the instructions in the order of their execution, LOOPs not among them, up to HALT."""
    place, loops = 0, []  # of each loop: first, end, turns to go
    while True:
        while loops and place == loops[-1][1]:
            first, end, turns = loops.pop()
            if turns > 1:
                loops.append((first, end, turns - 1))
                place = first
        opcode, fields = decode(words[place])
        place += 1
        if opcode == Opcode.HALT:
            return
        if opcode == Opcode.LOOP:
            loops.append((place, place + fields["length"], fields["turns"]))
        else:
            yield opcode, fields


def execute(words):
    """Give what leaves the sequencer: words with final addresses and no header, and targets of the waits."""
    registers, dispatched, found = Counter(), Counter(), []
    for opcode, fields in walk(words):
        if opcode == Opcode.ADVANCE:
            for n in range(ADVANCES):
                registers[fields[f"register{n}"]] += fields[f"amount{n}"]
            registers[0] = 0
            continue
        body = {name: value for name, value in fields.items() if name not in HEADER}
        if "address" in body:
            body["address"] = (body["address"] + registers[fields["register"]]) % (1 << ADDRESS_BITS)
        waits = {name: fields[f"wait_{name}"] for name in CHANNEL_ENGINES}
        targets = {name: (dispatched[name] - n + 1) % (1 << TARGET_BITS) for name, n in waits.items() if n}
        found.append((encode(opcode, **body), targets))
        dispatched[ENGINE_OF[opcode].name.lower()] += 1
    return found
