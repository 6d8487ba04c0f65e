"""The wire: who may call, what is answered, where the daemon can be reached."""
