"""The live channel of a session: what a person sees and presses, between a worker and the screens that show it.

Input and state travel over a Unix socket in the run's folder, one JSON object a line (:mod:`.messages`). Pictures lie
in a file that both sides map (:mod:`.frames`). The latest wins in both directions and nothing is journalled: what must
not be lost, the steps, goes through the outbox. :mod:`.client` is the side of a screen; it needs neither Qt nor NumPy.
"""
