"""`ottla up`: a cluster of child processes on one machine."""
