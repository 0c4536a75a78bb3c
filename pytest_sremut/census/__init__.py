"""The census: can the oracle attached to each problem see what its injector breaks?

A static audit of a whole benchmark: source text goes in, rows with places come out. Nothing of the
benchmark is imported or run, and no cluster is needed. `survey` follows the problems with
`interpreter` and `models`, `judge` applies rules that are data, `finders` look for known defects,
and `report` writes the result.
"""
