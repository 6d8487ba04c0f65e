"""The ``mosaic`` command."""
