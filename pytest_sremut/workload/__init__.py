"""wrk2 reports, load windows and the load generator."""
