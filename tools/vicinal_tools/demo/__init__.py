"""The use case of seed 001, 5.8, on one command: vehicles, monitors, brokers and the office, as real processes."""
