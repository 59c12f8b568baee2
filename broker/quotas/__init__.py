"""How much of a broker one client, or the copying of partitions, may take."""
