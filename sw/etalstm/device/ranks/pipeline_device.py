"""The devices of all ranks as one device, on which a network's layers are spread over ranks."""

from collections.abc import Callable

from etalstm.device import Device, TrainingShape
from etalstm.device.access import exclusive
from etalstm.device.machine.parts import shape_of_part
from etalstm.device.ranks.device import RanksDevice
from etalstm.device.ranks.pipeline import PipelineSession
from etalstm.device.ranks.stage import shape_of_stage
from etalstm.device.ranks.team import Team
from etalstm.device.ranks.worker import Call
from etalstm.network.pipeline_grid import Grid, best_micro_batches, grid_of
from etalstm.network.shape import check_size
from etalstm.network.slices import Parts
from etalstm.plan.memory.groups import layer_cycles
from etalstm_hw.config import preset as named_preset


class PipelineDevice(RanksDevice):
    """Devices of several ranks, each with some of the layers.

    Parameters
    ----------
    team : Team
    open_device, name, preset, own_options, **options
        See :class:`RanksDevice`.
    depth : int
        Stages of a pipeline, above 1. With more ranks than that there are several pipelines, which share the batch.

    Raises
    ------
    ValueError, DeviceError
        As :class:`RanksDevice`; and if the ranks cannot be divided into such pipelines.
    """

    def __init__(
        self,
        team: Team,
        open_device: Callable[..., Device],
        name: str,
        preset: str,
        own_options: dict,
        *,
        depth: int,
        **options,
    ):
        self._depth = check_size("pipeline", depth)
        if team.size % depth:
            raise ValueError(f"pipeline must divide the number of ranks, {team.size}, got {depth}")
        super().__init__(team, open_device, name, preset, own_options, **options)

    def _create(self, shape: TrainingShape) -> PipelineSession:
        """Make a session of some layers on every rank.

        Raises
        ------
        ValueError
            If there are more stages than layers, the slices cannot be divided among the pipelines, or the cell is no
            LSTM.
        """
        shape.network.require_lstm("several processes")
        grid, number = self._grid(shape), self._team.new_number()
        session = PipelineSession(shape, grid, self._team, number)
        self._team.all(Call("create_stage", (self._number, number, shape, grid)))
        return session

    def _grid(self, shape: TrainingShape) -> Grid:
        costs = layer_cycles(named_preset(self.preset), shape.network, -(-shape.batch // shape.execution.slices))
        return grid_of(self._team.size, self._depth, shape.execution.slices, costs)

    @exclusive
    def best_slices(self, shape):
        """Tell how many slices leave little to wait for: each micro-batch has as many as the device uses best.

        Pipelines in a number that is no power of two can have one slice each.
        """
        pipelines = self._team.size // self._depth
        if pipelines & (pipelines - 1):
            return pipelines
        parts = pipelines * best_micro_batches(self._depth, max(1, shape.batch // pipelines))
        of_part = shape_of_part(shape.with_execution(slices=parts), Parts(shape.batch, parts, parts))
        return parts * self._own.best_slices(of_part)

    @exclusive
    def best_shared_tokens(self, shape, batches):
        """Tell how many tokens the first stage is best made to share, by what each micro-batch has of the batches."""
        grid = self._grid(shape)
        parts = Parts(shape.batch, shape.execution.slices, grid.parts)
        of_parts = [self._tokens(parts, part, tokens) for part in range(parts.count) for tokens in batches]
        of_stage = shape_of_stage(shape, grid.place(0), self._own.memory_bytes).with_execution(shared_tokens=None)
        return self._own.best_shared_tokens(of_stage, of_parts)
