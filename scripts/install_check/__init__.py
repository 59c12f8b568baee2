"""Installs Ottla in clean environments and runs the README there; see `__main__`."""
