"""Flash memory: what a journal is written to, and the virtual twin that can lose power in the middle of a write."""
