"""Background work on logs: retention, cleaning, moves between log dirs."""
