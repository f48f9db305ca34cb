"""Signals reach the tests, and the processes that they start, also where a background job or ``nohup`` ignores them."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
