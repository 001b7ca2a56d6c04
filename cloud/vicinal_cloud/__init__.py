"""What runs in the data centre (DESIGN 7). CPython only: vicinal_cloud.log is the event log."""
