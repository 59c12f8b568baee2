"""What goes on in the logs beside reading and writing: retention, cleaning, moves."""
