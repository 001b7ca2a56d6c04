"""What `vicinal can` does: logs read, decoded and replayed, buses watched, calendars drawn."""
