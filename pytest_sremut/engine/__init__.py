"""One run: the state machine, the guard, activation, the sampler."""
