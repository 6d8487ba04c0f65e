"""The trainer daemon: accepts, queues, launches, watches and ends runs. Headless; never imports Qt or a worker."""

import os

VERSION = "0.1.0"

# gRPC reads it once, when it is imported: its core must not write to stderr what reaches us as an exception.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
