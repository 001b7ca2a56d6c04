"""What `vicinal ble` does, and the town that the bench of STEAM drives through."""
