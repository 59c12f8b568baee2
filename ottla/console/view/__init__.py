"""Text, numbers, tables and drawings of the pages."""
