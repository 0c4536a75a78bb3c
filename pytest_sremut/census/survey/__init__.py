"""Following every problem of a benchmark, from its constructor to its oracle."""
