"""The Federated Event Service's gateway protocol (seed 001, 5.3, 5.9 and 8.2), without a wire or a clock."""
