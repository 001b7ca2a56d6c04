"""The gateway: the shell of `vicinal.federation`. See README.md of edge/."""
