"""In-memory stand-ins for the ports, deterministic, for unit tests, crash tests and the simulator."""
