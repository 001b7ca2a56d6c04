"""What runs in the field: the gateway and its adapters."""
