"""The trainer daemon: accepts, queues, launches, watches and ends runs. Headless; never imports Qt or a worker."""

VERSION = "0.1.0"
