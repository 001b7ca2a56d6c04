"""What people do with Vicinal: the `vicinal` command, and the steps behind `make`."""
