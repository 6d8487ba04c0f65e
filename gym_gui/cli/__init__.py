"""The ``mosaic`` command.

Every command is a small module. None of them imports gRPC, protobuf or pydantic when it is loaded: start-up stays
fast, and ``--help`` works on a machine where something is broken.
"""
