"""One module per sub-command of `vicinal spark`, as `command` (commands/spark.py finds them); `_x.py` is shared."""
