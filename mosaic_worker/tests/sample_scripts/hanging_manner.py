"""Hangs in C, where no handler of Python's runs."""

import ctypes
import signal

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGRTMIN + 7])
ctypes.PyDLL(None).sleep(3600)
