"""How a worker becomes a process: command and environment, starting, finding, ending; what the host has."""
