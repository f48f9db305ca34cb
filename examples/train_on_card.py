"""Trains an LSTM on a card: python examples/train_on_card.py xdma:0 --preset vcu128

The task: random sequences of numbers, of which some are marked; is the sum of the marked ones positive? The recurrent
layer runs on the card, its forward and its backward pass and its update; the output unit and the loss are the host's.
Instead of a card, `sim` takes the simulated machine, with the small preset `sim`, and `golden` the reference in NumPy.
With --check the same run is repeated on the reference, and the weights must be the same, bit for bit.
"""

import argparse
import sys

import numpy as np

from etalstm.device import TrainingShape, open_device
from etalstm.errors import EtaLstmError
from etalstm.network import NetworkShape, initial_parameters

SHAPE = TrainingShape(NetworkShape(input_size=2, hidden_size=16, layers=1), batch=16, steps=8)
RATE, MOMENTUM, CLIP = 0.5, 0.9, 1.0


def batch(generator):
    """Draw sequences x (T, B, 2), a number and a mark at each step, and their answers, -1 or 1, (B,)."""
    numbers = generator.uniform(-1, 1, (SHAPE.steps, SHAPE.batch)).astype(np.float32)
    marks = generator.integers(0, 2, numbers.shape).astype(np.float32)
    answers = np.where((numbers * marks).sum(0) > 0, 1, -1).astype(np.float32)
    return np.stack([numbers, marks], axis=2), answers


def train(name, preset, iterations, show=lambda text: None):
    """Train on a device and give the layer's parameters and the accuracy over the last batches."""
    generator = np.random.default_rng(1)
    output = np.zeros(SHAPE.network.hidden_size, np.float32)
    hits = []
    with open_device(name, preset) as device:
        session = device.create(SHAPE)
        session.load(initial_parameters(SHAPE.network, seed=1))
        for iteration in range(1, iterations + 1):
            x, answers = batch(generator)
            last = session.forward(x).y[-1]  # (B, H)
            score = last @ output
            hits = [*hits[-19:], float(np.mean(score * answers > 0))]
            slope = -answers / (1 + np.exp(answers * score)) / SHAPE.batch  # of the logistic loss
            dy = np.zeros((SHAPE.steps, *last.shape), np.float32)
            dy[-1] = slope[:, None] * output
            session.backward(dy)
            session.update(learning_rate=RATE, momentum=MOMENTUM, clip=CLIP)
            output -= RATE * (slope @ last)
            if iteration % 50 == 0:
                loss = np.logaddexp(0, -answers * score).mean()
                show(f"iteration {iteration}: loss {loss:.3f}, right {np.mean(hits):.2f}")
        return session.parameters()[0], float(np.mean(hits))


def main(arguments=None):
    """Read the command line and train; the exit code is 0 if all went well."""
    parser = argparse.ArgumentParser(description="Train an LSTM on a card.")
    parser.add_argument("device", nargs="?", default="xdma:0", help="xdma:N, xdma:sim, sim or golden [xdma:0]")
    parser.add_argument("--preset", help="configuration of the machine [vcu128; sim for simulated machines]")
    parser.add_argument("--iterations", type=int, default=300, help="batches to train on [300]")
    parser.add_argument("--check", action="store_true", help="repeat the run on the reference and compare the weights")
    options = parser.parse_args(arguments)
    # A simulator of vcu128 has 40 channels: it is compiled for 20 minutes.
    options.preset = options.preset or ("sim" if options.device.endswith("sim") else "vcu128")
    try:
        weights, accuracy = train(options.device, options.preset, options.iterations, print)
        print(f"right answers in the last 20 batches: {accuracy:.2f}")
        if options.check:
            expected, _ = train("golden", options.preset, options.iterations)
            same = all(
                np.array_equal(getattr(weights, name).view(np.uint32), getattr(expected, name).view(np.uint32))
                for name in ("weights", "bias")
            )
            print("the weights are the reference's, bit for bit" if same else "the weights DIFFER from the reference's")
            return 0 if same else 1
    except (EtaLstmError, ValueError) as error:
        print(f"train_on_card: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
