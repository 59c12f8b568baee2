"""The producer: batches records per partition, and sends each batch to the leader."""
