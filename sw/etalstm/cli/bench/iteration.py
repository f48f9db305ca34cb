"""``eta-lstm bench iteration``: where the cycles of a training iteration go."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

from typer import Context, Option

from etalstm.cli import options
from etalstm.cli.bench.iteration_trained import trained_iteration
from etalstm.cli.declared import with_settings
from etalstm.cli.devices import open_machine, tell_instructions
from etalstm.cli.options import refuse, trace_options
from etalstm.cli.parser import given
from etalstm.cli.work import CHOICES, PANELS, SIZES, Work
from etalstm.data.lengths import Amount
from etalstm.device import TrainingShape
from etalstm.network.execution import STORAGE_HELP, number_or_off, tokens_or_auto
from etalstm.network.shape import initial_parameters, operations
from etalstm.network.storage import DENSE, MS1, Usage, read_thresholds
from etalstm.research.contenders import EVERY_CASE, OTHERS, read_contenders
from etalstm_sim.trials.model.compare import random_iteration

OF_TRAINED = ("dataset", "data", "theta", "storage", "delta_target", "ms2", "batches", "length", "against")
MEASURED = f"{SIZES} preset architecture slices {CHOICES}"
WEIGHTS_HELP = (
    "Folder or checkpoint of a training run: measure its network on every architecture. The batch is the run's if not "
    "given. How the network is computed is said for η-LSTM alone; --shared-tokens may be auto"
)


def measure(session, shape: TrainingShape, forward_only: bool = False) -> tuple[dict, float]:
    """Run one iteration, or its forward pass, on random data, dense in every operand; give counters and seconds."""
    session.load(initial_parameters(shape.network, 0))
    x, dy, h0, c0, _, tokens = random_iteration(shape, 0)
    started = time.perf_counter()
    session.forward(x, None, h0, c0, tokens=tokens)
    if not forward_only:
        session.backward(dy)
        session.update(0.1, 0.9, 1.0)
    return session.counters(), time.perf_counter() - started


def account(counters: dict, macs: int, channels: int, at_once: int) -> dict:
    """Divide the cycles of an iteration into those of useful MACs and, by their causes, lost ones.

    A channel makes so many MACs `at_once`. With integers an element of two digits takes two: the second is in
    ``padding``.
    Lost cycles are averages over channels. ``padding`` are MACs of lanes without a row or column, less those that were
    saved because a scalar was zero. Useful and lost cycles add up to all cycles.
    """
    cycles = counters["cycles"]
    useful = macs / (channels * at_once)
    kinds = {kind: count / channels for kind, count in counters["channel_cycles"].items()}
    padding = kinds.pop("mac") - useful
    return {
        "cycles": cycles,
        "macs": macs,
        "pes": channels * at_once,
        "utilization": useful / cycles,
        "mac_phase_utilization": macs / (counters["mac_phase"] * at_once),
        "stalls": {"padding": padding, **kinds},
    }


@with_settings(Work, PANELS, MEASURED)
def iteration(
    context: Context,
    weights: Annotated[Path | None, Option(help=WEIGHTS_HELP)] = None,
    dataset: Annotated[str | None, Option(help="With --weights: what it must have been trained on")] = None,
    data: Annotated[Path | None, Option(help="With --weights: directory of the data set's files")] = None,
    theta: Annotated[
        str | None, Option(help="With --weights: of η-LSTM, one number or six [default: 0.1; with --storage dense 0]")
    ] = None,
    storage: Annotated[str, Option(help=f"With --weights: of η-LSTM. {STORAGE_HELP}")] = MS1,
    delta_target: Annotated[
        str, Option(help="With --weights: share of the gates' gradients that η-LSTM leaves, or off")
    ] = "off",
    ms2: Annotated[str, Option(help="With --weights of a run that skipped cells: τ of η-LSTM, or off")] = "off",
    batches: Annotated[int, Option(help="With --weights: batches, an iteration of η-LSTM on each")] = 1,
    length: Annotated[
        int | None, Option(help="With --weights: take only sequences of just so many steps, so that none is padded")
    ] = None,
    against: Annotated[
        str,
        Option(
            help="With --weights: the machines that η-LSTM is compared with, with commas between: an architecture, "
            "alone or with +ms1, +ms2 or +combine; swing+none, +ms1, …: the PEs of η-LSTM with no other saving; "
            f"{EVERY_CASE}: all of these for dynamic and swing"
        ),
    ] = ",".join(OTHERS),
    stall: Annotated[float, Option(help="Probability that a memory handshake waits a cycle")] = 0.0,
    trace: options.Trace = None,
    trace_first: options.TraceFirst = None,
    trace_last: options.TraceLast = None,
    as_json: options.AsJson = False,
    **of_work: Any,
) -> None:
    """Measure one training iteration on the simulated accelerator, of random data or of a trained network."""
    work = Work(**of_work)
    if weights is not None:
        of_run = ({*SIZES.split()} - {"batch"}) | {"architecture", "slices"}
        refuse(context, "not used with --weights, whose run has its own", *of_run)
        refuse(context, "not used with --weights, which runs several machines", "trace", "trace_first", "trace_last")
        theta = theta or ("0" if storage == DENSE else "0.1")
        of_eta: dict[str, Any] = {"preset": work.preset, "storage": storage, "theta": read_thresholds(theta)}
        of_eta |= {"delta_target": number_or_off("delta_target", delta_target), "ms2": number_or_off("ms2", ms2)}
        of_eta["ms2_steps"] = None  # --ms2 alone says whether cells are skipped
        of_eta |= {"input_threshold": work.input_threshold, "refresh": work.refresh}
        of_eta |= {name: value for name, value in given(context).items() if name in ("batch", "weight_format")}
        of_eta["shared_tokens"] = tokens_or_auto(work.shared_tokens)
        amount = Amount(batches, length)
        trained_iteration(weights, dataset, data, amount, read_contenders(against), stall, as_json, **of_eta)
        return
    refuse(context, "only used with --weights", *OF_TRAINED)
    shape = TrainingShape(*work.sizes, work.execution())
    with open_machine(work.preset, stall=stall, **trace_options(trace, trace_first, trace_last)) as device:
        config = device.accelerator.config
        if work.choose_slices:
            shape = shape.with_execution(slices=device.best_slices(shape))
        session = device.create(shape)
        counters, seconds = measure(session, shape)
        # ReLU leaves zeros, which cost no MAC.
        counted = operations(*work.sizes) // 2
        macs = counted if work.network.is_lstm else sum(session.usage(), Usage()).products
        build_seconds = getattr(device.accelerator.transport, "build_seconds")  # noqa: B009 - only a simulation's
    tell_instructions(trace, session)
    result = account(counters, macs, config.channels, config.lanes * config.tile_sums)
    result["bytes"] = {name: counters[f"{name}_bytes"] for name in ("read", "write", "program")}
    result |= {
        "slices": shape.execution.slices,
        "seconds": seconds,
        "cycles_per_second": result["cycles"] / seconds,
        "build_seconds": build_seconds,
    }
    if as_json:
        print(json.dumps(result))
        return
    print(f"{result['cycles']:,} cycles, {macs:,} MACs, {result['pes']} in a cycle at most")
    print(f"utilization {result['utilization']:.3f}, in MAC phases {result['mac_phase_utilization']:.3f}")
    for kind, count in result["stalls"].items():
        print(f"  {kind:16s} {count:12,.0f} cycles  {count / result['cycles']:6.2%}")
    print(f"{seconds:.2f} s, {result['cycles_per_second']:,.0f} cycles/s, built in {build_seconds:.0f} s")
