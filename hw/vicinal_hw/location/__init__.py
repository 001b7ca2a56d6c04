"""Where a node is: receivers on a wire or behind gpsd, a fixed place, a replayed track."""
