"""A worker whose algorithms are scripts: its config, the plan of a run, what is known before the start, its command
line. A worker adds what is its own by extending :class:`~.config.ScriptConfig` and :class:`~.plan.ScriptPlan`."""
