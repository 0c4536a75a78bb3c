"""The operational contract: invariants, probes and their evaluation."""
