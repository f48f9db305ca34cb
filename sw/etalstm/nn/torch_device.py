"""The device of PyTorch's tensors in measurements: the host, or a GPU."""

import os
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

CPU, CUDA = "cpu", "cuda"
DEVICES = (CPU, CUDA)
MEMORY_EVENT = "[memory]"


def check_device(name: str) -> str:
    """Give a device's name; ``ValueError`` if a bench measures no such device, or there is no GPU here."""
    if name not in DEVICES:
        raise ValueError(f"device must be one of {', '.join(DEVICES)}, got {name!r}")
    if name == CUDA and not torch.cuda.is_available():
        raise ValueError("device cuda: this PyTorch sees no GPU")
    return name


def device_name(name: str) -> str:
    """Give the GPU's model, or ``cpu``."""
    return torch.cuda.get_device_name() if name == CUDA else name


def waited_for(work: Callable[[], object], device: torch.device | str) -> Callable[[], object]:
    """Give a call that does the work, and returns only when a GPU of CUDA has completed it."""
    device = torch.device(device)
    if device.type != CUDA:
        return work

    def wait():
        result = work()
        torch.cuda.synchronize(device)
        return result

    return wait


def peak_bytes(module: nn.Module, work: Callable[[], object], device: str) -> int:
    """Give the peak memory of PyTorch's tensors on a device during a pass, less their memory before.

    `work` runs the module forward and backward. The module's gradients are freed first, so those of the pass count.
    """
    module.zero_grad()
    return _peak_of_gpu(work) if device == CUDA else _peak_of_host(work)


def _peak_of_gpu(work: Callable[[], object]) -> int:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    return torch.cuda.max_memory_allocated() - before


def _peak_of_host(work: Callable[[], object]) -> int:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else PyTorch's profiler prints two lines each time
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == MEMORY_EVENT]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return int(max(np.cumsum([0, *changes])))
