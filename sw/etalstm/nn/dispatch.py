"""Whether an operator has to go through PyTorch's dispatcher."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils._python_dispatch import _get_current_dispatch_mode

_PLAIN = (Tensor, Parameter)


def is_watched() -> bool:
    """Tell whether a compiler, a tracer, a mode, or a transform of ``torch.func`` sees what is called."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_function_stack() > 0
        or _get_current_dispatch_mode() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def is_dispatched(tensors: Iterable[Tensor]) -> bool:
    """Tell whether somebody between an operator and its kernel has to see the call.

    That is a compiler, a tracer, a ``TorchDispatchMode``, a transform of ``torch.func``, a subclass of tensors, or
    tensors that are not in the host's memory. If there is nobody, a kernel may be called directly. The dispatcher takes
    0.4 ms there and back, as the caches hold the data of a layer and none of its code.
    """
    return is_watched() or not all(type(tensor) in _PLAIN and tensor.is_cpu for tensor in tensors)
