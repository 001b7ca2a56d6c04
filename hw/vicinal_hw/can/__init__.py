"""CAN: the python-can shell, and the virtual bus."""
