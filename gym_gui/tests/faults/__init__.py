"""What bad input and faults get: real daemons, real workers, real signals."""
