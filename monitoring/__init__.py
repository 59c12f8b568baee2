"""What programs outside watch of a daemon: metrics as text, and HTTP pages."""
