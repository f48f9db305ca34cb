"""Which cells the machine can run."""

from etalstm.errors import PlanError
from etalstm.network.cells.cell import Cell
from etalstm_hw.contract import MOST_GATES, PARAMETER_DELTA_THRESHOLD, PARAMETER_THRESHOLDS

MOST_KINDS = PARAMETER_DELTA_THRESHOLD - PARAMETER_THRESHOLDS


def check_plannable(cell: Cell) -> None:
    """Raise ``PlanError`` if a cell has more gates or kinds of local gradients than the machine, or other operands.

    A product can be with x, and then with one output of a stage. Products of one stage have as many gates.
    """
    if len(cell.kinds) > MOST_KINDS:
        raise PlanError(f"the machine has {MOST_KINDS} thresholds of local gradients, {cell.name} keeps {cell.kinds}")
    for stage in cell.stages:
        if len(stage.gates) > MOST_GATES:
            raise PlanError(f"a stage can have {MOST_GATES} gates: {cell.name} has {stage.gates}")
        if len({len(product.gates) for product in stage.products}) > 1:
            raise PlanError(f"the products of a stage must have as many gates: {cell.name} has {stage.products}")
    for product in cell.products:
        outputs = product.operands[product.operands[0] == "x" :]
        if len(outputs) != 1 or "x" in outputs:
            raise PlanError(f"a product can be with x and one output, or one output: {cell.name} has {product}")


def check_packable(cell: Cell) -> None:
    """Raise ``PlanError`` if pairs of a cell's rows would belong to different units: narrow weights need even gates."""
    for product in cell.products:
        if len(product.gates) % 2:
            raise PlanError(f"weights in bf16 need products of 2 or 4 gates, {cell.name} has one of {product.gates}")


def check_sendable(cell: Cell) -> None:
    """Raise ``PlanError`` if the machine cannot send only the changes of a cell's operands."""
    if len(cell.stages) > 1 or [product.operands for product in cell.products] != [("x", cell.output)]:
        raise PlanError(f"only a cell of one stage has delta inputs, {cell.name} has {len(cell.stages)}")
