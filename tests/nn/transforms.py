"""PyTorch's transforms of a module, in several ways, and the table of what becomes of each.

Dimensions: T steps, B sequences, I inputs, H units. A transform takes a module and two inputs (T, B, I), of which the
second one is also a direction, and gives tensors.
"""

import copy
import warnings

import torch
import torch.autograd.forward_ad as dual
from torch import func
from torch.autograd import functional
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

import etalstm.nn
from etalstm.research import reduced

STEPS, BATCH, INPUTS, UNITS = 4, 3, 5, 7
EQUAL, REFUSED = "equal", "refused"
BOUND = 1e-4  # relative to the largest element; float32 beside float64


def output(module, parameters=None):
    """Give y as a function of x."""
    if parameters is None:
        return lambda x: module(x)[0]
    return lambda x: func.functional_call(module, parameters, (x,))[0]


def loss(module, parameters=None):
    return lambda x: output(module, parameters)(x).square().sum()


def parameters_of(module):
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def directions(module):
    """Give a tangent for each parameter."""
    return {
        name: torch.cos(torch.arange(p.numel())).reshape(p.shape).to(p) for name, p in parameters_of(module).items()
    }


def of_all(module):
    """Give the parameters with their directions, as ``func.jvp`` takes them."""
    return (parameters_of(module),), (directions(module),)


def of_parameters(module, x):
    return lambda parameters: loss(module, parameters)(x)


def tangent(function, *duals):
    with dual.dual_level():
        found = dual.unpack_dual(function(*(dual.make_dual(*one) for one in duals))).tangent
        assert found is not None, "the tangent is lost: it would count as zero"
        return found


def frozen(module):
    return copy.deepcopy(module).requires_grad_(False)


def batched_gradients(module, x):
    x = x.clone().requires_grad_()
    y = output(module)(x).sum(0)
    rows = torch.eye(y.numel(), dtype=x.dtype).view(-1, *y.shape)
    return torch.autograd.grad(y, x, rows, is_grads_batched=True)


def checkpointed(module, x):
    x = x.clone().requires_grad_()
    checkpoint(output(module), x, use_reentrant=False).square().sum().backward()
    return x.grad


def penalty(module):
    return lambda x: func.grad(loss(module))(x).square().sum()


def per_sample(module, x):
    gradients = func.grad(lambda parameters, one: loss(module, parameters)(one[:, None]))
    return func.vmap(gradients, (None, 1))(parameters_of(module), x)


def ensemble(module, x):
    stacked = {name: torch.stack([value, 2 * value]) for name, value in parameters_of(module).items()}
    return func.vmap(of_parameters(module, x))(stacked)


TRANSFORMS = {
    "`func.grad`, of x": lambda m, x, v: func.grad(loss(m))(x),
    "`func.grad`, of parameters": lambda m, x, v: func.grad(of_parameters(m, x))(parameters_of(m)),
    "`func.vjp`": lambda m, x, v: func.vjp(loss(m), x)[1](x.new_ones(())),
    "`func.jacrev`": lambda m, x, v: func.jacrev(lambda x: output(m)(x).sum(0))(x),
    "`func.grad` of `func.grad`": lambda m, x, v: func.grad(penalty(m))(x),
    "`func.jacrev` of `func.jacrev`": lambda m, x, v: func.jacrev(func.jacrev(loss(m)))(x[:2, :1]),
    "`func.vmap`": lambda m, x, v: func.vmap(output(m))(torch.stack([x, v])),
    "`func.vmap` of `func.grad`": lambda m, x, v: func.vmap(func.grad(loss(m)))(torch.stack([x, v])),
    "gradients of each sample": lambda m, x, v: per_sample(m, x),
    "`func.vmap` over parameters": lambda m, x, v: ensemble(m, x),
    "`func.grad` of `func.vmap`": lambda m, x, v: func.grad(lambda both: func.vmap(loss(m))(both).sum())(
        torch.stack([x, v])
    ),
    "`func.functionalize`": lambda m, x, v: func.functionalize(output(m))(x),
    "`func.jvp`, of x": lambda m, x, v: func.jvp(output(m), (x,), (v,))[1],
    "`func.jvp`, of parameters": lambda m, x, v: func.jvp(of_parameters(m, x), (parameters_of(m),), (directions(m),))[
        1
    ],
    "`func.jvp`, frozen": lambda m, x, v: func.jvp(output(frozen(m)), (x,), (v,))[1],
    "`func.jvp` of `func.grad`": lambda m, x, v: func.jvp(func.grad(loss(m)), (x,), (v,))[1],
    "`func.jacfwd`": lambda m, x, v: func.jacfwd(lambda x: output(m)(x).sum(0))(x),
    "`func.linearize`": lambda m, x, v: func.linearize(output(m), x)[1](v),
    "`func.hessian`": lambda m, x, v: func.hessian(loss(m))(x[:2, :1]),
    "dual tensors, x": lambda m, x, v: tangent(output(m), (x, v)),
    "dual tensors, frozen": lambda m, x, v: tangent(output(frozen(m)), (x, v)),
    "`autograd.functional.jacobian`": lambda m, x, v: functional.jacobian(lambda x: output(m)(x).sum(0), x),
    "the same, vectorized": lambda m, x, v: functional.jacobian(lambda x: output(m)(x).sum(0), x, vectorize=True),
    "`autograd.functional.hvp`": lambda m, x, v: functional.hvp(loss(m), x, v)[1],
    "`autograd.grad`, batched": lambda m, x, v: batched_gradients(m, x),
    "`make_fx` of `func.grad`": lambda m, x, v: make_fx(func.grad(loss(m)))(x)(x),
    "`utils.checkpoint`": lambda m, x, v: checkpointed(m, x),
}


class PlainLSTM(torch.nn.Module):
    """A layer in PyTorch's own operations, with the parameters of another module: the reference, in float64.

    PyTorch's LSTM cannot be it: ``vmap`` does not know it.
    """

    def __init__(self, module):
        super().__init__()
        for name, parameter in module.named_parameters():
            self.register_parameter(name, torch.nn.Parameter(parameter.detach().double()))

    def sums(self, x, h):
        """The gates' sums, (4, B, H)."""
        sums = x @ self.weight_ih_l0.T + h @ self.weight_hh_l0.T + self.bias_ih_l0 + self.bias_hh_l0
        return sums.unflatten(1, (4, UNITS)).movedim(1, 0)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[1], UNITS)
        steps = []
        for step in x.unbind():
            i, f, g, o = self.sums(step, h).unbind()
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            steps.append(h)
        return torch.stack(steps), (h[None], c[None])


class PlainHLSTM(PlainLSTM):
    def sums(self, x, h):
        hidden = x @ self.weight_ih_l0.T + h @ self.weight_hh_l0.T + self.bias_hidden_l0
        hidden = hidden.relu().unflatten(1, (4, UNITS)).movedim(1, 0)
        biases = self.bias_gates_l0.unflatten(0, (4, 1, UNITS))
        return hidden @ self.weight_gates_l0.unflatten(0, (4, UNITS)).transpose(1, 2) + biases


class Accelerated(torch.nn.LSTM):
    """PyTorch's module, run inside ``accelerate``."""

    def forward(self, x):
        with etalstm.nn.accelerate():
            return super().forward(x)


def eager(transform, module, x, v):
    return transform(module, x, v)


def compiled(transform, module, x, v):
    torch.compiler.reset()
    return torch.compile(lambda x, v: transform(module, x, v), backend="aot_eager")(x, v)


def exported(transform, module, x, v):
    with torch.no_grad():
        program = torch.export.export(module, (x,), dynamic_shapes=([torch.export.Dim.AUTO] * 3,))
    return transform(program.module(), x, v)


LSTM = lambda: etalstm.nn.LSTM(INPUTS, UNITS)  # noqa: E731 - a row of the table below
WAYS = {
    "LSTM": (LSTM, eager, PlainLSTM),
    "compiled": (LSTM, compiled, PlainLSTM),
    "exported": (LSTM, exported, PlainLSTM),
    "`accelerate`": (lambda: Accelerated(INPUTS, UNITS), eager, PlainLSTM),
    "HLSTM": (lambda: etalstm.nn.HLSTM(INPUTS, UNITS), eager, PlainHLSTM),
    "reduced memory": (lambda: reduced.LSTM(INPUTS, UNITS), eager, PlainLSTM),
}
"""By column of the table: the module, the way, and the reference."""


def outcome(name: str, way: str) -> str:
    """Say what becomes of a transform: ``equal``, ``refused``, or the type of PyTorch's error.

    A wrong number fails with both norms.
    """
    make, run, reference = WAYS[way]
    torch.manual_seed(3)
    module, x, v = make(), torch.randn(STEPS, BATCH, INPUTS), torch.randn(STEPS, BATCH, INPUTS)
    expected = _flat(TRANSFORMS[name](reference(module), x.double(), v.double()))
    try:
        with warnings.catch_warnings(action="ignore"), torch._dynamo.config.patch(allow_rnn=True):
            found = _flat(run(TRANSFORMS[name], module, x, v))
    except NotImplementedError:
        return REFUSED
    except Exception as error:
        return type(error).__name__
    for got, wanted in zip(found, expected, strict=True):
        difference = (got - wanted).abs().max() / wanted.abs().max()
        assert difference < BOUND, f"{name}, {way}: norm {got.norm():.4f}, expected {wanted.norm():.4f}"
    return EQUAL


def _flat(result) -> list[torch.Tensor]:
    if isinstance(result, dict):
        result = [result[name] for name in sorted(result)]
    return [result] if isinstance(result, torch.Tensor) else [tensor for one in result for tensor in _flat(one)]


def table() -> list[str]:
    """Give the rows of docs/pytorch.md."""
    rows = [["transform", *WAYS], ["---"] * (1 + len(WAYS))]
    rows += [[name, *(outcome(name, way) for way in WAYS)] for name in TRANSFORMS]
    return [f"| {' | '.join(row)} |" for row in rows]


if __name__ == "__main__":
    print(*table(), sep="\n")
