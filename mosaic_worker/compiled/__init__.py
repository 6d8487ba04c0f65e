"""What scripts in JAX share: environments that run inside the compiled program, networks, Adam, and how JAX is set up.

Only what begins with ``from mosaic_worker.compiled.xla import`` needs JAX; :mod:`.names` answers what is there without
it. Nothing else of the kit imports this package, so a worker without JAX notices nothing of it.
"""
