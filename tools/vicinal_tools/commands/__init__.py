"""One module per command of `vicinal`; main.py finds them."""
