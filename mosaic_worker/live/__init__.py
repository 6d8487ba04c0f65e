"""The worker's side of the live channel (:mod:`mosaic_protocol.live`)."""
