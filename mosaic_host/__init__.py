"""What starts, watches, ends and reads for workers on one machine: the *host agent*.

The daemon of this machine uses it in its own process (:class:`mosaic_host.agent.HostAgent`); one elsewhere speaks to it
through a pipe (:class:`mosaic_host.client.AgentClient`, ``python -m mosaic_host``). Both are an
:class:`mosaic_host.executor.Executor`. It imports the protocol and nothing else of the product.
"""
