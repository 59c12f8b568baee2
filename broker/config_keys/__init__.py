"""The keys of a broker's configuration as Kafka documents them, a file per subject."""
