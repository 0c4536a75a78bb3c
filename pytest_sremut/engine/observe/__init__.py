"""What is recorded beside the graders: sampler, workload windows, fingerprints, surroundings."""
