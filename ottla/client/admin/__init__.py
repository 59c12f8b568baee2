"""The admin client: one module of requests per subject, and the facade `Admin`."""
