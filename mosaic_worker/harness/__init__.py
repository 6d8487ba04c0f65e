"""Runs a training script that knows nothing of MOSAIC, unmodified, and gives it metrics, checkpoints, pause and stop.

``source`` reads a script without running it, ``carried`` finds what its loop carries from one turn to the next,
``capabilities`` says what will work and why not, ``instrument`` compiles it with one call around its loop, ``taps``
listens to its TensorBoard writers, ``belongings`` gathers its state, ``worlds`` that of its environments, ``conductor``
obeys the supervisor, ``surroundings`` prepares the process. Imported in the script's own environment, which may be
much older than the worker's: neither pydantic nor gRPC nor gymnasium is imported here.
"""
