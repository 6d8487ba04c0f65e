"""The wire format: ``trainer.proto`` and the code generated from it (``make proto``)."""
