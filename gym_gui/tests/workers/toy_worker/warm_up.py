"""What the fork server imports for the toy worker."""


def warm_up() -> None:
    import mosaic_protocol.worker_client  # noqa: F401


def after_fork() -> None:
    """Nothing random is shared."""
