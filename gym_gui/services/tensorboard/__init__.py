"""One TensorBoard server for one set of runs, shared by all who look at it, and ended with the last of them.

A *keeper* process owns the server. Each user holds a connection to the keeper: its *lease*. The kernel closes that with
the user, however it dies, so no server outlives its users; and the kernel ends the server with its keeper.
"""
