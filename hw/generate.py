"""Writes the Verilog of a configuration, and the manifest that says what the Verilog is."""

import json
from pathlib import Path

from amaranth.back import verilog as amaranth_verilog
from amaranth.lib import wiring

from etalstm.hw import contract
from etalstm.hw.config import Config, preset


def component_verilog(component: wiring.Component, name: str = "top") -> str:
    """Convert a component to Verilog.

    Equal components give equal text on every machine: source locations and paths are left out.
    """
    return amaranth_verilog.convert(component, name=name, emit_src=False, strip_internal_attrs=True)


def top(config: Config) -> wiring.Component:
    """Make the component that a configuration describes."""
    from etalstm.hw.top import Top  # noqa: PLC0415

    return Top(config)


def verilog(config: Config, name: str = "top") -> str:
    """Give the Verilog of the whole accelerator; equal configurations give equal text.

    Parameters
    ----------
    config : Config
    name : str
        Name of the outermost module.
    """
    return component_verilog(top(config), name)


def ports(component: wiring.Component) -> list[dict]:
    """List a component's Verilog ports: name, direction and width in bits."""
    members = [{"name": name, "direction": "input", "width": 1} for name in ("clk", "rst")]
    for path, member, value in component.signature.flatten(component):
        direction = "input" if member.flow == wiring.In else "output"
        members.append({"name": "__".join(map(str, path)), "direction": direction, "width": len(value)})
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
        "ports": ports(top(config)),
    }


def write(preset_name: str, directory: Path) -> list[Path]:
    """Write ``top.v`` and ``manifest.json`` of a preset into a folder, which is created.

    Raises
    ------
    ValueError
        If there is no such preset.
    """
    config = preset(preset_name)
    directory.mkdir(parents=True, exist_ok=True)
    texts = {
        "top.v": verilog(config),
        "manifest.json": json.dumps(manifest(config, preset_name), indent=2) + "\n",
    }
    for name, text in texts.items():
        (directory / name).write_text(text)
    return [directory / name for name in texts]
