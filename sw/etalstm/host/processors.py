"""The processors of the computer that this runs on."""

import os
import platform
from functools import cache
from pathlib import Path


def count_processors() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def processor_name() -> str:
    """Name the processor's model: what Linux tells of the first one, else the machine's architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    model = [told[name] for name in ("model name", "cpu family", "model") if name in told]
    return ", ".join(model) or platform.machine()
