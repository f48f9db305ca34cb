"""Writes the Verilog of a configuration, and the manifest that says what the Verilog is."""

import json
import re
from pathlib import Path
from textwrap import fill

from amaranth.back import verilog as amaranth_verilog
from amaranth.hdl import ClockSignal, Instance, ResetSignal, Value
from amaranth.lib import wiring

from etalstm.host.cached_build import cache_for_programs
from etalstm.host.computer import seldom_collected
from etalstm.host.durable import write_whole
from etalstm_hw import contract
from etalstm_hw.broadcast.broadcaster import Broadcaster
from etalstm_hw.compute.pe import OmniPE
from etalstm_hw.config import Config, preset
from etalstm_hw.contract import BINARY32
from etalstm_hw.fp.activation import Activation
from etalstm_hw.fp.add import Adder
from etalstm_hw.fp.multiply import Multiplier
from etalstm_hw.integer.broadcaster import IntegerBroadcaster, sizes_of
from etalstm_hw.integer.memory import reads_of_copies
from etalstm_hw.integer.pe import IntegerPE
from etalstm_hw.integer.sender import SequenceSender
from etalstm_hw.machine.channel import Channel, make_products, make_weights
from etalstm_hw.machine.top import Top, top_signature

LINE = 120
"""Characters of a line of ports."""
_ABOVE_PACKAGES = re.compile(r'(?<=["|])/[^"|]*/(?=(?:etalstm\w*|amaranth)/)')  # in the attribute src


@seldom_collected()
def component_verilog(component: wiring.Component, name: str = "top", *, source_lines: bool = False) -> str:
    """Convert a component to Verilog, its ports in the order of :func:`ports`.

    Equal components give equal text on every machine: paths are left out. With `source_lines` attributes ``src`` tell
    file and line of what a statement or a signal comes from, from the package's folder on.
    """
    with cache_for_programs():  # Amaranth's Yosys fails without
        text = amaranth_verilog.convert(
            component, name=name, emit_src=source_lines, strip_internal_attrs=not source_lines
        )
    if source_lines:
        text = _ABOVE_PACKAGES.sub("", text)
    order = {port["name"]: number for number, port in enumerate(ports(component.signature))}

    def ordered(match: re.Match[str]) -> str:
        """Give a header anew; ports of other clock domains are last. A blank ends a name that a backslash begins."""
        found = re.findall(r"[^\s,]+", match[1])
        names = sorted(found, key=lambda port: order.get(port.removeprefix("\\"), len(order)))
        text = ", ".join(port + " " * port.startswith("\\") for port in names)
        return fill(f"module {name}({text});", LINE, break_long_words=False)

    return re.sub(rf"^module {name}\((.*?)\);", ordered, text, count=1, flags=re.MULTILINE | re.DOTALL)


class Instanced(wiring.Component):
    """Stands for a component whose Verilog is written once, however often it is used.

    Parameters
    ----------
    name : str
        The Verilog module.
    signature : wiring.Signature
        Its members.
    latency : int or tuple of int, optional
        Its ``LATENCY``.
    """

    def __init__(self, name: str, signature: wiring.Signature, latency: int | tuple[int, ...] | None = None):
        self._name = name
        self.LATENCY = latency
        super().__init__(signature)

    @classmethod
    def of(cls, name: str, component: wiring.Component) -> "Instanced":
        """Stand for a component, of which only the signature and the ``LATENCY``, if any, are looked at."""
        return cls(name, component.signature, getattr(component, "LATENCY", None))

    def elaborate(self, platform):
        """An instance in the domain ``sync``."""
        ports = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        for path, member, value in self.signature.flatten(self):
            direction = "i" if member.flow == wiring.In else "o"
            ports[f"{direction}_{'__'.join(map(str, path))}"] = value
        return Instance(self._name, **ports)


def verilog(
    config: Config, name: str = "top", *, build: int = 0, source_lines: bool = False, integer_pe=IntegerPE
) -> str:  # fmt: skip
    """Give the Verilog of the whole accelerator; equal configurations give equal text.

    What there are many of is written once each: a channel, its PE and arithmetic units, a broadcaster. If products are
    integers, so are a stream's engine of products and its sender, and a memory of weights. So the time that this takes,
    and the size of the text, hardly grow with the numbers of channels, lanes and streams.

    Parameters
    ----------
    config : Config
    name : str
        Name of the outermost module.
    build : int
        What the BUILD register reads as.
    source_lines : bool
        As in :func:`component_verilog`.
    integer_pe : callable
        Makes a PE of integers: on a board the primitive that does the same.
    """
    modules = channel_modules(config, integer_pe) | broadcaster_modules(config)
    channel, broadcaster = modules["channel"], modules["broadcaster"]
    modules[name] = Top(
        config,
        channel=lambda _: Instanced.of("channel", channel),
        broadcaster=lambda _: Instanced.of("broadcaster", broadcaster),
        build=build,
    )
    return modules_verilog(modules, source_lines=source_lines)


def channel_modules(config: Config, integer_pe=IntegerPE) -> dict[str, wiring.Component]:
    """Give the components of a channel's Verilog by the names of their modules; the last is ``channel``."""
    units = {"multiplier": Multiplier(BINARY32), "adder": Adder(BINARY32), "activation": Activation.sharing(BINARY32)}
    units["pe"] = pe = OmniPE(BINARY32, *(Instanced.of(name, units[name]) for name in ("multiplier", "adder")))
    if config.integers:
        units |= {f"weights{n}": make_weights(config, n) for n in sorted(set(reads_of_copies(config.integer_streams)))}
        units["integer_pe"] = integer_pe()
        units["products"] = make_products(config, lambda: Instanced.of("integer_pe", units["integer_pe"]))
    channel = Channel(
        config,
        pe=lambda _: Instanced.of("pe", pe),
        activation=lambda _: Instanced.of("activation", units["activation"]),
        products=lambda _: Instanced.of("products", units["products"]),
        weights=lambda _, reads: Instanced.of(f"weights{reads}", units[f"weights{reads}"]),
    )
    return units | {"channel": channel}


def broadcaster_modules(config: Config) -> dict[str, wiring.Component]:
    """Give the components of a broadcaster's Verilog by the names of their modules; the last is ``broadcaster``."""
    if not config.integers:
        return {"broadcaster": Broadcaster(config)}
    sender = SequenceSender(sizes_of(config))
    broadcaster = IntegerBroadcaster(config, sender=lambda _: Instanced.of("sender", sender))
    return {"sender": sender, "broadcaster": broadcaster}


def modules_verilog(modules: dict[str, wiring.Component], *, source_lines: bool = False) -> str:
    """Give one text with a module for each component, named by its key; the last one comes first."""
    return "\n".join(
        component_verilog(component, module, source_lines=source_lines)
        for module, component in reversed(modules.items())
    )


def ports(signature: wiring.Signature) -> list[dict]:
    """List the Verilog ports of a component with a signature: name, direction and width in bits."""
    members = [{"name": name, "direction": "input", "width": 1} for name in ("clk", "rst")]
    for path, member, value in signature.flatten(signature.create()):
        direction = "input" if member.flow == wiring.In else "output"
        members.append({"name": "__".join(map(str, path)), "direction": direction, "width": len(Value.cast(value))})
    return members


def manifest(config: Config, preset_name: str | None = None) -> dict:
    """Describe the Verilog of a configuration.

    Returns
    -------
    dict
        ``preset``, ``digest`` (the PRESET register), ``contract_version``, ``configuration``, ``ports``: plain values.
    """
    return {
        "preset": preset_name,
        "digest": f"{config.digest:#010x}",
        "contract_version": contract.VERSION,
        "configuration": config.as_dict(),
        "ports": ports(top_signature(config)),
    }


def header(config: Config, preset_name: str) -> str:
    """Say in comments of Verilog what the Verilog is."""
    return (
        f"// The η-LSTM accelerator, preset {preset_name}: {config.channels} channels of {config.lanes} lanes.\n"
        f"// Digest {config.digest:#010x} (register PRESET), contract version {contract.VERSION}; see manifest.json.\n"
        "// SPDX-License-Identifier: BSD-2-Clause\n"
    )


def write(preset_name: str, directory: Path, *, source_lines: bool = False) -> list[Path]:
    """Write ``top.v`` and ``manifest.json`` of a preset into a folder, which is created.

    `source_lines` is as in :func:`component_verilog`.

    Raises
    ------
    ValueError
        If there is no such preset.
    OSError
        Naming the file that cannot be written; an older one is as it was.
    """
    config = preset(preset_name)
    directory.mkdir(parents=True, exist_ok=True)
    texts = {
        "top.v": header(config, preset_name) + verilog(config, source_lines=source_lines),
        "manifest.json": json.dumps(manifest(config, preset_name), indent=2) + "\n",
    }
    for name, text in texts.items():
        write_whole(directory / name, text)
    return [directory / name for name in texts]
