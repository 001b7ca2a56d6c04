"""What runs in the data centre (DESIGN 7). CPython only.

    vicinal_cloud.log       the event log: append-only segments, acknowledged after they are on disk
"""
