"""What the records add up to: matrix, scores, renderings. Reads evidence, never a cluster."""
