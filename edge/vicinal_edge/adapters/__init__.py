"""Adapters to event services, one a module; plug-ins of others are found by the entry point `vicinal.adapters`."""
