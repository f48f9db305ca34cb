"""The declaration of a cell: the products of its step, the element-wise work between them, and its intermediates.

Every unit of a layer has one element of each vector that a cell names. These names are reserved, here for a cell with
gate ``i``, state ``c`` and output ``h``:

=============  ==========================================================================
``z_i``        the sum that the stage's matrix gives for gate i, bias included
``delta_i``    the gradient of ``z_i``
``c_before``   the state that enters the step; ``c`` is the one that leaves it
``dc_next``    the gradient of the state that leaves the step
``dc_before``  the gradient of the state that enters the step
``dy``         the gradient of the output that the layer above gives; takes part in no equation
``dh``         the gradient of the output: ``dy`` and that of the step after, added
``dv``         the gradient of ``v``, the output of a stage before the last
=============  ==========================================================================
"""

from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass
from functools import cached_property

from etalstm.network.cells.operation import CONDITIONAL, CONSTANTS, Operation, bounds, reads

Array = tuple[tuple[str, ...], ...]
"""Vectors that are interleaved in memory, each with the names that it has one after the other."""


def arrays(*texts: str) -> tuple[Array, ...]:
    """Read the vectors of a phase: ``"i f"`` is an array of two, ``"c=P_s"`` a vector that has two names in turn."""
    return tuple(tuple(tuple(column.split("=")) for column in text.split()) for text in texts)


def bearing(layout: tuple[Array, ...], names: Collection[str]) -> tuple[Array, ...]:
    """Give the vectors that have one of `names`; those of one array stay interleaved."""
    cut = (tuple(column for column in array if not set(column).isdisjoint(names)) for array in layout)
    return tuple(array for array in cut if array)


def without(layout: tuple[Array, ...], names: Collection[str]) -> tuple[Array, ...]:
    """Give the vectors without some of their names."""
    return tuple(tuple(tuple(n for n in column if n not in names) for column in array) for array in layout)


def count_vectors(layout: tuple[Array, ...]) -> int:
    """Count the vectors of arrays."""
    return sum(map(len, layout))


@dataclass(frozen=True)
class Product:
    """A matrix, and the vectors that it is multiplied with.

    Members
    -------
    gates : tuple of str
        The row blocks of the matrix; unit u's row of gate n is row ``len(gates)*u + n``.
    operands : tuple of str
        The vectors that are broadcast, in the order of the matrix's columns: ``x``, the cell's output of the step
        before, or an output of an earlier stage.
    """

    gates: tuple[str, ...]
    operands: tuple[str, ...]

    @property
    def deltas(self) -> tuple[str, ...]:
        """Names of the sums' gradients."""
        return tuple(f"delta_{gate}" for gate in self.gates)


@dataclass(frozen=True, eq=False)
class Stage:
    """Matrix products of a cell's step, and the element-wise work after them in the forward and backward pass.

    Members
    -------
    products : tuple of Product
        Each has gates and operands of its own.
    outputs : tuple of str
        The results that are broadcast later.
    forward : tuple of Operation
        From the sums to the outputs.
    local : tuple of Operation
        Local gradients, from the vectors that ``forward`` leaves.
    kept : dict from a kind's name to the vector
        Local gradients that compressed storage keeps for the backward pass. A stage without any stores nothing: its
        ``backward`` reads its outputs, which are in memory because they are broadcast.
    rebuild : tuple of Operation
        Dense storage keeps gates and states only. These compute the other inputs of ``local`` again.
    backward : tuple of Operation
        From the gradients of the outputs to those of the sums, and to the gradient of the state before.
    forward_arrays, local_arrays, backward_arrays : tuple of Array
        Vectors of the scratch memory: of ``forward``; the further ones of ``local`` in the forward pass; and of the
        backward pass. Names of the same vector are never needed at the same time.
    """

    products: tuple[Product, ...]
    outputs: tuple[str, ...]
    forward: tuple[Operation, ...]
    local: tuple[Operation, ...]
    kept: dict[str, str]
    rebuild: tuple[Operation, ...]
    backward: tuple[Operation, ...]
    forward_arrays: tuple[Array, ...]
    local_arrays: tuple[Array, ...]
    backward_arrays: tuple[Array, ...]

    @property
    def gates(self) -> tuple[str, ...]:
        """The gates of all products."""
        return tuple(gate for product in self.products for gate in product.gates)

    @property
    def takes_x(self) -> bool:
        """Whether one of the products is with x."""
        return any("x" in product.operands for product in self.products)

    @property
    def sums(self) -> tuple[str, ...]:
        """Names of the gates' sums."""
        return tuple(f"z_{gate}" for gate in self.gates)

    @property
    def deltas(self) -> tuple[str, ...]:
        """Names of the sums' gradients."""
        return tuple(delta for product in self.products for delta in product.deltas)

    @property
    def gradients(self) -> tuple[str, ...]:
        """Names of the outputs' gradients."""
        return tuple(f"d{output}" for output in self.outputs)

    @property
    def kept_gates(self) -> tuple[str, ...]:
        """Gates that dense storage keeps: all, or none if the stage stores nothing."""
        return self.gates if self.kept else ()

    @property
    def outputs_read(self) -> tuple[str, ...]:
        """The outputs that the backward pass reads."""
        read = reads(self.rebuild + self.local + self.backward)
        return tuple(output for output in self.outputs if output in read)

    @property
    def rebuilt_from(self) -> frozenset[str]:
        """The gates and states that the backward pass of a dense cell reads."""
        return reads(self.rebuild + self.local)

    @property
    def streamed_arrays(self) -> tuple[Array, ...]:
        """Vectors of ``backward_arrays`` that are needed if local gradients are stored."""
        results = {operation.d for operation in self.backward}
        return bearing(self.backward_arrays, reads(self.backward) | results | {*self.kept.values(), "dy"})

    @property
    def vectors(self) -> int:
        """Vectors of scratch memory for each unit and sequence, in the pass that needs more."""
        forward = count_vectors(self.forward_arrays + self.local_arrays)
        return max(forward, count_vectors(self.backward_arrays))


@dataclass(frozen=True, eq=False)
class Cell:
    """A recurrent cell: its stages in the order of the forward pass. The output of the last is the cell's.

    `state` passes from step to step, element by element. Only the last stage has it.

    Lanes without a unit have very negative sums. From a state of 0 these must give outputs, a state and local gradients
    of 0. So every term has a factor that is the sigmoid of a sum, or its ReLU.

    Raises ``ValueError`` if the declaration is inconsistent: a vector is read before it is written, has no array, or
    another name has taken its vector; a result is missing; an operand is computed by no stage or broadcast by two.
    """

    name: str
    stages: tuple[Stage, ...]
    state: str

    def __post_init__(self) -> None:
        self._check_operands()
        for stage in self.stages:
            self._check_forward(stage)
            self._check_backward(stage)

    @property
    def output(self) -> str:
        """The vector that is broadcast to the next step and to the layer above."""
        return self.stages[-1].outputs[0]

    @property
    def state_before(self) -> str:
        """The state that enters a step."""
        return f"{self.state}_before"

    @property
    def state_gradient(self) -> str:
        """The gradient of the state that leaves a step."""
        return f"d{self.state}_next"

    @property
    def state_gradient_before(self) -> str:
        """The gradient of the state that enters a step."""
        return f"d{self.state}_before"

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """The products of all stages."""
        return tuple(product for stage in self.stages for product in stage.products)

    @cached_property
    def within_one(self) -> frozenset[str]:
        """The outputs of stages that are never below -1 or above 1."""
        limits = {name: limit for stage in self.stages for name, limit in bounds(stage.forward).items()}
        outputs = [name for stage in self.stages for name in stage.outputs]
        return frozenset(name for name in outputs if limits[name][0] >= -1 and limits[name][1] <= 1)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of local gradients that compressed storage keeps, those of the first stage first."""
        return tuple(kind for stage in self.stages for kind in stage.kept)

    @property
    def dense_tensors(self) -> int:
        """Tensors that dense storage keeps: the gates of all stages and the state."""
        return sum(len(stage.kept_gates) for stage in self.stages) + 1

    def weights(self, inputs: int, units: int) -> int:
        """Count the elements of a layer's matrices."""
        return sum(rows * columns for rows, columns in self.matrices(inputs, units))

    def matrices(self, inputs: int, units: int) -> list[tuple[int, int]]:
        """Give rows and columns of each of a layer's matrices."""
        sizes = {"x": inputs}
        return [
            (len(product.gates) * units, sum(sizes.get(operand, units) for operand in product.operands))
            for product in self.products
        ]

    def _check_operands(self) -> None:
        given = ["x", self.output, *(output for stage in self.stages[:-1] for output in stage.outputs)]
        taken = [operand for product in self.products for operand in product.operands]
        if sorted(given) != sorted(taken):
            raise ValueError(f"cell {self.name}: stages must broadcast each of {given} once, they broadcast {taken}")
        for number, stage in enumerate(self.stages):
            to_come = {output for later in self.stages[number:-1] for output in later.outputs}
            ahead = to_come & {operand for product in stage.products for operand in product.operands}
            if ahead:
                raise ValueError(f"cell {self.name}: stage {number} broadcasts {ahead} before there is one")

    def _check_forward(self, stage: Stage) -> None:
        operations, layout = stage.forward + stage.local, stage.forward_arrays + stage.local_arrays
        last = stage is self.stages[-1]
        self._check_results(stage.forward, {*stage.outputs, *stage.kept_gates} | ({self.state} if last else set()))
        self._check_results(operations, set(stage.kept.values()))
        self._check_vectors(operations, layout, {self.state_before} if last else set(), set(stage.sums))
        states = [(self.state,), (self.state_before,)] if last else []
        moved = [stage.kept_gates, *((output,) for output in stage.outputs), *states]
        self._check_arrays(stage.forward_arrays, moved)

    def _check_backward(self, stage: Stage) -> None:
        last = stage is self.stages[-1]
        passed = {self.state_gradient_before} if last else set()
        self._check_results(stage.backward, set(stage.deltas) | passed)
        gradients = {*stage.gradients} | ({self.state_gradient, "dy"} if last else set())
        layout, outputs, gates = stage.backward_arrays, set(stage.outputs_read), set(stage.kept_gates)
        self._check_vectors(stage.backward, layout, gradients | outputs | set(stage.kept.values()))
        dense = {*gates, self.state, self.state_before} & stage.rebuilt_from
        operations = stage.rebuild + stage.local + stage.backward
        self._check_vectors(operations, layout, dense | gradients | outputs | gates)
        moved = [stage.kept_gates, *(product.deltas for product in stage.products)]
        self._check_arrays(layout, [*moved, *((name,) for name in sorted(gradients | passed | dense - gates))])

    def _check_arrays(self, layout: tuple[Array, ...], moved: list[tuple[str, ...]]) -> None:
        """Check that vectors which are loaded or stored together are an array."""
        for names in filter(None, moved):
            fitting = [array for array in layout if len(array) == len(names)]
            if not any(all(name in column for name, column in zip(names, array, strict=True)) for array in fitting):
                raise ValueError(f"cell {self.name}: {' '.join(names)} must be an array of its own")

    def _check_results(self, operations: Iterable[Operation], names: set[str]) -> None:
        missing = names - {operation.d for operation in operations}
        if missing:
            raise ValueError(f"cell {self.name}: nothing computes {', '.join(sorted(missing))}")

    def _check_vectors(
        self, operations: Iterable[Operation], layout: tuple[Array, ...], given: set[str], sums: Set[str] = frozenset()
    ) -> None:
        """Check that every operand has its vector when it is read, starting with the names that are `given`."""
        vectors = {name: column for array in layout for column in array for name in column}
        current: dict[tuple[str, ...], str] = {}
        for name in sorted(given):
            if name not in vectors or current.setdefault(vectors[name], name) != name:
                raise ValueError(f"cell {self.name}: {name} has no vector of its own to be brought to")
        for operation in operations:
            for name in set(operation.operands) - set(CONSTANTS) - sums:
                if name not in vectors or current.get(vectors[name]) != name:
                    raise ValueError(f"cell {self.name}: {name} is not there when {operation.d} is computed from it")
            if operation.d not in vectors:
                raise ValueError(f"cell {self.name}: {operation.d} has no vector")
            if operation.op in CONDITIONAL and any(vectors.get(n) == vectors[operation.d] for n in operation.operands):
                raise ValueError(f"cell {self.name}: {operation.d} has the vector of what it is computed from")
            current[vectors[operation.d]] = operation.d
