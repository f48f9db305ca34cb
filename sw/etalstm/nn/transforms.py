"""Who sees the calls of a layer: compilers, tracers and modes; and how PyTorch's function transforms go through it."""

import sys
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Any, cast

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import FunctionalizeInterpreter, retrieve_current_functorch_interpreter
from torch._subclasses.functional_tensor import FunctorchFunctionalizeAPI
from torch.utils._python_dispatch import _get_current_dispatch_mode

FORWARD_MODE = (
    "forward-mode differentiation of an η-LSTM layer (torch.func.jvp, jacfwd, linearize, the outer part of "
    "torch.func.hessian, dual tensors) is not implemented; reverse mode is: torch.func.vjp, jacrev, grad"
)


def is_transformed() -> bool:
    """Tell whether a transform of ``torch.func`` runs."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def is_functionalized() -> bool:
    """Tell whether the innermost transform is ``torch.func.functionalize``."""
    top = torch._C._functorch.peek_interpreter_stack()
    return top is not None and top.key() == torch._C._functorch.TransformType.Functionalize


def functionalized(operator: Callable, arguments: tuple) -> tuple[Tensor, ...]:
    """Call an operator that changes no argument, below ``torch.func.functionalize``."""
    below = FunctorchFunctionalizeAPI(cast(FunctionalizeInterpreter, retrieve_current_functorch_interpreter()))
    with below.redispatch_to_next():
        results = operator(*below.unwrap_tensors(arguments))
    return below.wrap_tensors(results)


@cache
def _without_compiler(function: Callable) -> Callable:
    return torch._disable_dynamo(function)


def untraced(function: Callable) -> Callable:
    """Decorate a function that no compiler may look into. None is loaded for that: it would take seconds."""

    @wraps(function)
    def call(*arguments):
        return (_without_compiler(function) if "torch._dynamo" in sys.modules else function)(*arguments)

    return call


def is_watched() -> bool:
    """Tell whether a compiler, a tracer, a mode, or a transform of ``torch.func`` sees what is called."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_function_stack() > 0
        or _get_current_dispatch_mode() is not None
        or is_transformed()
    )


def _keys(tensor: Tensor) -> int:
    """Give what PyTorch's dispatcher reads of a tensor: where its words lie, and who wraps it."""
    return torch._C._dispatch_keys(tensor).raw_repr()


def _plain_keys() -> set[int]:
    plain = torch.empty(0)
    with torch.inference_mode():
        return {_keys(plain), _keys(torch.empty(0))}


_PLAIN = _plain_keys()


def is_dispatched(tensors: Iterable[Tensor]) -> bool:
    """Tell whether somebody between an operator and its kernel has to see the call.

    That is a compiler, a tracer, a ``TorchDispatchMode``, a transform of ``torch.func``, a subclass of tensors, a batch
    of tensors, or tensors that are not in the host's memory. If there is nobody, a kernel may be called directly. The
    dispatcher takes 0.4 ms there and back, as the caches hold the data of a layer and none of its code.
    """
    return is_watched() or not all(_keys(tensor) in _PLAIN for tensor in tensors)


class Transformable(torch.autograd.Function):
    """A function with a backward pass, for eager calls and for transforms of ``torch.func``.

    Under ``vmap`` it runs once for each entry. In forward mode it raises ``NotImplementedError``. A subclass has
    ``forward`` without a context, ``setup_context`` and ``backward``, and gives a tuple of tensors.
    """

    @staticmethod
    def jvp(ctx, *tangents):
        """Refuse forward mode: without this it would raise an error that names no transform, or give zeros."""
        raise NotImplementedError(FORWARD_MODE)

    @classmethod
    def vmap(cls, info, in_dims, *arguments: Any):  # type: ignore[override] # PyTorch calls it on the class
        """Run once for each entry; the results' entries are their first dimension."""
        entries = [
            cls.apply(
                *(one if dim is None else one.select(dim, n) for one, dim in zip(arguments, in_dims, strict=True))
            )
            for n in range(info.batch_size)
        ]
        results = [None if each[0] is None else torch.stack(each) for each in zip(*entries, strict=True)]
        return tuple(results), tuple(None if each is None else 0 for each in results)


class Once(Transformable):
    """A backward pass that has none itself: ``Once.apply(name, go_back, *tensors)`` calls ``go_back``.

    ``once_differentiable`` refuses only where a graph is followed to its end: ``torch.autograd.grad`` and
    ``torch.func.grad`` would give zeros.
    """

    @staticmethod
    def forward(name: str, go_back: Callable, *tensors):
        """Give the gradients; those that are not needed may be None."""
        return go_back(*tensors)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        """Keep the name."""
        ctx.name = inputs[0]

    @staticmethod
    def backward(ctx, *_):
        """Refuse."""
        raise NotImplementedError(f"{ctx.name} has no gradients of gradients")
