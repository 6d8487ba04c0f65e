"""The Replay screen: recorded episodes of a run, simulated again, looked at step by step."""
