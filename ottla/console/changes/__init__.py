"""Changes of the cluster, which need a confirmation."""
