"""The embedded cluster against recordings of a real Kubernetes: replay, compare, report.

`recorded` reads the corpus, `rules` says what may differ by nature, `translation` how values of the
recorded cluster are called in ours, `world` speaks with our cluster, `settings` makes what the
recordings assume, `replay` and `commands` play a scenario, `reviewed` holds the differences that
people have looked at, `report` writes the table.
"""
