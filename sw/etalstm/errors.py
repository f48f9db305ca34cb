"""Errors that a user of the package can meet; the command line turns each into one line and exit code 2."""


class EtaLstmError(Exception):
    """Base of every error of this package that is not a plain ``ValueError`` for a bad argument.

    `log` is what a tool wrote before it failed, for the user to read as it is; else empty.
    """

    log = ""


class CallOrderError(EtaLstmError):
    """A session was asked for something that an earlier call must provide first."""


class DeviceError(EtaLstmError):
    """A device refused a request, stopped with a status, or cannot be built or opened on this machine."""


class ProtocolError(DeviceError):
    """A bus of a simulated machine broke the AXI protocol: a fault of the hardware or its memory, not of their use.

    Members
    -------
    cycle : int             clock cycle in which it was seen
    port, channel : str     where: ``port0`` and ``AW``, say
    rule : str              name of the rule, as in docs/trust.md
    """

    def __init__(self, cycle: int, port: str, channel: str, rule: str, what: str):
        super().__init__(f"AXI broken in cycle {cycle} at {port}, channel {channel}, rule '{rule}': {what}")
        self.cycle, self.port, self.channel, self.rule = cycle, port, channel, rule


class MismatchError(DeviceError):
    """A device gave other bits than golden: its memory, its hardware or its driver has failed.

    `iteration` is the number of the iteration, from 1, counted from the start of the program, and `agreed` that of the
    last one before it that was compared and had golden's bits. 0: none was.
    """

    def __init__(self, iteration: int, agreed: int, what: str):
        since = f"the last one compared before, {agreed}, had golden's bits" if agreed else "none before was compared"
        super().__init__(f"iteration {iteration} since the start differs from golden: {what}; {since}")
        self.iteration, self.agreed = iteration, agreed


class DamagedMemoryError(DeviceError):
    """A device's memory holds something else than was written there, or copies of an array differ."""


class BusyError(DeviceError):
    """A device was asked for something while it does something else: for another thread, or a program that runs."""


class DivergedError(EtaLstmError):
    """The gradient is not finite any more; no weight has been changed by it."""


class BuildError(EtaLstmError):
    """A bitstream cannot be built, or its reports cannot be read; the message says what is missing."""


class CheckpointError(EtaLstmError):
    """A checkpoint cannot be used: unreadable, damaged, or of another network or run."""


class PlanError(DeviceError):
    """A network that a machine cannot hold; the message says what is needed and what there is."""


class HostMemoryError(EtaLstmError):
    """Something that the memory of this computer cannot hold; the message says what is needed and what there is."""


class StreamError(EtaLstmError, ValueError):
    """A compressed stream that no encoder writes, or that belongs to something else."""


class InterchangeError(EtaLstmError):
    """A model that cannot be read or written in another program's format; the message names what is wrong."""


class DataError(EtaLstmError):
    """Files of a data set that are missing or not what they should be."""


class RunError(EtaLstmError):
    """A run's folder or settings cannot be used: in use, of another run, or holding a run that would be lost."""


class ToolchainError(DeviceError):
    """Verilator or the C++ compiler is missing or failed; the message says what to install, `log` has the log's end."""

    def __init__(self, message: str, log: str = ""):
        super().__init__(message)
        self.log = log
