"""The process that starts the daemons of `ottla.testing`, forked from one that has imported them."""
