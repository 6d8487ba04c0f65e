"""The commands of ``mosaic``, one module each."""
