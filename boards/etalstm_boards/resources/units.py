"""Cuts Verilog into units, each of which is synthesised once, however often it is used."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

LEAST_LINES = 400
"""Lines, with all submodules, from which on a module is a unit of its own."""

LEAST_COPIES = 4
"""Instances in one module from which on even a smaller module is a unit of its own."""

_MODULE = re.compile(r"^module (\\\S+|\w+) ?\((.*?)\);\n(.*?)^endmodule\n", re.M | re.S)
_INSTANCE = re.compile(r"^  (\\\S+|\w+) +(\\\S+|\w+) +\($", re.M)
_PORT = re.compile(r"^(    \.\\?)([^\s(]+)( ?\()", re.M)
_DECLARATION = re.compile(r"^  (?:input|output) .*;$", re.M)
_SERIAL = re.compile(r"\$\d+")
# A declaration of a signal, with its attributes before it; of no memory, which has a range behind its name.
_DECLARED = re.compile(
    r"^((?:  \(\*.*\*\)\n)*)(  (?:input|output|wire|reg) (?:\[\d+:\d+\] )?\S+ ?(?: = [^;]+)?;\n)", re.M
)
_ZEROS = re.compile(r"^  initial begin\n(?:    \S+ ?\[\d+\] = \d+'[dh]0+;\n)+  end\n", re.M)


@dataclass(frozen=True)
class Unit:
    """A module with its small submodules, and stubs instead of the units that it uses.

    Members
    -------
    name : of the module, without the number of the instance
    text : Verilog; the outermost module is ``top``
    ports : names of its ports, in order
    uses : how many instances of each unit there are in one of this, by key
    stubs : for each module of ``text`` that stands for a unit, the unit's key and the ports, in the order of the unit's
    """

    name: str
    text: str
    top: str
    ports: tuple[str, ...]
    uses: Mapping[str, int]
    stubs: Mapping[str, tuple[str, tuple[str, ...]]]


@dataclass(frozen=True)
class _Module:
    name: str
    header: str
    body: str

    @property
    def ports(self) -> tuple[str, ...]:
        return tuple(port.strip().removeprefix("\\") for port in self.header.split(",") if port.strip())

    @property
    def text(self) -> str:
        return f"module {self.name} ({self.header});\n{self.body}endmodule\n"

    @property
    def stub(self) -> str:
        declarations = "\n".join(_DECLARATION.findall(self.body))
        return f"(* blackbox *)\nmodule {self.name} ({self.header});\n{declarations}\nendmodule\n"


class Hierarchy:
    """The modules of a Verilog text as Yosys writes it.

    Parameters
    ----------
    text : str
        Verilog in which every module that is used is defined.
    top : str
        The outermost module.

    Raises
    ------
    ValueError
        If there is no such module.
    """

    def __init__(self, text: str, top: str):
        self._modules = {match[1]: _Module(*match.groups()) for match in _MODULE.finditer(text)}
        if top not in self._modules:
            raise ValueError(f"no module {top!r} in the Verilog, which has: {', '.join(self._modules)}")
        self._top = top
        self._instances = {
            name: [found[1] for found in _INSTANCE.finditer(module.body) if found[1] in self._modules]
            for name, module in self._modules.items()
        }
        self._keys: dict[str, str] = {}
        self._lines: dict[str, int] = {}

    def units(self) -> dict[str, Unit]:
        """Give the units by key, each after the units that it uses; the last is the outermost module's."""
        units: dict[str, Unit] = {}
        self._collect(self._top, units)
        return units

    def _collect(self, name: str, units: dict[str, Unit]):
        if (key := self._key(name)) in units:
            return
        inner, below = self._extent(name)
        for child in below:
            self._collect(child, units)
        stubs = {self._key(child): self._modules[child] for child in reversed(below)}
        # Equal modules under different names become one: all instances refer to the same stub.
        texts = [self._modules[module].text for module in inner] + [stub.stub for stub in stubs.values()]
        text = "\n".join(texts)
        for child in below:
            text = _use(text, self._modules[child], stubs[self._key(child)])
        text, rename = _renumber(_ZEROS.sub("", text))  # those of a memory take nothing, but minutes of Yosys
        units[key] = Unit(
            name=_plain(name),
            text=text,
            top=rename(name),
            ports=tuple(map(rename, self._modules[name].ports)),
            uses=Counter(map(self._key, below)),
            stubs={
                rename(stub.name).removeprefix("\\"): (child, tuple(map(rename, stub.ports)))
                for child, stub in stubs.items()
            },
        )

    def _extent(self, name: str) -> tuple[list[str], list[str]]:
        """Give the modules of a unit, and the units right below it, one entry for each instance of these."""
        inner, below = [name], []
        copies = Counter(map(self._key, self._instances[name]))
        for child in self._instances[name]:
            if self._size(child) >= LEAST_LINES or copies[self._key(child)] >= LEAST_COPIES or "." not in child:
                below.append(child)
            else:
                more, deeper = self._extent(child)
                inner += [module for module in more if module not in inner]
                below += deeper
        return inner, below

    def _key(self, name: str) -> str:
        """Digest of a module and all below it, the same for equal ones."""
        if name not in self._keys:
            body = self._modules[name].body
            for child in set(self._instances[name]):
                body = body.replace(f"\n  {child} ", f"\n  {self._key(child)} ")
            text, _ = _renumber(_Module("unit", self._modules[name].header, body).text)
            self._keys[name] = hashlib.sha256(text.encode()).hexdigest()[:24]
        return self._keys[name]

    def _size(self, name: str) -> int:
        """Lines of a module and all below it."""
        if name not in self._lines:
            own = self._modules[name].body.count("\n")
            self._lines[name] = own + sum(map(self._size, self._instances[name]))
        return self._lines[name]


def _use(text: str, module: _Module, other: _Module) -> str:
    """Let the instances of a module be of another one, which is equal but for the names of its ports."""
    if module.name == other.name:
        return text
    names = dict(zip(module.ports, other.ports, strict=True))

    def connect(found: re.Match) -> str:
        return f"{found[1]}{names[found[2]]}{found[3]}"

    def replace(found: re.Match) -> str:
        return f"  {other.name} {_PORT.sub(connect, found[1])}"

    return re.sub(rf"^  {re.escape(module.name)} (.*?^  \);\n)", replace, text, flags=re.M | re.S)


def _renumber(text: str):
    """Renumber names that Amaranth and Yosys number across the design, so that a unit's text depends on it alone.

    Yosys declares signals in the order of these numbers. So they are numbered as the statements use them, and the
    declarations of a module are sorted.
    """
    numbers: dict[str, str] = {}

    def rename(part: str) -> str:
        return _SERIAL.sub(lambda found: numbers.setdefault(found[0], f"${len(numbers)}"), part)

    def sort(found: re.Match) -> str:
        name, header, body = map(rename, found.groups())
        declared = sorted(_DECLARED.findall(body), key=lambda declaration: declaration[1])
        before = "".join(f"{attributes}{declaration}" for attributes, declaration in declared)
        return f"module {name} ({header});\n{before}{_DECLARED.sub('', body)}endmodule\n"

    text = re.sub(r"dump_module\$\d+", "dump_module", text)  # its number may be that of a signal, too
    rename(_DECLARED.sub("", text))
    return _MODULE.sub(sort, text), rename


def _plain(name: str) -> str:
    """Give a module's name without escape and without the numbers of its instances."""
    return re.sub(r"(?<=[a-z])_?\d+$", "", _SERIAL.sub("", name.removeprefix("\\")))
