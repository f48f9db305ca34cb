"""A card that fails on purpose: nodes in front of others, with faults that a test switches on."""

import errno
import os
import threading
import time

from etalstm.device.cards.nodes import LockedError, Node, Nodes


class FaultyNodes(Nodes):
    """Passes everything on to other nodes, faults excepted.

    Members
    -------
    hidden, denied : set of str
        Nodes that are not there; that may not be opened.
    module : bool
        The kernel module is loaded.
    most : int or None
        Bytes that one transfer call moves at most.
    error : dict from node to errno
        Transfers on it fail.
    stuck : set of str
        Transfers on these nodes block until :meth:`release`.
    registers : dict from register to value
        What registers read as, whatever the machine says.
    link_down : bool
        Registers read as all ones.
    eventless : bool
        No event ever comes.
    holder : int or None
        Process that has the lock.
    calls : list of (node, address, bytes)
        Every transfer call.
    """

    def __init__(self, nodes: Nodes):
        self.nodes = nodes
        self.hidden, self.denied, self.stuck = set(), set(), set()
        self.error, self.registers = {}, {}
        self.module, self.link_down, self.eventless = True, False, False
        self.most = self.holder = None
        self.calls = []
        self.opened = []
        self._released = threading.Event()

    def release(self):
        self._released.set()

    def names(self):
        return [name for name in self.nodes.names() if name not in self.hidden]

    def driver_loaded(self):
        return self.module

    def open(self, name):
        if name in self.denied:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        node = _FaultyNode(self, name, self.nodes.open(name))
        self.opened.append(name)
        return node

    def before(self, name, address, size):
        """Meet the faults of a transfer; give how many bytes it may move."""
        self.calls.append((name, address, size))
        if name in self.stuck:
            self._released.wait()
        if name in self.error:
            raise OSError(self.error[name], os.strerror(self.error[name]))
        return size if self.most is None else min(size, self.most)


class _FaultyNode(Node):
    def __init__(self, nodes, name, node):
        self._nodes, self._name, self._node = nodes, name, node

    def read(self, address, buffer):
        return self._node.read(address, buffer[: self._nodes.before(self._name, address, len(buffer))])

    def write(self, address, data):
        return self._node.write(address, data[: self._nodes.before(self._name, address, len(data))])

    def load(self, register):
        if self._nodes.link_down:
            return 0xFFFFFFFF
        return self._nodes.registers.get(register, self._node.load(register))

    def store(self, register, value):
        if not self._nodes.link_down:
            self._node.store(register, value)

    def poll(self, seconds):
        if self._nodes.eventless:
            time.sleep(seconds)
            return False
        return self._node.poll(seconds)

    def lock(self):
        if self._nodes.holder is not None:
            raise LockedError(self._nodes.holder or None)
        self._node.lock()

    def close(self):
        self._nodes.opened.remove(self._name)
        self._node.close()
